"""The worker's own clock: it only goes forward, also through a suspend, and no change of the date moves it.

It decides when to stop trusting a lease, and nothing else. What the board is told are instants of the board's clock,
reckoned from what the board said last and from how long ago that was.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Final

_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", None)  # Linux: the monotonic clock there stands still in a suspend


def now() -> float:
    """Seconds since some instant."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class BoardClock:
    """The board's clock as far as it is known here."""

    def __init__(self, told: datetime, at: float) -> None:
        """``told`` is what the board said at ``at`` by our clock."""
        self._told = told
        self._at = at

    def now(self) -> datetime:
        """The board's present, within a second or so whatever this machine's date is."""
        return self._told + timedelta(seconds=now() - self._at)
