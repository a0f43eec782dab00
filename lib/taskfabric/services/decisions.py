"""The rooms of the hallway where people decide, and who answers which of their verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from taskfabric.domain.letter import CODED
from taskfabric.domain.principal import Caller
from taskfabric.ports.fabric import Verb
from taskfabric.services import approval_verbs, inbox_verbs
from taskfabric.services.approvals import Asking
from taskfabric.services.away import Humans
from taskfabric.services.channels import OwnChannels
from taskfabric.services.delegation import Delegation
from taskfabric.services.desk import Desk
from taskfabric.services.grants import Grants
from taskfabric.services.inbox import Inboxes
from taskfabric.services.levels import Levels
from taskfabric.services.notices import Notices
from taskfabric.services.sessions import SignIn
from taskfabric.services.tending import Tending
from taskfabric.services.upkeep import Upkeep
from taskfabric.services.verdicts import Verdicts

V = TypeVar("V", bound=Verb[Any])


class Decisions:
    """Approvals, the inbox, sessions, one's own settings."""

    def __init__(self, desk: Desk, upkeep: Upkeep) -> None:
        self._desk = desk
        self._upkeep = upkeep
        self._levels = Levels(desk)
        self._grants = Grants(desk, self._levels)
        self._answers: dict[type[Verb[Any]], Callable[[Caller, Any], Any]] = {}
        self._notices = notices = Notices(desk, upkeep)
        self.humans: Final = Humans(desk, notices)
        self.sessions: Final = SignIn(desk)
        self._asking = Asking(desk, self._levels, self.humans, notices)
        self._delegation = Delegation(desk, self._asking, notices)
        self.verdicts: Final = Verdicts(desk, self._asking, self._levels, self._grants)

    def let_go(self, person_id: int, by: str, code: str, withdraw: bool) -> int:
        """His account was reset by another: a letter tells him so at once, with the code for his new PIN. With
        ``withdraw`` nothing pending is his to decide any more; how much that was."""
        withdrawn = self._asking.withdraw_all(person_id) if withdraw else 0
        what = "has forgotten your PIN" if withdraw else "has reset your account"
        words = (
            f"{by} {what}: your sessions and tokens have ended, and {withdrawn} approvals that waited for you are"
            f" withdrawn. The new token decides nothing until you set a PIN (`fabric pin set --code`, or the settings"
            f" page) with this code: {code}\nNobody else has it by letter. If you did not ask for this, ask another"
            " administrator to disable your account."
        )
        self._notices.write([person_id], f"{by} {what}", words, CODED, None, now=True)
        return withdrawn

    def take_back(self) -> int:
        """Questions whose time with somebody else is over are again for whom they were; how many."""
        return self._delegation.take_back()

    def answers(self) -> Mapping[type[Verb[Any]], Callable[[Caller, Any], Any]]:
        """Who answers each of their verbs."""
        self._approvals()
        self._people()
        return self._answers

    def _approvals(self) -> None:
        on, asking, verdicts, grants, levels = self._on, self._asking, self.verdicts, self._grants, self._levels
        on(approval_verbs.RequestApproval, asking.request)
        on(approval_verbs.ShowApproval, asking.show)
        on(approval_verbs.ListApprovals, asking.list)
        on(approval_verbs.Withdraw, asking.withdraw)
        on(approval_verbs.Consume, asking.consume)
        on(approval_verbs.Approve, verdicts.approve)
        on(approval_verbs.ApproveMany, verdicts.approve_many)
        on(approval_verbs.Deny, verdicts.deny)
        on(approval_verbs.Tend, Tending(self._desk, asking, self._delegation).tend)
        on(approval_verbs.MakeGrant, grants.create)
        on(approval_verbs.ListGrants, grants.list)
        on(approval_verbs.RevokeGrant, grants.revoke)
        on(approval_verbs.ShowPolicy, levels.show)
        on(approval_verbs.AcceptPolicy, levels.accept)

    def _people(self) -> None:
        on, humans, sessions = self._on, self.humans, self.sessions
        inboxes = Inboxes(self._desk, self._asking, humans, self._delegation)
        channels = OwnChannels(self._desk, self._upkeep)
        on(inbox_verbs.Inbox, inboxes.inbox)
        on(inbox_verbs.Snooze, inboxes.snooze)
        on(inbox_verbs.SnoozeMany, inboxes.snooze_many)
        on(inbox_verbs.Delegate, self._delegation.delegate)
        on(inbox_verbs.Vacation, humans.vacation)
        on(inbox_verbs.Me, humans.me)
        on(inbox_verbs.SetMe, humans.set_me)
        on(inbox_verbs.ListChannels, channels.list)
        on(inbox_verbs.AddChannel, channels.add)
        on(inbox_verbs.RemoveChannel, channels.remove)
        on(inbox_verbs.TryChannel, channels.test)
        on(inbox_verbs.ListSessions, sessions.list)
        on(inbox_verbs.RevokeSession, sessions.revoke)
        on(inbox_verbs.SignInLink, sessions.link)

    def _on(self, kind: type[V], answer: Callable[[Caller, V], Any]) -> None:
        self._answers[kind] = answer
