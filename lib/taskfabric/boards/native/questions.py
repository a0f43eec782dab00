"""Open questions that are passed on: for a while, and then they are again for whoever passed them on."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from taskfabric.boards.native.arrange import comment
from taskfabric.boards.native.judge import illegal, locked
from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import record, reread
from taskfabric.domain.errors import NotFound
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task
from taskfabric.ports.board import PassedOn

_PUT: Final = """
INSERT INTO passed_on (task_id, epoch, by_id, to_id, until) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (task_id, epoch) DO UPDATE SET by_id = excluded.by_id, to_id = excluded.to_id, until = excluded.until
"""
_FOUND: Final = """
SELECT p.task_id, p.by_id, b.username, p.to_id, o.username, p.until
  FROM passed_on p JOIN users b ON b.id = p.by_id JOIN users o ON o.id = p.to_id
"""
# Of a question that is answered, or of an older one, a row may be left; it means nothing.
_OPEN: Final = """
JOIN tasks t ON t.id = p.task_id AND t.epoch = p.epoch AND t.asked_id = p.to_id AND t.status = 'waiting'
"""
_ASK: Final = "UPDATE tasks SET asked_id = %s, seq = seq + 1, told = greatest(told, pg_current_xact_id()) WHERE id = %s"


def pass_on(conn: Connection, names: Names, task_id: int, to_id: int, text: str, stamp: Stamp, until: datetime) -> Task:
    """The open question is for another person until then; the words stand in the thread."""
    task, _ = locked(conn, names, task_id)
    if not _has_question(task):
        raise illegal("pass on", task, "it has no open question")
    conn.execute(_ASK, (to_id, task_id))
    conn.execute(_PUT, (task_id, task.epoch, stamp.principal_id, to_id, until))
    record(conn, task_id, "passed-on", stamp, None, {"from": task.asked, "to": names.user(conn, to_id)})
    comment(conn, names, task_id, text, stamp)
    return reread(conn, names, task_id)


def passed_on(conn: Connection, task_id: int | None, to_id: int | None) -> list[PassedOn]:
    """Open questions that are with somebody else: that of a task, those of a person, or all."""
    rows = conn.execute(
        f"{_FOUND} {_OPEN} WHERE (%(task)s::bigint IS NULL OR p.task_id = %(task)s)"
        " AND (%(to)s::int IS NULL OR p.to_id = %(to)s) ORDER BY p.task_id",
        {"task": task_id, "to": to_id},
    ).fetchall()
    return [_of(row) for row in rows]


def over(conn: Connection, limit: int) -> list[PassedOn]:
    """Those whose time is over, whatever has become of the question."""
    rows = conn.execute(f"{_FOUND} WHERE p.until <= fabric_now() ORDER BY p.until LIMIT %s", (limit,)).fetchall()
    return [_of(row) for row in rows]


def take_back(conn: Connection, names: Names, task_id: int, text: str, stamp: Stamp) -> Task | None:
    """The question whose time with somebody else is over is for whoever passed it on, if it is still open; None: it is
    not, or somebody else has done this."""
    try:
        task, now = locked(conn, names, task_id)
    except NotFound:
        conn.execute("DELETE FROM passed_on WHERE task_id = %s", (task_id,))
        return None
    ended = conn.execute(
        "DELETE FROM passed_on WHERE task_id = %s AND until <= %s RETURNING epoch, by_id, to_id", (task_id, now)
    ).fetchall()
    for epoch, by_id, to_id in ended:
        if epoch == task.epoch and _has_question(task) and names.user(conn, to_id) == task.asked:
            conn.execute(_ASK, (by_id, task_id))
            record(conn, task_id, "passed-back", stamp, None, {"from": task.asked, "to": names.user(conn, by_id)})
            comment(conn, names, task_id, text, stamp)
            return reread(conn, names, task_id)
    return None


def _has_question(task: Task) -> bool:
    return task.status is Status.WAITING and bool(task.flags & (Flag.NEEDS_INPUT | Flag.NEEDS_AUTH))


def _of(row: tuple[Any, ...]) -> PassedOn:
    task_id, by_id, by, to_id, to, until = row
    return PassedOn(task_id=task_id, by_id=by_id, by=by, to_id=to_id, to=to, until=until)
