"""The furniture of a project's board, as people arrange it: columns, swimlanes, categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from taskfabric.domain.principal import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRow:
    """A column with everything that is written on it."""

    id: int
    project_id: int
    title: str
    position: int
    task_limit: int
    description: str
    hide_in_dashboard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SwimlaneRow:
    """A swimlane with everything that is written on it; ``position`` is 0 while it is disabled."""

    id: int
    project_id: int
    name: str
    position: int
    is_active: bool
    description: str
    task_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A category of a project's tasks."""

    id: int
    project_id: int
    name: str
    color_id: str | None
    description: str


class Furniture(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached, NotFound for a thing that is not there, BadInput for
    a name that is taken."""

    def columns(self, project_id: int) -> list[ColumnRow]:
        """By position."""

    def column(self, column_id: int) -> ColumnRow: ...
    def describe_column(self, column_id: int, description: str) -> None: ...
    def swimlanes(self, project_id: int) -> list[SwimlaneRow]:
        """By position."""

    def swimlane(self, swimlane_id: int) -> SwimlaneRow: ...
    def add_swimlane(self, project_id: int, name: str, description: str, stamp: Stamp) -> int: ...
    def update_swimlane(self, swimlane_id: int, name: str, description: str | None, stamp: Stamp) -> None: ...
    def remove_swimlane(self, swimlane_id: int, stamp: Stamp) -> None:
        """Raises IllegalMove while a task, open or closed, stands in it, and for a queue's own."""

    def set_swimlane_active(self, swimlane_id: int, active: bool, stamp: Stamp) -> None:
        """A disabled one has no position; an enabled one comes last. Raises IllegalMove for a queue's own."""

    def move_swimlane(self, swimlane_id: int, position: int, stamp: Stamp) -> None:
        """Raises BadInput for a position that the project has not."""

    def categories(self, project_id: int) -> list[Category]:
        """By name."""

    def category(self, category_id: int) -> Category: ...
    def add_category(self, project_id: int, name: str, color_id: str | None, stamp: Stamp) -> int: ...
    def update_category(self, category_id: int, name: str, color_id: str | None, stamp: Stamp) -> None: ...
    def remove_category(self, category_id: int, stamp: Stamp) -> None:
        """Tasks that had it have none."""
