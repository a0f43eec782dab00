"""Rows under Kanboard's own names, read through somebody's eyes."""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native.names import Connection
from taskfabric.boards.native.read import eyes
from taskfabric.domain.principal import Trust, Viewer
from taskfabric.domain.reserved_tags import reserved_tag_id
from taskfabric.domain.status import Flag
from taskfabric.ports.faces import Row


def seconds(column: str) -> str:
    """An instant as whole seconds since 1970."""
    return f"floor(date_part('epoch', {column}))::bigint"


# Within one project the viewer's membership is asked once and not for each row; see ``read.VISIBLE`` for the rule.
_MEMBER: Final = """
(SELECT %(me)s::int IS NULL OR EXISTS (
    SELECT FROM project_roles m WHERE m.project_id = %(project)s AND m.user_id = %(me)s
    AND (NOT %(human)s OR NOT EXISTS (SELECT FROM queues q WHERE q.project_id = %(project)s
                                         AND q.kind IN ('pool', 'agent')))))
"""
_OWN: Final = (
    "%(me)s::int IN (t.creator_id, t.owner_id, t.asked_id) OR t.interlocutor_id = %(me)s::int AND t.parent_id IS NULL"
)
_SCOPE: Final = "(%(scope)s::int[] IS NULL OR t.project_id = ANY(%(scope)s::int[]))"
SEEN_HERE: Final = f"({_MEMBER} OR {_OWN}) AND {_SCOPE} AND t.status <> 'record'"
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


def reads_all(conn: Connection, project_id: int, viewer: Viewer | None) -> bool:
    """Whether the viewer sees every card of this project."""
    row = conn.execute(f"SELECT {_MEMBER}", {"project": project_id, **through(viewer)}).fetchone()
    return row is not None and bool(row[0])


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
    "recurrence_parent": "NULL::bigint",
    "recurrence_child": "NULL::bigint",
    "priority": PRIORITY,
    "external_provider": "NULL::text",
    "external_uri": "NULL::text",
}
_PLAIN: Final = ", ".join(f"{sql} AS {name}" for name, sql in _FIELDS.items())
_LISTED: Final = ", ".join(f"{sql} AS {name}" for name, sql in _FIELDS.items() if not name.startswith("external_"))
_FROM: Final = "FROM tasks t JOIN lanes l ON l.id = t.lane_id LEFT JOIN task_faces f ON f.task_id = t.id"
# The place of an open card among those that the viewer sees; a closed one stands in none.
_AMONG: Final = """
CASE WHEN t.is_active THEN row_number() OVER (PARTITION BY t.is_active, t.column_id, t.swimlane_id
                                                  ORDER BY t.rank, t.id) ELSE 0 END AS position
"""
_COUNTED: Final = """
CASE WHEN t.is_active THEN 1 + (
    SELECT count(*) FROM tasks o WHERE o.is_active AND o.project_id = t.project_id AND o.column_id = t.column_id
       AND o.swimlane_id = t.swimlane_id AND (o.rank, o.id) < (t.rank, t.id) {seen}) ELSE 0 END AS position
"""
_SEEN_OTHERS: Final = f" AND {SEEN_HERE}".replace(" t.", " o.").replace("(t.", "(o.")


def rows(conn: Connection, sql: str, values: dict[str, Any]) -> list[Row]:
    """What a statement finds, each row by the names of its columns."""
    cursor = conn.execute(sql, values)
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def card(conn: Connection, task_id: int, viewer: Viewer | None) -> Row | None:
    """The card, or None: it is not there or not for this viewer."""
    values = {"task": task_id, **through(viewer)}
    place = conn.execute(
        f"SELECT t.project_id FROM tasks t WHERE t.id = %(task)s AND {SEEN_ANYWHERE}", values
    ).fetchone()
    if place is None:
        return None
    values["project"] = place[0]
    others = "" if reads_all(conn, place[0], viewer) else _SEEN_OTHERS
    found = rows(conn, f"SELECT {_PLAIN}, {_COUNTED.format(seen=others)} {_FROM} WHERE t.id = %(task)s", values)
    return found[0] if found else None


def by_reference(conn: Connection, project_id: int, reference: str, viewer: Viewer | None) -> Row | None:
    """The oldest visible card of the project with this reference."""
    values = {"project": project_id, "reference": reference, **through(viewer)}
    found = conn.execute(
        "SELECT t.id FROM tasks t WHERE t.project_id = %(project)s AND t.reference = %(reference)s"
        f" AND {SEEN_HERE} ORDER BY t.id LIMIT 1",
        values,
    ).fetchone()
    return None if found is None else card(conn, found[0], viewer)


def cards(conn: Connection, project_id: int, active: bool, viewer: Viewer | None) -> list[Row]:
    """The open or the closed cards of a project, by id."""
    kind = "t.is_active" if active else "NOT t.is_active"
    return rows(
        conn,
        f"SELECT {_PLAIN}, {_AMONG} {_FROM} WHERE t.project_id = %(project)s AND {kind} AND {SEEN_HERE} ORDER BY t.id",
        {"project": project_id, **through(viewer)},
    )


# What lists for people show besides: counts, and the names of what a card points to.
_COUNTS: Final = """
(SELECT count(*) FROM comments m WHERE m.task_id = t.id) AS nb_comments,
(SELECT count(*) FROM task_has_files m WHERE m.task_id = t.id) AS nb_files,
coalesce(s.of_all, 0) AS nb_subtasks, coalesce(s.of_done, 0) AS nb_completed_subtasks,
(SELECT count(*) FROM task_has_links m WHERE m.task_id = t.id) AS nb_links,
(SELECT count(*) FROM task_has_external_links m WHERE m.task_id = t.id) AS nb_external_links,
(SELECT 1 FROM task_has_links m WHERE m.task_id = t.id AND m.link_id = 9 LIMIT 1) AS is_milestone,
"""
_NAMED: Final = """
u.username AS assignee_username, u.name AS assignee_name, u.email AS assignee_email,
NULL::text AS assignee_avatar_path, k.name AS category_name, k.description AS category_description,
k.color_id AS category_color_id, c.title AS column_name, c.position AS column_position, w.name AS swimlane_name,
p.name AS project_name
"""
EXTENDED: Final = f"{_COUNTS} {_LISTED}, {_AMONG}, {_NAMED}"


def searched(conn: Connection, project_id: int, viewer: Viewer | None) -> str:
    """As ``EXTENDED``, for some of a project's cards: each place is counted among all."""
    others = "" if reads_all(conn, project_id, viewer) else _SEEN_OTHERS
    return f"{_COUNTS} {_LISTED}, {_COUNTED.format(seen=others)}, {_NAMED}"


EXTENDED_FROM: Final = f"""
{_FROM} LEFT JOIN users u ON u.id = t.owner_id LEFT JOIN users uc ON uc.id = t.creator_id
LEFT JOIN project_has_categories k ON k.id = f.category_id AND f.category_id <> 0
JOIN columns c ON c.id = t.column_id JOIN swimlanes w ON w.id = t.swimlane_id JOIN projects p ON p.id = t.project_id
LEFT JOIN LATERAL (SELECT count(*) AS of_all, count(*) FILTER (WHERE b.status = 2) AS of_done
                     FROM subtasks b WHERE b.task_id = t.id) s ON true
"""


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


def dashboard(conn: Connection, owner_id: int, viewer: Viewer | None) -> list[Row]:
    """Open tasks that are assigned to this user, or have an open subtask that is."""
    return rows(
        conn,
        f"""SELECT {EXTENDED} {EXTENDED_FROM}
         WHERE t.is_active AND p.is_active AND NOT c.hide_in_dashboard AND {SEEN_ANYWHERE}
           AND (t.owner_id = %(owner)s
                OR EXISTS (SELECT FROM subtasks b WHERE b.task_id = t.id AND b.user_id = %(owner)s)) ORDER BY t.id""",
        {"owner": owner_id, **through(viewer)},
    )


# -- the board -------------------------------------------------------------------------------------------

_BOARD_TAGS: Final = f"""
SELECT h.task_id, array_agg(g.id ORDER BY g.name, g.id), array_agg(g.name ORDER BY g.name, g.id),
       array_agg(g.color_id ORDER BY g.name, g.id)
  FROM tasks t JOIN task_has_tags h ON h.task_id = t.id JOIN tags g ON g.id = h.tag_id
 WHERE t.project_id = %(project)s AND t.has_tags AND {SEEN_HERE} GROUP BY h.task_id
"""
_RESERVED: Final = f"""
SELECT t.id, t.flags, l.tier, l.needs, l.trust FROM tasks t JOIN lanes l ON l.id = t.lane_id
 WHERE t.project_id = %(project)s AND (t.flags <> 0 OR l.tier <> '' OR l.needs <> '{{}}' OR l.trust > 0) AND {SEEN_HERE}
"""
_COLUMNS: Final = """
SELECT c.id, c.title, c.position, c.project_id, c.task_limit, c.description,
       c.hide_in_dashboard::int AS hide_in_dashboard
  FROM columns c WHERE c.project_id = %(project)s ORDER BY c.position, c.id
"""
_SWIMLANES: Final = """
SELECT s.id, s.name, s.position, s.is_active::int AS is_active, s.project_id, s.description, s.task_limit
  FROM swimlanes s WHERE s.project_id = %(project)s AND s.is_active ORDER BY s.position, s.id
"""


def board(conn: Connection, project_id: int, viewer: Viewer | None) -> list[Row]:
    """Swimlanes with columns with cards, open and closed, as the API's clients get them."""
    values = {"project": project_id, **through(viewer)}
    swimlanes, columns = rows(conn, _SWIMLANES, values), rows(conn, _COLUMNS, values)
    if not swimlanes or not columns:
        return []
    found = rows(
        conn,
        f"SELECT {EXTENDED} {EXTENDED_FROM} WHERE t.project_id = %(project)s AND {SEEN_HERE} ORDER BY t.rank, t.id",
        values,
    )
    tags = _tags_of(conn, values)
    cells: dict[tuple[object, object], list[Row]] = {}
    opened: dict[object, int] = {}
    for one in found:
        one["tags"] = tags.get(one["id"], [])
        one["is_draggable"] = True
        cells.setdefault((one["swimlane_id"], one["column_id"]), []).append(one)
        opened[one["column_id"]] = opened.get(one["column_id"], 0) + int(bool(one["is_active"]))
    return _laid_out(swimlanes, columns, cells, opened)


def _tags_of(conn: Connection, values: dict[str, Any]) -> dict[object, list[Row]]:
    found: dict[object, list[Row]] = {}
    for task_id, ids, names, colors in conn.execute(_BOARD_TAGS, values).fetchall():
        found[task_id] = [
            {"id": i, "name": n, "color_id": k, "task_id": task_id} for i, n, k in zip(ids, names, colors, strict=True)
        ]
    for task_id, flags, tier, needs, trust in conn.execute(_RESERVED, values).fetchall():
        found.setdefault(task_id, []).extend(
            {"id": reserved_tag_id(name), "name": name, "color_id": None, "task_id": task_id}
            for name in reserved_names(flags, tier, needs, trust)
        )
    return found


def _laid_out(
    swimlanes: list[Row], columns: list[Row], cells: dict[tuple[object, object], list[Row]], opened: dict[object, int]
) -> list[Row]:
    shown: dict[object, int] = {}
    scores: dict[object, int] = {}
    for lane in swimlanes:
        parts: list[Row] = []
        for column in columns:
            tasks = cells.get((lane["id"], column["id"]), [])
            score = sum(t["score"] for t in tasks if isinstance(t["score"], int))
            shown[column["id"]] = shown.get(column["id"], 0) + len(tasks)
            scores[column["id"]] = scores.get(column["id"], 0) + score
            counts = {"nb_open_tasks": opened.get(column["id"], 0), "nb_tasks": len(tasks), "score": score}
            parts.append({**column, "tasks": tasks, **counts, "column_nb_open_tasks": counts["nb_open_tasks"]})
        lane["columns"] = parts
        lane["nb_swimlanes"] = len(swimlanes)
        lane["nb_columns"] = len(columns)
        lane["nb_tasks"] = sum(n for part in parts if isinstance(n := part["nb_tasks"], int))
        lane["score"] = sum(n for part in parts if isinstance(n := part["score"], int))
    for lane in swimlanes:
        for part in lane["columns"] if isinstance(lane["columns"], list) else []:
            part["nb_visible_tasks_across_swimlane"] = shown[part["id"]]
            part["nb_unfiltered_tasks_across_swimlane"] = opened.get(part["id"], 0)
            part["cumulative_score_across_swimlane"] = scores[part["id"]]
    return swimlanes


def reserved_names(flags: int, tier: str, needs: list[str], trust: int) -> list[str]:
    """The tags that stand for these bits and for what the lane asks of a claimer; as ``Task.all_tags`` has them."""
    names = [*Flag(flags).tags, *(f"needs:{need}" for need in needs)]
    if tier:
        names.append(f"tier:{tier}")
    if trust > Trust.UNTRUSTED:
        names.append(f"trust:{Trust(trust).word}")
    return names
