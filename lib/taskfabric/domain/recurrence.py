"""Cards that come again, as Kanboard has it: what makes one come again, and when the next one is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, TypeVar

T = TypeVar("T", int, str)

CAUSES: Final = frozenset({"moved", "claimed", "done", "closed", "verified"})  # of the journal's events
PENDING: Final = 1  # it will come again
PROCESSED: Final = 2  # it has: its child is the next one
_MONTHS: Final = {1: 1, 2: 12}  # of a timeframe; any other one is of days
_TRIGGER_DATE: Final = 1


class Trigger(IntEnum):
    """What makes the next one."""

    LEAVES_FIRST_COLUMN = 0
    ENTERS_LAST_COLUMN = 1
    CLOSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """Kanboard's settings for a card that comes again, under its own numbers."""

    status: int = 0  # 1 pending, 2 processed
    trigger: int = 0
    factor: int = 0  # so many timeframes later, or earlier
    timeframe: int = 0  # 0 days, 1 months, 2 years
    basedate: int = 0  # counted from 0 its due date, 1 the day it came again

    def next_due(self, due: datetime | None, now: datetime) -> datetime | None:
        """When the next one is due; None if this one is not, or if the calendar does not go so far.

        A day that a month has not is so many days into the next one, as PHP counts."""
        if due is None or self.factor == 0:
            return due
        base = (now if self.basedate == _TRIGGER_DATE else due).astimezone(UTC)
        try:
            if self.timeframe not in _MONTHS:
                return base + timedelta(days=self.factor)
            years, month = divmod(base.month - 1 + self.factor * _MONTHS[self.timeframe], 12)
            return base.replace(year=base.year + years, month=month + 1, day=1) + timedelta(days=base.day - 1)
        except (OverflowError, ValueError):
            return None


def passed(left: T, entered: T, first: T, last: T) -> frozenset[Trigger]:
    """What a move from one column to another is, between the first and the last one; ``left`` is not ``entered``."""
    found = set()
    if left == first:
        found.add(Trigger.LEAVES_FIRST_COLUMN)
    if entered == last:
        found.add(Trigger.ENTERS_LAST_COLUMN)
    return frozenset(found)
