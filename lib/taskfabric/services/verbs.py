"""One argument model a verb: what may be asked of the fabric, over every surface.

Each class names its JSON-RPC procedure and how its result travels. Texts hold no NUL and no lone surrogate; instants
carry a zone; a task is written ``12``, ``'#12'`` or ``12@3``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from taskfabric.domain.errors import FabricError
from taskfabric.domain.lease import Renewal
from taskfabric.domain.status import Status
from taskfabric.domain.task import Attachment, Claimed, Entry, Kin, Submitted, Task, Thread
from taskfabric.ports.board import Swept
from taskfabric.ports.fabric import Codec, Verb
from taskfabric.services.annex_verbs import ShowAnnex as ShowAnnex
from taskfabric.services.answers import (
    ATTACHMENT,
    AWAITED,
    CLAIMED,
    ENTRY,
    EVENTS,
    RENEWAL,
    SUBMITTED,
    SWEPT,
    TASK,
    decode_end,
    decode_explanation,
    decode_kin,
    decode_thread,
    encode_end,
    encode_explanation,
    encode_greeting,
    encode_kin,
    encode_thread,
    listed,
    plain,
)
from taskfabric.services.answers import Awaited as Awaited
from taskfabric.services.answers import Check as Check
from taskfabric.services.answers import EventPage as EventPage
from taskfabric.services.answers import Explanation as Explanation
from taskfabric.services.answers import Greeting as Greeting
from taskfabric.services.approval_verbs import AcceptPolicy as AcceptPolicy
from taskfabric.services.approval_verbs import Approve as Approve
from taskfabric.services.approval_verbs import ApproveMany as ApproveMany
from taskfabric.services.approval_verbs import Consume as Consume
from taskfabric.services.approval_verbs import Deny as Deny
from taskfabric.services.approval_verbs import ListApprovals as ListApprovals
from taskfabric.services.approval_verbs import ListGrants as ListGrants
from taskfabric.services.approval_verbs import MakeGrant as MakeGrant
from taskfabric.services.approval_verbs import RequestApproval as RequestApproval
from taskfabric.services.approval_verbs import RevokeGrant as RevokeGrant
from taskfabric.services.approval_verbs import ShowApproval as ShowApproval
from taskfabric.services.approval_verbs import ShowPolicy as ShowPolicy
from taskfabric.services.approval_verbs import Tend as Tend
from taskfabric.services.approval_verbs import Withdraw as Withdraw
from taskfabric.services.args import FenceArg as FenceArg
from taskfabric.services.args import FileArg as FileArg
from taskfabric.services.args import Instant, Page, Priority, Score, Seconds, TaskId, Text, Word, sound
from taskfabric.services.fleet_verbs import Agents as Agents
from taskfabric.services.fleet_verbs import Card as Card
from taskfabric.services.fleet_verbs import CheckCards as CheckCards
from taskfabric.services.fleet_verbs import Chunks as Chunks
from taskfabric.services.fleet_verbs import LimitArg as LimitArg
from taskfabric.services.fleet_verbs import Limited as Limited
from taskfabric.services.fleet_verbs import Pause as Pause
from taskfabric.services.fleet_verbs import ReadChunks as ReadChunks
from taskfabric.services.fleet_verbs import Report as Report
from taskfabric.services.fleet_verbs import Reserve as Reserve
from taskfabric.services.fleet_verbs import Resume as Resume
from taskfabric.services.fleet_verbs import Spent as Spent
from taskfabric.services.house_verbs import AddUser as AddUser
from taskfabric.services.house_verbs import CreateQueue as CreateQueue
from taskfabric.services.house_verbs import CreateToken as CreateToken
from taskfabric.services.house_verbs import DisableUser as DisableUser
from taskfabric.services.house_verbs import Doctor as Doctor
from taskfabric.services.house_verbs import ListQueues as ListQueues
from taskfabric.services.house_verbs import ListTokens as ListTokens
from taskfabric.services.house_verbs import ListUsers as ListUsers
from taskfabric.services.house_verbs import ResetUser as ResetUser
from taskfabric.services.house_verbs import RevokeToken as RevokeToken
from taskfabric.services.house_verbs import RunToken as RunToken
from taskfabric.services.house_verbs import SetLimit as SetLimit
from taskfabric.services.house_verbs import SetMember as SetMember
from taskfabric.services.house_verbs import SetPin as SetPin
from taskfabric.services.inbox_verbs import AddChannel as AddChannel
from taskfabric.services.inbox_verbs import Delegate as Delegate
from taskfabric.services.inbox_verbs import Inbox as Inbox
from taskfabric.services.inbox_verbs import ListChannels as ListChannels
from taskfabric.services.inbox_verbs import ListSessions as ListSessions
from taskfabric.services.inbox_verbs import Me as Me
from taskfabric.services.inbox_verbs import RemoveChannel as RemoveChannel
from taskfabric.services.inbox_verbs import RevokeSession as RevokeSession
from taskfabric.services.inbox_verbs import SetMe as SetMe
from taskfabric.services.inbox_verbs import SignInLink as SignInLink
from taskfabric.services.inbox_verbs import Snooze as Snooze
from taskfabric.services.inbox_verbs import SnoozeMany as SnoozeMany
from taskfabric.services.inbox_verbs import TryChannel as TryChannel
from taskfabric.services.inbox_verbs import Vacation as Vacation
from taskfabric.services.keeper_verbs import Digest as Digest
from taskfabric.services.keeper_verbs import Letters as Letters
from taskfabric.services.keeper_verbs import ListSlots as ListSlots
from taskfabric.services.keeper_verbs import Mend as Mend
from taskfabric.services.keeper_verbs import Metrics as Metrics
from taskfabric.services.keeper_verbs import Readers as Readers
from taskfabric.services.keeper_verbs import Reconcile as Reconcile
from taskfabric.services.keeper_verbs import Tell as Tell
from taskfabric.services.keeper_verbs import Tick as Tick
from taskfabric.services.keeper_verbs import Turn as Turn
from taskfabric.services.keeper_verbs import Watch as Watch
from taskfabric.services.moving_verbs import Adopt as Adopt
from taskfabric.services.moving_verbs import Export as Export
from taskfabric.services.moving_verbs import Import as Import
from taskfabric.services.overview_verbs import Depths as Depths
from taskfabric.services.overview_verbs import ListLater as ListLater
from taskfabric.services.overview_verbs import PlainProjects as PlainProjects
from taskfabric.services.overview_verbs import RecentEvents as RecentEvents
from taskfabric.services.overview_verbs import ShowBoard as ShowBoard
from taskfabric.services.overview_verbs import Standing as Standing


class Hello(Verb[Greeting]):
    """Who am I here, and what is this board?"""

    method: ClassVar[str] = "fabric.hello"
    result = Codec[Greeting](
        encode=encode_greeting, decode=lambda x: Greeting(**{**x, "now": datetime.fromisoformat(x["now"])})
    )


class Submit(Verb[Submitted]):
    """Make a task. ``to``: a name, ``pool``, ``any:…`` or ``auto``."""

    method: ClassVar[str] = "fabric.submit"
    result = SUBMITTED

    title: Text
    description: Text = ""
    to: Word = "pool"
    priority: Priority = 1
    score: Score | None = None
    tier: Word = ""
    needs: tuple[Word, ...] = ()
    trust: Word = ""  # the least trust of a claimer
    tags: tuple[Word, ...] = ()
    refs: tuple[Annotated[str, AfterValidator(sound), Field(max_length=2000)], ...] = ()
    reference: Annotated[str, AfterValidator(sound), Field(max_length=191)] = ""
    due: Instant | None = None
    not_before: Instant | None = None
    parent: TaskId | None = None
    after: tuple[TaskId, ...] = ()
    key: Annotated[str, AfterValidator(sound), Field(min_length=1, max_length=200)] | None = None
    key_scope: Literal["life", "open"] = "life"
    backlog: bool = False
    human_verify: bool = False
    label: Literal["household", "private"] = "household"  # private: decided by whom it is for and nobody else
    notify: bool = False  # a letter to the submitter (for an agent, its human) when it has ended


class SubmitMany(Verb[list[Submitted]]):
    """Make several tasks: all, or none."""

    method: ClassVar[str] = "fabric.submit_many"
    result = listed(SUBMITTED)

    tasks: Annotated[tuple[Submit, ...], Field(min_length=1, max_length=1000)]


class Claim(Verb[list[Claimed]]):
    """Take what comes next: of one queue, or of the caller's own queue and then its pools."""

    method: ClassVar[str] = "fabric.claim"
    result = listed(CLAIMED)

    queue: Word | None = None
    limit: Annotated[int, Field(ge=1, le=100, strict=True)] = 1
    lease: Annotated[Seconds, Field(ge=5, le=7 * 86400)] | None = None  # seconds; None = the default


class Take(Verb[Claimed]):
    """Take this very task."""

    method: ClassVar[str] = "fabric.take"
    result = CLAIMED

    task: TaskId
    lease: Annotated[Seconds, Field(ge=5, le=7 * 86400)] | None = None


class Renew(Verb[list[Renewal]]):
    """Prolong leases, many in one call."""

    method: ClassVar[str] = "fabric.renew"
    result = listed(RENEWAL)

    fences: Annotated[tuple[FenceArg, ...], Field(min_length=1, max_length=1000)]
    lease: Annotated[Seconds, Field(ge=5, le=7 * 86400)] | None = None


class _End(Verb[Task]):
    """How a run ends: with the holder's fence, or, for a human's own act, with the task alone."""

    result = TASK

    fence: FenceArg | None = None
    task: TaskId | None = None


class Done(_End):
    """Finished: the task stands in Done, open, until somebody else verifies it."""

    method: ClassVar[str] = "fabric.done"

    note: Text
    verdict: Literal["pass", "fail"] = "pass"
    attach: Annotated[tuple[FileArg, ...], Field(max_length=20)] = ()


class Park(_End):
    """Back to Ready, not before ``until``; costs no attempt."""

    method: ClassVar[str] = "fabric.park"

    until: Instant
    note: Text
    head: bool = False


class Ask(_End):
    """Stop until somebody answers; costs no attempt. ``of``: whom; default is the human the work is for."""

    method: ClassVar[str] = "fabric.ask"

    note: Text
    of: Word | None = None
    auth: bool = False


class WaitForChildren(_End):
    """Stop until every child has finished; costs no attempt and holds no worker."""

    method: ClassVar[str] = "fabric.wait_for_children"


class Fail(_End):
    """The attempt failed: again after a rest, or, when ``final`` or out of attempts, a dead letter."""

    method: ClassVar[str] = "fabric.fail"

    note: Text
    final: bool = False


class Release(_End):
    """Give it back unworked; costs no attempt."""

    method: ClassVar[str] = "fabric.release"

    note: Text = ""
    drained: bool = False


class Decline(_End):
    """Refuse the task for good: it is rejected."""

    method: ClassVar[str] = "fabric.decline"

    note: Text


class End(BaseModel):
    """One finish of many."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fence: FenceArg
    note: Text
    verdict: Literal["pass", "fail"] = "pass"


_ENDS: Final = Codec[list[Task | FabricError]](
    encode=lambda xs: [encode_end(x) for x in xs], decode=lambda xs: [decode_end(x) for x in xs]
)


class DoneMany(Verb[list[Task | FabricError]]):
    """Finish several tasks in one transaction; a lost lease is an element of the answer."""

    method: ClassVar[str] = "fabric.done_many"
    result = _ENDS

    ends: Annotated[tuple[End, ...], Field(min_length=1, max_length=100)]


class _Note(Verb[Task]):
    result = TASK

    task: TaskId
    note: Text = ""


class Answer(_Note):
    """Answer the question of a waiting task: it goes to the head of its lane."""

    method: ClassVar[str] = "fabric.answer"

    note: Annotated[str, AfterValidator(sound), Field(min_length=1)]


class Verify(_Note):
    """The result is right: close it. Never by its producer."""

    method: ClassVar[str] = "fabric.verify"


class VerifyMany(Verb[list[Task | FabricError]]):
    """As Verify, for each of these by itself: the tasks as they then stand, and a refusal in the place of each that it
    meets."""

    method: ClassVar[str] = "fabric.verify_many"
    result = _ENDS

    tasks: Annotated[tuple[TaskId, ...], Field(min_length=1, max_length=100)]
    note: Text = ""


class Reject(_Note):
    """The result is not right: back to Ready, the note is shown to the next run."""

    method: ClassVar[str] = "fabric.reject"

    note: Annotated[str, AfterValidator(sound), Field(min_length=1)]


class Cancel(_Note):
    """It is no longer wanted: cancelled, unstarted children too; a run is told."""

    method: ClassVar[str] = "fabric.cancel"


class Redrive(_Note):
    """Put a dead letter, or a held task, back on purpose, with fresh attempts."""

    method: ClassVar[str] = "fabric.redrive"


class EditTask(Verb[Task]):
    """Change a task's words. Reserved tags change only by verbs."""

    method: ClassVar[str] = "fabric.edit"
    result = TASK

    task: TaskId
    title: Text | None = None
    description: Text | None = None
    priority: Priority | None = None
    score: Score | None = None
    tier: Word | None = None
    due: Instant | None = None
    clear_due: bool = False
    add_tags: tuple[Word, ...] = ()
    remove_tags: tuple[Word, ...] = ()


class Move(Verb[Task]):
    """Move a card by hand: within its board, or to another queue."""

    method: ClassVar[str] = "fabric.move"
    result = TASK

    task: TaskId
    queue: Word | None = None
    column: Word | None = None
    swimlane: Word | None = None
    top: bool = False
    after: TaskId | None = None
    position: Annotated[int, Field(ge=1, strict=True)] | None = None


class Comment(Verb[Entry]):
    """Say something on a task. A comment grants nothing."""

    method: ClassVar[str] = "fabric.comment"
    result = ENTRY

    task: TaskId
    text: Annotated[str, AfterValidator(sound), Field(min_length=1)]


class Attach(Verb[Attachment]):
    """Put a file on a task."""

    method: ClassVar[str] = "fabric.attach"
    result = ATTACHMENT

    task: TaskId
    file: FileArg
    fence: FenceArg | None = None


class Download(Verb[FileArg]):
    """The bytes of an attachment."""

    method: ClassVar[str] = "fabric.download"
    result = plain(lambda f: f.model_dump(), FileArg.model_validate)

    attachment: Annotated[int, Field(ge=1, lt=2**62, strict=True)]


class Show(Verb[Thread]):
    """A task with its thread."""

    method: ClassVar[str] = "fabric.show"
    result = Codec[Thread](encode=encode_thread, decode=decode_thread)

    task: TaskId


class List(Verb[list[Task]]):
    """Find tasks: those that are open unless statuses are named."""

    method: ClassVar[str] = "fabric.list"
    result = listed(TASK)

    queue: Word | None = None
    statuses: tuple[Status, ...] | None = None
    mine: bool = False
    text: Word = ""
    overdue: bool = False
    parent: TaskId | None = None
    after_id: Annotated[int, Field(ge=0, lt=2**62, strict=True)] = 0
    limit: Page = 100


class Events(Verb[EventPage]):
    """The journal from a cursor on: of one task, of one queue, or all that the caller may see."""

    method: ClassVar[str] = "fabric.events"
    result = EVENTS

    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,20}-[0-9]{1,19}$")] | Literal["", "end"] = ""
    task: TaskId | None = None
    queue: Word | None = None
    limit: Page = 100


class Tree(Verb[Kin]):
    """A task with its descendants."""

    method: ClassVar[str] = "fabric.tree"
    result = Codec[Kin](encode=encode_kin, decode=decode_kin)

    task: TaskId


class Why(Verb[Explanation]):
    """What holds a task back, and until when."""

    method: ClassVar[str] = "fabric.why"
    result = Codec[Explanation](encode=encode_explanation, decode=decode_explanation)

    task: TaskId


class Wait(Verb[Awaited]):
    """Wait until there is work in a queue (or the caller's queues), or until a task has finished or asks."""

    method: ClassVar[str] = "fabric.wait"
    result = AWAITED

    task: TaskId | None = None
    queue: Word | None = None
    timeout: Annotated[Seconds, Field(ge=0, le=3600)] = 30.0  # seconds; the server caps it


class Sweep(Verb[Swept]):
    """Take back expired leases. For the keeper and for administrators."""

    method: ClassVar[str] = "fabric.sweep"
    result = SWEPT

    limit: Page = 100


def _concrete(kind: type[Verb[Any]]) -> list[type[Verb[Any]]]:
    found = [kind] if "method" in vars(kind) else []
    return found + [verb for sub in kind.__subclasses__() for verb in _concrete(sub)]


BY_METHOD: Final[Mapping[str, type[Verb[Any]]]] = {verb.method: verb for verb in _concrete(Verb)}
