"""Columns of a project's board."""

from __future__ import annotations

from taskfabric.ports.furniture import ColumnRow
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import manager, of, viewer
from taskfabric.surfaces.kanboard_api.shapes import flag


class Columns:
    """The group Column."""

    def __init__(self, hallway: Hallway) -> None:
        self._furnishing = hallway.furnishing

    def table(self) -> list[Procedure]:
        project, this = of("project", "project_id"), of("column", "column_id")
        return [
            procedure("getColumns", self.all, viewer(project), no=[]),
            procedure("getColumn", self.one, viewer(this), no=None),
            procedure("updateColumn", self.update, manager(this)),
            procedure("addColumn", self.add, manager(project)),
            procedure("removeColumn", self.remove, manager(this)),
            procedure("changeColumnPosition", self.move, manager(project)),
        ]

    def all(self, call: Call, project_id: int) -> object:
        return [column_shape(column) for column in self._furnishing.columns(project_id)]

    def one(self, call: Call, column_id: int) -> object:
        return column_shape(self._furnishing.column(column_id))

    def update(self, call: Call, column_id: int, title: str, task_limit: int = 0, description: str = "") -> bool:
        self._furnishing.update_column(call.caller, column_id, title, task_limit, description)
        return True

    def add(self, call: Call, project_id: int, title: str, task_limit: int = 0, description: str = "") -> int:
        return self._furnishing.add_column(call.caller, project_id, title, task_limit, description)

    def remove(self, call: Call, column_id: int) -> bool:
        self._furnishing.remove_column(call.caller, column_id)
        return True

    def move(self, call: Call, project_id: int, column_id: int, position: int) -> bool:
        if self._furnishing.column(column_id).project_id != project_id:
            return False
        self._furnishing.move_column(call.caller, column_id, position)
        return True


def column_shape(column: ColumnRow) -> dict[str, object]:
    return {
        "id": column.id,
        "title": column.title,
        "position": column.position,
        "project_id": column.project_id,
        "task_limit": column.task_limit,
        "description": column.description,
        "hide_in_dashboard": flag(column.hide_in_dashboard),
    }
