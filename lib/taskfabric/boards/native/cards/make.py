"""New cards: one more insert than a submit where the card shows something that no rule uses."""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.submit import submit
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Stamp
from taskfabric.domain.recurrence import Recurrence
from taskfabric.domain.status import ColumnRole
from taskfabric.ports.faces import NewCard

_FACE: Final = """
INSERT INTO task_faces (task_id, color_id, category_id, priority, time_spent, time_estimated, date_moved,
    recurrence_status, recurrence_trigger, recurrence_factor, recurrence_timeframe, recurrence_basedate)
VALUES (%(task)s, %(color)s, %(category)s, %(priority)s, %(spent)s, %(estimated)s, NULL,
    %(status)s, %(trigger)s, %(factor)s, %(timeframe)s, %(basedate)s)
"""
# A card of a queue that begins in a column for work, or for what is done: somebody stands behind it, and it has begun.
_BEGUN: Final = """
UPDATE tasks t SET owner_id = coalesce(%(owner)s, owner_id), delayed = false,
       date_started = CASE WHEN role = 'working' THEN coalesce(date_started, fabric_now()) ELSE date_started END,
       date_completed = CASE WHEN role = 'done' THEN fabric_now() END
 WHERE t.id = %(task)s
"""


def create(conn: Connection, names: Names, new: NewCard, stamp: Stamp, limits: Limits, notify: list[int]) -> int:
    """The number of the new task, in whose place and colours the card stands."""
    item = new.task
    layout = names.layout(conn, item.project_id)
    if item.swimlane_id is not None and item.swimlane_id not in layout.swimlanes:
        raise not_found("swimlane")
    made = submit(conn, names, [item], stamp, limits, notify)[0].task
    if item.column_id is not None and item.column_id not in layout.columns:
        raise not_found("column")
    role = None if item.column_id is None else layout.role_of[item.column_id]
    if layout.kind is not None and role in (ColumnRole.WORKING, ColumnRole.DONE):
        conn.execute(_BEGUN, {"task": made.id, "owner": new.owner_id})
    elif new.owner_id is not None:
        conn.execute("UPDATE tasks SET owner_id = %s WHERE id = %s", (new.owner_id, made.id))
    values = _face(new)
    if values != _PLAIN:
        conn.execute(_FACE, {"task": made.id, **values})
    return made.id


def _face(new: NewCard) -> dict[str, Any]:
    again = new.recurrence
    return {
        "color": new.color_id,
        "category": new.category_id,
        "priority": new.priority,
        "spent": new.time_spent,
        "estimated": new.time_estimated,
        "status": again.status,
        "trigger": again.trigger,
        "factor": again.factor,
        "timeframe": again.timeframe,
        "basedate": again.basedate,
    }


_PLAIN: Final = {
    "color": "yellow",
    "category": 0,
    "priority": None,
    "spent": None,
    "estimated": None,
    **{name: getattr(Recurrence(), name) for name in ("status", "trigger", "factor", "timeframe", "basedate")},
}

# What a copy takes along besides its words. The link says "is a duplicate of" (4 and 5).
SUBTASKS: Final = (
    "INSERT INTO subtasks (task_id, title, time_estimated, user_id, position)"
    " SELECT %(copy)s, title, time_estimated, user_id, position FROM subtasks WHERE task_id = %(task)s"
)
EXTERNAL_LINKS: Final = (
    "INSERT INTO task_has_external_links (task_id, link_type, dependency, title, url, creator_id)"
    " SELECT %(copy)s, link_type, dependency, title, url, creator_id FROM task_has_external_links"
    " WHERE task_id = %(task)s"
)
_COPIES: Final = (
    SUBTASKS,
    EXTERNAL_LINKS,
    "INSERT INTO task_has_links (link_id, task_id, opposite_task_id)"
    " VALUES (4, %(copy)s, %(task)s), (5, %(task)s, %(copy)s)",
)
_FILES: Final = (
    "INSERT INTO task_has_files (task_id, name, sha256, size, user_id)"
    " SELECT %(copy)s, name, sha256, size, %(me)s FROM task_has_files WHERE task_id = %(task)s"
)


def duplicate(
    conn: Connection,
    names: Names,
    task_id: int,
    new: NewCard,
    files: bool,
    stamp: Stamp,
    limits: Limits,
    notify: list[int],
) -> int:
    """The copy's number. What the task was blocked by, its lease and its history are not copied."""
    if conn.execute("SELECT 1 FROM tasks WHERE id = %s FOR SHARE", (task_id,)).fetchone() is None:
        raise not_found("task")
    copy = create(conn, names, new, stamp, limits, notify)
    values = {"copy": copy, "task": task_id, "me": stamp.principal_id}
    for sql in (*_COPIES, _FILES) if files else _COPIES:
        conn.execute(sql, values)
    return copy
