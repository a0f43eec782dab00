"""Subtasks and their timers: the groups Subtask and SubtaskTimeTracking."""

from __future__ import annotations

from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.arguments import BigId
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import member, of, viewer


class Subtasks:
    """The groups Subtask and SubtaskTimeTracking."""

    def __init__(self, hallway: Hallway) -> None:
        self._annex = hallway.annex

    def table(self) -> list[Procedure]:
        task, this = of("task", "task_id"), of("subtask", "subtask_id")
        return [
            procedure("getSubtask", self.one, viewer(this), no=None),
            procedure("getAllSubtasks", self.all, viewer(task), no=[]),
            procedure("removeSubtask", self.remove, member(this)),
            procedure("createSubtask", self.create, member(task)),
            procedure("updateSubtask", self.update, member(task)),
            procedure("hasSubtaskTimer", self.has_timer, viewer(this)),
            procedure("setSubtaskStartTime", self.start, member(this)),
            procedure("setSubtaskEndTime", self.stop, member(this)),
            procedure("getSubtaskTimeSpent", self.timed, viewer(this), no=0),
        ]

    def one(self, call: Call, subtask_id: BigId) -> object:
        return self._annex.subtask(subtask_id)

    def all(self, call: Call, task_id: BigId) -> object:
        return self._annex.subtasks(call.caller, task_id)

    def remove(self, call: Call, subtask_id: BigId) -> bool:
        return self._annex.remove_subtask(call.caller, subtask_id)

    def create(
        self,
        call: Call,
        task_id: BigId,
        title: str,
        user_id: int = 0,
        time_estimated: float = 0,
        time_spent: float = 0,
        status: int = 0,
    ) -> int:
        fields = {
            "title": title,
            "user_id": user_id,
            "time_estimated": time_estimated,
            "time_spent": time_spent,
            "status": status,
        }
        return self._annex.create_subtask(call.caller, call.project_id, task_id, fields)

    def update(
        self,
        call: Call,
        id: BigId,
        task_id: BigId,
        title: str | None = None,
        user_id: int | None = None,
        time_estimated: float | None = None,
        time_spent: float | None = None,
        status: int | None = None,
        position: int | None = None,
    ) -> bool:
        given = {
            "title": title,
            "user_id": user_id,
            "time_estimated": time_estimated,
            "time_spent": time_spent,
            "status": status,
            "position": position,
        }
        fields = {name: value for name, value in given.items() if value is not None}
        return self._annex.update_subtask(call.caller, call.project_id, id, task_id, fields)

    # -- timers --------------------------------------------------------------------------------------

    def has_timer(self, call: Call, subtask_id: BigId, user_id: int) -> bool:
        return self._annex.has_timer(subtask_id, user_id)

    def start(self, call: Call, subtask_id: BigId, user_id: int) -> bool:
        return self._annex.start_timer(call.caller, call.project_id, subtask_id, user_id)

    def stop(self, call: Call, subtask_id: BigId, user_id: int) -> bool:
        return self._annex.stop_timer(call.caller, call.project_id, subtask_id, user_id)

    def timed(self, call: Call, subtask_id: BigId, user_id: int) -> float:
        return self._annex.timed(subtask_id, user_id)
