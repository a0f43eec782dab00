"""Files and metadata of tasks: the groups TaskFile and TaskMetadata."""

from __future__ import annotations

from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.arguments import BigId
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import member, of, viewer


class TaskTrimmings:
    """The groups TaskFile and TaskMetadata."""

    def __init__(self, hallway: Hallway) -> None:
        self._annex = hallway.annex

    def table(self) -> list[Procedure]:
        task, file = of("task", "task_id"), of("task_file", "file_id")
        return [
            procedure("getTaskFile", self.file, viewer(file), no=None),
            procedure("getAllTaskFiles", self.files, viewer(task), no=[]),
            procedure("downloadTaskFile", self.download, viewer(file), no=""),
            procedure("createTaskFile", self.create_file, member(of("project", "project_id"), task)),
            procedure("removeTaskFile", self.remove_file, member(file)),
            procedure("removeAllTaskFiles", self.remove_files, member(task)),
            procedure("getTaskMetadata", self.metadata, viewer(task), no={}),
            procedure("getTaskMetadataByName", self.value, viewer(task), no=""),
            procedure("saveTaskMetadata", self.save, member(task)),
            procedure("removeTaskMetadata", self.remove, member(task)),
        ]

    def file(self, call: Call, file_id: BigId) -> object:
        return self._annex.file(file_id)

    def files(self, call: Call, task_id: BigId) -> object:
        return self._annex.files(task_id)

    def download(self, call: Call, file_id: BigId) -> str:
        return self._annex.download(file_id)

    def create_file(self, call: Call, project_id: int, task_id: BigId, filename: str, blob: str) -> int:
        return self._annex.create_file(call.caller, task_id, filename, blob)

    def remove_file(self, call: Call, file_id: BigId) -> bool:
        return self._annex.remove_file(call.caller, file_id)

    def remove_files(self, call: Call, task_id: BigId) -> bool:
        return self._annex.remove_files(call.caller, task_id)

    def metadata(self, call: Call, task_id: BigId) -> object:
        return self._annex.metadata(call.caller, task_id)

    def value(self, call: Call, task_id: BigId, name: str) -> str:
        return self._annex.metadata(call.caller, task_id).get(name, "")

    def save(self, call: Call, task_id: BigId, values: dict[str, object]) -> bool:
        return self._annex.save_metadata(call.caller, task_id, values)

    def remove(self, call: Call, task_id: BigId, name: str) -> bool:
        return self._annex.remove_metadata(call.caller, task_id, name)
