"""A provider's limit, classified once at the edge: what it is, which window, until when, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

_DOUBT: Final = timedelta(minutes=5)  # added to a reset that was read in a guessed zone


class LimitClass(StrEnum):
    """What a provider's answer means for the account."""

    OK = "ok"
    WARNING = "warning"  # stop starting background work
    THROTTLE = "throttle"  # wait a moment, the account is fine
    OVERLOAD = "overload"  # the provider has trouble: back off, no cool-down of the account
    EXHAUSTED = "exhausted"  # the account is closed until the reset
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How sure the reset instant is."""

    EXACT = "exact"
    HOST_ZONE = "host-zone"  # read in the machine's own zone, for want of another
    AMBIGUOUS = "ambiguous"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What a provider said of one of its windows beside an answer."""

    window: str
    used: float  # 0 to 1
    amount: int | None = None  # the limit in its own unit; None = it gave only a share
    reset: datetime | None = None
    seen: datetime | None = None  # when it said so; None = now


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The classifier's answer."""

    cls: LimitClass
    window: str = ""  # short, minute, five_hour, daily, weekly, monthly, …
    reset: datetime | None = None  # UTC
    confidence: Confidence = Confidence.UNKNOWN
    evidence: str = ""  # what was met, in our words: cards and rosters show it
    learned: tuple[Learned, ...] = ()

    @property
    def reopens(self) -> datetime | None:
        """The reset; five minutes later where its zone was guessed or the clock time is doubtful; None if unknown."""
        if self.reset is None or self.confidence is Confidence.EXACT:
            return self.reset
        return self.reset + _DOUBT
