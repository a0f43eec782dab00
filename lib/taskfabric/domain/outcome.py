"""How a run ends: outcomes are values, and pure functions decide what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The work is finished; unverified until somebody else closes it."""

    note: str
    verdict: Literal["pass", "fail"] = "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """Back to Ready, not before ``until``; the attempt is refunded."""

    until: datetime
    reason: str
    head: bool = False  # to the head of its lane (a pool task whose worker ran out of quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Stopped until somebody answers; ``of_id`` None = any human member of the queue."""

    question: str
    of_id: int | None = None
    auth: bool = False  # what is missing is an authorisation, not an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingOnChildren:
    """Stopped until every child has finished; no worker is held meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt failed; tried again with back-off unless ``retry`` is False or the attempts are spent."""

    error: str
    retry: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Given back unworked; the attempt is refunded."""

    reason: str = ""
    drained: bool = False  # the worker shuts down


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """The runtime refuses the task for good: it is rejected, not failed."""

    reason: str


Unfinished = Parked | Waiting | WaitingOnChildren | Failed | Released | Declined
Outcome = Done | Unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a failed task rests: base, then times ``factor`` for each further attempt, at most ``ceiling``."""

    base: timedelta = timedelta(seconds=30)
    factor: float = 4.0
    ceiling: timedelta = timedelta(hours=1)

    def after(self, attempts: int) -> timedelta:
        """The rest after the ``attempts``-th attempt failed."""
        steps = min(max(0, attempts - 1), 30)
        # In seconds, because a timedelta overflows long before a float does.
        seconds = self.base.total_seconds() * self.factor**steps
        return timedelta(seconds=min(self.ceiling.total_seconds(), seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Decision: back to Ready after a rest."""

    rest: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Decision: the attempts are spent, or another try makes no sense."""


def after_failure(attempts: int, max_attempts: int, *, retry: bool, backoff: Backoff) -> Retry | DeadLetter:
    """At most ``max_attempts`` attempts (invariant 7); a failure that says "final" ends at once."""
    if not retry or attempts >= max_attempts:
        return DeadLetter()
    return Retry(rest=backoff.after(attempts))


def after_expiry(attempts: int, max_attempts: int) -> Retry | DeadLetter:
    """A lease that expired spends its attempt (G9): the task that kills its worker ends after K claims."""
    return DeadLetter() if attempts >= max_attempts else Retry(rest=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How often a task may end without spending an attempt before a human must look."""

    parks: int = 20
    waits: int = 20
    releases: int = 20
