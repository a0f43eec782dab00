"""Kanboard's roles, judged: what an application role reaches, and what a project role.

An application's administrator has no more right in a project than its members give him. Whoever may see a task
without being a member of its project (its submitter, its holder) is a viewer of it.
"""

from __future__ import annotations

from typing import Final

from taskfabric.domain.principal import AppRole, Caller, ProjectRole
from taskfabric.ports.places import PlaceKind
from taskfabric.services import policy
from taskfabric.services.desk import Desk

_REACH: Final = {ProjectRole.VIEWER: 0, ProjectRole.MEMBER: 1, ProjectRole.MANAGER: 2}
_APP_REACH: Final = {AppRole.USER: 0, AppRole.MANAGER: 1, AppRole.ADMIN: 2}


class Rights:
    """Asked by the board's API before each call."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def has_app_role(self, caller: Caller, least: AppRole) -> bool:
        """The app token has every role; nobody has one inside a run or with a token that is limited to some queues."""
        if policy.is_app(caller):
            return True
        if caller.run is not None or caller.queues is not None:
            return False
        return _APP_REACH[caller.principal.role] >= _APP_REACH[least]

    def role(self, caller: Caller, project_id: int) -> ProjectRole | None:
        """The caller's role in a project; None for a stranger. The app token manages every one."""
        if policy.is_app(caller):
            return ProjectRole.MANAGER
        if not policy.in_scope(caller, project_id):
            return None
        return self._desk.projects.role_of(project_id, caller.principal.id)

    def reaches(self, caller: Caller, project_id: int, least: ProjectRole) -> bool:
        role = self.role(caller, project_id)
        return role is not None and _REACH[role] >= _REACH[least]

    def place(self, caller: Caller, kind: PlaceKind, id: int, least: ProjectRole) -> int | None:
        """The project in which this thing stands, if it is there and the caller's role there reaches that far."""
        project_id = self._desk.kanboard.places.place(kind, id, policy.eyes(caller))
        if project_id is None:
            return None
        if self.reaches(caller, project_id, least):
            return project_id
        if kind.of_task and least is ProjectRole.VIEWER and policy.in_scope(caller, project_id):
            return project_id  # he may see it, or it would not have been found
        return None
