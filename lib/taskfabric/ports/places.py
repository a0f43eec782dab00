"""In which project a thing stands, whatever kind of thing it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from taskfabric.domain.principal import Viewer


class PlaceKind(StrEnum):
    """The things that clients name by a number and that belong to a project."""

    PROJECT = "project"
    COLUMN = "column"
    SWIMLANE = "swimlane"
    CATEGORY = "category"
    PROJECT_FILE = "project_file"
    ACTION = "action"
    TAG = "tag"
    TASK = "task"
    COMMENT = "comment"
    SUBTASK = "subtask"
    TASK_FILE = "task_file"
    TASK_LINK = "task_link"
    EXTERNAL_LINK = "external_link"

    @property
    def of_task(self) -> bool:
        """True for a task and what hangs on one: whoever may see the task may see it."""
        return self in _OF_TASK


_OF_TASK = frozenset(
    {
        PlaceKind.TASK,
        PlaceKind.COMMENT,
        PlaceKind.SUBTASK,
        PlaceKind.TASK_FILE,
        PlaceKind.TASK_LINK,
        PlaceKind.EXTERNAL_LINK,
    }
)


class Places(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def place(self, kind: PlaceKind, id: int, viewer: Viewer | None) -> int | None:
        """The project; None if there is no such thing, or (with a viewer) it hangs on a task he may not see."""
