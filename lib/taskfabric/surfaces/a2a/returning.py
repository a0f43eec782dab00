"""Tasks of agents that run in the server, which are ready and have no worker: queued ones, answered ones, those that
were parked, or given back when a server stopped. They are begun here, under the same leases as a call.

Woken by the board's signal; one look an interval is the floor under lost signals, and for what falls due.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from taskfabric.domain.errors import FabricError
from taskfabric.ports.a2a import Seen, Started
from taskfabric.ports.signal import Change, Signal
from taskfabric.services.a2a import A2A, Agent
from taskfabric.surfaces.a2a.runs import Runs

log = logging.getLogger(__name__)

_FLOOR: Final = 10.0  # seconds between two looks at most
_GATHER: Final = 0.25  # and at least: a busy board changes all the time


class Returning:
    """Where a worker of the agent runs, the tasks are the worker's."""

    def __init__(self, a2a: A2A, runs: Runs) -> None:
        self._a2a = a2a
        self._runs = runs
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def start(self, signal: Signal) -> None:
        """Begin."""
        self._unsubscribe = signal.subscribe(self._hear)
        self._thread = threading.Thread(target=self._watch, name="a2a-return", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nothing more is begun."""
        self._unsubscribe()
        self._ended.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(3)

    def look(self) -> None:
        """What can be begun is being begun."""
        for agent, seen in self._a2a.waiting():
            self._runs.crew.do(partial(self._begin, agent, seen))

    def _hear(self, change: Change) -> None:
        if (change.project_id is not None or change.task_id is None) and not self._wake.is_set():
            self._wake.set()

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                self.look()
            except FabricError as error:  # the board is away, or all threads are busy
                log.debug("not looked reason=%s", error.message)
            except Exception:
                log.exception("look at waiting tasks failed")
            self._ended.wait(_GATHER)
            self._wake.wait(_FLOOR)
            self._wake.clear()

    def _begin(self, agent: Agent, seen: Seen) -> None:
        begun = False

        def told(started: Started) -> None:
            nonlocal begun
            begun = True

        try:
            self._runs.begin(agent, lambda: self._a2a.take(agent, seen), told)
        except FabricError as error:  # another was quicker, or it has no place or no quota
            log.debug("not begun task=%d reason=%s", seen.task_id, error.message)
        if begun:  # its place is free again
            self._wake.set()
