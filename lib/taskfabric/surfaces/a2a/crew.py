"""Threads in which agents run for callers: made when they are needed, used again, never more than so many."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from taskfabric.domain.errors import Unavailable

log = logging.getLogger(__name__)

_IDLE: Final = 30.0  # seconds after which a thread without work ends


class Gate:
    """At most so many threads at once inside its ``with``. (The library's semaphores are written in Python, and
    cost a call as much as reading it does.)"""

    def __init__(self, places: int) -> None:
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(places):
            self._free.put(None)

    def __enter__(self) -> None:
        self._free.get()

    def __exit__(self, *_: object) -> None:
        self._free.put(None)


class Crew:
    """At most ``most`` jobs at once; a job more is refused, not queued."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._busy = 0
        self._threads = 0
        self._stopped = False

    def do(self, job: Callable[[], None]) -> None:
        """It runs in a thread, at once. Raises Unavailable when all are busy, or the server stops."""
        with self._lock:
            if self._stopped or self._busy >= self._most:
                raise Unavailable(
                    "the server stops" if self._stopped else "the server runs as many agents as it may",
                    next="try again in some seconds",
                    busy=True,
                    sent=False,
                )
            self._busy += 1
            self._jobs.put(job)
            if self._busy > self._threads:
                self._threads += 1
                threading.Thread(target=self._work, name="a2a-run", daemon=True).start()

    def stop(self) -> None:
        """Nothing more is begun."""
        with self._lock:
            self._stopped = True

    @property
    def busy(self) -> int:
        return self._busy

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._busy < self._threads:
                        self._threads -= 1
                        return
                continue
            try:
                job()
            except Exception:  # a job answers for itself; whatever gets here must not cost the thread
                log.exception("run broken")
            finally:
                with self._lock:
                    self._busy -= 1
            del job
