"""Letters: what the fabric has to tell a person, when, and over which channel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from taskfabric.domain.times import iso

NOTIFY: Final = "notify"  # the tag of a task whose end is told to whom it was made for; people set it as well
CODED: Final = "pin-forgotten"  # the reason of a letter whose words are kept no longer than until it is sent
FIRST_REST: Final = timedelta(minutes=1)
LONGEST_REST: Final = timedelta(hours=1)
TRIES: Final = 24  # at these rests about twenty hours


class LetterState(StrEnum):
    """What became of a letter."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"  # given up, and visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One letter to one person."""

    id: int
    to: str  # the person's name
    subject: str
    body: str = ""
    reason: str = ""
    task_id: int | None = None
    state: LetterState = LetterState.PENDING
    attempts: int = 0
    due: datetime
    created: datetime
    sent: datetime | None = None
    error: str = ""  # why the last attempt failed
    taken: tuple[str, ...] = ()  # marks of the addresses that have it while others have not

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "to": self.to,
            "subject": self.subject,
            "reason": self.reason,
            "task": self.task_id,
            "state": self.state.value,
            "attempts": self.attempts,
            "due": iso(self.due),
            "created": iso(self.created),
            "sent": None if self.sent is None else iso(self.sent),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLetter:
    """A letter as it is to be written."""

    to_id: int
    subject: str
    reason: str
    body: str = ""
    event_id: int | None = None
    task_id: int | None = None
    due: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event of the journal that may be worth a letter, and those whom it may concern."""

    event_id: int
    kind: str  # submitted, asked, waiting, held, told; or how it ended
    actor_id: int
    task_id: int
    title: str
    priority: int
    inbox_of: int | None  # the human in whose inbox the task is
    is_open: bool
    gates: bool  # something waits for it
    asked_id: int | None
    behalf_id: int | None
    notify: int | None = None  # whom its end is told to: it has the tag for that
    to: tuple[int, ...] = ()  # whom the keeper names
    matter: str = ""  # what the keeper tells of, or the rule of a hold; of a question: auth


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Hours of a person's day in which no letter comes; ``begin`` after ``end`` spans midnight."""

    begin: time
    end: time

    def over(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """The first instant from this one on that is not quiet."""
        local = moment.astimezone(zone)
        at = local.time()
        spans_midnight = self.begin > self.end
        if not (at >= self.begin or at < self.end if spans_midnight else self.begin <= at < self.end):
            return moment
        day = local.date() + timedelta(days=0 if at < self.end else 1)
        return max(moment, datetime.combine(day, self.end, zone).astimezone(moment.tzinfo))


def rest(attempts: int) -> timedelta | None:
    """How long to wait after this many failed attempts; None = give up."""
    if attempts >= TRIES:
        return None
    return min(LONGEST_REST, FIRST_REST * 2.0 ** (attempts - 1))


def reason_of(happening: Happening) -> dict[int, str]:
    """By person: why this is worth a letter now. What is in nobody's list waits for the digest."""
    found: dict[int, str] = {}
    h = happening
    match h.kind:
        case "submitted" | "waiting" if h.inbox_of is not None and h.is_open:
            if h.gates:
                found[h.inbox_of] = "gate"
            elif h.priority == 3 and h.kind == "submitted":
                found[h.inbox_of] = "urgent"
        case "asked":
            whom = h.asked_id if h.asked_id is not None else h.behalf_id
            if whom is not None:
                found[whom] = "question"
        case "held" if h.matter in ("parks", "waits", "releases") and h.behalf_id is not None:
            found[h.behalf_id] = "held"
        case "done" | "dead" | "rejected" | "cancelled" if h.notify is not None and not h.is_open:
            found[h.notify] = "ended"
        case "told":
            found.update(dict.fromkeys(h.to, h.matter))
        case _:
            pass
    found.pop(h.actor_id, None)
    return found


_SAID: Final = {
    "gate": "others wait for",
    "urgent": "urgent:",
    "question": "a question in",
    "held": "held until you look:",
    "ended": "it has ended:",
    "overdue": "overdue:",
    "dead": "dead letter:",
}


def subject(reason: str, task_id: int, title: str) -> str:
    """One line."""
    return f"{_SAID.get(reason, reason)} #{task_id} {title}"[:200]
