"""Who is who: our principals and Kanboard's users are the same by their names.

A principal without an account there gets one with a password that nobody knows, so that people see who spoke and who
holds a card. Nobody can log in with it, and accounts that exist are left as they are.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import Final

from taskfabric.boards.kanboard.client import Doubtful, Kanboard

_FRESH: Final = 60.0  # seconds


class People:
    """The users of one Kanboard, remembered for a minute."""

    def __init__(self, kanboard: Kanboard) -> None:
        self._kanboard = kanboard
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._at: float | None = None
        self._members: dict[int, tuple[float, dict[int, str]]] = {}
        self._lock = threading.Lock()

    def id_of(self, name: str, *, make: bool = True) -> int:
        """The user's number there; 0, which is nobody's, for the fabric itself and where none can be made."""
        if not name or name == "fabric":
            return 0
        with self._lock:
            self._learn()
            found = self._ids.get(name.lower())
            if found is None and make:
                found = self._make(name)
            return found or 0

    def name_of(self, user_id: int) -> str | None:
        """The name of this number; None for nobody's."""
        with self._lock:
            self._learn()
            return self._names.get(user_id)

    def works_in(self, project_id: int, user_id: int) -> bool:
        """Whether this user is a member or manager there. Nobody becomes one by what he sends there."""
        return self._roles(project_id).get(user_id) in ("project-member", "project-manager")

    def may_hold(self, project_id: int, user_id: int) -> bool:
        """Whether cards of the project can be given to this user; he is made a member if he is none."""
        if not user_id:
            return False
        roles = self._roles(project_id)
        role = roles.get(user_id)
        if role in ("project-member", "project-manager"):
            return True
        if role is not None:
            return False  # a viewer, by somebody's decision
        self.set_member(project_id, user_id, "project-member")
        return True

    def set_member(self, project_id: int, user_id: int, role: str) -> None:
        """The user has this role in the project."""
        if user_id and not self._kanboard.call("addProjectUser", project_id=project_id, user_id=user_id, role=role):
            self._kanboard.call("changeProjectUserRole", project_id=project_id, user_id=user_id, role=role)
        self._members.pop(project_id, None)

    def remove_member(self, project_id: int, user_id: int) -> None:
        """The user is no member."""
        if user_id:
            self._kanboard.call("removeProjectUser", project_id=project_id, user_id=user_id)
        self._members.pop(project_id, None)

    def forget(self) -> None:
        """All is asked anew."""
        self._at = None
        self._members.clear()

    def _roles(self, project_id: int) -> dict[int, str]:
        known = self._members.get(project_id)
        if known is not None and time.monotonic() - known[0] < _FRESH:
            return known[1]
        users = self._kanboard.call("getProjectUsers", project_id=project_id) or {}
        roles = {
            int(user): str(self._kanboard.call("getProjectUserRole", project_id=project_id, user_id=int(user)) or "")
            for user in users
        }
        self._members[project_id] = (time.monotonic(), roles)
        return roles

    def _learn(self) -> None:
        if self._at is not None and time.monotonic() - self._at < _FRESH:
            return
        users = self._kanboard.call("getAllUsers") or []
        self._ids = {str(user["username"]).lower(): int(user["id"]) for user in users}
        self._names = {int(user["id"]): str(user["username"]) for user in users}
        self._at = time.monotonic()

    def _make(self, name: str) -> int:
        try:
            made = self._kanboard.call("createUser", username=name, password=secrets.token_hex(24), name=name)
        except Doubtful:
            made = False
        if not made:  # somebody else has just made it
            self._at = None
            self._learn()
            return self._ids.get(name.lower(), 0)
        self._ids[name.lower()], self._names[int(made)] = int(made), name
        return int(made)
