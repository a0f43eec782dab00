"""Bounded pools of threads behind the event loop: the loop waits, threads make bounded calls.

A pool never grows: when its queue is full, the caller is told to come again, instead of waiting for an answer that
nobody needs any more by then.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from taskfabric.domain.errors import Unavailable

T = TypeVar("T")

log = logging.getLogger(__name__)

_LAST_CALLS: Final = 3.0  # seconds that running calls have to end when a pool stops

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Pool:
    """``threads`` threads, and room for ``queue`` calls that wait for one. Used from one event loop."""

    def __init__(self, name: str, *, threads: int, queue: int) -> None:
        self.name = name
        self._most = threads + queue
        self._present = 0
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(threads)
        ]
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin; called on the loop that will wait."""
        self._loop = asyncio.get_running_loop()
        for thread in self._threads:
            thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        """What ``call()`` returns or raises, from a thread. Raises Unavailable when the queue is full."""
        if self._loop is None:
            raise Unavailable("the server is not running", sent=False)
        if self._present >= self._most:
            raise Unavailable(
                "the server is busy; nothing was begun",
                next="try again in a second",
                busy=True,
                sent=False,
            )
        future: asyncio.Future[T] = self._loop.create_future()
        self._present += 1
        try:
            self._jobs.put((call, future))
            return await future
        finally:
            self._present -= 1

    def stop(self) -> None:
        """Calls that run may end; those that still wait do not begin."""
        self._loop = None
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + _LAST_CALLS
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future = job
            if future.cancelled():  # whoever asked is gone
                continue
            try:
                result, error = call(), None
            except BaseException as raised:
                result, error = None, raised
            loop = self._loop
            if loop is None or loop.is_closed():
                continue
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop has ended in this very moment
                log.debug("result came after the end pool=%s", self.name)
            del call, future, result, error, job  # an idle thread must not keep a request alive


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # a future refuses this one
        future.set_exception(RuntimeError("a call raised StopIteration"))
    else:
        future.set_exception(error)
