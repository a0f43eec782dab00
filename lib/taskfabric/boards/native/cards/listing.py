"""Many cards at once.

Of a long list only the versions are read, and what the cards stand beside (counts, names, tags); their texts are kept
(``kept.py``), and what changed is read again. A few cards are one statement.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from taskfabric.boards.native.cards.faces import CORE, FROM, PLACE, SEEN_ANYWHERE, SEEN_HERE, rows, through
from taskfabric.boards.native.cards.kept import Kept, Version
from taskfabric.boards.native.names import Connection
from taskfabric.domain.principal import Viewer
from taskfabric.ports.faces import Card, Row

# Which version of its row and of its face a card has: PostgreSQL's xmin is another one after each change.
_VERSIONS: Final = """
SELECT t.id, t.xmin, f.xmin, t.column_id, t.swimlane_id, t.is_active, coalesce(f.color_id, 'yellow')
  FROM tasks t LEFT JOIN task_faces f ON f.task_id = t.id
"""
_STANDING: Final = f"""
SELECT t.id, t.xmin, f.xmin, t.column_id, t.swimlane_id, t.is_active, t.score, t.owner_id
  FROM tasks t LEFT JOIN task_faces f ON f.task_id = t.id
 WHERE t.project_id = %(project)s AND {SEEN_HERE} ORDER BY t.rank, t.id
"""
_CORES: Final = f"SELECT {CORE}, t.xmin AS row, f.xmin AS face {FROM} WHERE t.id = ANY (%(ids)s::bigint[])"


def cards(conn: Connection, kept: Kept, project_id: int, active: bool, viewer: Viewer | None) -> list[Card]:
    """The open or the closed cards of a project, by id."""
    kind = "t.is_active" if active else "NOT t.is_active"
    found = conn.execute(
        f"{_VERSIONS} WHERE t.project_id = %(project)s AND {kind} AND {SEEN_HERE} ORDER BY t.rank, t.id",
        {"project": project_id, **through(viewer)},
    ).fetchall()
    texts, missing = kept.find({row[0]: row[1:3] for row in found})
    for core, version in _cores(conn, missing):
        texts[_ID(core)] = _keep(kept, version, {**core, "external_provider": None, "external_uri": None})
    places = _Places()
    shown = [
        Card(id_, texts[id_], places.next(column_id, swimlane_id) if is_active else 0, color_id)
        for id_, _, _, column_id, swimlane_id, is_active, color_id in found
        if id_ in texts
    ]
    shown.sort()
    return shown


class Standing(NamedTuple):
    """Where a card of a board stands, and as what."""

    column_id: int
    swimlane_id: int
    is_active: bool
    score: int
    text: bytes  # the whole card as JSON


def of_project(
    conn: Connection, kept: Kept, project_id: int, tags: Mapping[int, list[Row]], viewer: Viewer | None
) -> list[Standing]:
    """All cards of a project from top to bottom, with counts, names and these tags."""
    found = conn.execute(_STANDING, {"project": project_id, **through(viewer)}).fetchall()
    counts = _counts(conn, [row[0] for row in found])
    names = _Names(conn, project_id, {row[7] for row in found if row[7]})
    version = kept.same(project_id, names.version)
    wanted = {row[0]: (row[1], row[2], counts.get(row[0]), tags.get(row[0]), version) for row in found}
    texts, missing = kept.find(wanted)
    for core, (row, face) in _cores(conn, missing):
        id_ = _ID(core)
        beside = _beside(counts.get(id_, _NO_COUNTS), names, core)
        card = {**core, **beside, "tags": tags.get(id_, []), "is_draggable": True}
        texts[id_] = _keep(kept, (row, face, *wanted[id_][2:]), card)
    places = _Places()
    return [
        Standing(
            column_id,
            swimlane_id,
            is_active,
            score or 0,
            b'%b,"position":%d}' % (texts[id_], places.next(column_id, swimlane_id) if is_active else 0),
        )
        for id_, _, _, column_id, swimlane_id, is_active, score, _ in found
        if id_ in texts
    ]


class _Places:
    """Counts cards from top to bottom, each in its cell."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}

    def next(self, column_id: int, swimlane_id: int) -> int:
        """The place of the next open card there."""
        cell = (column_id, swimlane_id)
        self._last[cell] = place = self._last.get(cell, 0) + 1
        return place


def _keep(kept: Kept, version: Version, shown: Row) -> bytes:
    """The card as JSON text without its end, so that its place can follow."""
    text = orjson.dumps(shown)[:-1]
    kept.put(_ID(shown), version, text)
    return text


def _cores(conn: Connection, ids: Sequence[int]) -> Iterable[tuple[Row, Version]]:
    """These cards without place and surroundings, each with the versions that were read."""
    if not ids:
        return
    for row in rows(conn, _CORES, {"ids": _array(ids)}):
        version = (row.pop("row"), row.pop("face"))
        yield row, version


_ID: Final[Any] = operator.itemgetter("id")


def _array(ids: Iterable[int]) -> str:
    """The numbers as PostgreSQL writes an array: a list would be looked at element by element."""
    return "{" + ",".join(map(str, ids)) + "}"


# -- what a card stands beside ----------------------------------------------------------------------------

_COUNTS: Final = """
WITH those AS (SELECT unnest(%s::bigint[]) AS task)
SELECT task_id, sum(comments), sum(files), sum(external), sum(subtasks), sum(completed), sum(links), sum(milestones)
  FROM (SELECT task_id, 1 AS comments, 0 AS files, 0 AS external, 0 AS subtasks, 0 AS completed, 0 AS links,
               0 AS milestones FROM comments JOIN those ON task = task_id
        UNION ALL SELECT task_id, 0, 1, 0, 0, 0, 0, 0 FROM task_has_files JOIN those ON task = task_id
        UNION ALL SELECT task_id, 0, 0, 1, 0, 0, 0, 0 FROM task_has_external_links JOIN those ON task = task_id
        UNION ALL SELECT task_id, 0, 0, 0, 1, (status = 2)::int, 0, 0 FROM subtasks JOIN those ON task = task_id
        UNION ALL SELECT task_id, 0, 0, 0, 0, 0, 1, (link_id = 9)::int FROM task_has_links JOIN those ON task = task_id
       ) AS each_one GROUP BY task_id
"""
_Counts = tuple[int, ...]  # a card's id, and how many of each
_NO_COUNTS: Final[_Counts] = (0,) * 8


def _counts(conn: Connection, ids: Collection[int]) -> dict[int, _Counts]:
    """Of those cards that have any."""
    return {row[0]: row for row in conn.execute(_COUNTS, (_array(ids),)).fetchall()} if ids else {}


_NAMES: Final = """
SELECT 'user', id, username, name, email, NULL::int FROM users WHERE id = ANY (%(owners)s::bigint[])
UNION ALL SELECT 'category', id, name, nullif(description, ''), color_id, NULL FROM project_has_categories
           WHERE project_id = %(project)s
UNION ALL SELECT 'column', id, title, NULL, NULL, position FROM columns WHERE project_id = %(project)s
UNION ALL SELECT 'swimlane', id, name, NULL, NULL, NULL FROM swimlanes WHERE project_id = %(project)s
UNION ALL SELECT 'project', id, name, NULL, NULL, NULL FROM projects WHERE id = %(project)s ORDER BY 1, 2
"""
_Name = tuple[Any, ...]  # kind, id, then what is said of it
_NO_NAME: Final[_Name] = (None,) * 6


class _Names:
    """What the cards of a project point to."""

    def __init__(self, conn: Connection, project_id: int, owners: Collection[int]) -> None:
        found = conn.execute(_NAMES, {"project": project_id, "owners": _array(owners)}).fetchall()
        self.version = tuple(found)
        self._by_id = {row[:2]: row for row in found}

    def of(self, kind: str, id: object) -> _Name:
        return self._by_id.get((kind, id), _NO_NAME)


def _beside(counts: _Counts, names: _Names, core: Row) -> Row:
    """Counts and names as Kanboard calls them."""
    _, comments, files, external, subtasks, completed, links, milestones = counts
    user, category = names.of("user", core["owner_id"]), names.of("category", core["category_id"])
    column = names.of("column", core["column_id"])
    return {
        "nb_comments": comments,
        "nb_files": files,
        "nb_subtasks": subtasks,
        "nb_completed_subtasks": completed,
        "nb_links": links,
        "nb_external_links": external,
        "is_milestone": 1 if milestones else None,
        "assignee_username": user[2],
        "assignee_name": user[3],
        "assignee_email": user[4],
        "assignee_avatar_path": None,
        "category_name": category[2],
        "category_description": category[3],
        "category_color_id": category[4],
        "column_name": column[2],
        "column_position": column[5],
        "swimlane_name": names.of("swimlane", core["swimlane_id"])[2],
        "project_name": names.of("project", core["project_id"])[2],
    }


# -- a few, whole -----------------------------------------------------------------------------------------

_LINKED: Final = "FROM task_has_links x WHERE x.task_id = t.id"
_WHOLE: Final = f"""
SELECT {CORE}, {PLACE.format(seen=f" AND {SEEN_ANYWHERE}".replace("t.", "o."))},
       (SELECT count(*) FROM comments x WHERE x.task_id = t.id) AS nb_comments,
       (SELECT count(*) FROM task_has_files x WHERE x.task_id = t.id) AS nb_files,
       (SELECT count(*) FROM subtasks x WHERE x.task_id = t.id) AS nb_subtasks,
       (SELECT count(*) FROM subtasks x WHERE x.task_id = t.id AND x.status = 2) AS nb_completed_subtasks,
       (SELECT count(*) {_LINKED}) AS nb_links,
       (SELECT count(*) FROM task_has_external_links x WHERE x.task_id = t.id) AS nb_external_links,
       CASE WHEN EXISTS (SELECT {_LINKED} AND x.link_id = 9) THEN 1 END AS is_milestone,
       u.username AS assignee_username, u.name AS assignee_name, u.email AS assignee_email,
       NULL AS assignee_avatar_path, k.name AS category_name, nullif(k.description, '') AS category_description,
       k.color_id AS category_color_id, c.title AS column_name, c.position AS column_position,
       w.name AS swimlane_name, p.name AS project_name
 {FROM} LEFT JOIN users u ON u.id = t.owner_id LEFT JOIN project_has_categories k ON k.id = nullif(f.category_id, 0)
  JOIN columns c ON c.id = t.column_id JOIN swimlanes w ON w.id = t.swimlane_id JOIN projects p ON p.id = t.project_id
 WHERE t.id = ANY (%(ids)s::bigint[]) ORDER BY t.id
"""


def whole(conn: Connection, ids: Sequence[int], viewer: Viewer | None) -> list[Row]:
    """These cards, which the viewer sees, by id, each with its place among all that he sees, counts and names."""
    return rows(conn, _WHOLE, {"ids": _array(ids), **through(viewer)}) if ids else []


_DASHBOARD: Final = f"""
SELECT t.id FROM tasks t JOIN projects p ON p.id = t.project_id AND p.is_active
  JOIN columns c ON c.id = t.column_id AND NOT c.hide_in_dashboard
 WHERE t.is_active AND {SEEN_ANYWHERE}
   AND (t.owner_id = %(owner)s
        OR EXISTS (SELECT FROM subtasks b WHERE b.task_id = t.id AND b.user_id = %(owner)s)) ORDER BY t.id
"""


def dashboard(conn: Connection, owner_id: int, viewer: Viewer | None) -> list[Row]:
    """Open cards that are assigned to this user, or have a subtask that is."""
    found = conn.execute(_DASHBOARD, {"owner": owner_id, **through(viewer)}).fetchall()
    return whole(conn, [row[0] for row in found], viewer)
