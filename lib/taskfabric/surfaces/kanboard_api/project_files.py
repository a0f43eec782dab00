"""Files of projects."""

from __future__ import annotations

import base64
from typing import Final

from taskfabric.ports.dossier import ProjectFile
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import member, of, viewer
from taskfabric.surfaces.kanboard_api.shapes import epoch, etag, flag

_IMAGES: Final = (".jpeg", ".jpg", ".png", ".gif")


class ProjectFiles:
    """The group ProjectFile."""

    def __init__(self, hallway: Hallway) -> None:
        self._furnishing = hallway.furnishing

    def table(self) -> list[Procedure]:
        this = of("project", "project_id")
        return [
            procedure("getProjectFile", self.one, viewer(this)),
            procedure("getAllProjectFiles", self.all, viewer(this), no=[]),
            procedure("downloadProjectFile", self.download, viewer(this), no=""),
            procedure("createProjectFile", self.create, member(this)),
            procedure("removeProjectFile", self.remove, member(this)),
            procedure("removeAllProjectFiles", self.remove_all, member(this)),
        ]

    def one(self, call: Call, project_id: int, file_id: int) -> object:
        file = self._furnishing.file(project_id, file_id)
        return False if file is None else _shape(file)

    def all(self, call: Call, project_id: int) -> object:
        return [
            {**_shape(file), "username": file.username or None, "user_name": file.user_name if file.username else None}
            for file in self._furnishing.files(project_id)
        ]

    def download(self, call: Call, project_id: int, file_id: int) -> str:
        return base64.b64encode(self._furnishing.file_data(project_id, file_id)).decode()

    def create(self, call: Call, project_id: int, filename: str, blob: str) -> int:
        return self._furnishing.add_file(call.caller, project_id, filename, blob)

    def remove(self, call: Call, project_id: int, file_id: int) -> bool:
        return self._furnishing.remove_files(call.caller, project_id, file_id)

    def remove_all(self, call: Call, project_id: int) -> bool:
        return self._furnishing.remove_files(call.caller, project_id, None)


def is_image(name: str) -> bool:
    return name.lower().endswith(_IMAGES)


def _shape(file: ProjectFile) -> dict[str, object]:
    return {
        "id": file.id,
        "project_id": file.project_id,
        "name": file.name,
        "path": f"projects/{file.project_id}/{file.sha256}",
        "is_image": flag(is_image(file.name)),
        "size": file.size,
        "user_id": file.user_id,
        "date": epoch(file.date),
        "etag": etag(file.sha256),
    }
