"""Done: the task stands in Done with its note and its event, in one statement guarded by the fence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskfabric.boards.native.names import Connection, Names, array
from taskfabric.boards.native.rows import LEAN_FACE, as_signed, reread, task_of
from taskfabric.boards.native.settle import FENCE, LET_GO, column_sql
from taskfabric.db.hot import Hot
from taskfabric.domain.lease import Fence
from taskfabric.domain.outcome import Done
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import ColumnRole, Flag, Status
from taskfabric.domain.task import Task

_REMEMBERED: Final = 10_000


class Granted:
    """The tasks that this process leased out, as they stood then, each with the number of its events.

    A finish that finds just one event more knows that nothing else was said or done on the task meanwhile, and need not
    read it back."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[tuple[int, int], tuple[int, Task]] = OrderedDict()

    def remember(self, task: Task, seq: int) -> None:
        """The task was claimed; ``seq`` counts its events with the claim."""
        self._tasks[task.id, task.epoch] = (seq, task)
        while len(self._tasks) > _REMEMBERED:
            self._tasks.popitem(last=False)

    def forget(self) -> None:
        """Nothing is remembered."""
        self._tasks.clear()

    def recall(self, fence: Fence) -> tuple[int, Task] | None:
        """What was remembered for this lease; it is forgotten now."""
        return self._tasks.pop((fence.task_id, fence.epoch), None)


# A human who did it himself also closes it; an agent's result stays open until somebody else verifies it.
_DONE_SET: Final = f"""
       {column_sql("done")}, producer_id = owner_id, verdict = v.verdict, date_completed = fabric_now(),
       flags = (flags & ~24) | CASE WHEN v.verdict = 'fail' THEN 16 ELSE 0 END, is_active = NOT %(close)s,
       status = CASE WHEN %(close)s THEN 'verified' ELSE 'done' END, {LET_GO}
"""
_DONE_SET_ONE: Final = _DONE_SET.replace("v.verdict", "%(verdict)s::text")
_DONE_SET_KNOWN: Final = _DONE_SET_ONE.replace(column_sql("done"), "role = 'done', column_id = %(column)s")
_DONE_SET_MANY: Final = _DONE_SET.replace("column_id = coalesce(", "column_id = coalesce(v.known_column, ")
_TELL: Final = "CASE WHEN t.parent_id IS NOT NULL OR t.dependents > 0 THEN fabric_carry_end(t.id, 'working') END"
_RECORDS: Final = """
m AS (INSERT INTO comments (task_id, user_id, kind, epoch, text) SELECT id, %(me)s, 'note', epoch, %(note)s FROM c),
j AS (INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch, data)
      SELECT told, id, seq, project_id, %(me)s, 'done', %(via)s, epoch, %(data)s::jsonb FROM c)
"""
_DONE: Final = Hot(f"""
WITH c AS (
    UPDATE tasks t SET {_DONE_SET_ONE}
     WHERE {FENCE} RETURNING t.*),
{_RECORDS}
SELECT {LEAN_FACE}, {_TELL} FROM c t
""")
# The same where this process granted the lease: it knows the project, and what the row said at the claim.
_DONE_KNOWN: Final = Hot(f"""
WITH c AS (
    UPDATE tasks t SET {_DONE_SET_KNOWN}
     WHERE {FENCE}
    RETURNING t.id, t.seq, t.told, t.project_id, t.epoch, t.parent_id, t.dependents, t.children, t.flags,
              t.date_completed),
{_RECORDS}
SELECT t.seq, t.children, t.flags, t.date_completed, {_TELL} FROM c t
""")
_DONE_MANY: Final = f"""
WITH v AS (SELECT * FROM unnest(%(tasks)s::bigint[], %(epochs)s::bigint[], %(tokens)s::bigint[], %(notes)s::text[],
                                %(verdicts)s::text[], %(columns)s::int[])
                      AS v(id, epoch, token, note, verdict, known_column)),
c AS (
    UPDATE tasks t SET {_DONE_SET_MANY} FROM v
     WHERE t.id = v.id AND t.epoch = v.epoch AND t.token = v.token AND t.owner_id = %(me)s
    RETURNING t.id, t.seq, t.told, t.project_id, t.epoch, t.parent_id, t.dependents, t.children, t.flags, t.column_id,
              t.date_completed, v.note, v.verdict, v.token),
m AS (INSERT INTO comments (task_id, user_id, kind, epoch, text) SELECT id, %(me)s, 'note', epoch, note FROM c),
j AS (INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch, data)
      SELECT told, id, seq, project_id, %(me)s, 'done', %(via)s, epoch, jsonb_build_object('verdict', verdict) FROM c)
SELECT t.id, t.epoch, t.token, t.seq, t.children, t.flags, t.date_completed, t.column_id, {_TELL} FROM c t
"""


def done(
    conn: Connection, names: Names, granted: tuple[int, Task] | None, fence: Fence, outcome: Done, stamp: Stamp
) -> Task | None:
    """The finished task, or None: the fence is not the current one, and nothing was changed."""
    values: dict[str, Any] = {
        "task": fence.task_id,
        "epoch": fence.epoch,
        "token": as_signed(fence.token),
        "me": stamp.principal_id,
        "close": stamp.is_human,
        "verdict": outcome.verdict,
        "note": outcome.note,
        "via": stamp.via.value,
        "data": f'{{"verdict": "{outcome.verdict}"}}',
    }
    column_id = _done_column(conn, names, granted)
    if granted is None or column_id is None:
        row = _DONE.row(conn, values)
        return None if row is None else task_of(conn, names, row[:-1], note=outcome.note)
    row = _DONE_KNOWN.row(conn, values | {"column": column_id})
    if row is None:
        return None
    end = _End(seq=row[0], children=row[1], flags=row[2], at=row[3], column_id=column_id)
    return _finished(conn, names, granted, end, outcome, stamp)


def _done_column(conn: Connection, names: Names, granted: tuple[int, Task] | None) -> int | None:
    """The column for what is done in the project of a lease that is remembered."""
    return None if granted is None else names.layout(conn, granted[1].project_id).by_role.get(ColumnRole.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """What a finishing statement says of the row."""

    seq: int
    children: int
    flags: int
    at: datetime
    column_id: int


def _finished(
    conn: Connection, names: Names, granted: tuple[int, Task], end: _End, outcome: Done, stamp: Stamp
) -> Task:
    """The finished task: what was remembered of it and the end, or read back if more had happened."""
    seq, task = granted
    if end.seq != seq + 1 or end.children != 0:
        return reread(conn, names, task.id)
    return task.changed(
        status=Status.VERIFIED if stamp.is_human else Status.DONE,
        is_open=not stamp.is_human,
        flags=Flag(end.flags),
        column=names.layout(conn, task.project_id).columns[end.column_id],
        holder=None,
        holder_id=None,
        holder_instance="",
        lease_until=None,
        lease_length=None,
        producer=stamp.name,
        producer_id=stamp.principal_id,
        verdict=outcome.verdict,
        note=outcome.note,
        completed=end.at,
        updated_at=end.at,
    )


def done_many(
    conn: Connection, names: Names, granted: Granted, ends: Sequence[tuple[Fence, Done]], stamp: Stamp
) -> dict[Fence, Task]:
    """The finished tasks by their fence, in one statement; those that are missing have lost their lease."""
    ordered = sorted(ends, key=lambda e: e[0].task_id)
    known = {fence: granted.recall(fence) for fence, _ in ordered}
    rows = conn.execute(
        _DONE_MANY,
        {
            "tasks": array(f.task_id for f, _ in ordered),
            "epochs": array(f.epoch for f, _ in ordered),
            "tokens": array(as_signed(f.token) for f, _ in ordered),
            "notes": [d.note for _, d in ordered],
            "verdicts": [d.verdict for _, d in ordered],
            "columns": array(_done_column(conn, names, known[f]) for f, _ in ordered),
            "me": stamp.principal_id,
            "via": stamp.via.value,
            "close": stamp.is_human,
        },
    ).fetchall()
    finished: dict[Fence, Task] = {}
    by_fence = {row[:3]: row for row in rows}
    for fence, outcome in ordered:
        row = by_fence.get((fence.task_id, fence.epoch, as_signed(fence.token)))
        if row is None:
            continue
        before = known[fence]
        if before is None:
            finished[fence] = reread(conn, names, fence.task_id)
            continue
        end = _End(seq=row[3], children=row[4], flags=row[5], at=row[6], column_id=row[7])
        finished[fence] = _finished(conn, names, before, end, outcome, stamp)
    return finished
