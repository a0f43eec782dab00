"""The leases of the runs in this server: renewed by a thread of its own, and given up when the board says so (G8)."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from taskfabric.domain.errors import Unavailable
from taskfabric.domain.lease import Fence, renew_every
from taskfabric.domain.principal import Stamp
from taskfabric.ports.board import Board
from taskfabric.ports.signal import Change, Signal
from taskfabric.services.a2a import Agent

log = logging.getLogger(__name__)

_MARGIN: Final = 0.1  # of the lease: so long before its end it is not trusted any more (G7)
_TICK: Final = 0.25  # seconds between two looks, while something has changed


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A lease that a run of this server holds; times are of this process."""

    fence: Fence
    stamp: Stamp
    length: float  # seconds
    trusted_until: float
    due: float
    why: str = ""  # why its run must end
    ending: bool = False  # its run has ended, and what it says of the task changes it

    def stop(self, why: str) -> None:
        """Its run is to end; the first reason stays."""
        self.why = self.why or why


class Renewing:
    """Has a connection of its own, so that no run makes a renewal wait."""

    def __init__(self, board: Board, signal: Signal) -> None:
        self._board = board
        self._signal = signal
        self._held: dict[int, Held] = {}  # by task
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._suspect: set[int] = set()  # tasks that somebody else has touched
        self._ended = False
        self._sleeps_until = math.inf  # unless it is woken
        self._unsubscribe: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._unsubscribe = self._signal.subscribe(self._hear)
        self._thread = threading.Thread(target=self._beat, name="a2a-renew", daemon=True)
        self._thread.start()

    def stop(self, why: str) -> None:
        """Every run is told to end; leases are still renewed until ``close``."""
        with self._lock:
            for held in self._held.values():
                held.stop(why)

    def close(self) -> None:
        """Nothing is renewed any more."""
        self._unsubscribe()
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(3)

    def hold(self, agent: Agent, fence: Fence) -> Held:
        """From now on this lease is renewed."""
        now, length = time.monotonic(), agent.card.lease.total_seconds()
        held = Held(
            fence=fence,
            stamp=agent.stamp,
            length=length,
            trusted_until=now + length * (1 - _MARGIN),
            due=now + renew_every(agent.card.lease).total_seconds(),
        )
        with self._lock:
            self._held[fence.task_id] = held
            late = held.due < self._sleeps_until
        if late:
            self._wake.set()
        return held

    def let_go(self, held: Held) -> None:
        """It is not renewed any more."""
        with self._lock:
            if self._held.get(held.fence.task_id) is held:
                del self._held[held.fence.task_id]

    def tell(self, task_id: int, why: str) -> None:
        """The run of this task, if it is one of ours, is to end."""
        held = self._held.get(task_id)
        if held is not None:
            held.stop(why)

    # ---------------------------------------------------------------- inside

    def _hear(self, change: Change) -> None:
        held = None if change.task_id is None else self._held.get(change.task_id)
        if held is not None and not held.ending:
            self._suspect.add(held.fence.task_id)
            self._wake.set()

    def _beat(self) -> None:
        while not self._ended:
            with self._lock:
                due = min((held.due for held in self._held.values() if not held.why), default=None)
                self._sleeps_until = math.inf if due is None else due
            self._wake.wait(None if due is None else max(0.0, due - time.monotonic()))
            self._wake.clear()
            time.sleep(_TICK)  # gathers what has changed: a run that streams changes its task all the time
            suspects, self._suspect = self._suspect, set()
            with self._lock:
                live = [held for held in self._held.values() if not held.why]
            self._check([held for held in live if held.fence.task_id in suspects])
            self._renew([held for held in live if held.due <= time.monotonic()])

    def _check(self, asked: Iterable[Held]) -> None:
        """Whether the board still says that these are ours; costs a read each."""
        for held in asked:
            try:
                task = self._board.get(held.fence.task_id, None)
            except Exception as error:  # the next renewal finds out
                log.info("not looked at task=%s reason=%s", held.fence, error)
                continue
            if task.epoch != held.fence.epoch or task.holder_id != held.stamp.principal_id:
                held.stop(f"the task is {task.status}")

    def _renew(self, asked: list[Held]) -> None:
        for stamp in {held.stamp for held in asked}:
            ours = [held for held in asked if held.stamp == stamp]
            sent = time.monotonic()
            try:
                answers = self._board.renew([held.fence for held in ours], None, stamp)
            except Exception as error:  # whatever it is: this thread goes on, and tries again
                log.warning("renewal failed leases=%d", len(ours), exc_info=not isinstance(error, Unavailable))
                for held in ours:
                    held.due = time.monotonic() + min(held.length / 12, 10.0)
                    if time.monotonic() >= held.trusted_until:
                        held.stop("the lease could not be renewed in time")
                continue
            for held, answer in zip(ours, answers, strict=True):
                if answer.until is None:
                    held.stop(f"{answer.holder} has it now" if answer.holder else "the lease was taken back")
                else:
                    held.trusted_until = max(held.trusted_until, sent + held.length * (1 - _MARGIN))
                    held.due = sent + held.length / 3
