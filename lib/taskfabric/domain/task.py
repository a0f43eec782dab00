"""The task: the one noun of the board, and the JSON shape in which every surface shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Trust
from taskfabric.domain.status import Flag, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A piece of wanted work, as it stands in its row."""

    id: int
    queue: str  # the queue's name
    project_id: int
    title: str
    status: Status
    description: str = ""
    column: str = ""  # the column's title
    swimlane: str = ""
    is_open: bool = True
    flags: Flag = Flag.NONE
    tags: tuple[str, ...] = ()  # people's tags; `all_tags` adds the reserved ones
    priority: int = 0  # 0..3
    score: int | None = None  # Fibonacci; None = unrated
    tier: str = ""  # the tier that a claimer must offer; "" = any
    needs: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()  # context by reference: git:…, file:…, task:12, bank:…
    required_trust: Trust = Trust.UNTRUSTED  # the least trust of a claimer
    trust: Trust = Trust.HUMAN  # the lowest of what made it; immutable
    label: str = "household"  # confidentiality; immutable
    submitter: str = ""
    submitter_id: int = 0
    on_behalf: str | None = None  # the human for whom it was made; immutable
    holder: str | None = None
    holder_id: int | None = None
    holder_instance: str = ""
    epoch: int = 0
    lease_until: datetime | None = None
    lease_length: timedelta | None = None
    attempts: int = 0
    max_attempts: int = 3
    parks: int = 0
    waits: int = 0
    releases: int = 0
    asked: str | None = None  # who is to answer
    hold: str | None = None  # why it is held
    parent: int | None = None
    root: int | None = None
    depth: int = 0
    children: int = 0
    open_children: int = 0
    blockers: tuple[int, ...] = ()  # those still open
    open_blockers: int = 0
    key: str | None = None
    reference: str = ""  # the user's own
    due: datetime | None = None
    not_before: datetime | None = None
    created: datetime
    started: datetime | None = None
    completed: datetime | None = None
    updated_at: datetime
    producer: str | None = None  # who finished it last
    producer_id: int | None = None
    verdict: str | None = None  # pass | fail
    note: str | None = None  # the note of the last finish
    error: str | None = None  # the last failure
    restricted: bool = False  # the viewer may see only state and result note

    def changed(self, **changes: Any) -> Task:
        """The same task with these fields: ``dataclasses.replace``, in a third of its time."""
        return new_task(**{**dict(zip(_NAMES, _VALUES(self), strict=True)), **changes})

    @property
    def all_tags(self) -> tuple[str, ...]:
        """People's tags and the reserved ones, as the card shows them."""
        reserved = [*self.flags.tags, *(f"needs:{need}" for need in self.needs)]
        if self.tier:
            reserved.append(f"tier:{self.tier}")
        if self.required_trust > Trust.UNTRUSTED:
            reserved.append(f"trust:{self.required_trust.word}")
        return (*self.tags, *reserved)

    def to_json(self, *, ref: str | None = None) -> dict[str, Any]:
        """The contracted shape (DESIGN.md, "Task"); instants in ISO 8601 UTC."""
        return {
            "ref": ref or str(self.id),
            "id": self.id,
            "queue": self.queue,
            "project_id": self.project_id,
            "title": self.title,
            "description": self.description,
            "status": self.status.value,
            "column": self.column,
            "swimlane": self.swimlane,
            "open": self.is_open,
            "holder": self.holder,
            "holder_instance": self.holder_instance,
            "epoch": self.epoch,
            "lease_until": _iso(self.lease_until),
            "attempts": self.attempts,
            "max_attempts": self.max_attempts,
            "parks": self.parks,
            "waits": self.waits,
            "releases": self.releases,
            "priority": self.priority,
            "score": self.score,
            "tier": self.tier,
            "needs": list(self.needs),
            "refs": list(self.refs),
            "tags": list(self.all_tags),
            "required_trust": self.required_trust.word,
            "trust": self.trust.word,
            "label": self.label,
            "due": _iso(self.due),
            "not_before": _iso(self.not_before),
            "parent": self.parent,
            "root": self.root,
            "depth": self.depth,
            "children": self.children,
            "open_children": self.open_children,
            "blockers": list(self.blockers),
            "open_blockers": self.open_blockers,
            "submitter": self.submitter,
            "on_behalf": self.on_behalf,
            "asked": self.asked,
            "hold": self.hold,
            "key": self.key,
            "reference": self.reference,
            "created": _iso(self.created),
            "started": _iso(self.started),
            "completed": _iso(self.completed),
            "updated_at": _iso(self.updated_at),
            "producer": self.producer,
            "verdict": self.verdict,
            "note": self.note,
            "error": self.error,
            "restricted": self.restricted,
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Task:
        """The task that ``to_json`` described, as far as the shape carries it."""
        flags = Flag.NONE
        plain: list[str] = []
        for tag in shape["tags"]:
            bit = _flag(tag)
            if bit is not None:
                flags |= bit
            elif not tag.startswith(("tier:", "trust:", "needs:")):
                plain.append(tag)
        return cls(
            id=shape["id"],
            queue=shape["queue"],
            project_id=shape["project_id"],
            title=shape["title"],
            description=shape["description"],
            status=Status(shape["status"]),
            column=shape["column"],
            swimlane=shape["swimlane"],
            is_open=shape["open"],
            flags=flags,
            tags=tuple(plain),
            priority=shape["priority"],
            score=shape["score"],
            tier=shape["tier"],
            needs=tuple(shape["needs"]),
            refs=tuple(shape["refs"]),
            required_trust=Trust.of(shape["required_trust"]),
            trust=Trust.of(shape["trust"]),
            label=shape["label"],
            submitter=shape["submitter"],
            on_behalf=shape["on_behalf"],
            holder=shape["holder"],
            holder_instance=shape["holder_instance"],
            epoch=shape["epoch"],
            lease_until=instant(shape["lease_until"]),
            attempts=shape["attempts"],
            max_attempts=shape["max_attempts"],
            parks=shape["parks"],
            waits=shape["waits"],
            releases=shape["releases"],
            asked=shape["asked"],
            hold=shape["hold"],
            parent=shape["parent"],
            root=shape["root"],
            depth=shape["depth"],
            children=shape["children"],
            open_children=shape["open_children"],
            blockers=tuple(shape["blockers"]),
            open_blockers=shape["open_blockers"],
            key=shape["key"],
            reference=shape["reference"],
            due=instant(shape["due"]),
            not_before=instant(shape["not_before"]),
            created=_must(shape["created"]),
            started=instant(shape["started"]),
            completed=instant(shape["completed"]),
            updated_at=_must(shape["updated_at"]),
            producer=shape["producer"],
            verdict=shape["verdict"],
            note=shape["note"],
            error=shape["error"],
            restricted=shape["restricted"],
        )


_NAMES: Final = tuple(item.name for item in fields(Task))
_VALUES: Final = attrgetter(*_NAMES)

if TYPE_CHECKING:
    new_task = Task
else:
    # A frozen dataclass sets each of its fields by a call: for this one 8 of 10 microseconds, and every claim, finish
    # and submit makes one. So a task is filled while it is of a class of the same shape that may be written to.
    _Draft = make_dataclass(
        "_Draft", [(f.name, f.type, field(default=f.default)) for f in fields(Task)], slots=True, kw_only=True
    )

    def new_task(**values: object) -> Task:
        """``Task(**values)``, made where there are many."""
        made = _Draft(**values)
        made.__class__ = Task
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task as it is to be made: checked, its target resolved to a queue, its provenance fixed by the hallway."""

    project_id: int
    title: str
    description: str = ""
    priority: int = 0
    score: int | None = None
    tier: str = ""
    needs: tuple[str, ...] = ()
    required_trust: Trust = Trust.UNTRUSTED
    tags: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    reference: str = ""
    due: datetime | None = None
    not_before: datetime | None = None
    parent: int | None = None
    after: tuple[int, ...] = ()  # blocked by these
    backlog: bool = False  # to Backlog instead of Ready
    column_id: int | None = None  # to this very column instead
    swimlane_id: int | None = None  # None = the queue's own
    hold: str | None = None  # why it starts held (score check), or None
    human_verify: bool = False  # only a human closes it
    max_attempts: int = 3
    key: str | None = None
    key_open: bool = False  # the key counts only while the task is open
    body_hash: bytes = b""
    trust: Trust = Trust.HUMAN
    label: str = "household"
    on_behalf_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer to a submit: the task, and whether this call made it (G11)."""

    task: Task
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A granted claim: the task as it now stands, and the fence for all that follows."""

    task: Task
    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a task's thread: a person's comment, or a fact the fabric wrote down."""

    id: int
    task_id: int
    author: str
    author_id: int
    at: datetime
    text: str  # rendered by the comment grammar for the fabric's own lines
    kind: str = ""  # "" = a person's words; else a kind of the grammar
    epoch: int | None = None
    modified: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file on a task. The bytes live in the file store, not here."""

    id: int
    task_id: int
    name: str
    size: int  # bytes
    sha256: str
    author: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A task with all that was said and done on it."""

    task: Task
    entries: tuple[Entry, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    late_results: tuple[LateResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LateResult:
    """What a holder offered after it lost the lease; kept, never applied (G3). One for each epoch."""

    task_id: int
    epoch: int
    author: str
    at: datetime
    outcome: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """A node of the tree of tasks: the task and its children."""

    task: Task
    children: tuple[Kin, ...] = field(default=())


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def instant(text: str | None) -> datetime | None:
    """The aware instant that an ISO 8601 text names; None for None."""
    return None if text is None else datetime.fromisoformat(text)


def _must(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _flag(tag: str) -> Flag | None:
    from taskfabric.domain.status import FLAG_OF_TAG

    return FLAG_OF_TAG.get(tag)
