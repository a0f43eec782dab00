"""The whole board of a project: swimlanes with columns with cards, as the API's clients get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from taskfabric.boards.native.cards.faces import SEEN_HERE, through
from taskfabric.boards.native.cards.kept import Kept
from taskfabric.boards.native.cards.listing import Cell, Name, of_project
from taskfabric.boards.native.names import Connection
from taskfabric.domain.principal import Trust, Viewer
from taskfabric.domain.reserved_tags import reserved_tag_id
from taskfabric.domain.status import Flag
from taskfabric.ports.faces import Row

# People's tags, by card and by name; then what stands for a rule, which has no number.
_TAGS: Final = """
SELECT h.task_id, g.id, g.name, g.color_id, 0 AS flags, '' AS tier, '{{}}'::text[] AS needs, 0 AS trust
  FROM tasks t JOIN task_has_tags h ON h.task_id = t.id JOIN tags g ON g.id = h.tag_id
 WHERE {cards} AND t.has_tags
UNION ALL SELECT t.id, NULL, NULL, NULL, t.flags, l.tier, l.needs, l.trust FROM tasks t JOIN lanes l ON l.id = t.lane_id
 WHERE {cards} AND (t.flags <> 0 OR t.lane_id IN (
           SELECT x.id FROM lanes x WHERE x.tier <> '' OR x.needs <> '{{}}' OR x.trust > 0))
 ORDER BY name NULLS LAST, id
"""
_TAGS_OF_PROJECT: Final = _TAGS.format(cards=f"t.project_id = %(project)s AND {SEEN_HERE}").encode()
_TAGS_OF_CARDS: Final = _TAGS.format(cards="t.id = ANY (%(ids)s)").encode()


def board(conn: Connection, kept: Kept, project_id: int, viewer: Viewer | None) -> list[Row]:
    """Active swimlanes; [] for a project without any, or without a column."""
    cells, names = of_project(conn, kept, project_id, _tags_here(conn, project_id, viewer), viewer)
    swimlanes = [_swimlane(row, project_id) for row in names.all("swimlane") if row.flag]
    columns = [_column(row, project_id) for row in names.all("column")]
    return _laid_out(swimlanes, columns, cells) if columns else []


def _column(row: Name, project_id: int) -> Row:
    return {
        "id": row.id,
        "title": row.name,
        "position": row.position,
        "project_id": project_id,
        "task_limit": row.task_limit,
        "description": row.description,
        "hide_in_dashboard": row.flag,
    }


def _swimlane(row: Name, project_id: int) -> Row:
    return {
        "id": row.id,
        "name": row.name,
        "position": row.position,
        "is_active": row.flag,
        "project_id": project_id,
        "description": row.description,
        "task_limit": row.task_limit,
    }


def _tags_here(conn: Connection, project_id: int, viewer: Viewer | None) -> dict[int, bytes]:
    """Of each card of the project that the viewer sees its tags as JSON."""
    found = _by_card(conn.execute(_TAGS_OF_PROJECT, {"project": project_id, **through(viewer)}).fetchall())
    return {task_id: orjson.dumps(tags) for task_id, tags in found.items()}


def tags_of(conn: Connection, ids: Sequence[int]) -> dict[int, list[Row]]:
    """The tags of these cards; a card without one is left out."""
    return _by_card(conn.execute(_TAGS_OF_CARDS, {"ids": list(ids)}).fetchall()) if ids else {}


def _by_card(rows: Sequence[tuple[Any, ...]]) -> dict[int, list[Row]]:
    """People's tags by card, then those that stand for a rule."""
    found: dict[int, list[Row]] = {}
    for task_id, id_, name, color_id, flags, tier, needs, trust in rows:
        tags = found.setdefault(task_id, [])
        if id_ is not None:
            tags.append({"id": id_, "name": name, "color_id": color_id, "task_id": task_id})
            continue
        tags += [
            {"id": reserved_tag_id(name), "name": name, "color_id": None, "task_id": task_id}
            for name in _reserved(flags, tier, needs, trust)
        ]
    return found


def _reserved(flags: int, tier: str, needs: list[str], trust: int) -> list[str]:
    """The tags that stand for these bits and for what the lane asks of a claimer; as ``Task.all_tags`` has them."""
    names = [*Flag(flags).tags, *(f"needs:{need}" for need in needs)]
    if tier:
        names.append(f"tier:{tier}")
    if trust > Trust.UNTRUSTED:
        names.append(f"trust:{Trust(trust).word}")
    return names


def _laid_out(swimlanes: list[Row], columns: list[Row], cells: Mapping[tuple[Any, Any], Cell]) -> list[Row]:
    shown: dict[object, int] = {}
    scores: dict[object, int] = {}
    opened: dict[object, int] = {}
    for (_, column_id), cell in cells.items():
        opened[column_id] = opened.get(column_id, 0) + cell.opened
    for lane in swimlanes:
        parts: list[Row] = []
        for column in columns:
            cell = cells.get((lane["id"], column["id"]), Cell())
            count = len(cell.texts)
            shown[column["id"]] = shown.get(column["id"], 0) + count
            scores[column["id"]] = scores.get(column["id"], 0) + cell.score
            counts = {"nb_open_tasks": opened.get(column["id"], 0), "nb_tasks": count, "score": cell.score}
            tasks = list(map(orjson.Fragment, cell.texts))
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
