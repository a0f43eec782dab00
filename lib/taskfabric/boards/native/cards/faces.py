"""Rows under Kanboard's own names, read through somebody's eyes."""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native.names import Connection
from taskfabric.boards.native.read import eyes
from taskfabric.domain.principal import Viewer
from taskfabric.ports.faces import Row


def seconds(column: str) -> str:
    """An instant as whole seconds since 1970."""
    return f"floor(date_part('epoch', {column}))::bigint"


# Within one project the viewer's membership is asked once and not for each row; see ``read.VISIBLE`` for the rule.
MEMBER: Final = """
(SELECT %(me)s::int IS NULL OR EXISTS (
    SELECT FROM project_roles m WHERE m.project_id = %(project)s AND m.user_id = %(me)s
    AND (NOT %(human)s OR NOT EXISTS (SELECT FROM queues q WHERE q.project_id = %(project)s
                                         AND q.kind IN ('pool', 'agent')))))
"""
_OWN: Final = (
    "%(me)s::int IN (t.creator_id, t.owner_id, t.asked_id) OR t.interlocutor_id = %(me)s::int AND t.parent_id IS NULL"
)
_SCOPE: Final = "(%(scope)s::int[] IS NULL OR t.project_id = ANY(%(scope)s::int[]))"
SEEN_HERE: Final = f"({MEMBER} OR {_OWN}) AND {_SCOPE} AND t.status <> 'record'"
SEEN_ANYWHERE: Final = f"""
(%(me)s::int IS NULL OR {_OWN}
 OR EXISTS (SELECT FROM project_roles m WHERE m.project_id = t.project_id AND m.user_id = %(me)s
            AND (NOT %(human)s OR NOT EXISTS (SELECT FROM queues q WHERE q.project_id = t.project_id
                                                 AND q.kind IN ('pool', 'agent')))))
AND {_SCOPE} AND t.status <> 'record'
"""


def through(viewer: Viewer | None) -> dict[str, Any]:
    """The parameters of ``SEEN_HERE`` (with ``project``) and of ``SEEN_ANYWHERE``."""
    return {"me": None, "human": False, "scope": None} if viewer is None else eyes(viewer)


# A priority outside the four is kept beside the row, and counts as long as the lane has not been changed since.
PRIORITY: Final = (
    "CASE WHEN f.priority IS NOT NULL AND least(greatest(f.priority, 0), 3) = l.priority THEN f.priority"
    " ELSE l.priority END"
)
MOVED: Final = "greatest(f.date_moved, t.ready_since, t.date_completed, t.date_creation)"
_FIELDS: Final = {
    "id": "t.id",
    "title": "t.title",
    "description": "CASE WHEN t.has_text THEN coalesce((SELECT x.description FROM task_texts x WHERE x.task_id = t.id),"
    " '') ELSE '' END",
    "date_creation": seconds("t.date_creation"),
    "color_id": "coalesce(f.color_id, 'yellow')",
    "project_id": "t.project_id",
    "column_id": "t.column_id",
    "owner_id": "coalesce(t.owner_id, 0)",
    "is_active": "t.is_active::int",
    "date_completed": seconds("t.date_completed"),
    "score": "coalesce(t.score, 0)",
    "date_due": f"coalesce({seconds('t.date_due')}, 0)",
    "category_id": "coalesce(f.category_id, 0)",
    "creator_id": "t.creator_id",
    "date_modification": seconds("t.date_modification"),
    "reference": "t.reference",
    "date_started": f"coalesce({seconds('t.date_started')}, 0)",
    "time_spent": "f.time_spent",
    "time_estimated": "f.time_estimated",
    "swimlane_id": "t.swimlane_id",
    "date_moved": seconds(MOVED),
    "recurrence_status": "coalesce(f.recurrence_status, 0)",
    "recurrence_trigger": "coalesce(f.recurrence_trigger, 0)",
    "recurrence_factor": "coalesce(f.recurrence_factor, 0)",
    "recurrence_timeframe": "coalesce(f.recurrence_timeframe, 0)",
    "recurrence_basedate": "coalesce(f.recurrence_basedate, 0)",
    "recurrence_parent": "f.recurrence_parent",
    "recurrence_child": "f.recurrence_child",
    "priority": PRIORITY,
}
_ALONE: Final = {"external_provider": "NULL::text", "external_uri": "NULL::text"}  # not on boards, nor in a search
CORE: Final = ", ".join(f"{sql} AS {name}" for name, sql in _FIELDS.items())
_PLAIN: Final = ", ".join(f"{sql} AS {name}" for name, sql in {**_FIELDS, **_ALONE}.items())
_NAMES: Final = (*_FIELDS, *_ALONE, "position")
FROM: Final = "FROM tasks t JOIN lanes l ON l.id = t.lane_id LEFT JOIN task_faces f ON f.task_id = t.id"
# The place of an open card among those that the viewer sees; a closed one stands in none.
PLACE: Final = """
CASE WHEN t.is_active THEN 1 + (
    SELECT count(*) FROM tasks o WHERE o.is_active AND o.project_id = t.project_id AND o.column_id = t.column_id
       AND o.swimlane_id = t.swimlane_id AND (o.rank, o.id) < (t.rank, t.id) {seen}) ELSE 0 END AS position
"""
_OTHERS: Final = f" AND {SEEN_HERE}".replace(" t.", " o.").replace("(t.", "(o.")


def rows(conn: Connection, sql: str, values: dict[str, Any]) -> list[Row]:
    """What a statement finds, each row by the names of its columns."""
    cursor = conn.execute(sql, values)
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


_ALL_OTHERS: Final = f"SELECT {_PLAIN}, {PLACE.format(seen='')} {FROM} WHERE t.id = %(task)s"
_SEEN_OTHERS: Final = f"SELECT {_PLAIN}, {PLACE.format(seen=_OTHERS)} {FROM} WHERE t.id = %(task)s"
_WHERE: Final = f"""
SELECT t.project_id, {MEMBER.replace("%(project)s", "t.project_id")} FROM tasks t
 WHERE t.id = %(task)s AND {SEEN_ANYWHERE}
"""


def card(conn: Connection, task_id: int, viewer: Viewer | None) -> Row | None:
    """The card, or None: it is not there or not for this viewer."""
    if viewer is None:
        return _one(conn, f"{_ALL_OTHERS} AND t.status <> 'record'", {"task": task_id})
    values = {"task": task_id, **through(viewer)}
    place = conn.execute(_WHERE, values).fetchone()
    if place is None:
        return None
    values["project"] = place[0]
    return _one(conn, _ALL_OTHERS if place[1] else _SEEN_OTHERS, values)


def _one(conn: Connection, sql: str, values: dict[str, Any]) -> Row | None:
    """The row of a statement with just the names of a card, which need not be asked for."""
    row = conn.execute(sql, values).fetchone()
    return None if row is None else dict(zip(_NAMES, row, strict=True))


def by_reference(conn: Connection, project_id: int, reference: str, viewer: Viewer | None) -> Row | None:
    """The oldest visible card of the project with this reference."""
    values = {"project": project_id, "reference": reference, **through(viewer)}
    found = conn.execute(
        "SELECT t.id FROM tasks t WHERE t.project_id = %(project)s AND t.reference = %(reference)s"
        f" AND {SEEN_HERE} ORDER BY t.id LIMIT 1",
        values,
    ).fetchone()
    return None if found is None else card(conn, found[0], viewer)


def overdue(conn: Connection, viewer: Viewer | None, project_id: int | None, owner_id: int | None) -> list[Row]:
    """Open tasks of active projects whose date has passed."""
    return rows(
        conn,
        f"""SELECT t.id, t.title, {seconds("t.date_due")} AS date_due, t.project_id, t.creator_id,
               coalesce(t.owner_id, 0) AS owner_id, p.name AS project_name, u.username AS assignee_username,
               u.name AS assignee_name
          FROM tasks t JOIN projects p ON p.id = t.project_id AND p.is_active LEFT JOIN users u ON u.id = t.owner_id
         WHERE t.date_due IS NOT NULL AND t.is_active AND t.date_due <= (SELECT fabric_now())
           AND (%(project)s::int IS NULL OR t.project_id = %(project)s)
           AND (%(owner)s::int IS NULL OR t.owner_id = %(owner)s) AND {SEEN_ANYWHERE} ORDER BY t.date_due, t.id""",
        {"project": project_id, "owner": owner_id, **through(viewer)},
    )
