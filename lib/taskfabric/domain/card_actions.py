"""Automatic actions of a project, as Kanboard has them: on which events, under which condition, with what effect.

``effect`` decides and does nothing. What an action does is nobody's act: it is never itself a cause for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

CREATE: Final = "task.create"
UPDATE: Final = "task.update"
CREATE_UPDATE: Final = "task.create_update"
CLOSE: Final = "task.close"
OPEN: Final = "task.open"
ASSIGNEE: Final = "task.assignee_change"
MOVE_COLUMN: Final = "task.move.column"
MOVE_SWIMLANE: Final = "task.move.swimlane"
MOVE_POSITION: Final = "task.move.position"
MOVE_PROJECT: Final = "task.move.project"

EVENTS: Final[Mapping[str, str]] = {
    MOVE_COLUMN: "Move a task to another column",
    MOVE_SWIMLANE: "Move a task to another swimlane",
    UPDATE: "Task modification",
    CREATE: "Task creation",
    OPEN: "Reopen a task",
    CLOSE: "Closing a task",
    CREATE_UPDATE: "Task creation or modification",
    ASSIGNEE: "Task assignee change",
}

# What an event of the journal is called by Kanboard's actions and webhooks.
_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "submitted": (CREATE, CREATE_UPDATE),
    "moved": (MOVE_COLUMN,),
    **dict.fromkeys(
        ("claimed", "done", "parked", "released", "failed", "answered", "rejected", "redriven", "expired", "resumed"),
        (MOVE_COLUMN,),
    ),
    "transferred": (MOVE_PROJECT,),
    **dict.fromkeys(("closed", "verified", "cancelled"), (CLOSE,)),
    "reopened": (OPEN,),
    "commented": ("comment.create",),
    "comment-changed": ("comment.update",),
    "comment-removed": ("comment.delete",),
    "attached": ("task.file.create",),
    "linked": ("task_internal_link.create_update",),
    "subtask-created": ("subtask.create",),
    "subtask-changed": ("subtask.update",),
    "subtask-removed": ("subtask.delete",),
}
KINDS: Final = frozenset({*_CALLED, "edited", "shifted"})  # of the journal's events


def events_of(kind: str, data: Mapping[str, object]) -> tuple[str, ...]:
    """Kanboard's names for an event of the journal; none for what it does not know."""
    if kind == "edited":
        words = set(data) - {"assigned", "lease_ended", "tags"}
        if "assigned" in data and not words:
            return (ASSIGNEE,)
        return (UPDATE, CREATE_UPDATE) if words else ()  # tags alone are no event there
    if kind == "shifted":
        return (MOVE_SWIMLANE,) if data.get("changed") else (MOVE_POSITION,)
    return _CALLED.get(kind, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of action that projects may use."""

    label: str
    events: tuple[str, ...]
    params: Mapping[str, str]  # name to label; all must be given


_PREFIX: Final = "\\Kanboard\\Action\\"
_COLUMN: Final = {"column_id": "Column"}
_COLOR: Final = {"color_id": "Color"}
_USER: Final = {"user_id": "Assignee"}
_CATEGORY: Final = {"category_id": "Category"}
_THERE: Final = {"dest_column_id": "Destination column"}
_FROM_TO: Final = {"src_column_id": "Source column", **_THERE}
ACTIONS: Final[Mapping[str, Kind]] = {
    _PREFIX + name: Kind(label=label, events=events, params=params)
    for name, label, events, params in (
        (
            *("TaskAssignColorColumn", "Assign a color when the task is moved to a specific column"),
            *((CREATE, MOVE_COLUMN), {**_COLUMN, **_COLOR}),
        ),
        (
            *("TaskAssignColorPriority", "Assign automatically a color based on a priority"),
            *((CREATE_UPDATE,), {**_COLOR, "priority": "Priority"}),
        ),
        (
            *("TaskAssignColorCategory", "Assign automatically a color based on a category"),
            *((CREATE_UPDATE,), {**_COLOR, **_CATEGORY}),
        ),
        (
            *("TaskAssignColorUser", "Assign a color to a specific user"),
            *((CREATE, ASSIGNEE), {**_COLOR, **_USER}),
        ),
        (
            *("TaskAssignColorSwimlane", "Assign a color when the task is moved to a specific swimlane"),
            *((CREATE, MOVE_SWIMLANE), {"swimlane_id": "Swimlane", **_COLOR}),
        ),
        (
            *("TaskAssignCategoryColor", "Assign automatically a category based on a color"),
            *((CREATE_UPDATE,), {**_COLOR, **_CATEGORY}),
        ),
        (
            *("TaskAssignSpecificUser", "Assign the task to a specific user"),
            *((CREATE_UPDATE, MOVE_COLUMN), {**_COLUMN, **_USER}),
        ),
        (
            *("TaskAssignCreator", "Assign the task to its creator"),
            *((MOVE_COLUMN,), _COLUMN),
        ),
        (
            *("TaskMoveColumnAssigned", "Move the task to another column when assigned to a user"),
            *((ASSIGNEE, UPDATE), _FROM_TO),
        ),
        (
            *("TaskMoveColumnUnAssigned", "Move the task to another column when assignee is cleared"),
            *((ASSIGNEE, UPDATE), _FROM_TO),
        ),
        (
            *("TaskMoveColumnCategoryChange", "Move the task to another column when the category is changed"),
            *((UPDATE, CREATE, CREATE_UPDATE), {**_THERE, **_CATEGORY}),
        ),
        (
            *("TaskMoveColumnClosed", "Move the task to another column when closed"),
            *((CLOSE,), _THERE),
        ),
        (
            *("TaskCloseColumn", "Close a task in a specific column"),
            *((MOVE_COLUMN,), _COLUMN),
        ),
        (
            *("CommentCreationMoveTaskColumn", "Add a comment log when moving the task between columns"),
            *((MOVE_COLUMN,), _COLUMN),
        ),
        (
            *("TaskAssignDueDateOnCreation", "Automatically set the due date on task creation"),
            *((CREATE,), {"duration": "Duration in days"}),
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action that a project has."""

    id: int
    project_id: int
    event_name: str
    action_name: str
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """How the card stands when its action is looked at."""

    column_id: int
    swimlane_id: int
    owner_id: int  # 0 = nobody
    creator_id: int
    category_id: int
    color_id: str
    priority: int
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recolour:
    color_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorise:
    category_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    user_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTo:
    column_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMove:
    """A comment that says where the card is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueIn:
    after: timedelta


Effect = Recolour | Categorise | Assign | MoveTo | Close | LogMove | DueIn


def effect(action: Action, card: Card) -> Effect | None:
    """What this action does to a card that its event has just befallen; None: its condition does not hold, or it is
    so already."""
    given = _Params(action.params)
    match action.action_name.removeprefix(_PREFIX):
        case "TaskAssignColorColumn" if card.column_id == given.number("column_id"):
            return _recolour(given, card)
        case "TaskAssignColorPriority" if card.priority == given.number("priority"):
            return _recolour(given, card)
        case "TaskAssignColorCategory" if card.category_id == given.number("category_id"):
            return _recolour(given, card)
        case "TaskAssignColorUser" if card.owner_id == given.number("user_id"):
            return _recolour(given, card)
        case "TaskAssignColorSwimlane" if card.swimlane_id == given.number("swimlane_id"):
            return _recolour(given, card)
        case "TaskAssignCategoryColor" if card.color_id == given.text("color_id"):
            category = given.number("category_id")
            return None if card.category_id == category else Categorise(category_id=category)
        case "TaskAssignSpecificUser" if card.column_id == given.number("column_id"):
            return _assign(given.number("user_id"), card)
        case "TaskAssignCreator" if card.column_id == given.number("column_id"):
            return _assign(card.creator_id, card)
        case "TaskMoveColumnAssigned" if card.column_id == given.number("src_column_id") and card.owner_id:
            return _move(given, card)
        case "TaskMoveColumnUnAssigned" if card.column_id == given.number("src_column_id") and not card.owner_id:
            return _move(given, card)
        case "TaskMoveColumnCategoryChange" if card.category_id == given.number("category_id"):
            return _move(given, card)
        case "TaskMoveColumnClosed" if not card.is_open:
            return _move(given, card)
        case "TaskCloseColumn" if card.column_id == given.number("column_id") and card.is_open:
            return Close()
        case "CommentCreationMoveTaskColumn" if card.column_id == given.number("column_id"):
            return LogMove()
        case "TaskAssignDueDateOnCreation" if 0 < given.number("duration") < 100_000:
            return DueIn(after=timedelta(days=given.number("duration")))
        case _:
            return None


class _Params:
    """The parameters of an action, which are kept as texts."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        return self._given.get(name, "")

    def number(self, name: str) -> int:
        """-1, which nothing is, for what is no number."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _recolour(given: _Params, card: Card) -> Recolour | None:
    color = given.text("color_id")
    return None if not color or card.color_id == color else Recolour(color_id=color)


def _assign(user_id: int, card: Card) -> Assign | None:
    return None if user_id < 0 or card.owner_id == user_id else Assign(user_id=user_id)


def _move(given: _Params, card: Card) -> MoveTo | None:
    column = given.number("dest_column_id")
    return None if column < 0 or card.column_id == column else MoveTo(column_id=column)
