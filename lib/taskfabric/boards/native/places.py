"""In which project a thing stands: one statement for each kind of thing."""

from __future__ import annotations

from typing import Final

from taskfabric.boards.native.read import VISIBLE, eyes
from taskfabric.db.hot import Hot
from taskfabric.db.pool import Database
from taskfabric.domain.principal import Viewer
from taskfabric.ports.places import PlaceKind

_TABLES: Final = {
    PlaceKind.PROJECT: "SELECT x.id FROM projects x WHERE x.id = %(id)s",
    PlaceKind.COLUMN: "SELECT x.project_id FROM columns x WHERE x.id = %(id)s",
    PlaceKind.SWIMLANE: "SELECT x.project_id FROM swimlanes x WHERE x.id = %(id)s",
    PlaceKind.CATEGORY: "SELECT x.project_id FROM project_has_categories x WHERE x.id = %(id)s",
    PlaceKind.PROJECT_FILE: "SELECT x.project_id FROM project_has_files x WHERE x.id = %(id)s",
    PlaceKind.ACTION: "SELECT x.project_id FROM actions x WHERE x.id = %(id)s",
    PlaceKind.TAG: "SELECT x.project_id FROM tags x WHERE x.id = %(id)s",
    PlaceKind.TASK: "SELECT t.project_id FROM tasks t WHERE t.id = %(id)s AND t.status <> 'record'",
    **{
        kind: f"SELECT t.project_id FROM {table} x JOIN tasks t ON t.id = x.task_id WHERE x.id = %(id)s"
        " AND t.status <> 'record'"
        for kind, table in (
            (PlaceKind.COMMENT, "comments"),
            (PlaceKind.SUBTASK, "subtasks"),
            (PlaceKind.TASK_FILE, "task_has_files"),
            (PlaceKind.TASK_LINK, "task_has_links"),
            (PlaceKind.EXTERNAL_LINK, "task_has_external_links"),
        )
    },
}
_QUERIES: Final = {kind: Hot(query) for kind, query in _TABLES.items()}  # asked in front of nearly every call
_SEEN: Final = {kind: f"{query} AND {VISIBLE}".encode() for kind, query in _TABLES.items() if kind.of_task}


class NativePlaces:
    """``ports.places.Places`` over our own tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def place(self, kind: PlaceKind, id: int, viewer: Viewer | None) -> int | None:
        """The project; None if there is no such thing, or (with a viewer) it hangs on a task he may not see."""
        with self._database.connection() as conn:
            if viewer is None or not kind.of_task:
                row = _QUERIES[kind].row(conn, {"id": id})
            else:
                row = conn.execute(_SEEN[kind], {"id": id, **eyes(viewer)}).fetchone()
        return None if row is None else int(row[0])
