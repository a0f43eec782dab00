"""Automatic actions of a project: the group Action."""

from __future__ import annotations

from taskfabric.domain.card_actions import ACTIONS, EVENTS
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import ANYBODY, manager, of


class Actions:
    """What is offered here is carried out, by the server in the wake of the change."""

    def __init__(self, hallway: Hallway) -> None:
        self._following = hallway.following

    def table(self) -> list[Procedure]:
        project = of("project", "project_id")
        return [
            procedure("getAvailableActions", self.available, ANYBODY, no={}),
            procedure("getAvailableActionEvents", self.events, ANYBODY, no={}),
            procedure("getCompatibleActionEvents", self.compatible, ANYBODY, no={}),
            procedure("removeAction", self.remove, manager(of("action", "action_id"))),
            procedure("getActions", self.all, manager(project), no=[]),
            procedure("createAction", self.create, manager(project)),
        ]

    def available(self, call: Call) -> object:
        return {name: kind.label for name, kind in sorted(ACTIONS.items(), key=lambda item: item[1].label)}

    def events(self, call: Call) -> object:
        return dict(EVENTS)

    def compatible(self, call: Call, action_name: str) -> object:
        kind = ACTIONS.get(action_name)
        return {} if kind is None else {name: EVENTS[name] for name in kind.events}

    def remove(self, call: Call, action_id: int) -> bool:
        return self._following.remove(call.caller, action_id)

    def all(self, call: Call, project_id: int) -> object:
        return [
            {
                "id": action.id,
                "project_id": action.project_id,
                "event_name": action.event_name,
                "action_name": action.action_name,
                "params": dict(action.params),
            }
            for action in self._following.actions(project_id)
        ]

    def create(self, call: Call, project_id: int, event_name: str, action_name: str, params: dict[str, object]) -> int:
        return self._following.add(call.caller, project_id, event_name, action_name, params)
