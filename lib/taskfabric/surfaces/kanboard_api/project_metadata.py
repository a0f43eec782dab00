"""Metadata of projects: names with texts. Those called ``fabric.…`` are the fabric's own and only read."""

from __future__ import annotations

from collections.abc import Mapping

from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import member, of, viewer


class ProjectMetadata:
    """The group ProjectMetaData."""

    def __init__(self, hallway: Hallway) -> None:
        self._furnishing = hallway.furnishing

    def table(self) -> list[Procedure]:
        this = of("project", "project_id")
        return [
            procedure("getProjectMetadata", self.all, viewer(this), no={}),
            procedure("getProjectMetadataByName", self.one, viewer(this), no=""),
            procedure("saveProjectMetadata", self.save, member(this)),
            procedure("removeProjectMetadata", self.remove, member(this)),
        ]

    def all(self, call: Call, project_id: int) -> object:
        return self._furnishing.metadata(project_id)

    def one(self, call: Call, project_id: int, name: str) -> object:
        return self._furnishing.metadata(project_id).get(name, "")

    def save(self, call: Call, project_id: int, values: dict[str, object]) -> bool:
        self._furnishing.put_metadata(call.caller, project_id, texts(values))
        return True

    def remove(self, call: Call, project_id: int, name: str) -> bool:
        return self._furnishing.drop_metadata(call.caller, project_id, name)


def texts(values: Mapping[str, object]) -> dict[str, str]:
    """Metadata are texts: numbers become digits, yes is 1 and no is empty, and what is nested is the word Array."""
    return {name: _text(value) for name, value in values.items()}


def _text(value: object) -> str:
    match value:
        case None | False:
            return ""
        case True:
            return "1"
        case str() | int() | float():
            return str(value)
        case _:
            return "Array"
