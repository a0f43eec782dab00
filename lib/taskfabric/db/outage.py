"""Whether a pool's database is away, so that callers hear it at once instead of queueing for a connection.

One caller a while is let through to wait for the pool's next attempt; everybody else is refused meanwhile.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final, Self

import psycopg

_QUIET: Final = 0.75  # seconds after a failed attempt in which nobody waits
_TRIAL: Final = 0.5  # seconds that one caller then waits for a connection


class Outage:
    """What the latest attempts to connect say. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""
        self._quiet_until = 0.0  # monotonic
        self.failures = 0  # attempts that failed so far

    @property
    def reason(self) -> str:
        """Why the latest attempt failed; "" when it did not."""
        return self._reason

    def begin(self, reason: str) -> None:
        """An attempt has failed."""
        with self._lock:
            self._reason = reason or "no reason given"
            self._quiet_until = time.monotonic() + _QUIET
            self.failures += 1

    def end(self) -> None:
        """An attempt has succeeded."""
        self._reason = ""

    def patience(self, usual: float) -> float:
        """How many seconds a caller may wait for a connection now: the usual ones unless the database is away."""
        with self._lock:
            if not self._reason:
                return usual
            now = time.monotonic()
            if now < self._quiet_until:
                return 0.0
            self._quiet_until = now + _QUIET  # this caller is the one who waits
            return min(usual, _TRIAL)


class Watched(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose making is told to an ``Outage``."""

    uses = 0  # how often the pool's users had it

    @classmethod
    def connect(cls, conninfo: str = "", *, outage: Outage | None = None, **kwargs: Any) -> Self:  # type: ignore[override]
        """As psycopg's. (The pool names the outage; psycopg's own signature does not know it.)"""
        try:
            conn = super().connect(conninfo, **kwargs)
        except psycopg.Error as error:
            if outage is not None:
                outage.begin(next(iter(str(error).strip().splitlines()), type(error).__name__))
            raise
        if outage is not None:
            outage.end()
        return conn
