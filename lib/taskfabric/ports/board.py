"""The board: the one store of tasks. Each verb is one transaction, its journal event and comment included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import FabricError
from taskfabric.domain.lease import Fence, Renewal
from taskfabric.domain.outcome import Done, Outcome
from taskfabric.domain.principal import Stamp, Trust, Viewer
from taskfabric.domain.status import Status
from taskfabric.domain.task import Attachment, Claimed, Entry, Kin, NewTask, Submitted, Task, Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What a claimer may take, and how long it wants it."""

    queues: tuple[int, ...]  # project ids in the order of preference
    own: frozenset[int] = frozenset()  # those that are the claimer's own queue
    tiers: tuple[str, ...] | None = None  # None = every tier
    capabilities: tuple[str, ...] | None = ()  # None = everything
    trust: Trust = Trust.SANDBOXED
    lease: timedelta = timedelta(minutes=10)
    order: tuple[int, ...] = (3, 2, 1, 0)
    aging: timedelta = timedelta(hours=4)
    concurrency: int | None = None  # live leases this holder may have; None = no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which tasks to find. Every condition given must hold; order is by id, newest last."""

    queues: tuple[int, ...] | None = None
    statuses: tuple[Status, ...] | None = None
    submitter_id: int | None = None
    holder_id: int | None = None
    asked_id: int | None = None
    involves_id: int | None = None  # submitter, holder, asked, or the human on whose behalf it is
    parent: int | None = None
    text: str = ""  # in title, description or id, case-insensitive
    overdue: bool = False
    after_id: int = 0  # paging
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOn:
    """An open question that somebody answers in another's place."""

    task_id: int
    by: str  # for whom it was, and will be again
    by_id: int
    to: str
    to_id: int
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Changes to a task's own words; None leaves alone. Reserved tags and provenance cannot be changed so."""

    title: str | None = None
    description: str | None = None
    priority: int | None = None
    score: int | None = None
    tier: str | None = None  # "" = none: by score again
    due: datetime | None = None
    clear_due: bool = False
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a card is moved by hand. At most one of top, after and position; none = the bottom."""

    column: str | None = None  # title; None = stay
    swimlane: str | None = None  # name; None = stay
    top: bool = False
    after: int | None = None  # directly below this task
    position: int | None = None  # 1-based, as Kanboard counts


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that is in the file store already, to be listed on a task."""

    name: str
    size: int  # bytes
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did."""

    ready: tuple[int, ...] = ()  # tasks given back
    dead: tuple[int, ...] = ()  # tasks whose attempts are spent
    skipped: int = 0  # rows that another transaction had


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a board is and how it is."""

    kind: str  # native | kanboard
    now: datetime
    facts: dict[str, str | int | bool | None] = field(default_factory=dict)


class Board(Protocol):
    """Raises ``Unavailable`` from any method while the store cannot be reached; then nothing was written, or, for a
    lost connection, the outcome is unknown and the call may be repeated (a submit only with a key)."""

    def hello(self) -> Hello: ...

    def now(self) -> datetime:
        """The board's clock, the only one that judges time."""

    # -- making work ---------------------------------------------------------------------------------
    def submit(self, new: Sequence[NewTask], stamp: Stamp, limits: Limits) -> list[Submitted]:
        """All of them are on the board, or none. A task whose key was used is returned as it stands.

        Raises Refused (quota, depth, fan-out, cycle), NotFound (parent, blocker), KeyConflict."""

    # -- the holder's verbs --------------------------------------------------------------------------
    def claim(self, want: Want, limit: int, stamp: Stamp) -> list[Claimed]:
        """Up to ``limit`` tasks are leased to the caller, each with a new fence; expired leases of the queues are
        taken back first. An empty list: nothing to claim, or the concurrency is used up."""

    def has_work(self, want: Want, stamp: Stamp) -> bool:
        """Whether a claim now might get something; costs less than the claim."""

    def is_full(self, project_id: int) -> bool:
        """Whether a limit of this queue's columns stops its claims now."""

    def take(self, task_id: int, want: Want, stamp: Stamp) -> Claimed:
        """This very task is leased to the caller. Raises HeldBy, IllegalMove (with why_not), Refused, NotFound."""

    def renew(self, fences: Sequence[Fence], lease: timedelta | None, stamp: Stamp) -> list[Renewal]:
        """Each lease whose fence is current now lasts until now + its length (or ``lease``); the others say lost."""

    def settle(self, fence: Fence, outcome: Outcome, stamp: Stamp, files: Sequence[NewFile] = ()) -> Task:
        """The run ended with this outcome and these files are listed on the task; waiters are released in the same
        transaction. Raises LeaseLost: then no file is listed, and a late result is kept."""

    def settle_many(self, ends: Sequence[tuple[Fence, Done]], stamp: Stamp) -> list[Task | FabricError]:
        """As ``settle`` for each, in one transaction; a lost lease is an element, not a failure of the rest."""

    def settle_by_hand(self, task_id: int, outcome: Outcome, stamp: Stamp, files: Sequence[NewFile] = ()) -> Task:
        """A human ends his own work, or moves on somebody's task by hand, without a fence: a fact. The files are
        listed in the same transaction."""

    # -- people's verbs ------------------------------------------------------------------------------
    def answer(self, task_id: int, text: str, stamp: Stamp) -> Task: ...
    def pass_on(self, task_id: int, to_id: int, text: str, stamp: Stamp, until: datetime) -> Task:
        """The open question is for that person until then, and the words are in the thread. Raises IllegalMove without
        one."""

    def passed_on(self, *, task_id: int | None = None, to_id: int | None = None) -> list[PassedOn]:
        """The open questions that are with somebody else: that of a task, those that a person has, or all."""

    def passed_over(self, limit: int) -> list[PassedOn]:
        """Those whose time with somebody else is over."""

    def take_back(self, task_id: int, text: str, stamp: Stamp) -> Task | None:
        """The question whose time with somebody else is over is again for who passed it on, and the words are in the
        thread. None, and no word: it is answered, or was taken back before."""

    def verify(self, task_id: int, note: str, stamp: Stamp) -> Task: ...
    def reject(self, task_id: int, note: str, stamp: Stamp) -> Task: ...
    def cancel(self, task_id: int, note: str, stamp: Stamp) -> Task: ...
    def redrive(self, task_id: int, note: str, stamp: Stamp) -> Task: ...
    def edit(self, task_id: int, edit: Edit, stamp: Stamp) -> Task: ...
    def move(self, task_id: int, place: Place, stamp: Stamp) -> Task:
        """The card stands there; a human's move of a leased task ends the lease."""

    def transfer(self, task_id: int, project_id: int, stamp: Stamp) -> Task:
        """The task is in another queue. Raises IllegalMove while it is leased."""

    def comment(self, task_id: int, text: str, stamp: Stamp) -> Entry: ...
    def attach(self, task_id: int, name: str, size: int, sha256: str, stamp: Stamp, fence: Fence | None) -> Attachment:
        """The file, already in the file store, is listed on the task. Raises LeaseLost for a stale fence."""

    # -- housekeeping --------------------------------------------------------------------------------
    def sweep(self, limit: int, stamp: Stamp, queues: Sequence[int] | None = None) -> Swept:
        """Expired leases are taken back, each in its own savepoint; the condition is repeated in each write."""

    def refusal(self, kind: str, task_id: int | None, stamp: Stamp, facts: dict[str, object]) -> None:
        """A refusal is in the journal. The only write that is not a transition."""

    # -- reading -------------------------------------------------------------------------------------
    def get(self, task_id: int, viewer: Viewer | None) -> Task:
        """Raises NotFound for a missing task and for one that the viewer may not see. None = the fabric itself."""

    def find(self, filter: Filter, viewer: Viewer) -> list[Task]: ...
    def count(self, viewer: Viewer) -> dict[int, dict[Status, int]]:
        """Visible rows by project and status."""

    def thread(self, task_id: int, viewer: Viewer) -> Thread: ...
    def tree(self, task_id: int, viewer: Viewer) -> Kin:
        """The task with its descendants, as far as the viewer may see."""

    def kinship(self, task_id: int) -> frozenset[int]:
        """Agents that submitted, held or produced this task, its ancestors or its descendants, in whatever epoch."""

    def ancestors(self, task_id: int) -> tuple[int, ...]:
        """The task's parent, that one's parent, and so on to the root; empty for a root and for a missing task."""

    def places(self, task_ids: Sequence[int]) -> dict[int, int]:
        """In which project each of these tasks stands; those that do not exist are left out."""

    def attachment(self, attachment_id: int, viewer: Viewer) -> Attachment: ...
