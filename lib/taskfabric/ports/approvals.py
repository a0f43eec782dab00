"""Approvals and standing grants. Each change of a state is one guarded statement, its journal event included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from taskfabric.domain.approval import Act, Approval, Decider, Grant, Level, State
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import RunRef, Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApproval:
    """A request as it is to be kept."""

    action: str
    args: Mapping[str, Any]
    hash: str
    level: Level
    requester_id: int
    why: str = ""
    recipient: str | None = None
    amount: float | None = None
    label: str = "household"
    task_id: int | None = None
    task_epoch: int | None = None
    expires: datetime
    deciders: tuple[Decider, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGrant:
    """A standing grant as it is to be kept."""

    agent_id: int
    action: str
    recipient: str | None  # None = any; "" = what names nobody
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A human's act on a request."""

    act: Act
    seen: str  # the hash of what he was shown
    args: Mapping[str, Any] | None = None  # what may be done; None for a no
    hash: str | None = None  # of that
    level: Level | None = None  # of that, where an edit raised it
    note: str = ""
    for_whom_id: int | None = None
    use_until: datetime | None = None
    grant: NewGrant | None = None  # from now on without asking: made with the decision, or not at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Which approvals to find; newest first."""

    decider_id: int | None = None
    requester_id: int | None = None  # with decider_id: either of the two
    states: tuple[State, ...] = ()
    task_id: int | None = None  # the task that waits
    untold: bool = False  # those that are over, and whose gate or waiting task may not know it yet
    before_id: int | None = None  # paging
    limit: int = 100


class Approvals(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def open(self, new: NewApproval, stamp: Stamp) -> tuple[Approval, bool]:
        """It is pending, and whether it was made now; what else the same task asked for is superseded."""

    def get(self, approval_id: int) -> Approval | None: ...
    def of_task(self, task_id: int) -> Approval | None:
        """The approval whose gate this is, or for which it waits: the pending one, else the latest."""

    def is_pending(self, task_id: int) -> bool:
        """Whether this task is the gate of, or waits for, a pending approval."""

    def latest(self, requester_id: int, task_id: int | None, hash: str) -> Approval | None:
        """What this requester asked for in this task, as this hash names it; the latest."""

    def denied(self, requester_id: int, action: str, args: Mapping[str, Any]) -> Approval | None:
        """The latest no to just this, whatever the level and the task, unless a yes came after it."""

    def find(self, look: Look) -> list[Approval]: ...
    def set_gate(self, approval_id: int, gate_id: int) -> None: ...
    def set_told(self, approval_id: int) -> None: ...
    def decide(self, approval_id: int, verdict: Verdict, stamp: Stamp) -> Approval | None:
        """Decided as the human says; None, and nothing: it is not pending, its time is over, or what he was shown is
        not what is asked."""

    def decide_by_grant(self, approval_id: int, grant: Grant, use_until: datetime, stamp: Stamp) -> Approval | None:
        """Approved by what a human granted before, while that is in force; None, and nothing, otherwise."""

    def end(self, approval_id: int, act: Act, stamp: Stamp) -> Approval | None:
        """Expired (only when its time is over), superseded or withdrawn; None, and nothing: it is not pending."""

    def consume(self, approval_id: int, hash: str, requester_id: int, stamp: Stamp) -> bool:
        """True for one call in all: it was approved, for just this, its time to be used is not over."""

    def remind(self, approval_id: int, percent: int) -> bool:
        """True for one call: this much of its time is over, and that was not said before."""

    def add_decider(self, approval_id: int, decider: Decider, stamp: Stamp) -> bool:
        """True if he could not decide it before, or not for so long. Only while it is pending."""

    def end_delegations(self, for_whom_id: int) -> int:
        """Who decided in the place of this person while he was away does so no more; how many that were."""

    def allowed(self, action: str, level: Level, stamp: Stamp, facts: Mapping[str, Any]) -> None:
        """What needed no decision is in the journal."""

    def fence(self, run: RunRef, principal_id: int) -> Fence | None:
        """The fence of the lease under which this run of this principal works; None = it is over."""

    # -- standing grants ---------------------------------------------------------------------------------
    def add_grant(self, new: NewGrant, stamp: Stamp) -> Grant:
        """A standing grant of whoever the stamp names."""

    def grants(self, *, grantor_id: int | None = None, agent_id: int | None = None) -> list[Grant]: ...
    def revoke_grant(self, grant_id: int, stamp: Stamp) -> bool: ...

    # -- the policy --------------------------------------------------------------------------------------
    def accepted_policy(self) -> str | None:
        """The text that an administrator last accepted."""

    def accept_policy(self, text: str, stamp: Stamp) -> None: ...
