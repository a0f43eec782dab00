"""Accounts. No secret is ever in an answer."""

from __future__ import annotations

from taskfabric.domain.principal import AppRole
from taskfabric.ports.register import Profile
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import APP_ADMIN
from taskfabric.surfaces.kanboard_api.shapes import flag

_USER = AppRole.USER.value


class Users:
    """The group User."""

    def __init__(self, hallway: Hallway) -> None:
        self._household = hallway.household

    def table(self) -> list[Procedure]:
        return [
            procedure("getUser", self.one, APP_ADMIN, no=None),
            procedure("getUserByName", self.named, APP_ADMIN, no=None),
            procedure("getAllUsers", self.all, APP_ADMIN, no=[]),
            procedure("removeUser", self.remove, APP_ADMIN),
            procedure("disableUser", self.disable, APP_ADMIN),
            procedure("enableUser", self.enable, APP_ADMIN),
            procedure("isActiveUser", self.is_active, APP_ADMIN),
            procedure("createUser", self.create, APP_ADMIN),
            procedure("createLdapUser", self.create_ldap, APP_ADMIN),
            procedure("updateUser", self.update, APP_ADMIN),
        ]

    def one(self, call: Call, user_id: int) -> object:
        return user_shape(self._household.profile(user_id))

    def named(self, call: Call, username: str) -> object:
        found = self._household.profile_named(username)
        return None if found is None else user_shape(found)

    def all(self, call: Call) -> object:
        return [user_shape(profile) for profile in self._household.everybody()]

    def is_active(self, call: Call, user_id: int) -> bool:
        return self._household.profile(user_id).is_active

    def create(
        self, call: Call, username: str, password: str, name: str = "", email: str = "", role: str = _USER
    ) -> int:
        return self._household.enrol(call.caller, username, password, name, email, role)

    def create_ldap(self, call: Call, username: str) -> bool:
        """There is no directory to ask: nobody of that name is found in it."""
        return False

    def update(
        self,
        call: Call,
        id: int,
        username: str | None = None,
        name: str | None = None,
        email: str | None = None,
        role: str | None = None,
    ) -> bool:
        self._household.change(call.caller, id, username=username, name=name, address=email, role=role)
        return True

    def disable(self, call: Call, user_id: int) -> bool:
        self._household.set_active(call.caller, user_id, False)
        return True

    def enable(self, call: Call, user_id: int) -> bool:
        self._household.set_active(call.caller, user_id, True)
        return True

    def remove(self, call: Call, user_id: int) -> bool:
        self._household.remove(call.caller, user_id)
        return True


def user_shape(profile: Profile) -> dict[str, object]:
    """A user's row; where Kanboard has a hash or a secret there is nothing."""
    return {
        "id": profile.id,
        "username": profile.username,
        "password": None,
        "is_admin": flag(profile.role is AppRole.ADMIN),
        "is_ldap_user": 0,
        "name": profile.name or None,
        "email": profile.email or None,
        "google_id": None,
        "github_id": None,
        "notifications_enabled": 0,
        "timezone": profile.zone,
        "language": None,
        "disable_login_form": 0,
        "twofactor_activated": 0,
        "twofactor_secret": None,
        "token": "",
        "notifications_filter": 4,
        "nb_failed_login": 0,
        "lock_expiration_date": 0,
        "is_project_admin": 0,
        "gitlab_id": None,
        "role": profile.role.value,
        "is_active": flag(profile.is_active),
        "avatar_path": None,
        "api_access_token": None,
        "filter": None,
        "theme": "light",
    }
