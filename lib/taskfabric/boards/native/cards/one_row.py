"""A write and its journal event as one statement, for the calls that boards are busy with.

Only where no status changes: those that wait for a task need not be told then, and no lane opens.
"""

from __future__ import annotations

from typing import Any, Final

from taskfabric.domain.principal import Stamp

# The row was written by ``u``; its seq is the event's.
EVENT: Final = """
INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch, run_task, run_epoch, data)
SELECT u.told, u.id, u.seq, u.project_id, %(actor)s, %(event)s, %(via)s, u.epoch, %(run_task)s, %(run_epoch)s,
"""
RETURNING: Final = "RETURNING t.id, t.seq, t.told, t.project_id, t.epoch"


def by(stamp: Stamp, event: str) -> dict[str, Any]:
    """The parameters of ``EVENT``."""
    return {
        "actor": stamp.principal_id,
        "event": event,
        "via": stamp.via.value,
        "run_task": None if stamp.run is None else stamp.run.task_id,
        "run_epoch": None if stamp.run is None else stamp.run.epoch,
    }
