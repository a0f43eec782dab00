"""What the verbs answer beyond the nouns of the domain, and how every answer travels as JSON and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeVar

from taskfabric.domain.errors import FabricError, from_json
from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.lease import Fence, Renewal
from taskfabric.domain.queue import Queue
from taskfabric.domain.status import Hindrance, Reason
from taskfabric.domain.task import Attachment, Claimed, Entry, Kin, LateResult, Submitted, Task, Thread, instant
from taskfabric.ports.board import Swept
from taskfabric.ports.fabric import Codec

T = TypeVar("T")

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
    claimers: tuple[str, ...] = ()  # agents whose card fits, or the inbox's owner, when it is claimable


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


def listed(codec: Codec[T]) -> Codec[list[T]]:
    return Codec(
        encode=lambda xs: [codec.encode(x) for x in xs],
        decode=lambda xs: [codec.decode(x) for x in xs],
    )


def plain(encode: Callable[[Any], Any] = lambda x: x, decode: Callable[[Any], Any] = lambda x: x) -> Codec[Any]:
    return Codec(encode=encode, decode=decode)


def encode_claimed(got: Claimed) -> dict[str, Any]:
    fence = {"task": got.fence.task_id, "epoch": got.fence.epoch, "token": got.fence.hex}
    return {**got.task.to_json(ref=str(got.fence)), "fence": fence}


def decode_claimed(shape: Mapping[str, Any]) -> Claimed:
    f = shape["fence"]
    return Claimed(task=Task.from_json(shape), fence=Fence.parse(f["task"], f["epoch"], f["token"]))


def encode_entry(entry: Entry) -> dict[str, Any]:
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


def decode_entry(shape: Mapping[str, Any]) -> Entry:
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


def encode_attachment(a: Attachment) -> dict[str, Any]:
    return {
        "id": a.id,
        "task": a.task_id,
        "name": a.name,
        "size": a.size,
        "sha256": a.sha256,
        "author": a.author,
        "at": _z(a.at),
    }


def decode_attachment(shape: Mapping[str, Any]) -> Attachment:
    return Attachment(
        id=shape["id"],
        task_id=shape["task"],
        name=shape["name"],
        size=shape["size"],
        sha256=shape["sha256"],
        author=shape["author"],
        at=datetime.fromisoformat(shape["at"]),
    )


def encode_thread(thread: Thread) -> dict[str, Any]:
    return {
        **thread.task.to_json(),
        "thread": [encode_entry(e) for e in thread.entries],
        "attachments": [encode_attachment(a) for a in thread.attachments],
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


def decode_thread(shape: Mapping[str, Any]) -> Thread:
    return Thread(
        task=Task.from_json(shape),
        entries=tuple(decode_entry(e) for e in shape["thread"]),
        attachments=tuple(decode_attachment(a) for a in shape["attachments"]),
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


def encode_kin(kin: Kin) -> dict[str, Any]:
    return {**kin.task.to_json(), "tree": [encode_kin(c) for c in kin.children]}


def decode_kin(shape: Mapping[str, Any]) -> Kin:
    return Kin(task=Task.from_json(shape), children=tuple(decode_kin(c) for c in shape["tree"]))


def encode_reason(reason: Reason) -> dict[str, Any]:
    return {"kind": reason.kind.value, "text": reason.text, "until": _z(reason.until)}


def decode_reason(shape: Mapping[str, Any]) -> Reason:
    return Reason(kind=Hindrance(shape["kind"]), text=shape["text"], until=instant(shape["until"]))


def encode_explanation(why: Explanation) -> dict[str, Any]:
    return {
        "task": why.task.to_json(),
        "claimable": why.claimable,
        "first": None if why.first is None else encode_reason(why.first),
        "reasons": [encode_reason(r) for r in why.reasons],
        "claimers": list(why.claimers),
    }


def decode_explanation(shape: Mapping[str, Any]) -> Explanation:
    return Explanation(
        task=Task.from_json(shape["task"]),
        claimable=shape["claimable"],
        first=None if shape["first"] is None else decode_reason(shape["first"]),
        reasons=tuple(decode_reason(r) for r in shape["reasons"]),
        claimers=tuple(shape["claimers"]),
    )


def encode_end(end: Task | FabricError) -> dict[str, Any]:
    return {"error": end.to_json()} if isinstance(end, FabricError) else end.to_json()


def decode_end(shape: Mapping[str, Any]) -> Task | FabricError:
    # A task has a field "error" as well: its last failure.
    return from_json(shape["error"]) if shape.keys() == {"error"} else Task.from_json(shape)


def encode_greeting(hi: Greeting) -> dict[str, Any]:
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
CLAIMED: Final = Codec[Claimed](encode=encode_claimed, decode=decode_claimed)
RENEWAL: Final = Codec[Renewal](
    encode=lambda r: {"task": r.task_id, "epoch": r.epoch, "until": _z(r.until), "holder": r.holder},
    decode=lambda x: Renewal(task_id=x["task"], epoch=x["epoch"], until=instant(x["until"]), holder=x["holder"]),
)
ENTRY: Final = Codec[Entry](encode=encode_entry, decode=decode_entry)
ATTACHMENT: Final = Codec[Attachment](encode=encode_attachment, decode=decode_attachment)
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
