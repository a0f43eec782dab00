"""Whoever waits for a task or streams it: woken by the board's signal, and by one look an interval for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

from taskfabric.domain.errors import Unavailable
from taskfabric.ports.signal import Change, Signal
from taskfabric.surfaces.threads import Pool

log = logging.getLogger(__name__)

_AT_ONCE: Final = 1000  # tasks of one look


class Lookout:
    """One waiter."""

    def __init__(self, a2a_id: str, task_id: int, seq: int) -> None:
        self.a2a_id = a2a_id
        self.task_id = task_id
        self.seq = seq  # of the last event that it knows
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def news(self, timeout: float) -> bool:
        """True when there may be something new, within so many seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True


class Watch:
    """``ends`` reads the last event's number of each task; ``interval`` in seconds is the floor under lost signals."""

    def __init__(self, ends: Callable[[list[str]], dict[str, Any]], *, pool: Pool, interval: float) -> None:
        self._ends = ends
        self._pool = pool
        self._interval = interval
        self._by_task: dict[int, set[Lookout]] = {}
        self._news: set[int] = set()
        self._told = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self.stopped = False

    def start(self, signal: Signal) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = signal.subscribe(self._hear)
        self._runner = asyncio.create_task(self._run(), name="a2a-watch")

    def dismiss(self) -> None:
        """Whoever waits is woken, and sees that it is over."""
        self.stopped = True
        for lookouts in self._by_task.values():
            for lookout in lookouts:
                lookout.wake()

    async def stop(self) -> None:
        """Hear nothing any more."""
        self._unsubscribe()
        self.dismiss()
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner

    def __len__(self) -> int:
        return sum(len(lookouts) for lookouts in self._by_task.values())

    @contextlib.contextmanager
    def looking(self, a2a_id: str, task_id: int, seq: int) -> Iterator[Lookout]:
        """Somebody looks out for news of this task."""
        lookout = Lookout(a2a_id, task_id, seq)
        self._by_task.setdefault(task_id, set()).add(lookout)
        try:
            yield lookout
        finally:
            left = self._by_task[task_id]
            left.discard(lookout)
            if not left:
                del self._by_task[task_id]

    def _hear(self, change: Change) -> None:
        if change.task_id not in self._by_task or self._loop is None:
            return
        self._news.add(change.task_id)
        if not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._read_news)

    def _read_news(self) -> None:
        self._told = False
        news, self._news = self._news, set()
        for task_id in news:
            for lookout in self._by_task.get(task_id, ()):
                lookout.wake()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            lookouts = [lookout for some in self._by_task.values() for lookout in some]
            ids = list({lookout.a2a_id for lookout in lookouts})
            for start in range(0, len(ids), _AT_ONCE):
                some = ids[start : start + _AT_ONCE]
                try:
                    ends = await self._pool.run(lambda some=some: self._ends(some))  # type: ignore[misc]
                except Unavailable:
                    continue
                except Exception:  # those who wait look by themselves in the end
                    log.exception("look at watched tasks failed")
                    continue
                for lookout in lookouts:
                    if lookout.a2a_id in ends and ends[lookout.a2a_id][0] > lookout.seq:
                        lookout.wake()
