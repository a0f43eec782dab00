"""Projects, as people arrange them: columns, swimlanes, members; and which of them are queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from taskfabric.domain.principal import ProjectRole, Stamp
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import ColumnRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a project's board."""

    id: int
    project_id: int
    title: str
    position: int  # 1-based
    role: ColumnRole | None = None
    task_limit: int = 0  # 0 = none


@dataclass(frozen=True, slots=True, kw_only=True)
class Swimlane:
    """A row of a project's board."""

    id: int
    project_id: int
    name: str
    position: int
    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A board. ``queue`` is None unless it is marked as a queue."""

    id: int
    name: str
    description: str = ""
    active: bool = True
    owner_id: int | None = None
    queue: Queue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Who belongs to a project, and as what."""

    principal_id: int
    name: str
    role: ProjectRole


class Projects(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached, NotFound for a project that is not there."""

    def create(self, name: str, stamp: Stamp, *, description: str = "") -> Project:
        """A project with Kanboard's four columns and its default swimlane. Names need not be unique."""

    def make_queue(
        self, name: str, kind: QueueKind, stamp: Stamp, *, owner_id: int | None = None, role: ProjectRole | None = None
    ) -> tuple[Queue, bool]:
        """The queue of this name, and whether it was made now. Its owner is a member. Raises BadInput if the name
        belongs to a queue of another kind or owner."""

    def set_rules(
        self,
        project_id: int,
        stamp: Stamp,
        *,
        score_check: bool | None,
        needs_verified: bool | None,
        human_verify: bool | None,
    ) -> Queue: ...
    def queue(self, name_or_id: str | int) -> Queue | None: ...
    def queues(self) -> list[Queue]: ...
    def queues_of(self, principal_id: int) -> list[Queue]:
        """Those it owns, then those it is a member of, in a fixed order."""

    def get(self, project_id: int) -> Project: ...
    def all(self) -> list[Project]: ...
    def rename(self, project_id: int, name: str, stamp: Stamp) -> Project: ...
    def set_active(self, project_id: int, active: bool, stamp: Stamp) -> Project: ...
    def columns(self, project_id: int) -> list[Column]: ...
    def limits(self) -> Mapping[int, Mapping[str, int]]:
        """By project the limits of work in progress of its columns, as far as they have one, in the columns' order."""

    def add_column(self, project_id: int, title: str, stamp: Stamp, *, task_limit: int = 0) -> Column:
        """Raises BadInput if the title is taken. A column titled like one of the four takes its role if it is free."""

    def update_column(self, column_id: int, stamp: Stamp, *, title: str, task_limit: int) -> Column: ...
    def move_column(self, column_id: int, position: int, stamp: Stamp) -> None: ...
    def remove_column(self, column_id: int, stamp: Stamp) -> None:
        """Raises IllegalMove while a task, open or closed, stands in it, or while it has a role in a queue."""

    def swimlanes(self, project_id: int) -> list[Swimlane]: ...
    def add_swimlane(self, project_id: int, name: str, stamp: Stamp) -> Swimlane: ...
    def members(self, project_id: int) -> list[Member]: ...
    def set_member(self, project_id: int, principal_id: int, role: ProjectRole, stamp: Stamp) -> None: ...
    def remove_member(self, project_id: int, principal_id: int, stamp: Stamp) -> None: ...
    def role_of(self, project_id: int, principal_id: int) -> ProjectRole | None: ...

    def adopt(
        self,
        project_id: int,
        name: str,
        kind: QueueKind,
        columns: Mapping[ColumnRole, str],
        stamp: Stamp,
        *,
        owner_id: int | None,
    ) -> Queue:
        """The project is a queue; no card has moved, and each has the status that its column gives it. Tags that a rule
        uses have become what they say (flags, tier, needs, trust), and are no tags of people any more.

        ``columns``: titles for roles, where they differ from the usual ones. Raises BadInput, with nothing done, when
        the columns cannot be mapped, the name or the owner has a queue, or the project is one."""
        ...
