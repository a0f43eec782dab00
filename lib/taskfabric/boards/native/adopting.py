"""Adopting: a project that people made becomes a queue, and no card moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskfabric.boards.native import layout, rule_tags
from taskfabric.boards.native.layout import Conn
from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import ProjectRole, Stamp
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import COLUMN_TITLES, ColumnRole

_MARK: Final = """
INSERT INTO queues (project_id, name, kind, owner_id, backlog_column, ready_column, working_column, done_column,
                    swimlane_id)
SELECT %(project)s, %(name)s, %(kind)s, %(owner)s, %(backlog)s, %(ready)s, %(working)s, %(done)s,
       (SELECT id FROM swimlanes WHERE project_id = %(project)s ORDER BY NOT is_active, position, id LIMIT 1)
"""
# The status follows from the column; what a person put into Work in progress, he works on (and nobody sweeps it).
_STATUSES: Final = """
UPDATE tasks t SET role = x.role, status = x.status,
       ready_since = CASE WHEN x.status = 'ready' THEN coalesce(t.ready_since, fabric_now()) END,
       delayed = coalesce(x.status = 'ready' AND t.date_started > fabric_now(), false)
  FROM (SELECT s.id, c.role, fabric_status(c.role, s.is_active, s.flags) AS status
          FROM tasks s JOIN columns c ON c.id = s.column_id WHERE s.project_id = %(project)s) x
 WHERE t.id = x.id
"""
_HELD: Final = """
INSERT INTO comments (task_id, user_id, kind, text)
SELECT id, 0, 'held', 'a tag of its card says so' FROM tasks WHERE id = ANY (%(tasks)s) AND status = 'held' ORDER BY id
"""
_FLOORS: Final = """
UPDATE lane_floors f SET floor = least(f.floor, x.lowest)
  FROM (SELECT lane_id, min(rank) AS lowest FROM tasks WHERE project_id = %(project)s AND status = 'ready'
         GROUP BY lane_id) x
 WHERE f.lane_id = x.lane_id
"""


def adopt(
    conn: Conn,
    project_id: int,
    name: str,
    kind: QueueKind,
    columns: Mapping[ColumnRole, str],
    stamp: Stamp,
    *,
    owner_id: int | None,
) -> Queue:
    """See ``ports.moving.Moving.adopt``."""
    conn.execute("SELECT pg_advisory_xact_lock(%s)", (layout.QUEUE_LOCK,))
    conn.execute("SELECT 1 FROM projects WHERE id = %s FOR UPDATE", (project_id,))
    clash = layout.queues(
        conn, "WHERE q.project_id = %s OR q.name = %s OR q.owner_id = %s", (project_id, name, owner_id)
    )
    if clash:
        if clash[0].project_id == project_id and (clash[0].name, clash[0].kind) == (name, kind):
            _unchanged(conn, project_id, columns)
            return clash[0]
        what = f"{clash[0].name!r} ({clash[0].kind.value}{f' of {clash[0].owner}' if clash[0].owner else ''})"
        raise BadInput(f"there is a queue already: {what}", next="choose another name, or another owner", field="name")
    mapped = _mapped(conn, project_id, columns)
    for role, column_id in mapped.items():
        conn.execute("UPDATE columns SET role = NULL WHERE project_id = %s AND role = %s", (project_id, role.value))
        conn.execute("UPDATE columns SET role = %s WHERE id = %s", (role.value, column_id))
    values = {"project": project_id, "name": name, "kind": kind.value, "owner": owner_id}
    values |= {role.value: column_id for role, column_id in mapped.items()}
    conn.execute(_MARK, values)
    conn.execute("DELETE FROM project_has_metadata WHERE project_id = %s AND name LIKE 'fabric.%%'", (project_id,))
    conn.execute("INSERT INTO project_has_metadata VALUES (%s, 'fabric.queue', %s)", (project_id, kind.value))
    if owner_id is not None:
        place = ProjectRole.MANAGER if kind is QueueKind.INBOX else ProjectRole.MEMBER
        layout.put_member(conn, project_id, owner_id, place)
    if stamp.is_human and kind is not QueueKind.INBOX and stamp.principal_id != owner_id:
        layout.put_member(conn, project_id, stamp.principal_id, ProjectRole.MANAGER)
    tagged = rule_tags.take(conn, project_id)
    for (lane,) in conn.execute("SELECT id FROM lanes WHERE project_id = %s ORDER BY id", (project_id,)).fetchall():
        conn.execute("SELECT pg_advisory_xact_lock_shared(7301, %s)", (lane,))
    conn.execute(_STATUSES, values)
    conn.execute(_FLOORS, values)
    conn.execute(_HELD, {**values, "tasks": [int(task) for task in tagged]})
    layout.journal(conn, "queue-adopted", project_id, stamp, {"name": name, "kind": kind.value, "tagged": tagged})
    return layout.first(layout.queues(conn, "WHERE q.project_id = %s", (project_id,)), "queue")


def _unchanged(conn: Conn, project_id: int, columns: Mapping[ColumnRole, str]) -> None:
    """Raises BadInput if the queue, which is there, has other columns than those that are asked for."""
    has = {c.role: c.title for c in layout.columns(conn, "WHERE project_id = %s", (project_id,)) if c.role is not None}
    for role, title in columns.items():
        if has.get(role, "").casefold() != title.casefold():
            raise BadInput(
                f"it is a queue already, and its column for {role.value!r} is {has.get(role, '')!r}",
                next="leave the columns out; nothing was changed",
                field=role.value,
            )


def _mapped(conn: Conn, project_id: int, columns: Mapping[ColumnRole, str]) -> dict[ColumnRole, int]:
    """The column for each role, by its title. Raises BadInput, naming the columns that there are."""
    there = {c.title.casefold(): c for c in layout.columns(conn, "WHERE project_id = %s", (project_id,))}
    found: dict[ColumnRole, int] = {}
    for role, usual in COLUMN_TITLES.items():
        title = columns.get(role, usual)
        column = there.get(title.casefold())
        if column is None or column.id in found.values():
            have = ", ".join(repr(c.title) for c in there.values())
            raise BadInput(
                f"no column of its own for {role.value!r}: the project has {have}",
                next=f"name one with --{role.value} TITLE",
                field=role.value,
            )
        found[role] = column.id
    return found
