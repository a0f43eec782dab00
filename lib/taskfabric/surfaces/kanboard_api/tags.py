"""Tags of projects and of tasks: the groups Tag and TaskTag."""

from __future__ import annotations

from taskfabric.domain.principal import ProjectRole
from taskfabric.ports.places import PlaceKind
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.arguments import BigId
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.errors import Forbidden
from taskfabric.surfaces.kanboard_api.roles import ANYBODY, member, of, viewer
from taskfabric.surfaces.kanboard_api.shapes import keyed


class Tags:
    """The groups Tag and TaskTag."""

    def __init__(self, hallway: Hallway) -> None:
        self._annex = hallway.annex
        self._rights = hallway.rights

    def table(self) -> list[Procedure]:
        project, tag, task = of("project", "project_id"), of("tag", "tag_id"), of("task", "task_id")
        return [
            procedure("getAllTags", self.all, ANYBODY, no=[]),
            procedure("getTagsByProject", self.of_project, viewer(project), no=[]),
            procedure("createTag", self.create, ANYBODY),
            procedure("updateTag", self.update, member(tag)),
            procedure("removeTag", self.remove, member(tag)),
            procedure("setTaskTags", self.put, member(project, task)),
            procedure("getTaskTags", self.of_task, viewer(task), no={}),
        ]

    def all(self, call: Call) -> object:
        return self._annex.all_tags(call.caller)

    def of_project(self, call: Call, project_id: int) -> object:
        return self._annex.project_tags(call.caller, project_id)

    def create(self, call: Call, project_id: int, tag: str, color_id: str | None = None) -> object:
        """In a project, or, by the app token, for all of them (0)."""
        if project_id != 0 or not call.is_app:
            there = self._rights.place(call.caller, PlaceKind.PROJECT, project_id, ProjectRole.MEMBER)
            if there is None:
                if call.is_app:
                    return False
                raise Forbidden
        made = self._annex.create_tag(call.caller, project_id, tag, color_id)
        return False if made is None else made

    def update(self, call: Call, tag_id: int, tag: str, color_id: str | None = None) -> bool:
        return self._annex.update_tag(call.caller, call.project_id, tag_id, tag, color_id)

    def remove(self, call: Call, tag_id: int) -> bool:
        return self._annex.remove_tag(call.caller, call.project_id, tag_id)

    def put(self, call: Call, project_id: int, task_id: BigId, tags: list[object]) -> bool:
        return self._annex.set_task_tags(call.caller, task_id, tags)

    def of_task(self, call: Call, task_id: BigId) -> object:
        return keyed(self._annex.task_tags(call.caller, task_id))
