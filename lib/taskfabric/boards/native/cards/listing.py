"""Many cards at once. What few of them have (texts, colours, counts) is fetched beside the rows, for all in one look:
a list of a thousand costs a handful of statements, and nothing for what is not there."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from taskfabric.boards.native.cards.faces import SEEN_ANYWHERE, SEEN_HERE, seconds, through
from taskfabric.boards.native.names import Connection, Names
from taskfabric.domain.principal import Viewer
from taskfabric.ports.faces import Row

_BASE: Final = f"""
SELECT t.id, t.title, t.has_text, {seconds("t.date_creation")}, t.column_id, t.owner_id, t.is_active,
       {seconds("t.date_completed")}, t.score, {seconds("t.date_due")}, t.creator_id, {seconds("t.date_modification")},
       t.reference, {seconds("t.date_started")}, t.swimlane_id,
       {seconds("greatest(t.ready_since, t.date_completed, t.date_creation)")}, t.lane_id, t.project_id
  FROM tasks t
"""
_FACE: Final = f"""
SELECT task_id, color_id, category_id, priority, time_spent, time_estimated, {seconds("date_moved")},
       recurrence_status, recurrence_trigger, recurrence_factor, recurrence_timeframe, recurrence_basedate
  FROM task_faces WHERE task_id = ANY (%s::bigint[])
"""
_NO_FACE: Final = (0, "yellow", 0, None, None, None, None, 0, 0, 0, 0, 0)
_TEXTS: Final = "SELECT task_id, description FROM task_texts WHERE task_id = ANY (%s::bigint[])"
_COUNT: Final = "SELECT task_id, count(*) FROM {table} WHERE task_id = ANY (%s::bigint[]) GROUP BY task_id"
_SUBTASKS: Final = (
    "SELECT task_id, count(*), count(*) FILTER (WHERE status = 2) FROM subtasks WHERE task_id = ANY (%s::bigint[])"
    " GROUP BY task_id"
)
_LINKS: Final = (
    "SELECT task_id, count(*), count(*) FILTER (WHERE link_id = 9) FROM task_has_links"
    " WHERE task_id = ANY (%s::bigint[]) GROUP BY task_id"
)
_USERS: Final = "SELECT id, username, name, email FROM users WHERE id = ANY (%s::bigint[])"
_CATEGORIES: Final = "SELECT id, name, description, color_id FROM project_has_categories WHERE id = ANY (%s::bigint[])"
_COLUMNS: Final = "SELECT id, title, position FROM columns WHERE project_id = ANY (%s::bigint[])"
_SWIMLANES: Final = "SELECT id, name FROM swimlanes WHERE project_id = ANY (%s::bigint[])"
_PROJECTS: Final = "SELECT id, name FROM projects WHERE id = ANY (%s::bigint[])"
_FEW: Final = 30  # cards whose places are counted one by one; those of more are read off all cards of the project


def cards(conn: Connection, names: Names, project_id: int, active: bool, viewer: Viewer | None) -> list[Row]:
    """The open or the closed cards of a project, by id."""
    kind = "t.is_active" if active else "NOT t.is_active"
    found = conn.execute(
        f"{_BASE} WHERE t.project_id = %(project)s AND {kind} AND {SEEN_HERE} ORDER BY t.rank, t.id",
        {"project": project_id, **through(viewer)},
    ).fetchall()
    shown = _rows(conn, names, found, _places_within(found))
    for row in shown:
        row["external_provider"] = row["external_uri"] = None
    shown.sort(key=_ID)
    return shown


def of_project(conn: Connection, names: Names, project_id: int, viewer: Viewer | None) -> list[Row]:
    """All cards of a project from top to bottom, with counts and names."""
    found = conn.execute(
        f"{_BASE} WHERE t.project_id = %(project)s AND {SEEN_HERE} ORDER BY t.rank, t.id",
        {"project": project_id, **through(viewer)},
    ).fetchall()
    return _extended(conn, _rows(conn, names, found, _places_within(found)))


def some(conn: Connection, names: Names, ids: Sequence[int], viewer: Viewer | None) -> list[Row]:
    """These cards, which the viewer sees, by id, with counts and names."""
    if not ids:
        return []
    found = conn.execute(f"{_BASE} WHERE t.id = ANY (%(ids)s) ORDER BY t.id", {"ids": list(ids)}).fetchall()
    places = _places(conn, found, viewer)
    return _extended(conn, _rows(conn, names, found, places))


_ID: Final[Any] = operator.itemgetter("id")


def _array(ids: Iterable[int]) -> str:
    """The numbers as PostgreSQL writes an array: a list would be looked at element by element."""
    return "{" + ",".join(map(str, ids)) + "}"


# -- places ----------------------------------------------------------------------------------------------


def _places_within(found: Sequence[tuple[Any, ...]]) -> dict[int, int]:
    """The place of each open card among these, which stand from top to bottom."""
    last: dict[tuple[int, int], int] = {}
    places: dict[int, int] = {}
    for row in found:
        if row[6]:
            cell = (row[4], row[14])
            places[row[0]] = last[cell] = last.get(cell, 0) + 1
    return places


_ALL_PLACES: Final = f"""
SELECT t.id, t.column_id, t.swimlane_id FROM tasks t
 WHERE t.project_id = %(project)s AND t.is_active AND {SEEN_HERE} ORDER BY t.rank, t.id
"""
_ONE_PLACE: Final = f"""
SELECT t.id, 1 + count(o.id) FROM tasks t
  LEFT JOIN tasks o ON o.is_active AND o.project_id = t.project_id AND o.column_id = t.column_id
   AND o.swimlane_id = t.swimlane_id AND (o.rank, o.id) < (t.rank, t.id)
   AND {SEEN_ANYWHERE.replace("t.", "o.")}
 WHERE t.id = ANY (%(ids)s) AND t.is_active GROUP BY t.id
"""


def _places(conn: Connection, found: Sequence[tuple[Any, ...]], viewer: Viewer | None) -> dict[int, int]:
    """The place of each open card among all that the viewer sees."""
    if len(found) <= _FEW:
        values = {"ids": [row[0] for row in found], **through(viewer)}
        return dict(conn.execute(_ONE_PLACE, values).fetchall())
    places: dict[int, int] = {}
    for project_id in {row[17] for row in found}:
        last: dict[tuple[int, int], int] = {}
        values = {"project": project_id, **through(viewer)}
        for id_, column_id, swimlane_id in conn.execute(_ALL_PLACES, values).fetchall():
            places[id_] = last[column_id, swimlane_id] = last.get((column_id, swimlane_id), 0) + 1
    return places


# -- rows ------------------------------------------------------------------------------------------------


def _rows(conn: Connection, names: Names, found: Sequence[tuple[Any, ...]], places: dict[int, int]) -> list[Row]:
    texts = _texts(conn, [row[0] for row in found if row[2]])
    faces = {row[0]: row for row in conn.execute(_FACE, (_array(row[0] for row in found),)).fetchall()} if found else {}
    priorities = {lane: names.lane(conn, lane).priority for lane in {row[16] for row in found}}
    shown: list[Row] = []
    for row in found:
        (id_, title, has_text, created, column_id, owner_id, is_active, completed, score, due) = row[:10]
        (creator_id, modified, reference, started, swimlane_id, moved, lane_id, project_id) = row[10:]
        face = faces.get(id_, _NO_FACE)
        priority = priorities[lane_id]
        if face[3] is not None and min(max(face[3], 0), 3) == priority:
            priority = face[3]
        shown.append(
            {
                "id": id_,
                "title": title,
                "description": texts.get(id_, "") if has_text else "",
                "date_creation": created,
                "color_id": face[1],
                "project_id": project_id,
                "column_id": column_id,
                "owner_id": owner_id or 0,
                "position": places.get(id_, 0),
                "is_active": 1 if is_active else 0,
                "date_completed": completed,
                "score": score or 0,
                "date_due": due or 0,
                "category_id": face[2],
                "creator_id": creator_id,
                "date_modification": modified,
                "reference": reference,
                "date_started": started or 0,
                "time_spent": face[4],
                "time_estimated": face[5],
                "swimlane_id": swimlane_id,
                "date_moved": moved if face[6] is None or face[6] < moved else face[6],
                "recurrence_status": face[7],
                "recurrence_trigger": face[8],
                "recurrence_factor": face[9],
                "recurrence_timeframe": face[10],
                "recurrence_basedate": face[11],
                "recurrence_parent": None,
                "recurrence_child": None,
                "priority": priority,
            }
        )
    return shown


def _texts(conn: Connection, ids: list[int]) -> dict[int, str]:
    return dict(conn.execute(_TEXTS, (_array(ids),)).fetchall()) if ids else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What the cards of a list point to, by id."""

    users: dict[int, tuple[Any, ...]]
    categories: dict[int, tuple[Any, ...]]
    columns: dict[int, tuple[Any, ...]]
    swimlanes: dict[int, tuple[Any, ...]]
    projects: dict[int, tuple[Any, ...]]


_NOBODY: Final = (None, None, None, None)


def _extended(conn: Connection, shown: list[Row]) -> list[Row]:
    """The rows with counts, and with the names of what they point to."""
    if not shown:
        return []
    ids: list[int] = [_ID(row) for row in shown]
    comments, files, external = (
        _by_key(conn, _COUNT.format(table=table), ids)
        for table in ("comments", "task_has_files", "task_has_external_links")
    )
    subtasks, links = _by_key(conn, _SUBTASKS, ids), _by_key(conn, _LINKS, ids)
    projects = _these(shown, "project_id")
    around = _Around(
        users=_by_key(conn, _USERS, _these(shown, "owner_id")),
        categories=_by_key(conn, _CATEGORIES, _these(shown, "category_id")),
        columns=_by_key(conn, _COLUMNS, projects),
        swimlanes=_by_key(conn, _SWIMLANES, projects),
        projects=_by_key(conn, _PROJECTS, projects),
    )
    for id_, row in zip(ids, shown, strict=True):
        user = around.users.get(row["owner_id"], _NOBODY)  # type: ignore[call-overload]  # ids are whole numbers
        category = around.categories.get(row["category_id"], _NOBODY)  # type: ignore[call-overload]
        column = around.columns.get(row["column_id"], _NOBODY)  # type: ignore[call-overload]
        parts, linked = subtasks.get(id_), links.get(id_)
        row["nb_comments"] = comments[id_][1] if id_ in comments else 0
        row["nb_files"] = files[id_][1] if id_ in files else 0
        row["nb_subtasks"] = 0 if parts is None else parts[1]
        row["nb_completed_subtasks"] = 0 if parts is None else parts[2]
        row["nb_links"] = 0 if linked is None else linked[1]
        row["nb_external_links"] = external[id_][1] if id_ in external else 0
        row["is_milestone"] = 1 if linked is not None and linked[2] else None
        row["assignee_username"] = user[1]
        row["assignee_name"] = user[2]
        row["assignee_email"] = user[3]
        row["assignee_avatar_path"] = None
        row["category_name"] = category[1]
        row["category_description"] = category[2]
        row["category_color_id"] = category[3]
        row["column_name"] = column[1]
        row["column_position"] = column[2]
        row["swimlane_name"] = around.swimlanes.get(row["swimlane_id"], _NOBODY)[1]  # type: ignore[call-overload]
        row["project_name"] = around.projects.get(row["project_id"], _NOBODY)[1]  # type: ignore[call-overload]
    return shown


def _these(shown: Sequence[Row], name: str) -> list[int]:
    """The different numbers under this name; 0 is none."""
    return sorted({value for row in shown if isinstance(value := row[name], int) and value})


def _by_key(conn: Connection, sql: str, ids: Collection[int]) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row for row in conn.execute(sql, (_array(ids),)).fetchall()} if ids else {}


_DASHBOARD: Final = f"""
SELECT t.id FROM tasks t JOIN projects p ON p.id = t.project_id AND p.is_active
  JOIN columns c ON c.id = t.column_id AND NOT c.hide_in_dashboard
 WHERE t.is_active AND {SEEN_ANYWHERE}
   AND (t.owner_id = %(owner)s
        OR EXISTS (SELECT FROM subtasks b WHERE b.task_id = t.id AND b.user_id = %(owner)s)) ORDER BY t.id
"""


def dashboard(conn: Connection, names: Names, owner_id: int, viewer: Viewer | None) -> list[Row]:
    """Open cards that are assigned to this user, or have a subtask that is."""
    found = conn.execute(_DASHBOARD, {"owner": owner_id, **through(viewer)}).fetchall()
    return some(conn, names, [row[0] for row in found], viewer)
