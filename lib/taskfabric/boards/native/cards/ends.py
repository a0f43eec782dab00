"""Closing, reopening and removing cards. Who may is asked before; here is what it means."""

from __future__ import annotations

from typing import Final

from taskfabric.boards.native import judge
from taskfabric.boards.native.cards.recurring import come_again
from taskfabric.boards.native.judge import locked
from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import Remark, record
from taskfabric.boards.native.settle import LET_GO
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import IllegalMove, not_found
from taskfabric.domain.principal import Stamp
from taskfabric.domain.recurrence import Trigger
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task

_SUBTASKS_DONE: Final = "UPDATE subtasks SET status = 2 WHERE task_id = %s AND status <> 2"
_CLOSE: Final = """
UPDATE tasks t SET is_active = false, status = fabric_status(role, false, flags), date_completed = fabric_now(),
       seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()
 WHERE t.id = %s
"""


def close(conn: Connection, names: Names, task_id: int, stamp: Stamp, limits: Limits) -> bool:
    """In a queue: what is done is verified, a dead letter is put away, all else is cancelled with its unstarted
    children. In any other project the card is just closed, and comes again if that is meant."""
    task, _ = locked(conn, names, task_id)
    if not task.is_open:
        return True
    conn.execute(_SUBTASKS_DONE, (task_id,))
    plain = names.layout(conn, task.project_id).kind is None
    if plain or task.status is Status.DEAD:
        conn.execute(_CLOSE, (task_id,))
        record(conn, task_id, "closed", stamp, None, {"from": task.status.value}, was=task.status)
        if plain and stamp.run is None:
            come_again(conn, names, task_id, [Trigger.CLOSED], stamp, limits)
    elif task.status is Status.DONE:
        judge.verify(conn, names, task_id, "", stamp)
    else:
        judge.cancel(conn, names, task_id, "", stamp)
    return True


# The lease, if there was one, ended when it was closed. Work that is open again without a lease is its reopener's.
_REOPEN: Final = """
UPDATE tasks t SET is_active = true, flags = flags & %(keep)s, status = fabric_status(role, true, flags & %(keep)s),
       date_completed = NULL, hold_rule = NULL, verdict = NULL, delayed = false,
       owner_id = CASE WHEN role = 'working' AND %(queue)s THEN %(me)s ELSE owner_id END,
       ready_since = CASE WHEN role = 'ready' THEN fabric_now() ELSE ready_since END,
       attempts = CASE WHEN role = 'ready' THEN 0 ELSE attempts END,
       seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()
 WHERE t.id = %(task)s
"""
_ENDS: Final = Flag.CANCELLED | Flag.REJECTED | Flag.BLOCKED | Flag.NEEDS_INPUT | Flag.NEEDS_AUTH | Flag.PARKED


def reopen(conn: Connection, names: Names, task_id: int, stamp: Stamp) -> bool:
    """It is open again where it stands: what was verified is done and unverified."""
    task, _ = locked(conn, names, task_id)
    if task.is_open:
        return True
    queue = names.layout(conn, task.project_id).kind is not None
    keep = ~int(_ENDS) if queue else -1
    conn.execute(_REOPEN, {"task": task_id, "me": stamp.principal_id, "queue": queue, "keep": keep})
    remark = Remark(kind=LineKind.REDRIVEN, text=f"reopened; it was {task.status.value}") if queue else None
    record(conn, task_id, "reopened", stamp, remark, {"from": task.status.value}, was=task.status)
    return True


# What has no foreign key to the task goes by hand, the journal stays.
_PARTS: Final = (
    "DELETE FROM comments WHERE task_id = %(task)s",
    "DELETE FROM task_texts WHERE task_id = %(task)s",
)
_BLOCKERS_FORGET: Final = """
UPDATE tasks SET dependents = dependents - 1
 WHERE dependents > 0
   AND id IN (SELECT opposite_task_id FROM task_has_links WHERE task_id = %(task)s AND link_id = 3)
"""
_NEEDED: Final = """
SELECT EXISTS (SELECT FROM tasks WHERE parent_id = %(task)s OR root_id = %(task)s)
    OR EXISTS (SELECT FROM task_has_links l JOIN tasks d ON d.id = l.task_id AND d.is_active
                 JOIN queues q ON q.project_id = d.project_id
                WHERE l.opposite_task_id = %(task)s AND l.link_id = 3 AND l.state <> 'satisfied')
"""
# Nothing gates where no queue is; a card that goes into one later waits for nothing that is gone.
_WAITERS_FORGET: Final = """
UPDATE tasks SET open_blockers = open_blockers - 1
 WHERE open_blockers > 0
   AND id IN (SELECT task_id FROM task_has_links
               WHERE opposite_task_id = %(task)s AND link_id = 3 AND state <> 'satisfied')
"""


def remove(conn: Connection, names: Names, task_id: int, stamp: Stamp) -> bool:
    """The card is gone. A removal promotes nothing: what others descend from, or wait for in a queue, is not removed.

    Raises IllegalMove for such a task, and for one whose key counts for life."""
    task, _ = locked(conn, names, task_id)
    values = {"task": task_id}
    needed = conn.execute(_NEEDED, values).fetchone()
    if task.key is not None or (needed is not None and needed[0]):
        raise IllegalMove(
            f"#{task.id} has children, a key, or tasks that wait for it", next="close it instead; nothing of it is lost"
        )
    if task.is_open and task.status is not Status.DONE:
        _cancel(conn, task, stamp)  # so that its parent knows
    else:
        conn.execute("UPDATE tasks SET seq = seq + 1 WHERE id = %s", (task_id,))
    record(conn, task_id, "removed", stamp, None, {"title": task.title, "from": task.status.value})
    conn.execute(_BLOCKERS_FORGET, values)
    conn.execute(_WAITERS_FORGET, values)
    if task.parent is not None:
        conn.execute("UPDATE tasks SET children = children - 1 WHERE id = %s AND children > 0", (task.parent,))
    for sql in _PARTS:
        conn.execute(sql, values)
    if conn.execute("DELETE FROM tasks WHERE id = %(task)s", values).rowcount == 0:
        raise not_found("task")
    return True


def _cancel(conn: Connection, task: Task, stamp: Stamp) -> None:
    conn.execute(
        "UPDATE tasks t SET is_active = false, status = 'cancelled', flags = (flags & ~(1|2|4|8)) | 64,"
        f" asked_id = NULL, delayed = false, hold_rule = NULL, date_completed = fabric_now(), {LET_GO}"
        " WHERE t.id = %s",
        (task.id,),
    )
    data = {"from": task.status.value, "holder": task.holder}
    record(conn, task.id, "cancelled", stamp, None, data, was=task.status)
