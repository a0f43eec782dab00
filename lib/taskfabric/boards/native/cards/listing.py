"""Many cards at once.

Of a long list only the versions are read, and what the cards stand beside (counts, names, tags); their texts are kept
(``kept.py``), and what changed is read again. A few cards are one statement.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from taskfabric.boards.native.cards.faces import CORE, FROM, PLACE, SEEN_ANYWHERE, SEEN_HERE, rows, through
from taskfabric.boards.native.cards.kept import Kept
from taskfabric.boards.native.names import Connection
from taskfabric.domain.principal import Viewer
from taskfabric.ports.faces import Dress, Row

# Which version of its row and of its face a card has: PostgreSQL's xmin is another one after each change.
_VERSIONS: Final = "t.id, t.xmin, f.xmin"
_HERE: Final = f"""
  FROM tasks t LEFT JOIN task_faces f ON f.task_id = t.id WHERE t.project_id = %(project)s AND {SEEN_HERE}
"""
_OPEN: Final = f"""
SELECT {_VERSIONS}, row_number() OVER (PARTITION BY t.swimlane_id, t.column_id ORDER BY t.rank, t.id)
  {_HERE} AND t.is_active ORDER BY t.id
"""
_CLOSED: Final = f"SELECT {_VERSIONS}, 0 {_HERE} AND NOT t.is_active ORDER BY t.id"
_STANDING: Final = f"""
SELECT {_VERSIONS}, t.swimlane_id, t.column_id, t.is_active::int, coalesce(t.score, 0), t.owner_id
  {_HERE} ORDER BY t.swimlane_id, t.column_id, t.rank, t.id
"""
_CORES: Final = f"SELECT {CORE}, t.xmin AS row, f.xmin AS face {FROM} WHERE t.id = ANY (%(ids)s::bigint[])"
_Found = tuple[Any, ...]  # a card's id, the version of its row and of its face, then what is known besides


def cards(
    conn: Connection, kept: Kept, project_id: int, active: bool, viewer: Viewer | None, dress: Dress
) -> list[bytes]:
    """The open or the closed cards of a project, by id, each as ``dress`` writes it."""
    found = conn.execute(_OPEN if active else _CLOSED, {"project": project_id, **through(viewer)}).fetchall()
    texts = kept.find(found)
    for at, core, versions in _missing(conn, found, texts):
        shown = {**core, "external_provider": None, "external_uri": None, "position": found[at][3]}
        texts[at] = text = dress(shown)
        kept.put((*versions, found[at][3]), text)
    return [text for text in texts if text is not None]


class Cell(NamedTuple):
    """A column of one swimlane, as far as the viewer sees it."""

    texts: Sequence[bytes] = ()  # of its cards from top to bottom, each whole as JSON
    score: int = 0
    opened: int = 0  # how many of them are open


def of_project(
    conn: Connection, kept: Kept, project_id: int, tags: Mapping[int, bytes], viewer: Viewer | None
) -> tuple[dict[tuple[int, int], Cell], Names]:
    """All cards of a project by swimlane and column, with counts, names and these tags."""
    found = conn.execute(_STANDING, {"project": project_id, **through(viewer)}).fetchall()
    ids, _, _, swimlanes, columns, opened, scores, owners = zip(*found, strict=True) if found else ((),) * 8
    counts = _counts(conn, ids)
    names = Names(conn, project_id, set(owners) - {None})
    called = kept.number(project_id, names.version)
    cells: dict[tuple[int, int], slice] = {}
    places: list[int] = []  # of each card among the open ones of its cell; 0 = closed
    for cell, group in itertools.groupby(zip(swimlanes, columns, strict=True)):
        cells[cell] = slice(len(places), len(places) + len(list(group)))
        places += map(operator.mul, itertools.accumulate(opened[cells[cell]]), opened[cells[cell]])
    beside = [(place, called, counts.get(id_), tags.get(id_)) for id_, place in zip(ids, places, strict=True)]
    texts = kept.find([(*row[:3], *rest) for row, rest in zip(found, beside, strict=True)])
    for at, core, versions in _missing(conn, found, texts):
        card = {
            **core,
            **_beside(counts.get(ids[at], _NO_COUNTS), names, core),
            "tags": orjson.Fragment(tags.get(ids[at], b"[]")),
            "is_draggable": True,
            "position": places[at],
        }
        texts[at] = text = orjson.dumps(card)
        kept.put((*versions, *beside[at]), text)
    drawn = {
        cell: Cell([text for text in texts[at] if text is not None], sum(scores[at]), sum(opened[at]))
        for cell, at in cells.items()
    }
    return drawn, names


def _missing(
    conn: Connection, found: Sequence[_Found], texts: Sequence[bytes | None]
) -> Iterable[tuple[int, Row, _Found]]:
    """Of which of these no text is kept, with the card and the versions that were read now. One that has gone
    meanwhile is left out."""
    if None not in texts:
        return
    places = {row[0]: at for at, (row, text) in enumerate(zip(found, texts, strict=True)) if text is None}
    for core in rows(conn, _CORES, {"ids": _array(places)}):
        versions = (core["id"], core.pop("row"), core.pop("face"))
        yield places[versions[0]], core, versions


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
SELECT 'user' AS kind, id, username, name, email, 0 AS position, 0, 0 FROM users
 WHERE id = ANY (%(owners)s::bigint[])
UNION ALL SELECT 'category', id, name, nullif(description, ''), color_id, 0, 0, 0 FROM project_has_categories
           WHERE project_id = %(project)s
UNION ALL SELECT 'column', id, title, description, NULL, position, task_limit, hide_in_dashboard::int FROM columns
           WHERE project_id = %(project)s
UNION ALL SELECT 'swimlane', id, name, description, NULL, position, task_limit, is_active::int FROM swimlanes
           WHERE project_id = %(project)s
UNION ALL SELECT 'project', id, name, NULL, NULL, 0, 0, 0 FROM projects WHERE id = %(project)s
 ORDER BY kind, position, id
"""


class Name(NamedTuple):
    """Something that a card points to, as its kind has it."""

    kind: str
    id: int | None
    name: str | None  # a user's is his username
    description: str | None  # a user's is his name
    more: str | None  # the colour of a category, the mail address of a user
    position: int | None
    task_limit: int | None
    flag: int | None  # of a column: hidden on dashboards; of a swimlane: active


_NO_NAME: Final = Name("", None, None, None, None, None, None, None)


class Names:
    """What the cards of a project point to."""

    def __init__(self, conn: Connection, project_id: int, owners: Collection[int]) -> None:
        found = conn.execute(_NAMES, {"project": project_id, "owners": _array(owners)}).fetchall()
        self.version = tuple(map(Name._make, found))
        self._by_id: dict[tuple[str, object], Name] = {(row.kind, row.id): row for row in self.version}

    def all(self, kind: str) -> list[Name]:
        """Those of a kind, by position."""
        return [row for row in self.version if row.kind == kind]

    def of(self, kind: str, id: object) -> Name:
        return self._by_id.get((kind, id), _NO_NAME)


def _beside(counts: _Counts, names: Names, core: Row) -> Row:
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
        "assignee_username": user.name,
        "assignee_name": user.description,
        "assignee_email": user.more,
        "assignee_avatar_path": None,
        "category_name": category.name,
        "category_description": category.description,
        "category_color_id": category.more,
        "column_name": column.name,
        "column_position": column.position,
        "swimlane_name": names.of("swimlane", core["swimlane_id"]).name,
        "project_name": names.of("project", core["project_id"]).name,
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
