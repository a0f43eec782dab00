"""One run: from a claimed task to its outcome. It is watched by a thread that does nothing else, so that it ends."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, assert_never

from taskfabric.domain.errors import FabricError
from taskfabric.domain.lease import Fence
from taskfabric.domain.limit import Limit, LimitClass
from taskfabric.domain.outcome import Done, Failed, Outcome, Parked, Released
from taskfabric.ports.runtime import DRAINED, Job, Result, Runtime
from taskfabric.runtimes.incidents import incident
from workers import clock
from workers.heartbeat import Heartbeat, Held
from workers.telling import Telling

log = logging.getLogger(__name__)

_TICK: Final = 0.5  # seconds between two looks at a run
_GRACE: Final = 20.0  # seconds that a run has to end once it is told to
_FILES: Final = 2000  # of a workspace, looked at for signs of life


class Why(StrEnum):
    """Why a run is made to end."""

    LOST = "the lease is lost"
    DRAINED = DRAINED
    TOO_LONG = "out of time"
    STUCK = "no sign of progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """What is left of a run: its result, or that there is nothing to tell; and whether its runtime came back."""

    result: Result | None  # None: the lease is somebody else's, and there is no result to offer
    whole: bool = True  # False: the runtime did not end, and must not be used again
    ran: float = 0.0  # seconds


class Run:
    """One claimed task in the hands of one runtime."""

    def __init__(
        self,
        job: Job,
        runtime: Runtime,
        *,
        held: Held,
        heartbeat: Heartbeat,
        telling: Telling,
        board_now: Callable[[], datetime],
        grace: float = _GRACE,
    ) -> None:
        self._job = job
        self._runtime = runtime
        self._held = held
        self._heartbeat = heartbeat
        self._telling = telling
        self._board_now = board_now
        self._grace = grace
        self._begun = clock.now()
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._result: Result | None = None
        self._why: Why | None = None
        self._files_seen = 0.0

    def drain(self) -> None:
        """Make it end now; what it has not finished is given back."""
        self._end_for(Why.DRAINED)

    def wake(self) -> None:
        """Something is to be looked at."""
        self._wake.set()

    def carry_out(self) -> Finish:
        """Runs the job to its end, or until it must end; returns what is to be told."""
        thread = threading.Thread(target=self._work, name=f"run-{self._job.fence}", daemon=True)
        thread.start()
        told = 0.0  # when it was told to end
        while not self._ended.is_set():
            self._wake.wait(_TICK)
            self._wake.clear()
            self._telling.flush()
            if self._stopped() is not None:
                told = told or clock.now()
                if clock.now() - told > self._grace:
                    break
        whole = self._ended.is_set()
        self._telling.flush()
        if not whole:
            log.error("run does not end task=%s why=%s", self._job.fence, self._why)
        return Finish(result=self._judged(), whole=whole, ran=clock.now() - self._begun)

    # ---------------------------------------------------------------- the run itself

    def _work(self) -> None:
        try:
            self._result = self._runtime.run(self._job, self._telling, self._stopped)
        except FabricError as error:
            self._result = Result(outcome=Failed(error=error.message))
        except BaseException as error:  # the run's fault, whatever it is, is the task's failure and not ours
            self._result = Result(outcome=Failed(error=incident("the agent failed", self._job.fence, error=error)))
        finally:
            self._ended.set()
            self._wake.set()

    def _stopped(self) -> str | None:
        """Why it must end, or None. Asked by the run itself and by the one who watches it."""
        if self._why is None:
            now, card = clock.now(), self._job.card
            if not self._heartbeat.is_held(self._held):
                self._end_for(Why.LOST)
            elif now - self._begun > card.max_runtime.total_seconds():
                self._end_for(Why.TOO_LONG)
            elif now - self._last_sign(now) > card.watchdog.total_seconds():
                self._end_for(Why.STUCK)
        return None if self._why is None else str(self._why)

    def _last_sign(self, now: float) -> float:
        """When the run last moved: said something, or wrote a file."""
        if now - self._telling.moved > self._job.card.watchdog.total_seconds():
            newest = max(_changes(self._job.workspace), default=0.0)
            if newest > self._files_seen:
                self._files_seen = newest
                self._telling.touch()
        return self._telling.moved

    def _end_for(self, why: Why) -> None:
        if self._why is None:
            self._why = why
        self._wake.set()

    # ---------------------------------------------------------------- what it comes to

    def _judged(self) -> Result | None:
        """A finished result counts, whatever the run was told meanwhile; else the reason for which it had to end."""
        result = self._result
        if result is not None and isinstance(result.outcome, Done):
            return result
        card, kept = self._job.card, result or Result(outcome=Failed(error=""))
        match self._why:
            case None:
                return result if result is None or result.limit is None else self._limited(result, result.limit)
            case Why.LOST:
                if self._held.taken:
                    return None
                # Perhaps nobody has taken it yet: then it goes back, and its attempt with it.
                return Result(outcome=Released(reason=f"the lease is lost: {self._held.lost}"))
            case Why.DRAINED:
                return replace(kept, outcome=Released(reason="the worker stops", drained=True))
            case Why.TOO_LONG:
                return replace(kept, outcome=Failed(error=f"it ran longer than {_long(card.max_runtime)}"))
            case Why.STUCK:
                error = f"no sign of progress for {_long(card.watchdog)}: no output, no event, no file"
                return replace(kept, outcome=Failed(error=error))
            case _:
                assert_never(self._why)

    def _limited(self, result: Result, limit: Limit) -> Result:
        """A provider's limit is not the task's failure: it goes back without an attempt spent.

        Until when is said by who knows the account; here only what needs no account is decided.
        """
        now = self._board_now()
        pooled = self._job.task.queue != self._job.card.name
        match limit.cls:
            case LimitClass.OK | LimitClass.WARNING | LimitClass.UNKNOWN:
                return result
            case LimitClass.THROTTLE | LimitClass.OVERLOAD | LimitClass.EXHAUSTED:
                until = now if pooled else max(limit.reopens or now, now + timedelta(seconds=30))
                return replace(result, outcome=Parked(until=until, reason=_met(limit), head=pooled))
            case _:
                assert_never(limit.cls)


def parked_until(outcome: Outcome, until: datetime) -> Outcome:
    """The outcome of a run that met a limit, once it is known how long the account stays away."""
    return replace(outcome, until=until) if isinstance(outcome, Parked) and not outcome.head else outcome


def _met(limit: Limit) -> str:
    said = {
        LimitClass.EXHAUSTED: "the quota is spent",
        LimitClass.THROTTLE: "the provider asks to wait",
        LimitClass.OVERLOAD: "the provider is overloaded",
    }.get(limit.cls, "the provider's limit")
    return ": ".join(part for part in (said, limit.evidence) if part)


def _long(length: timedelta) -> str:
    seconds = length.total_seconds()
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _changes(folder: Path) -> Iterator[float]:
    """When the files below were changed, of the first so many."""
    try:
        for count, path in enumerate(folder.rglob("*")):
            if count >= _FILES:
                return
            yield path.lstat().st_mtime
    except OSError:  # it is being changed at this moment
        return


class Workspaces:
    """A folder for each run, gone when the run has ended."""

    def __init__(self, base: Path) -> None:
        self._base = base
        base.mkdir(mode=0o700, parents=True, exist_ok=True)

    def make(self, fence: Fence) -> Path:
        """An empty folder of this run's own."""
        path = self._base / f"{fence.task_id}-{fence.epoch}"
        self.remove(path)
        path.mkdir(mode=0o700)
        return path

    def remove(self, path: Path) -> None:
        """It is gone, as far as the system lets us."""
        shutil.rmtree(path, ignore_errors=True)
