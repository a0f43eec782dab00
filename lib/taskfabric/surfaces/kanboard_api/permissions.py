"""Who belongs to a project, by himself or through a group."""

from __future__ import annotations

from taskfabric.domain.principal import ProjectRole
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import manager, of, viewer
from taskfabric.surfaces.kanboard_api.shapes import keyed

_MEMBER = ProjectRole.MEMBER.value


class Permissions:
    """The group ProjectPermission."""

    def __init__(self, hallway: Hallway) -> None:
        self._household = hallway.household

    def table(self) -> list[Procedure]:
        this = of("project", "project_id")
        return [
            procedure("getProjectUsers", self.users, viewer(this), no={}),
            procedure("getAssignableUsers", self.assignable, viewer(this), no={}),
            procedure("addProjectUser", self.add_user, manager(this)),
            procedure("addProjectGroup", self.add_group, manager(this)),
            procedure("removeProjectUser", self.remove_user, manager(this)),
            procedure("removeProjectGroup", self.remove_group, manager(this)),
            procedure("changeProjectUserRole", self.set_user_role, manager(this)),
            procedure("changeProjectGroupRole", self.set_group_role, manager(this)),
            procedure("getProjectUserRole", self.user_role, viewer(this), no=""),
        ]

    def users(self, call: Call, project_id: int) -> object:
        return keyed((one.user_id, one.name or one.username) for one in self._household.belonging(project_id))

    def assignable(self, call: Call, project_id: int, prepend_unassigned: bool = False) -> object:
        first: list[tuple[int, object]] = [(0, "Unassigned")] if prepend_unassigned else []
        rest = [
            (one.user_id, one.name or one.username)
            for one in self._household.belonging(project_id)
            if one.is_active and one.role is not ProjectRole.VIEWER
        ]
        return keyed([*first, *rest])

    def user_role(self, call: Call, project_id: int, user_id: int) -> str:
        role = self._household.role_of(project_id, user_id)
        return "" if role is None else role.value

    def add_user(self, call: Call, project_id: int, user_id: int, role: str = _MEMBER) -> bool:
        self._household.add_member(call.caller, project_id, user_id, role)
        return True

    def remove_user(self, call: Call, project_id: int, user_id: int) -> bool:
        self._household.remove_member(call.caller, project_id, user_id)
        return True

    def set_user_role(self, call: Call, project_id: int, user_id: int, role: str) -> bool:
        self._household.set_member(call.caller, project_id, user_id, role)
        return True

    def add_group(self, call: Call, project_id: int, group_id: int, role: str = _MEMBER) -> bool:
        self._household.add_group_to_project(call.caller, project_id, group_id, role)
        return True

    def remove_group(self, call: Call, project_id: int, group_id: int) -> bool:
        self._household.remove_group_from_project(call.caller, project_id, group_id)
        return True

    def set_group_role(self, call: Call, project_id: int, group_id: int, role: str) -> bool:
        self._household.set_group_role(call.caller, project_id, group_id, role)
        return True
