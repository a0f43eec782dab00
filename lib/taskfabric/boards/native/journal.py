"""Reading the journal: by cursor, through somebody's eyes, and never past what may still change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from taskfabric.boards.native.read import VISIBLE, eyes
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput
from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.principal import Viewer

_ROUND: Final = 5_000  # rows looked at in one statement: what is not for the viewer costs too
_ROUNDS: Final = 20
_LAST_ID: Final = 2**63 - 1

# Events of a task follow the task; those of a project are for its members; those of an account for who did them.
# What is older than the oldest running transaction is complete: nothing can appear in front of it any more.
_READ: Final = f"""
WITH horizon AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin),
seen AS MATERIALIZED (
    SELECT j.* FROM journal j, horizon h
     WHERE (j.xid, j.id) > (%(xid)s::xid8, %(id)s) AND j.xid < h.xmin
       AND {{only}}
     ORDER BY j.xid, j.id LIMIT %(round)s),
mine AS (
    SELECT s.* FROM seen s LEFT JOIN tasks t ON t.id = s.task_id
     WHERE CASE
           WHEN s.task_id IS NOT NULL THEN t.id IS NOT NULL AND {VISIBLE}
           WHEN s.project_id IS NOT NULL THEN EXISTS (
                SELECT FROM project_roles m WHERE m.project_id = s.project_id AND m.user_id = %(me)s)
                AND (%(scope)s::int[] IS NULL OR s.project_id = ANY (%(scope)s::int[]))
           ELSE s.actor_id = %(me)s END)
SELECT (SELECT xmin FROM horizon)::text, (SELECT count(*) FROM seen),
       (SELECT array[xid::text, id::text] FROM seen ORDER BY xid DESC, id DESC LIMIT 1),
       m.xid::text, m.id, m.kind, m.at, m.task_id, m.seq, m.project_id, u.username, m.via, m.epoch, m.data
  FROM (SELECT 1) one LEFT JOIN (SELECT * FROM mine ORDER BY xid, id LIMIT %(limit)s) m ON true
  LEFT JOIN users u ON u.id = m.actor_id
 ORDER BY m.xid, m.id
"""
# One statement for each kind of reader, because each has an index of its own.
_ALL: Final = _READ.format(only="true")
_OF_TASK: Final = _READ.format(only="j.task_id = %(task)s")
_OF_QUEUES: Final = _READ.format(only="j.project_id = ANY (%(queues)s)")


class NativeJournal:
    """``ports.journal.Journal`` over the table that the board writes in each of its transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(
        self,
        after: Cursor,
        limit: int,
        viewer: Viewer,
        *,
        task_id: int | None = None,
        queues: Sequence[int] | None = None,
    ) -> tuple[list[Event], Cursor]:
        """Events after the cursor that the viewer may see, oldest first, and the cursor to go on from."""
        found: list[Event] = []
        values = {**eyes(viewer), "task": task_id, "queues": None if queues is None else list(queues), "round": _ROUND}
        if task_id is not None and queues is not None:
            raise BadInput("the journal is read of a task or of queues", field="queue")
        query = _OF_TASK if task_id is not None else _ALL if queues is None else _OF_QUEUES
        for _ in range(_ROUNDS):
            place = {"xid": str(after.xid), "id": after.id, "limit": limit - len(found)}
            with self._database.connection() as conn:
                rows: list[tuple[Any, ...]] = conn.execute(query.encode(), {**values, **place}).fetchall()
            found += [event_of(row[3:]) for row in rows if row[4] is not None]
            xmin, looked_at, last = rows[0][:3]
            if len(found) >= limit:
                return found, found[-1].cursor
            if looked_at < _ROUND:
                # All that is complete was looked at: go on behind it, so that nothing is looked at twice.
                return found, max(after, _before(int(xmin)))
            after = Cursor(xid=int(last[0]), id=int(last[1]))
        return found, after

    def end(self) -> Cursor:
        """The present end: what is read from here is new."""
        with self._database.connection() as conn:
            row = conn.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
        assert row is not None
        return _before(int(str(row[0])))


def _before(xmin: int) -> Cursor:
    """Behind every event of the transactions before this one."""
    return Cursor(xid=xmin - 1, id=_LAST_ID)


def event_of(row: Sequence[Any]) -> Event:
    """The event of a row: xid, id, kind, at, task, seq, project, who, via, epoch, data."""
    return Event(
        cursor=Cursor(xid=int(row[0]), id=row[1]),
        kind=row[2],
        at=row[3],
        task_id=row[4],
        seq=row[5],
        project_id=row[6],
        actor=row[7] or "",
        via=row[8],
        epoch=row[9],
        data=row[10] or {},
    )
