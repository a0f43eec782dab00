"""A task that goes to another project: its place there is as like the old one as that project has it."""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native import rule_tags
from taskfabric.boards.native.insert import add_tags
from taskfabric.boards.native.judge import illegal, locked
from taskfabric.boards.native.names import Connection, Lane, Layout, Names
from taskfabric.boards.native.rows import Remark, record
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.ports.faces import Elsewhere

_CARRY: Final = """
UPDATE tasks t SET project_id = %(project)s, column_id = %(column)s, role = %(role)s, lane_id = %(lane)s,
       swimlane_id = %(swimlane)s, rank = nextval('task_rank') * 1048576, is_active = true, owner_id = %(owner)s,
       status = fabric_status(%(role)s, true, flags),
       ready_since = CASE WHEN %(role)s::text = 'ready' THEN fabric_now() ELSE ready_since END,
       date_completed = CASE WHEN %(role)s::text = 'done' THEN coalesce(date_completed, fabric_now()) END,
       seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()
 WHERE t.id = %(task)s
"""


def spot_there(conn: Connection, names: Names, task: Task, there: Elsewhere) -> dict[str, Any]:
    """Column, swimlane, category and assignee in the other project. Raises NotFound for a column or a swimlane that
    is named and is not there."""
    layout = names.layout(conn, there.project_id)
    column = there.column_id
    if column is None:
        column = _called(layout.columns, task.column) or next(iter(layout.columns), None)
    if column is None or column not in layout.columns:
        raise not_found("column")
    swimlane = there.swimlane_id
    if not swimlane:
        swimlane = _called(layout.swimlanes, task.swimlane) or layout.swimlane_id
    if swimlane not in layout.swimlanes:
        raise not_found("swimlane")
    face = conn.execute(
        "SELECT (SELECT there.id FROM project_has_categories there JOIN project_has_categories here ON here.name ="
        " there.name WHERE there.project_id = %(project)s AND here.id = coalesce(%(category)s, f.category_id))"
        " FROM task_faces f WHERE f.task_id = %(task)s",
        {"project": there.project_id, "category": there.category_id, "task": task.id},
    ).fetchone()
    role = layout.role_of[column]
    owner = task.holder_id if there.owner_id is None else there.owner_id
    return {
        "project": there.project_id,
        "column": column,
        "role": None if role is None else role.value,
        "swimlane": swimlane,
        "category": 0 if face is None or face[0] is None else face[0],
        "owner": owner if owner and owner in assignable(conn, there.project_id) else None,
    }


def _called(titles: Any, wanted: str) -> int | None:
    return next((int(id_) for id_, title in titles.items() if title == wanted), None)


def assignable(conn: Connection, project_id: int) -> frozenset[int]:
    """Active members and managers."""
    found = conn.execute(
        "SELECT m.user_id FROM project_roles m JOIN users u ON u.id = m.user_id AND u.is_active"
        " WHERE m.project_id = %s AND m.role <> 'project-viewer'",
        (project_id,),
    ).fetchall()
    return frozenset(row[0] for row in found)


def move_to(conn: Connection, names: Names, task_id: int, there: Elsewhere, stamp: Stamp) -> bool:
    """The task is in the other project, open. Raises IllegalMove if a queue is left or entered by one that somebody
    works on, or that has ended."""
    task, _ = locked(conn, names, task_id)
    here, layout = names.layout(conn, task.project_id), names.layout(conn, there.project_id)
    if _is_queue(here) and task.status not in (Status.BACKLOG, Status.READY, Status.HELD):
        raise illegal("move", task, "only a task that nobody works on can leave its queue")
    values = spot_there(conn, names, task, there)
    if _is_queue(layout) and values["role"] not in ("backlog", "ready", None):
        raise illegal("move", task, "work and what is done do not enter a queue from outside")
    lane = Lane(
        project_id=there.project_id,
        tier=task.tier,
        priority=task.priority,
        needs=task.needs,
        trust=task.required_trust,
    )
    conn.execute(_CARRY, {**values, "task": task_id, "lane": names.lane_id(conn, lane)})
    conn.execute("UPDATE task_faces SET category_id = %s WHERE task_id = %s", (values["category"], task_id))
    if task.tags:
        conn.execute("DELETE FROM task_has_tags WHERE task_id = %s", (task_id,))
        add_tags(conn, there.project_id, task_id, task.tags)
        if _is_queue(layout):
            rule_tags.take(conn, there.project_id, task_id)
    remark = Remark(kind=LineKind.MOVED, text=f"from {here.name} to {layout.name}") if _is_queue(layout) else None
    record(conn, task_id, "transferred", stamp, remark, {"from": here.name}, was=task.status)
    return True


def _is_queue(layout: Layout) -> bool:
    return layout.kind is not None
