"""Groups of people, and who is in them."""

from __future__ import annotations

from taskfabric.ports.groups import Group
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import APP_ADMIN
from taskfabric.surfaces.kanboard_api.users import user_shape


class Groups:
    """The groups Group and GroupMember."""

    def __init__(self, hallway: Hallway) -> None:
        self._household = hallway.household

    def table(self) -> list[Procedure]:
        return [
            procedure("createGroup", self.create, APP_ADMIN),
            procedure("updateGroup", self.update, APP_ADMIN),
            procedure("removeGroup", self.remove, APP_ADMIN),
            procedure("getGroup", self.one, APP_ADMIN, no=None),
            procedure("getAllGroups", self.all, APP_ADMIN, no=[]),
            procedure("getMemberGroups", self.of_user, APP_ADMIN, no=[]),
            procedure("getGroupMembers", self.members, APP_ADMIN, no=[]),
            procedure("addGroupMember", self.add_member, APP_ADMIN),
            procedure("removeGroupMember", self.remove_member, APP_ADMIN),
            procedure("isGroupMember", self.is_member, APP_ADMIN),
        ]

    def one(self, call: Call, group_id: int) -> object:
        return _shape(self._household.group(group_id))

    def all(self, call: Call) -> object:
        return [
            {"id": group.id, "name": group.name, "external_id": group.external_id, "nb_users": group.members}
            for group in self._household.groups()
        ]

    def create(self, call: Call, name: str, external_id: str = "") -> int:
        return self._household.create_group(call.caller, name, external_id)

    def update(self, call: Call, group_id: int, name: str | None = None, external_id: str | None = None) -> bool:
        self._household.update_group(call.caller, group_id, name, external_id)
        return True

    def remove(self, call: Call, group_id: int) -> bool:
        self._household.remove_group(call.caller, group_id)
        return True

    def of_user(self, call: Call, user_id: int) -> object:
        return [_shape(group) for group in self._household.groups_of(user_id)]

    def members(self, call: Call, group_id: int) -> object:
        return [
            {"group_id": group_id, "user_id": member.id, **user_shape(member)}
            for member in self._household.group_members(group_id)
        ]

    def is_member(self, call: Call, group_id: int, user_id: int) -> bool:
        return any(member.id == user_id for member in self._household.group_members(group_id))

    def add_member(self, call: Call, group_id: int, user_id: int) -> bool:
        self._household.add_to_group(call.caller, group_id, user_id)
        return True

    def remove_member(self, call: Call, group_id: int, user_id: int) -> bool:
        self._household.remove_from_group(call.caller, group_id, user_id)
        return True


def _shape(group: Group) -> dict[str, object]:
    return {"id": group.id, "external_id": group.external_id, "name": group.name}
