"""People and groups as Kanboard's clients keep them: accounts, memberships, labels of links.

A decision stays a decision: what needs a PIN through the fabric's own verbs needs one here too, and as no client of
Kanboard has a place for it, it is done there.
"""

from __future__ import annotations

from typing import Final

from taskfabric.domain.errors import BadInput, NeedsHuman, Refused, not_found
from taskfabric.domain.principal import AppRole, Caller, Kind, ProjectRole
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.target import checked_name
from taskfabric.ports.groups import Belonging, Group
from taskfabric.ports.labels import Label
from taskfabric.ports.register import Profile
from taskfabric.services import policy, verbs
from taskfabric.services.desk import Desk
from taskfabric.services.furnishing import email, line
from taskfabric.services.roster import Roster

_PASSWORD: Final = 6  # characters at least
_NEXT: Final = "do it with `fabric user`, which takes your PIN"
_BUILT_IN: Final = 11  # labels of links that the board itself goes by


class Household:
    """Who there is, and who belongs where."""

    def __init__(self, desk: Desk, roster: Roster) -> None:
        self._desk = desk
        self._roster = roster
        self._ports = desk.kanboard

    # -- accounts ------------------------------------------------------------------------------------

    def everybody(self) -> list[Profile]:
        """Humans and agents, by user name."""
        return self._ports.register.all()

    def profile(self, user_id: int) -> Profile:
        return self._ports.register.get(user_id)

    def profile_named(self, username: str) -> Profile | None:
        return self._ports.register.named(username)

    def profiles(self, ids: list[int]) -> list[Profile]:
        """By user name."""
        return self._ports.register.all(ids)

    def enrol(self, caller: Caller, username: str, password: str, name: str, address: str, role: str) -> int:
        """A human with an inbox, who has no token yet: the password is looked at and not kept, ``fabric user reset``
        gives the first one. By the app token only without a role in the application."""
        if len(password) < _PASSWORD:
            raise BadInput(f"a password has at least {_PASSWORD} characters", field="password")
        if role not in set(AppRole):
            raise BadInput("that is no role", field="role")
        if policy.is_app(caller) and role != AppRole.USER.value:
            raise NeedsHuman("a role in the application is a human's decision", next=_NEXT, rule="decision")
        verb = verbs.AddUser(
            name=checked_name(username, "user"),
            full_name="" if not name else line(name),
            email=email(address),
            role=AppRole(role).value,
        )
        return self._roster.enrolled(caller, verb).id

    def change(
        self,
        caller: Caller,
        user_id: int,
        *,
        username: str | None,
        name: str | None,
        address: str | None,
        role: str | None,
    ) -> None:
        policy.need_arranger(caller, "changing an account")
        before = self._ports.register.get(user_id)
        if username is not None and username != before.username:
            raise BadInput("a user's name is never changed: journal and comments speak of it", field="username")
        if role is not None and role not in set(AppRole):
            raise BadInput("that is no role", field="role")
        new_role = None if role is None or role == before.role.value else AppRole(role)
        if new_role is not None:
            if before.kind is not Kind.HUMAN:
                raise Refused("an agent has no role in the application", next="leave the role out", rule="agent-role")
            self._decide(caller, "a role in the application")
        self._ports.register.change(
            user_id,
            caller.stamp(),
            name=line(name) if name else name,
            email=None if address is None else email(address),
            role=new_role,
        )

    def set_active(self, caller: Caller, user_id: int, active: bool) -> None:
        what = "enabling an account" if active else "disabling an account"
        self._ending(caller, user_id, what)
        self._desk.credentials.set_active(user_id, active, caller.stamp())

    def remove(self, caller: Caller, user_id: int) -> None:
        """The account answers nobody and is listed no more; what it did keeps its name, which stays taken."""
        self._ending(caller, user_id, "removing an account")
        self._ports.register.remove(user_id, caller.stamp())

    def _ending(self, caller: Caller, user_id: int, what: str) -> None:
        policy.need_arranger(caller, what)
        target = self._ports.register.get(user_id)
        if target.id == caller.principal.id:
            raise Refused("nobody does that to his own account", next="let another administrator do it", rule="self")
        self._decide(caller, what)

    def _decide(self, caller: Caller, what: str) -> None:
        if policy.is_app(caller):
            raise NeedsHuman(f"{what} is a human's decision", next=_NEXT, rule="decision")
        policy.need_pin(self._desk, caller, None, what)

    # -- members of projects -------------------------------------------------------------------------

    def belonging(self, project_id: int) -> list[Belonging]:
        """Each account once, with the role that counts, by name."""
        return self._ports.groups.belonging(project_id)

    def role_of(self, project_id: int, user_id: int) -> ProjectRole | None:
        return next((one.role for one in self.belonging(project_id) if one.user_id == user_id), None)

    def add_member(self, caller: Caller, project_id: int, user_id: int, role: str) -> None:
        """Raises BadInput for one who is a member already."""
        policy.need_arranger(caller, "changing the members of a project")
        found = _role(role)
        self._ports.register.get(user_id)
        self._admit(caller, project_id)
        self._ports.groups.admit(project_id, user_id, found, caller.stamp())

    def set_member(self, caller: Caller, project_id: int, user_id: int, role: str) -> None:
        """Raises NotFound for one who is none by himself."""
        policy.need_arranger(caller, "changing the members of a project")
        found = _role(role)
        if self._ports.groups.own_role(project_id, user_id) is None:
            raise not_found("user")
        queue = self._desk.projects.get(project_id).queue
        if queue is not None and queue.owner_id == user_id:
            raise BadInput("the owner of a queue stays what he is there", field="user_id")
        self._admit(caller, project_id)
        self._desk.projects.set_member(project_id, user_id, found, caller.stamp())

    def remove_member(self, caller: Caller, project_id: int, user_id: int) -> None:
        policy.need_arranger(caller, "changing the members of a project")
        if self._ports.groups.own_role(project_id, user_id) is None:
            raise not_found("user")
        self._desk.projects.remove_member(project_id, user_id, caller.stamp())

    def _admit(self, caller: Caller, project_id: int) -> None:
        """Letting somebody into a queue that is not the caller's own is a decision, also while the queue is closed."""
        queue = self._desk.projects.get(project_id).queue
        if queue is None:
            return
        owner = None if queue.owner_id is None else self._desk.credentials.principal(queue.owner_id)
        if owner is None or caller.principal.id not in (owner.id, owner.owner_id):
            self._decide(caller, f"a new member for {queue.name!r}")

    # -- groups --------------------------------------------------------------------------------------

    def groups(self) -> list[Group]:
        return self._ports.groups.all()

    def group(self, group_id: int) -> Group:
        return self._ports.groups.get(group_id)

    def groups_of(self, user_id: int) -> list[Group]:
        return self._ports.groups.of_user(user_id)

    def group_members(self, group_id: int) -> list[Profile]:
        return self._ports.register.all(self._ports.groups.members(group_id))

    def create_group(self, caller: Caller, name: str, external_id: str) -> int:
        policy.need_arranger(caller, "making a group")
        return self._ports.groups.create(line(name), _external(external_id), caller.stamp())

    def update_group(self, caller: Caller, group_id: int, name: str | None, external_id: str | None) -> None:
        policy.need_arranger(caller, "changing a group")
        self._ports.groups.update(
            group_id,
            None if name is None else line(name),
            None if external_id is None else _external(external_id),
            caller.stamp(),
        )

    def remove_group(self, caller: Caller, group_id: int) -> None:
        policy.need_arranger(caller, "removing a group")
        self._ports.groups.remove(group_id, caller.stamp())

    def add_to_group(self, caller: Caller, group_id: int, user_id: int) -> None:
        policy.need_arranger(caller, "changing a group")
        self._ports.register.get(user_id)
        for project_id in self._ports.groups.projects(group_id):
            self._admit(caller, project_id)
        self._ports.groups.add_member(group_id, user_id, caller.stamp())

    def remove_from_group(self, caller: Caller, group_id: int, user_id: int) -> None:
        policy.need_arranger(caller, "changing a group")
        self._ports.groups.remove_member(group_id, user_id, caller.stamp())

    def add_group_to_project(self, caller: Caller, project_id: int, group_id: int, role: str) -> None:
        """Never to an inbox: who keeps the group could then read it."""
        policy.need_arranger(caller, "changing the members of a project")
        found = _role(role)
        queue = self._desk.projects.get(project_id).queue
        if queue is not None and queue.kind is QueueKind.INBOX:
            raise Refused("an inbox is for its owner, not for a group", next="add people one by one", rule="inbox")
        self._admit(caller, project_id)
        self._ports.groups.add_to_project(project_id, group_id, found, caller.stamp())

    def set_group_role(self, caller: Caller, project_id: int, group_id: int, role: str) -> None:
        policy.need_arranger(caller, "changing the members of a project")
        self._admit(caller, project_id)
        self._ports.groups.set_role(project_id, group_id, _role(role), caller.stamp())

    def remove_group_from_project(self, caller: Caller, project_id: int, group_id: int) -> None:
        policy.need_arranger(caller, "changing the members of a project")
        self._ports.groups.remove_from_project(project_id, group_id, caller.stamp())

    # -- labels of links -----------------------------------------------------------------------------

    def labels(self) -> list[Label]:
        return self._ports.labels.all()

    def create_label(self, caller: Caller, label: str, opposite: str) -> int:
        policy.need_arranger(caller, "making a label")
        if label == opposite:
            raise BadInput("a label and its opposite are two", field="opposite_label")
        return self._ports.labels.create(line(label), line(opposite) if opposite else "", caller.stamp())

    def update_label(self, caller: Caller, label_id: int, opposite_id: int, label: str) -> None:
        policy.need_arranger(caller, "changing a label")
        _own(label_id)
        known = {one.id for one in self._ports.labels.all()}
        if opposite_id and (opposite_id not in known or opposite_id <= _BUILT_IN):
            raise not_found("label")
        self._ports.labels.update(label_id, opposite_id, line(label), caller.stamp())

    def remove_label(self, caller: Caller, label_id: int) -> None:
        policy.need_arranger(caller, "removing a label")
        _own(label_id)
        self._ports.labels.remove(label_id, caller.stamp())


def _own(label_id: int) -> None:
    """Raises Refused for the labels that the board itself goes by."""
    if label_id <= _BUILT_IN:
        raise Refused("the board itself goes by this label", next="make a label of your own", rule="built-in")


def _role(word: str) -> ProjectRole:
    if word not in set(ProjectRole):
        raise BadInput("that is no role in a project", field="role")
    return ProjectRole(word)


def _external(words: str) -> str:
    return line(words, "external_id") if words else ""
