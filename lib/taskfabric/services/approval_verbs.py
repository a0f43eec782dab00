"""The arguments of the verbs about approvals: asking, deciding, using what was decided, standing grants, the policy.

``task`` names the gate in a human's inbox, or the task that waits for it; both mean the same approval.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from taskfabric.ports.fabric import Verb
from taskfabric.services.answers import plain
from taskfabric.services.args import FenceArg, Instant, Page, TaskId, Text, Word, sound

ApprovalId = Annotated[int, Field(ge=1, lt=2**62, strict=True)]
Args = dict[str, Any]
Seen = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # the hash of what was shown
Note = Annotated[str, AfterValidator(sound), Field(min_length=1)]
Pin = Annotated[Text | None, Field(repr=False)]


class RequestApproval(Verb[dict[str, Any]]):
    """May this be done? The approval as it stands, with ``allowed``; inside a run the run ends while it is pending.

    The same request again, in the same task, answers with what was decided; ``again`` asks anew after an expiry."""

    method: ClassVar[str] = "fabric.approval.request"
    result = plain()

    action: Word
    args: Args = Field(default_factory=dict)
    level: Literal["logged", "confirm", "secure"] | None = None  # raises the house's level, never lowers it
    why: Text = ""
    fence: FenceArg | None = None
    again: bool = False


class ShowApproval(Verb[dict[str, Any]]):
    """What is to be decided: for whoever may decide it, and for the one who asked."""

    method: ClassVar[str] = "fabric.approval.show"
    result = plain()

    task: TaskId | None = None
    approval: ApprovalId | None = None


class ListApprovals(Verb[list[dict[str, Any]]]):
    """The approvals that the caller may decide or has asked for, newest first."""

    method: ClassVar[str] = "fabric.approval.list"
    result = plain()

    states: tuple[
        Literal["pending", "approved", "edited-approved", "denied", "expired", "superseded", "withdrawn"], ...
    ] = ()
    limit: Page = 100


class Approve(Verb[dict[str, Any]]):
    """Yes, to exactly what was shown; or, with ``args``, to this instead. ``always`` also makes a standing grant."""

    method: ClassVar[str] = "fabric.approve"
    result = plain()

    task: TaskId
    seen: Seen
    args: Args | None = None
    note: Text = ""
    always: bool = False
    until: Instant | None = None  # of the standing grant; None = 30 days
    pin: Pin = None


class Item(BaseModel):
    """One of several that are approved together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: TaskId
    seen: Seen


class ApproveMany(Verb[list[dict[str, Any]]]):
    """Yes to each of these, with a receipt of its own. Nothing is decided if one of them needs a PIN."""

    method: ClassVar[str] = "fabric.approve_many"
    result = plain()

    items: Annotated[tuple[Item, ...], Field(min_length=1, max_length=100)]
    pin: Pin = None


class Deny(Verb[dict[str, Any]]):
    """No, and why. It stands against every standing grant."""

    method: ClassVar[str] = "fabric.deny"
    result = plain()

    task: TaskId
    note: Note
    seen: Seen | None = None
    pin: Pin = None


class Withdraw(Verb[dict[str, Any]]):
    """It is no longer asked for. For the one who asked."""

    method: ClassVar[str] = "fabric.approval.withdraw"
    result = plain()

    approval: ApprovalId


class Consume(Verb[dict[str, Any]]):
    """What was approved is about to be done with these arguments: once, checked again, by the one who asked."""

    method: ClassVar[str] = "fabric.approval.consume"
    result = plain()

    approval: ApprovalId
    args: Args


class Tend(Verb[dict[str, Any]]):
    """Remind, pass on, expire, and finish what a crash left half told. Decides nothing. For the keeper."""

    method: ClassVar[str] = "fabric.approval.tend"
    result = plain()


class MakeGrant(Verb[dict[str, Any]]):
    """An agent of the caller's may do this without asking, until then. Never what is secure."""

    method: ClassVar[str] = "fabric.grant.create"
    result = plain()

    agent: Word
    action: Word  # exactly this one, or a family: mail.*
    recipient: Word | None = None  # None = any
    until: Instant | None = None  # None = 30 days
    pin: Pin = None


class ListGrants(Verb[list[dict[str, Any]]]):
    """The caller's standing grants; an agent's are those that it has."""

    method: ClassVar[str] = "fabric.grant.list"
    result = plain()


class RevokeGrant(Verb[dict[str, Any]]):
    """The grant is worth nothing from now on."""

    method: ClassVar[str] = "fabric.grant.revoke"
    result = plain()

    id: ApprovalId


class ShowPolicy(Verb[dict[str, Any]]):
    """The levels by action, and whether a changed file waits for an administrator's word."""

    method: ClassVar[str] = "fabric.policy.show"
    result = plain()


class AcceptPolicy(Verb[dict[str, Any]]):
    """The policy file as it now is holds, also where it asks less than before. For administrators."""

    method: ClassVar[str] = "fabric.policy.accept"
    result = plain()

    pin: Pin = None
