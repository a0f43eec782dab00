"""Swimlanes of a project's board."""

from __future__ import annotations

from taskfabric.ports.furniture import SwimlaneRow
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import manager, of, viewer
from taskfabric.surfaces.kanboard_api.shapes import flag


class Swimlanes:
    """The group Swimlane."""

    def __init__(self, hallway: Hallway) -> None:
        self._furnishing = hallway.furnishing

    def table(self) -> list[Procedure]:
        project, this = of("project", "project_id"), of("swimlane", "swimlane_id")
        return [
            procedure("getActiveSwimlanes", self.active, viewer(project), no=[]),
            procedure("getAllSwimlanes", self.all, viewer(project), no=[]),
            procedure("getSwimlaneById", self.one, viewer(this), no=None),
            procedure("getSwimlaneByName", self.named, viewer(project), no=None),
            procedure("getSwimlane", self.one, viewer(this), no=None),
            procedure("addSwimlane", self.add, manager(project), missing=0),
            procedure("updateSwimlane", self.update, manager(project)),
            procedure("removeSwimlane", self.remove, manager(project)),
            procedure("disableSwimlane", self.disable, manager(project)),
            procedure("enableSwimlane", self.enable, manager(project)),
            procedure("changeSwimlanePosition", self.move, manager(project)),
        ]

    def active(self, call: Call, project_id: int) -> object:
        return [swimlane_shape(lane) for lane in self._furnishing.swimlanes(project_id) if lane.is_active]

    def all(self, call: Call, project_id: int) -> object:
        return [swimlane_shape(lane) for lane in self._furnishing.swimlanes(project_id)]

    def one(self, call: Call, swimlane_id: int) -> object:
        return swimlane_shape(self._furnishing.swimlane(swimlane_id))

    def named(self, call: Call, project_id: int, name: str) -> object:
        lanes = (lane for lane in self._furnishing.swimlanes(project_id) if lane.name == name)
        found = next(lanes, None)
        return None if found is None else swimlane_shape(found)

    def add(self, call: Call, project_id: int, name: str, description: str = "") -> int:
        return self._furnishing.add_swimlane(call.caller, project_id, name, description)

    def update(self, call: Call, project_id: int, swimlane_id: int, name: str, description: str | None = None) -> bool:
        if not self._is_of(project_id, swimlane_id):
            return False
        self._furnishing.update_swimlane(call.caller, swimlane_id, name, description)
        return True

    def remove(self, call: Call, project_id: int, swimlane_id: int) -> bool:
        if not self._is_of(project_id, swimlane_id):
            return False
        self._furnishing.remove_swimlane(call.caller, swimlane_id)
        return True

    def disable(self, call: Call, project_id: int, swimlane_id: int) -> bool:
        return self._set_active(call, project_id, swimlane_id, False)

    def enable(self, call: Call, project_id: int, swimlane_id: int) -> bool:
        return self._set_active(call, project_id, swimlane_id, True)

    def _set_active(self, call: Call, project_id: int, swimlane_id: int, active: bool) -> bool:
        if not self._is_of(project_id, swimlane_id):
            return False
        self._furnishing.set_swimlane_active(call.caller, swimlane_id, active)
        return True

    def move(self, call: Call, project_id: int, swimlane_id: int, position: int) -> bool:
        if not self._is_of(project_id, swimlane_id):
            return False
        self._furnishing.move_swimlane(call.caller, swimlane_id, position)
        return True

    def _is_of(self, project_id: int, swimlane_id: int) -> bool:
        return self._furnishing.swimlane(swimlane_id).project_id == project_id


def swimlane_shape(lane: SwimlaneRow) -> dict[str, object]:
    return {
        "id": lane.id,
        "name": lane.name,
        "position": lane.position,
        "is_active": flag(lane.is_active),
        "project_id": lane.project_id,
        "description": lane.description,
        "task_limit": lane.task_limit,
    }
