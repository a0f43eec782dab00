"""Approvals: levels, states, the one function that moves between them, and the hash that binds a decision.

    pending ──approve──> approved            one use each: consumed says when
            ──edit─────> edited-approved
            ──deny─────> denied
            ──expire───> expired             neither a yes nor a human's no
            ──supersede> superseded          the same task asked for something else
            ──withdraw─> withdrawn           nobody asks any more

Only a human's act leads to a yes; time leads to ``expired`` and nowhere else (G10).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Final, assert_never

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Via

LARGEST: Final = 64 * 1024  # bytes of the arguments in canonical form: a person has to read them
DEEPEST: Final = 20


class Level(IntEnum):
    """How much an action asks for; the order is the comparison, and a request may only raise it."""

    AUTO = 0  # nothing
    LOGGED = 1  # a line in the journal
    CONFIRM = 2  # a human's decision
    SECURE = 3  # a human's decision with his PIN

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Level:
        """The level with this name. Raises KeyError for another word."""
        return cls[word.upper()]


class State(StrEnum):
    """How an approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    EDITED = "edited-approved"
    DENIED = "denied"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"


class Act(StrEnum):
    """What can happen to one."""

    APPROVE = "approve"
    EDIT = "edit"
    DENY = "deny"
    EXPIRE = "expire"
    SUPERSEDE = "supersede"
    WITHDRAW = "withdraw"


YES: Final = frozenset({State.APPROVED, State.EDITED})
HUMAN_ACTS: Final = frozenset({Act.APPROVE, Act.EDIT, Act.DENY})


def after(state: State, act: Act) -> State | None:
    """The state that follows; None: this cannot happen any more. Only what is pending moves."""
    if state is not State.PENDING:
        return None
    match act:
        case Act.APPROVE:
            return State.APPROVED
        case Act.EDIT:
            return State.EDITED
        case Act.DENY:
            return State.DENIED
        case Act.EXPIRE:
            return State.EXPIRED
        case Act.SUPERSEDE:
            return State.SUPERSEDED
        case Act.WITHDRAW:
            return State.WITHDRAWN
        case _:
            assert_never(act)


class How(StrEnum):
    """Why somebody may decide."""

    ASKED = "asked"  # it is for him
    DELEGATED = "delegated"  # whom it is for has passed it on
    ESCALATED = "escalated"  # nobody decided for long


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """One who may decide."""

    principal_id: int
    name: str
    how: How
    since: datetime
    for_whom: str | None = None  # on whose behalf, for one who is delegated
    until: datetime | None = None  # of a vacation; None = as long as it is pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A request for a human's decision, and what became of it."""

    id: int
    state: State
    action: str
    args: Mapping[str, Any]  # as they were asked for
    hash: str  # of action, arguments and level: what a decision is bound to
    level: Level
    requester: str
    requester_id: int
    why: str = ""
    recipient: str | None = None
    amount: float | None = None
    label: str = "household"
    task_id: int | None = None  # the task that waits
    task_epoch: int | None = None
    gate_id: int | None = None  # the task in the human's inbox
    created: datetime
    expires: datetime
    deciders: tuple[Decider, ...] = ()
    decided_by: str | None = None
    decided_by_id: int | None = None
    decided_at: datetime | None = None
    decided_args: Mapping[str, Any] | None = None  # what may be done: the edited ones, or those asked for
    decided_hash: str | None = None
    for_whom: str | None = None  # a delegated decision: whose it was
    note: str = ""
    via: Via | None = None  # the door through which the decision came
    use_until: datetime | None = None
    consumed_at: datetime | None = None
    grant_id: int | None = None  # decided beforehand, by this standing grant
    reminded: int = 0  # per cent of its time at which it was last said
    is_told: bool = False  # gate and waiting task know how it ended

    @property
    def ref(self) -> int | None:
        """The number under which it is decided: the gate's, or while there is none the waiting task's."""
        return self.task_id if self.gate_id is None else self.gate_id

    def decider(self, principal_id: int, now: datetime) -> Decider | None:
        """This person among those who may decide it now."""
        return next((d for d in self.deciders_at(now) if d.principal_id == principal_id), None)

    def deciders_at(self, now: datetime) -> tuple[Decider, ...]:
        """Those who may decide it now; nobody decides for somebody else what is secure or private."""
        personal = self.level is Level.SECURE or self.label == "private"
        return tuple(
            d for d in self.deciders if (d.until is None or d.until > now) and not (d.how is How.DELEGATED and personal)
        )

    def expired_by(self, now: datetime) -> bool:
        return self.state is State.PENDING and now >= self.expires

    def unusable(self, now: datetime) -> str:
        """Why what was decided cannot be done any more; "" = it can."""
        if self.state not in YES:
            return f"it is {self.state.value}"
        if self.consumed_at is not None:
            return "it was used already, and counts once"
        if self.use_until is not None and now >= self.use_until:
            return "its time to be used is over"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A human's standing yes: who may do what to whom without asking, until when. Never for what is secure."""

    id: int
    grantor: str
    grantor_id: int
    agent: str
    agent_id: int
    action: str  # exactly this one, or a family: mail.*
    recipient: str | None = None  # None = any; "" = what names nobody
    created: datetime
    until: datetime
    revoked: datetime | None = None
    used: int = 0

    def covers(self, agent_id: int, action: str, recipient: str | None, now: datetime) -> bool:
        """True while it is in force and means this action of this agent towards this recipient."""
        if self.revoked is not None or now >= self.until or agent_id != self.agent_id:
            return False
        if self.recipient is not None and (recipient or "").lower() != self.recipient.lower():
            return False
        return matches(self.action, action)


def matches(pattern: str, action: str) -> bool:
    """``mail.*`` means every action below ``mail``; without the star it means itself."""
    if pattern == "*":
        return True
    if pattern.endswith(".*"):
        return action.startswith(pattern[:-1])
    return pattern == action


def canonical(args: Mapping[str, Any]) -> str:
    """The arguments, written in one way. Raises BadInput for what is no JSON, too large or too deep."""
    _check(args, 0)
    try:
        text = json.dumps(args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):  # half a surrogate pair, too
        raise BadInput("the arguments are not a JSON object", field="args") from None
    if size > LARGEST:
        raise BadInput(
            f"the arguments have at most {LARGEST} bytes, since a person reads them",
            next="name a file or a git ref instead of its content",
            field="args",
        )
    return text


def binding(action: str, args: Mapping[str, Any], level: Level) -> str:
    """What a decision is bound to, as 64 hex digits: one changed byte is another request."""
    said = f"{action}\n{level.word}\n{canonical(args)}"
    return hashlib.sha256(said.encode()).hexdigest()


def _check(value: object, depth: int) -> None:
    if depth > DEEPEST:
        raise BadInput(f"the arguments are nested at most {DEEPEST} deep", field="args")
    match value:
        case str():
            if "\x00" in value:
                raise BadInput("the arguments may not contain NUL", field="args")
        case Mapping():
            for key, inner in value.items():
                _check(key, depth + 1)
                _check(inner, depth + 1)
        case list() | tuple():
            for inner in value:
                _check(inner, depth + 1)
        case _:
            pass
