"""Where a task stands: one total function over (column, open, reserved tags), and what keeps it from being claimed.

``fabric_status`` in the migrations is the same function in SQL; a property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntFlag, StrEnum
from typing import TYPE_CHECKING, Final, assert_never

if TYPE_CHECKING:
    from taskfabric.domain.task import Task


class ColumnRole(StrEnum):
    """What a column of a queue stands for. A column that a person added has no role (None)."""

    BACKLOG = "backlog"
    READY = "ready"
    WORKING = "working"
    DONE = "done"


COLUMN_TITLES: Final = {
    ColumnRole.BACKLOG: "Backlog",
    ColumnRole.READY: "Ready",
    ColumnRole.WORKING: "Work in progress",
    ColumnRole.DONE: "Done",
}


class Status(StrEnum):
    """The status of a task; see DESIGN.md for the diagram."""

    BACKLOG = "backlog"
    READY = "ready"
    HELD = "held"
    WORKING = "working"
    WAITING = "waiting"
    DONE = "done"
    VERIFIED = "verified"
    DEAD = "dead"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    RECORD = "record"


OPEN_STATUSES: Final = frozenset(
    {Status.BACKLOG, Status.READY, Status.HELD, Status.WORKING, Status.WAITING, Status.DONE}
)
FINISHED: Final = frozenset(
    {Status.DONE, Status.VERIFIED, Status.DEAD, Status.CANCELLED, Status.REJECTED, Status.RECORD}
)


class Flag(IntFlag):
    """Reserved tags that a rule uses, kept as bits of the row and shown as tags. Only verbs change them."""

    NONE = 0
    BLOCKED = 1
    NEEDS_INPUT = 2
    NEEDS_AUTH = 4
    PARKED = 8
    VETO = 16
    DEAD_LETTER = 32
    CANCELLED = 64
    REJECTED = 128
    A2A_MESSAGE = 256
    NEEDS_HUMAN_VERIFY = 512

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that stand for these bits, in the order of the bits."""
        return tuple(str(f.name).lower().replace("_", "-") for f in Flag if f and f in self)


FLAG_OF_TAG: Final = {f.tags[0]: f for f in Flag if f}
RESERVED_PREFIXES: Final = ("tier:", "trust:", "needs:")


def is_reserved(tag: str) -> bool:
    """True for a tag that a rule uses: it survives any replace of tags and only verbs change it."""
    folded = tag.strip().lower()
    return folded in FLAG_OF_TAG or folded.startswith(("tier:", "trust:"))


def status_of(column: ColumnRole | None, is_open: bool, flags: Flag) -> Status:
    """The status, for every combination. An open task in a column without a role counts as backlog: nothing
    leaves it by itself."""
    if not is_open:
        if Flag.A2A_MESSAGE in flags:
            return Status.RECORD
        if Flag.REJECTED in flags:
            return Status.REJECTED
        if Flag.CANCELLED in flags or column is not ColumnRole.DONE:
            return Status.CANCELLED
        return Status.DEAD if Flag.DEAD_LETTER in flags else Status.VERIFIED
    blocked = Flag.BLOCKED in flags
    match column:
        case ColumnRole.DONE:
            return Status.DEAD if Flag.DEAD_LETTER in flags else Status.DONE
        case ColumnRole.WORKING:
            return Status.WAITING if blocked else Status.WORKING
        case ColumnRole.READY:
            return Status.HELD if blocked else Status.READY
        case ColumnRole.BACKLOG | None:
            return Status.HELD if blocked else Status.BACKLOG
        case _:
            assert_never(column)


class A2AState(StrEnum):
    """The task states of A2A v1.0 that the fabric uses."""

    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    REJECTED = "TASK_STATE_REJECTED"


def a2a_state(status: Status, flags: Flag, *, claimed_before: bool) -> A2AState | None:
    """How A2A names this status; None for a record, which is not a task."""
    match status:
        case Status.BACKLOG | Status.HELD:
            return A2AState.SUBMITTED
        case Status.READY:
            return A2AState.WORKING if claimed_before else A2AState.SUBMITTED
        case Status.WORKING:
            return A2AState.WORKING
        case Status.WAITING:
            if Flag.NEEDS_AUTH in flags:
                return A2AState.AUTH_REQUIRED
            return A2AState.INPUT_REQUIRED if Flag.NEEDS_INPUT in flags else A2AState.WORKING
        case Status.DONE | Status.VERIFIED:
            return A2AState.COMPLETED
        case Status.DEAD:
            return A2AState.FAILED
        case Status.CANCELLED:
            return A2AState.CANCELED
        case Status.REJECTED:
            return A2AState.REJECTED
        case Status.RECORD:
            return None
        case _:
            assert_never(status)


class Hindrance(StrEnum):
    """What can keep a task from being claimed, in the order in which it is told."""

    STATUS = "status"  # not in Ready at all
    HELD = "held"  # a human must act
    LEASED = "leased"
    ASKED = "asked"  # somebody's answer is awaited
    CHILDREN = "children"
    BLOCKERS = "blockers"
    NOT_BEFORE = "not-before"
    FULL = "full"  # a limit of its queue's columns stops all claims
    CLOSED = "closed"  # it could be claimed, but every agent that fits is closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that holds a task back, in words, and until when if that is known."""

    kind: Hindrance
    text: str
    until: datetime | None = None


def why_not(task: Task, now: datetime) -> list[Reason]:
    """What keeps the task from being claimed at ``now``; empty exactly when a claim may take it."""
    return list(_reasons(task, now))


def _reasons(task: Task, now: datetime) -> Iterable[Reason]:
    match task.status:
        case Status.READY:
            pass
        case Status.HELD:
            yield Reason(kind=Hindrance.HELD, text=task.hold or "it is held until a human acts")
        case Status.WORKING:
            if task.holder is None:
                yield Reason(kind=Hindrance.LEASED, text="it is being worked on without a lease")
            elif task.lease_until is not None and task.lease_until <= now:
                yield Reason(kind=Hindrance.LEASED, text="its lease expired; the next claim takes it back")
            else:
                yield Reason(kind=Hindrance.LEASED, text=f"{task.holder} has it", until=task.lease_until)
        case Status.WAITING:
            if task.asked is not None:
                yield Reason(kind=Hindrance.ASKED, text=f"it waits for an answer from {task.asked}")
            elif Flag.NEEDS_INPUT in task.flags or Flag.NEEDS_AUTH in task.flags:
                yield Reason(kind=Hindrance.ASKED, text="it waits for an answer")
            else:
                yield Reason(kind=Hindrance.CHILDREN, text="it waits for its children to finish")
        case Status.BACKLOG:
            yield Reason(kind=Hindrance.STATUS, text="it is in the backlog; a human moves it to Ready")
        case Status.DONE | Status.VERIFIED | Status.DEAD | Status.CANCELLED | Status.REJECTED | Status.RECORD:
            yield Reason(kind=Hindrance.STATUS, text=f"it is {task.status}")
        case _:
            assert_never(task.status)
    if task.status in (Status.READY, Status.HELD, Status.BACKLOG):
        if task.open_blockers:
            waits = ", ".join(f"#{b}" for b in task.blockers) or f"{task.open_blockers} task(s)"
            yield Reason(kind=Hindrance.BLOCKERS, text=f"it is blocked by {waits}")
        if task.not_before is not None and task.not_before > now:
            what = "it is parked" if Flag.PARKED in task.flags else "it is not due to start yet"
            yield Reason(kind=Hindrance.NOT_BEFORE, text=what, until=task.not_before)
