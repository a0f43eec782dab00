"""Links from task to task and to pages elsewhere: the groups TaskLink and TaskExternalLink."""

from __future__ import annotations

from taskfabric.services.card_annex import LINK_TYPES
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.arguments import BigId
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import ANYBODY, member, of, viewer


class TaskLinks:
    """The groups TaskLink and TaskExternalLink."""

    def __init__(self, hallway: Hallway) -> None:
        self._annex = hallway.annex

    def table(self) -> list[Procedure]:
        task, link = of("task", "task_id"), of("task_link", "task_link_id")
        return [
            procedure("getTaskLinkById", self.one, viewer(link), no=None),
            procedure("getAllTaskLinks", self.all, viewer(task), no=[]),
            procedure("createTaskLink", self.create, member(task)),
            procedure("updateTaskLink", self.update, member(link)),
            procedure("removeTaskLink", self.remove, member(link)),
            procedure("getExternalTaskLinkTypes", self.types, ANYBODY, no={}),
            procedure("getExternalTaskLinkProviderDependencies", self.dependencies, ANYBODY),
            procedure("getExternalTaskLinkById", self.external, viewer(task)),
            procedure("getAllExternalTaskLinks", self.externals, viewer(task), no=[]),
            procedure("createExternalTaskLink", self.create_external, member(task)),
            procedure("updateExternalTaskLink", self.update_external, member(task)),
            procedure("removeExternalTaskLink", self.remove_external, member(task)),
        ]

    def one(self, call: Call, task_link_id: BigId) -> object:
        return self._annex.link(call.caller, task_link_id)

    def all(self, call: Call, task_id: BigId) -> object:
        return self._annex.links(call.caller, task_id)

    def create(self, call: Call, task_id: BigId, opposite_task_id: BigId, link_id: int) -> object:
        made = self._annex.create_link(call.caller, task_id, opposite_task_id, link_id)
        return False if made is None else made

    def update(self, call: Call, task_link_id: BigId, task_id: BigId, opposite_task_id: BigId, link_id: int) -> bool:
        return self._annex.update_link(call.caller, task_link_id, task_id, opposite_task_id, link_id)

    def remove(self, call: Call, task_link_id: BigId) -> bool:
        return self._annex.remove_link(call.caller, task_link_id)

    # -- elsewhere -----------------------------------------------------------------------------------

    def types(self, call: Call) -> object:
        return dict(LINK_TYPES)

    def dependencies(self, call: Call, providerName: str) -> object:
        known = providerName in LINK_TYPES and providerName != "auto"
        return {"related": "Related"} if known else False

    def external(self, call: Call, task_id: BigId, link_id: BigId) -> object:
        return self._annex.external_link(task_id, link_id) or False

    def externals(self, call: Call, task_id: BigId) -> object:
        return self._annex.external_links(task_id)

    def create_external(
        self, call: Call, task_id: BigId, url: str, dependency: str, type: str = "auto", title: str = ""
    ) -> int:
        return self._annex.create_external_link(call.caller, task_id, url, dependency, type, title)

    def update_external(
        self,
        call: Call,
        task_id: BigId,
        link_id: BigId,
        title: str | None = None,
        url: str | None = None,
        dependency: str | None = None,
    ) -> bool:
        fields = {"title": title, "url": url, "dependency": dependency}
        return self._annex.update_external_link(call.caller, task_id, link_id, fields)

    def remove_external(self, call: Call, task_id: BigId, link_id: BigId) -> bool:
        return self._annex.remove_external_link(call.caller, task_id, link_id)
