"""What the parts of the annex have in common: a transaction on one task, its event, and the hint afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from psycopg import errors as pg

from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import record
from taskfabric.db.pool import Database
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Stamp
from taskfabric.ports.signal import Change, Signal

T = TypeVar("T")


class Part:
    """A part of the annex over one database."""

    def __init__(self, database: Database, names: Names, signal: Signal) -> None:
        self._db = database
        self._names = names
        self._signal = signal

    def _write(self, work: Callable[[Connection], T], task_id: int | None = None) -> T:
        """The value of ``work``, which ran in one transaction; whoever waits for the task is told."""
        done = self._db.retrying(work)
        self._signal.publish(Change(task_id=task_id))
        return done

    def _try(self, work: Callable[[Connection], bool]) -> bool:
        """As ``_write``; False if a name is taken."""
        try:
            return self._write(work)
        except pg.UniqueViolation:
            return False


def touch(conn: Connection, task_id: int) -> None:
    """The task's row is locked and ready for one more event. Raises NotFound."""
    found = conn.execute(
        "UPDATE tasks SET seq = seq + 1, told = greatest(told, pg_current_xact_id()) WHERE id = %s", (task_id,)
    ).rowcount
    if not found:
        raise not_found("task")


def tell(conn: Connection, task_id: int, event: str, stamp: Stamp, data: Mapping[str, Any]) -> None:
    """One event of a task whose row this transaction has not raised yet."""
    touch(conn, task_id)
    record(conn, task_id, event, stamp, None, data)
