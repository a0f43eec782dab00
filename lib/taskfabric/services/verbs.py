"""One argument model a verb: what may be asked of the fabric, over every surface.

Each class names its JSON-RPC procedure and how its result travels. Texts hold no NUL and no lone surrogate; instants
carry a zone; a task is written ``12``, ``'#12'`` or ``12@3``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from taskfabric.domain.errors import FabricError, from_json
from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.lease import Fence, Renewal, TaskRef
from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import Hindrance, Reason, Status
from taskfabric.domain.task import Attachment, Claimed, Entry, Kin, LateResult, Submitted, Task, Thread, instant
from taskfabric.ports.board import Swept
from taskfabric.ports.fabric import Codec, Verb

T = TypeVar("T")


def _sound(text: str) -> str:
    if "\x00" in text:
        raise ValueError("a text may not contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text may not contain half of a surrogate pair") from None
    return text


def _task_id(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a task is written as 12, '#12' or 12@3")
    return TaskRef.parse(value).id


Text = Annotated[str, AfterValidator(_sound)]
Word = Annotated[str, AfterValidator(_sound), Field(max_length=255)]
TaskId = Annotated[int, BeforeValidator(_task_id)]
Priority = Annotated[int, Field(ge=0, le=3, strict=True)]
Score = Annotated[int, Field(ge=0, le=1000, strict=True)]
Page = Annotated[int, Field(ge=1, le=1000, strict=True)]


class FenceArg(BaseModel):
    """A fence as it travels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: TaskId
    epoch: Annotated[int, Field(ge=0, lt=2**62, strict=True)]
    token: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]

    @property
    def value(self) -> Fence:
        return Fence.parse(self.task, self.epoch, self.token)

    @classmethod
    def of(cls, fence: Fence) -> FenceArg:
        return cls(task=fence.task_id, epoch=fence.epoch, token=fence.hex)


class FileArg(BaseModel):
    """A file as it travels: its name and its bytes in base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Word
    data: str

    @property
    def bytes(self) -> bytes:
        """Raises ValueError if the text is not base64."""
        return base64.b64decode(self.data, validate=True)


# -- results that are not nouns of the domain ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """Who the caller is and where it has come."""

    version: str
    board: str
    now: datetime
    name: str
    kind: str
    trust: str
    zone: str
    via: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a task is not being worked: the one thing that holds it, then everything."""

    task: Task
    claimable: bool
    first: Reason | None
    reasons: tuple[Reason, ...] = ()
    claimers: tuple[str, ...] = ()  # agents whose card fits, when it is claimable


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events and the cursor to go on from."""

    events: tuple[Event, ...]
    cursor: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What a wait brought: ``happened`` is False when it ran out."""

    happened: bool
    task: Task | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of ``fabric doctor``."""

    name: str
    state: Literal["ok", "warn", "fail"]
    text: str
    next: str = ""


# -- codecs ------------------------------------------------------------------------------------------------


def _z(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _list(codec: Codec[T]) -> Codec[list[T]]:
    return Codec(
        encode=lambda xs: [codec.encode(x) for x in xs],
        decode=lambda xs: [codec.decode(x) for x in xs],
    )


def _plain(encode: Callable[[Any], Any] = lambda x: x, decode: Callable[[Any], Any] = lambda x: x) -> Codec[Any]:
    return Codec(encode=encode, decode=decode)


def _encode_claimed(got: Claimed) -> dict[str, Any]:
    fence = {"task": got.fence.task_id, "epoch": got.fence.epoch, "token": got.fence.hex}
    return {**got.task.to_json(ref=str(got.fence)), "fence": fence}


def _decode_claimed(shape: Mapping[str, Any]) -> Claimed:
    f = shape["fence"]
    return Claimed(task=Task.from_json(shape), fence=Fence.parse(f["task"], f["epoch"], f["token"]))


def _encode_entry(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "task": entry.task_id,
        "author": entry.author,
        "author_id": entry.author_id,
        "at": _z(entry.at),
        "text": entry.text,
        "kind": entry.kind,
        "epoch": entry.epoch,
        "modified": _z(entry.modified),
    }


def _decode_entry(shape: Mapping[str, Any]) -> Entry:
    return Entry(
        id=shape["id"],
        task_id=shape["task"],
        author=shape["author"],
        author_id=shape["author_id"],
        at=datetime.fromisoformat(shape["at"]),
        text=shape["text"],
        kind=shape["kind"],
        epoch=shape["epoch"],
        modified=instant(shape["modified"]),
    )


def _encode_attachment(a: Attachment) -> dict[str, Any]:
    return {
        "id": a.id,
        "task": a.task_id,
        "name": a.name,
        "size": a.size,
        "sha256": a.sha256,
        "author": a.author,
        "at": _z(a.at),
    }


def _decode_attachment(shape: Mapping[str, Any]) -> Attachment:
    return Attachment(
        id=shape["id"],
        task_id=shape["task"],
        name=shape["name"],
        size=shape["size"],
        sha256=shape["sha256"],
        author=shape["author"],
        at=datetime.fromisoformat(shape["at"]),
    )


def _encode_thread(thread: Thread) -> dict[str, Any]:
    return {
        **thread.task.to_json(),
        "thread": [_encode_entry(e) for e in thread.entries],
        "attachments": [_encode_attachment(a) for a in thread.attachments],
        "late_results": [
            {
                "task": late.task_id,
                "epoch": late.epoch,
                "author": late.author,
                "at": _z(late.at),
                "outcome": late.outcome,
                "text": late.text,
            }
            for late in thread.late_results
        ],
    }


def _decode_thread(shape: Mapping[str, Any]) -> Thread:
    return Thread(
        task=Task.from_json(shape),
        entries=tuple(_decode_entry(e) for e in shape["thread"]),
        attachments=tuple(_decode_attachment(a) for a in shape["attachments"]),
        late_results=tuple(
            LateResult(
                task_id=late["task"],
                epoch=late["epoch"],
                author=late["author"],
                at=datetime.fromisoformat(late["at"]),
                outcome=late["outcome"],
                text=late["text"],
            )
            for late in shape["late_results"]
        ),
    )


def _encode_kin(kin: Kin) -> dict[str, Any]:
    return {**kin.task.to_json(), "tree": [_encode_kin(c) for c in kin.children]}


def _decode_kin(shape: Mapping[str, Any]) -> Kin:
    return Kin(task=Task.from_json(shape), children=tuple(_decode_kin(c) for c in shape["tree"]))


def _encode_reason(reason: Reason) -> dict[str, Any]:
    return {"kind": reason.kind.value, "text": reason.text, "until": _z(reason.until)}


def _decode_reason(shape: Mapping[str, Any]) -> Reason:
    return Reason(kind=Hindrance(shape["kind"]), text=shape["text"], until=instant(shape["until"]))


def _encode_explanation(why: Explanation) -> dict[str, Any]:
    return {
        "task": why.task.to_json(),
        "claimable": why.claimable,
        "first": None if why.first is None else _encode_reason(why.first),
        "reasons": [_encode_reason(r) for r in why.reasons],
        "claimers": list(why.claimers),
    }


def _decode_explanation(shape: Mapping[str, Any]) -> Explanation:
    return Explanation(
        task=Task.from_json(shape["task"]),
        claimable=shape["claimable"],
        first=None if shape["first"] is None else _decode_reason(shape["first"]),
        reasons=tuple(_decode_reason(r) for r in shape["reasons"]),
        claimers=tuple(shape["claimers"]),
    )


def _encode_end(end: Task | FabricError) -> dict[str, Any]:
    return {"error": end.to_json()} if isinstance(end, FabricError) else end.to_json()


def _decode_end(shape: Mapping[str, Any]) -> Task | FabricError:
    return from_json(shape["error"]) if "error" in shape else Task.from_json(shape)


def _encode_greeting(hi: Greeting) -> dict[str, Any]:
    return {
        "version": hi.version,
        "board": hi.board,
        "now": _z(hi.now),
        "name": hi.name,
        "kind": hi.kind,
        "trust": hi.trust,
        "zone": hi.zone,
        "via": hi.via,
        "facts": hi.facts,
    }


TASK: Final = Codec[Task](encode=Task.to_json, decode=Task.from_json)
SUBMITTED: Final = Codec[Submitted](
    encode=lambda s: {**s.task.to_json(), "created_now": s.created},
    decode=lambda x: Submitted(task=Task.from_json(x), created=x["created_now"]),
)
CLAIMED: Final = Codec[Claimed](encode=_encode_claimed, decode=_decode_claimed)
RENEWAL: Final = Codec[Renewal](
    encode=lambda r: {"task": r.task_id, "epoch": r.epoch, "until": _z(r.until), "holder": r.holder},
    decode=lambda x: Renewal(task_id=x["task"], epoch=x["epoch"], until=instant(x["until"]), holder=x["holder"]),
)
ENTRY: Final = Codec[Entry](encode=_encode_entry, decode=_decode_entry)
ATTACHMENT: Final = Codec[Attachment](encode=_encode_attachment, decode=_decode_attachment)
QUEUE: Final = Codec[Queue](encode=Queue.to_json, decode=Queue.from_json)
EVENTS: Final = Codec[EventPage](
    encode=lambda p: {"events": [e.to_json() for e in p.events], "cursor": str(p.cursor)},
    decode=lambda x: EventPage(events=tuple(Event.from_json(e) for e in x["events"]), cursor=Cursor.parse(x["cursor"])),
)
SWEPT: Final = Codec[Swept](
    encode=lambda s: {"ready": list(s.ready), "dead": list(s.dead), "skipped": s.skipped},
    decode=lambda x: Swept(ready=tuple(x["ready"]), dead=tuple(x["dead"]), skipped=x["skipped"]),
)
AWAITED: Final = Codec[Awaited](
    encode=lambda a: {"happened": a.happened, "task": None if a.task is None else a.task.to_json()},
    decode=lambda x: Awaited(happened=x["happened"], task=None if x["task"] is None else Task.from_json(x["task"])),
)
CHECK: Final = Codec[Check](
    encode=lambda c: {"name": c.name, "state": c.state, "text": c.text, "next": c.next}, decode=lambda x: Check(**x)
)

# -- the verbs ---------------------------------------------------------------------------------------------


class Hello(Verb[Greeting]):
    """Who am I here, and what is this board?"""

    method: ClassVar[str] = "fabric.hello"
    result = Codec[Greeting](
        encode=_encode_greeting, decode=lambda x: Greeting(**{**x, "now": datetime.fromisoformat(x["now"])})
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
    refs: tuple[Annotated[str, AfterValidator(_sound), Field(max_length=2000)], ...] = ()
    reference: Annotated[str, AfterValidator(_sound), Field(max_length=191)] = ""
    due: AwareDatetime | None = None
    not_before: AwareDatetime | None = None
    parent: TaskId | None = None
    after: tuple[TaskId, ...] = ()
    key: Annotated[str, AfterValidator(_sound), Field(min_length=1, max_length=200)] | None = None
    key_scope: Literal["life", "open"] = "life"
    backlog: bool = False
    human_verify: bool = False


class SubmitMany(Verb[list[Submitted]]):
    """Make several tasks: all, or none."""

    method: ClassVar[str] = "fabric.submit_many"
    result = _list(SUBMITTED)

    tasks: Annotated[tuple[Submit, ...], Field(min_length=1, max_length=1000)]


class Claim(Verb[list[Claimed]]):
    """Take what comes next: of one queue, or of the caller's own queue and then its pools."""

    method: ClassVar[str] = "fabric.claim"
    result = _list(CLAIMED)

    queue: Word | None = None
    limit: Annotated[int, Field(ge=1, le=100, strict=True)] = 1
    lease: Annotated[float, Field(ge=5, le=7 * 86400)] | None = None  # seconds; None = the default


class Take(Verb[Claimed]):
    """Take this very task."""

    method: ClassVar[str] = "fabric.take"
    result = CLAIMED

    task: TaskId
    lease: Annotated[float, Field(ge=5, le=7 * 86400)] | None = None


class Renew(Verb[list[Renewal]]):
    """Prolong leases, many in one call."""

    method: ClassVar[str] = "fabric.renew"
    result = _list(RENEWAL)

    fences: Annotated[tuple[FenceArg, ...], Field(min_length=1, max_length=1000)]
    lease: Annotated[float, Field(ge=5, le=7 * 86400)] | None = None


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

    until: AwareDatetime
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


class DoneMany(Verb[list[Task | FabricError]]):
    """Finish several tasks in one transaction; a lost lease is an element of the answer."""

    method: ClassVar[str] = "fabric.done_many"
    result = Codec[list[Task | FabricError]](
        encode=lambda xs: [_encode_end(x) for x in xs], decode=lambda xs: [_decode_end(x) for x in xs]
    )

    ends: Annotated[tuple[End, ...], Field(min_length=1, max_length=100)]


class _Note(Verb[Task]):
    result = TASK

    task: TaskId
    note: Text = ""


class Answer(_Note):
    """Answer the question of a waiting task: it goes to the head of its lane."""

    method: ClassVar[str] = "fabric.answer"

    note: Annotated[str, AfterValidator(_sound), Field(min_length=1)]


class Verify(_Note):
    """The result is right: close it. Never by its producer."""

    method: ClassVar[str] = "fabric.verify"


class Reject(_Note):
    """The result is not right: back to Ready, the note is shown to the next run."""

    method: ClassVar[str] = "fabric.reject"

    note: Annotated[str, AfterValidator(_sound), Field(min_length=1)]


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
    due: AwareDatetime | None = None
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
    text: Annotated[str, AfterValidator(_sound), Field(min_length=1)]


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
    result = _plain(lambda f: f.model_dump(), FileArg.model_validate)

    attachment: Annotated[int, Field(ge=1, lt=2**62, strict=True)]


class Show(Verb[Thread]):
    """A task with its thread."""

    method: ClassVar[str] = "fabric.show"
    result = Codec[Thread](encode=_encode_thread, decode=_decode_thread)

    task: TaskId


class List(Verb[list[Task]]):
    """Find tasks: those that are open unless statuses are named."""

    method: ClassVar[str] = "fabric.list"
    result = _list(TASK)

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
    result = Codec[Kin](encode=_encode_kin, decode=_decode_kin)

    task: TaskId


class Why(Verb[Explanation]):
    """What holds a task back, and until when."""

    method: ClassVar[str] = "fabric.why"
    result = Codec[Explanation](encode=_encode_explanation, decode=_decode_explanation)

    task: TaskId


class Wait(Verb[Awaited]):
    """Wait until there is work in a queue (or the caller's queues), or until a task has finished or asks."""

    method: ClassVar[str] = "fabric.wait"
    result = AWAITED

    task: TaskId | None = None
    queue: Word | None = None
    timeout: Annotated[float, Field(ge=0, le=3600)] = 30.0  # seconds; the server caps it


class Sweep(Verb[Swept]):
    """Take back expired leases. For the keeper and for administrators."""

    method: ClassVar[str] = "fabric.sweep"
    result = SWEPT

    limit: Page = 100


class CreateQueue(Verb[Queue]):
    """Make a queue: a pool, a human's inbox, or an agent's queue."""

    method: ClassVar[str] = "fabric.queue.create"
    result = QUEUE

    name: Word
    kind: QueueKind = QueueKind.POOL
    owner: Word | None = None
    score_check: bool | None = None
    needs_verified: bool | None = None
    human_verify: bool | None = None


class ListQueues(Verb[list[Queue]]):
    """The queues that the caller may see or submit to, with the counts of its visible rows."""

    method: ClassVar[str] = "fabric.queue.list"
    result = _list(QUEUE)


class SetMember(Verb[None]):
    """Make somebody a member of a queue, or (role None) no longer one."""

    method: ClassVar[str] = "fabric.queue.member"
    result = _plain()

    queue: Word
    name: Word
    role: ProjectRole | None = ProjectRole.MEMBER


class AddUser(Verb[dict[str, Any]]):
    """Add a human, with an inbox; the answer holds a token, shown once."""

    method: ClassVar[str] = "fabric.user.add"
    result = _plain()

    name: Word
    full_name: Word = ""
    email: Word = ""
    zone: Word = "UTC"
    role: Literal["app-admin", "app-manager", "app-user"] = "app-user"


class ListUsers(Verb[list[dict[str, Any]]]):
    """Humans and agents, as far as the caller may know of them."""

    method: ClassVar[str] = "fabric.user.list"
    result = _plain()


class DisableUser(Verb[dict[str, Any]]):
    """A disabled account answers nobody; its tasks stay."""

    method: ClassVar[str] = "fabric.user.disable"
    result = _plain()

    name: Word
    enable: bool = False


class ResetUser(Verb[dict[str, Any]]):
    """Revoke all tokens of an account and make one new one."""

    method: ClassVar[str] = "fabric.user.reset"
    result = _plain()

    name: Word
    pin: Text | None = Field(default=None, repr=False)


class CreateToken(Verb[dict[str, Any]]):
    """A token for an agent (made if new: sandboxed, member of the default pool) or for oneself; shown once."""

    method: ClassVar[str] = "fabric.token.create"
    result = _plain()

    name: Word
    queues: tuple[Word, ...] = ()
    trust: Literal["untrusted", "sandboxed", "trusted"] = "sandboxed"
    needs: tuple[Word, ...] | None = None  # capabilities of a new agent
    tiers: tuple[Word, ...] | None = None
    concurrency: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None
    expires: AwareDatetime | None = None
    label: Word = ""
    pin: Text | None = Field(default=None, repr=False)


class RevokeToken(Verb[dict[str, Any]]):
    """The token is worth nothing from now on."""

    method: ClassVar[str] = "fabric.token.revoke"
    result = _plain()

    id: Annotated[int, Field(ge=1, lt=2**62, strict=True)]


class ListTokens(Verb[list[dict[str, Any]]]):
    """Tokens, without their secrets."""

    method: ClassVar[str] = "fabric.token.list"
    result = _plain()


class RunToken(Verb[dict[str, Any]]):
    """A token for what a run starts: it acts as the holder, inside that run, until the run ends."""

    method: ClassVar[str] = "fabric.token.run"
    result = _plain()

    fence: FenceArg


class SetPin(Verb[dict[str, Any]]):
    """Set the caller's PIN. Changing one needs the old one."""

    method: ClassVar[str] = "fabric.pin.set"
    result = _plain()

    pin: Text = Field(repr=False)
    old: Text | None = Field(default=None, repr=False)


class Doctor(Verb[list[Check]]):
    """Is everything well, and what could be better?"""

    method: ClassVar[str] = "fabric.doctor"
    result = _list(CHECK)


def _concrete(kind: type[Verb[Any]]) -> list[type[Verb[Any]]]:
    found = [kind] if "method" in vars(kind) else []
    return found + [verb for sub in kind.__subclasses__() for verb in _concrete(sub)]


BY_METHOD: Final[Mapping[str, type[Verb[Any]]]] = {verb.method: verb for verb in _concrete(Verb)}
