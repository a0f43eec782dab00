"""Categories of a project's tasks."""

from __future__ import annotations

from taskfabric.ports.furniture import Category
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import manager, of, viewer


class Categories:
    """The group Category."""

    def __init__(self, hallway: Hallway) -> None:
        self._furnishing = hallway.furnishing

    def table(self) -> list[Procedure]:
        project, this = of("project", "project_id"), of("category", "category_id")
        return [
            procedure("getCategory", self.one, viewer(this), no=None),
            procedure("getAllCategories", self.all, viewer(project), no=[]),
            procedure("removeCategory", self.remove, manager(this)),
            procedure("createCategory", self.create, manager(project)),
            procedure("updateCategory", self.update, manager(of("category", "id"))),
        ]

    def one(self, call: Call, category_id: int) -> object:
        return _shape(self._furnishing.category(category_id))

    def all(self, call: Call, project_id: int) -> object:
        return [_shape(category) for category in self._furnishing.categories(project_id)]

    def create(self, call: Call, project_id: int, name: str, color_id: str | None = None) -> int:
        return self._furnishing.add_category(call.caller, project_id, name, color_id)

    def update(self, call: Call, id: int, name: str, color_id: str | None = None) -> bool:
        self._furnishing.update_category(call.caller, id, name, color_id)
        return True

    def remove(self, call: Call, category_id: int) -> bool:
        self._furnishing.remove_category(call.caller, category_id)
        return True


def _shape(category: Category) -> dict[str, object]:
    return {
        "id": category.id,
        "name": category.name,
        "project_id": category.project_id,
        "description": category.description or None,
        "color_id": category.color_id,
    }
