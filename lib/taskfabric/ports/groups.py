"""Groups of people, and the roles that they have in projects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from taskfabric.domain.principal import ProjectRole, Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of accounts."""

    id: int
    name: str
    external_id: str
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """Who belongs to a project, by himself or through a group."""

    user_id: int
    username: str
    name: str
    role: ProjectRole
    is_active: bool


class Groups(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached, NotFound for what is not there, BadInput for what is
    there already."""

    def all(self) -> list[Group]:
        """By name."""

    def get(self, group_id: int) -> Group: ...
    def create(self, name: str, external_id: str, stamp: Stamp) -> int: ...
    def update(self, group_id: int, name: str | None, external_id: str | None, stamp: Stamp) -> None: ...
    def remove(self, group_id: int, stamp: Stamp) -> None: ...
    def of_user(self, user_id: int) -> list[Group]:
        """By name."""

    def members(self, group_id: int) -> list[int]:
        """Their numbers, by user name."""

    def add_member(self, group_id: int, user_id: int, stamp: Stamp) -> None: ...
    def remove_member(self, group_id: int, user_id: int, stamp: Stamp) -> None: ...
    def projects(self, group_id: int) -> list[int]:
        """The projects that the group has a role in."""

    def add_to_project(self, project_id: int, group_id: int, role: ProjectRole, stamp: Stamp) -> None: ...
    def remove_from_project(self, project_id: int, group_id: int, stamp: Stamp) -> None: ...
    def set_role(self, project_id: int, group_id: int, role: ProjectRole, stamp: Stamp) -> None: ...
    def admit(self, project_id: int, user_id: int, role: ProjectRole, stamp: Stamp) -> None:
        """Somebody is a member by himself. Raises BadInput for one who is: of several callers one admits him."""

    def belonging(self, project_id: int) -> list[Belonging]:
        """Each account once, with the role that counts, by name."""

    def own_role(self, project_id: int, user_id: int) -> ProjectRole | None:
        """The role that somebody has there by himself."""
