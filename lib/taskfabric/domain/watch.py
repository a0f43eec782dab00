"""What the keeper is shown of the board: the few tasks that may need a word, and nothing of what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from taskfabric.domain.times import iso

REMINDERS: Final = (90, 50, 25)  # per cent of the time that has passed, of a question as of an approval


class Matter(StrEnum):
    """Why a task is on the keeper's list."""

    OVERDUE = "overdue"  # open, and its due date has passed
    DEAD = "dead"  # a dead letter
    QUESTION = "question"  # waits for a human's answer
    CHILDREN = "children"  # waits for children that have all finished: nobody told it
    BLOCKERS = "blockers"  # a blocker's end did not reach it


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """A task that may need the keeper."""

    matter: Matter
    task_id: int
    occasion: str  # tells this due date, question or death from the next one of the same task
    since: datetime
    due: datetime | None = None
    told: frozenset[int] = frozenset()  # the levels that were told for this occasion

    def to_json(self) -> dict[str, Any]:
        return {
            "matter": self.matter.value,
            "task": self.task_id,
            "occasion": self.occasion,
            "since": iso(self.since),
            "due": None if self.due is None else iso(self.due),
            "told": sorted(self.told),
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Concern:
        return cls(
            matter=Matter(shape["matter"]),
            task_id=shape["task"],
            occasion=shape["occasion"],
            since=datetime.fromisoformat(shape["since"]),
            due=None if shape["due"] is None else datetime.fromisoformat(shape["due"]),
            told=frozenset(shape["told"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Whether this keeper is the one that works, by the board's clock."""

    mine: bool
    now: datetime
    gap: timedelta | None  # since the last round of any keeper; None = there was none
    lease: timedelta  # the length of an agent's lease
    renew_every: timedelta

    def to_json(self) -> dict[str, Any]:
        return {
            "mine": self.mine,
            "now": iso(self.now),
            "gap": None if self.gap is None else self.gap.total_seconds(),
            "lease": self.lease.total_seconds(),
            "renew_every": self.renew_every.total_seconds(),
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Turn:
        return cls(
            mine=shape["mine"],
            now=datetime.fromisoformat(shape["now"]),
            gap=None if shape["gap"] is None else timedelta(seconds=shape["gap"]),
            lease=timedelta(seconds=shape["lease"]),
            renew_every=timedelta(seconds=shape["renew_every"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A human who gets a digest: the day of his last one, and where his day begins."""

    name: str
    zone: str
    hour: int  # local hour at which it is due, 0..23
    last: str | None  # ISO date in his zone

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "zone": self.zone, "hour": self.hour, "last": self.last}

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Reader:
        return cls(name=shape["name"], zone=shape["zone"], hour=shape["hour"], last=shape["last"])
