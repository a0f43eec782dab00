"""The whole board of a project: swimlanes with columns with cards, as the API's clients get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from taskfabric.boards.native.cards.faces import SEEN_HERE, rows, through
from taskfabric.boards.native.cards.kept import Kept
from taskfabric.boards.native.cards.listing import of_project
from taskfabric.boards.native.names import Connection
from taskfabric.domain.principal import Trust, Viewer
from taskfabric.domain.reserved_tags import reserved_tag_id
from taskfabric.domain.status import Flag
from taskfabric.ports.faces import Row

_COLUMNS: Final = """
SELECT c.id, c.title, c.position, c.project_id, c.task_limit, c.description,
       c.hide_in_dashboard::int AS hide_in_dashboard
  FROM columns c WHERE c.project_id = %(project)s ORDER BY c.position, c.id
"""
_SWIMLANES: Final = """
SELECT s.id, s.name, s.position, s.is_active::int AS is_active, s.project_id, s.description, s.task_limit
  FROM swimlanes s WHERE s.project_id = %(project)s AND s.is_active ORDER BY s.position, s.id
"""
_TAGS: Final = f"""
SELECT h.task_id, array_agg(g.id ORDER BY g.name, g.id), array_agg(g.name ORDER BY g.name, g.id),
       array_agg(g.color_id ORDER BY g.name, g.id)
  FROM tasks t JOIN task_has_tags h ON h.task_id = t.id JOIN tags g ON g.id = h.tag_id
 WHERE t.project_id = %(project)s AND t.has_tags AND {SEEN_HERE} GROUP BY h.task_id
"""
_RESERVED: Final = f"""
SELECT t.id, t.flags, l.tier, l.needs, l.trust FROM tasks t JOIN lanes l ON l.id = t.lane_id
 WHERE t.project_id = %(project)s AND (t.flags <> 0 OR l.tier <> '' OR l.needs <> '{{}}' OR l.trust > 0)
   AND {SEEN_HERE}
"""


@dataclass(slots=True)
class _Cell:
    """A column of one swimlane."""

    texts: list[bytes] = field(default_factory=list)  # of its cards
    score: int = 0
    opened: int = 0


def board(conn: Connection, kept: Kept, project_id: int, viewer: Viewer | None) -> list[Row]:
    """Active swimlanes; [] for a project without any, or without a column."""
    values = {"project": project_id, **through(viewer)}
    swimlanes, columns = rows(conn, _SWIMLANES, values), rows(conn, _COLUMNS, values)
    if not swimlanes or not columns:
        return []
    cells: dict[tuple[object, object], _Cell] = {}
    for column_id, swimlane_id, is_active, score, text in of_project(
        conn, kept, project_id, _tags_of(conn, values), viewer
    ):
        cell = cells.get((swimlane_id, column_id))
        if cell is None:
            cell = cells[swimlane_id, column_id] = _Cell()
        cell.texts.append(text)
        cell.score += score
        cell.opened += is_active
    return _laid_out(swimlanes, columns, cells)


def _tags_of(conn: Connection, values: Mapping[str, Any]) -> dict[int, list[Row]]:
    """People's tags by card, and those that stand for a rule."""
    found: dict[int, list[Row]] = {}
    for task_id, ids, titles, colors in conn.execute(_TAGS, values).fetchall():
        found[task_id] = [
            {"id": i, "name": n, "color_id": k, "task_id": task_id} for i, n, k in zip(ids, titles, colors, strict=True)
        ]
    for task_id, flags, tier, needs, trust in conn.execute(_RESERVED, values).fetchall():
        found.setdefault(task_id, []).extend(
            {"id": reserved_tag_id(name), "name": name, "color_id": None, "task_id": task_id}
            for name in _reserved(flags, tier, needs, trust)
        )
    return found


def _reserved(flags: int, tier: str, needs: list[str], trust: int) -> list[str]:
    """The tags that stand for these bits and for what the lane asks of a claimer; as ``Task.all_tags`` has them."""
    names = [*Flag(flags).tags, *(f"needs:{need}" for need in needs)]
    if tier:
        names.append(f"tier:{tier}")
    if trust > Trust.UNTRUSTED:
        names.append(f"trust:{Trust(trust).word}")
    return names


def _laid_out(swimlanes: list[Row], columns: list[Row], cells: dict[tuple[object, object], _Cell]) -> list[Row]:
    shown: dict[object, int] = {}
    scores: dict[object, int] = {}
    opened: dict[object, int] = {}
    for (_, column_id), cell in cells.items():
        opened[column_id] = opened.get(column_id, 0) + cell.opened
    for lane in swimlanes:
        parts: list[Row] = []
        for column in columns:
            cell = cells.get((lane["id"], column["id"]), _Cell())
            count = len(cell.texts)
            shown[column["id"]] = shown.get(column["id"], 0) + count
            scores[column["id"]] = scores.get(column["id"], 0) + cell.score
            counts = {"nb_open_tasks": opened.get(column["id"], 0), "nb_tasks": count, "score": cell.score}
            tasks = orjson.Fragment(b"[%b]" % b",".join(cell.texts))
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
