"""The wait room: callers of ``fabric.wait`` as futures on the event loop; no thread waits for anything.

Equal waits form a group, and one look answers all of them. A change wakes the groups that it concerns; besides, each
group is looked at once an interval, for what nobody announced. Looks run one after another in a thread of their own
pool, and those of the interval take at most a quarter of its time, so that many waiters cost latency and not the
board.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.principal import Caller
from taskfabric.ports.signal import Change, Signal
from taskfabric.services.verbs import Awaited, Wait
from taskfabric.surfaces.threads import Pool

log = logging.getLogger(__name__)

Look = Callable[[Caller, Wait], Awaited | None]
Waiting = asyncio.Future[Awaited | None]

_AT_ONCE: Final = 25  # groups that one turn in the thread looks at
_REST: Final = 3.0  # times as long as the last looks of the interval took
_Key = tuple[object, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class _Group:
    """Waits for the same thing by the same principal."""

    key: _Key
    caller: Caller
    verb: Wait
    queues: frozenset[int]  # whose changes concern it
    due: float  # when it is looked at next without a reason
    away: bool = False  # at its last look the board could not be reached
    futures: set[Waiting] = field(default_factory=set)


class WaitRoom:
    """``look`` is one cheap look; it runs in a thread of ``pool``. ``interval`` in seconds."""

    def __init__(self, *, look: Look, pool: Pool, interval: float) -> None:
        self.look = look
        self.heard = 0  # changes so far; enough to see that there was one
        self._pool = pool
        self._interval = interval
        self._groups: dict[_Key, _Group] = {}
        self._by_queue: dict[int, set[_Group]] = {}
        self._by_task: dict[int, set[_Group]] = {}
        self._dirty: dict[_Group, None] = {}  # an ordered set
        self._news: deque[Change] = deque()
        self._told = False  # the loop knows that there are news
        self._wake = asyncio.Event()
        self._rest_until = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._runner: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ life cycle

    def start(self, signal: Signal) -> None:
        """Begin to hear changes, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = signal.subscribe(self._hear)
        self._runner = asyncio.create_task(self._run(), name="wait-room")

    def dismiss(self) -> None:
        """All that wait are told that it has not happened; for a server that stops."""
        for group in list(self._groups.values()):
            _resolve(group, None)

    async def stop(self) -> None:
        """Hear nothing any more."""
        self._unsubscribe()
        self.dismiss()
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner

    def __len__(self) -> int:
        return sum(len(group.futures) for group in self._groups.values())

    # ---------------------------------------------------------------- waiting

    async def wait(
        self, caller: Caller, verb: Wait, *, queues: frozenset[int], heard: int, timeout: float
    ) -> Awaited | None:
        """What the wait brings, or None after ``timeout`` seconds.

        ``queues`` are those whose changes concern it; ``heard`` is ``self.heard`` from before the caller's own look:
        what has changed since is looked at again. Raises FabricError when a look does.
        """
        assert self._loop is not None
        group = self._join(caller, verb, queues)
        future: Waiting = self._loop.create_future()
        group.futures.add(future)
        timer = self._loop.call_later(timeout, _expire, future)
        if self.heard != heard:
            self._mark([group])
        try:
            return await future
        finally:
            timer.cancel()
            group.futures.discard(future)
            if not group.futures:
                self._leave(group)

    def _join(self, caller: Caller, verb: Wait, queues: frozenset[int]) -> _Group:
        key = (caller.principal.id, caller.queues, caller.run, verb.task, verb.queue)
        group = self._groups.get(key)
        if group is None:
            due = time.monotonic() + self._interval * random.uniform(0.5, 1.0)
            group = self._groups[key] = _Group(key=key, caller=caller, verb=verb, queues=queues, due=due)
            for queue in queues:
                self._by_queue.setdefault(queue, set()).add(group)
            if verb.task is not None:
                self._by_task.setdefault(verb.task, set()).add(group)
            if len(self._groups) == 1:
                self._wake.set()
        return group

    def _leave(self, group: _Group) -> None:
        if self._groups.get(group.key) is not group:
            return
        del self._groups[group.key]
        self._dirty.pop(group, None)
        for queue in group.queues:
            _remove(self._by_queue, queue, group)
        if group.verb.task is not None:
            _remove(self._by_task, group.verb.task, group)

    # ---------------------------------------------------------------- changes

    def _hear(self, change: Change) -> None:
        """From any thread, often: so it does next to nothing."""
        self.heard += 1
        if not self._groups or self._loop is None:
            return
        self._news.append(change)
        if not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._read_news)

    def _read_news(self) -> None:
        self._told = False
        while self._news:
            change = self._news.popleft()
            if change.project_id is None and change.task_id is None:
                self._mark(self._groups.values())
            if change.project_id is not None:
                self._mark(self._by_queue.get(change.project_id, ()))
            if change.task_id is not None:
                self._mark(self._by_task.get(change.task_id, ()))

    def _mark(self, groups: Iterable[_Group]) -> None:
        for group in groups:
            self._dirty[group] = None
        if self._dirty:
            self._wake.set()

    # ------------------------------------------------------------------ looks

    async def _run(self) -> None:
        while True:
            pause = self._interval / 10 if self._groups else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)
            self._wake.clear()
            await self._look_at_dirty()
            await self._look_at_due()

    async def _look_at_dirty(self) -> None:
        while self._dirty:
            some = list(self._dirty)[:_AT_ONCE]
            for group in some:
                del self._dirty[group]
            await self._look_at(some)

    async def _look_at_due(self) -> None:
        now = time.monotonic()
        if now < self._rest_until:
            return
        due = sorted((g for g in self._groups.values() if g.due <= now), key=lambda g: g.due)[:_AT_ONCE]
        if due:
            await self._look_at(due)
            took = time.monotonic() - now
            self._rest_until = now + took * (1 + _REST)
            if len(due) == _AT_ONCE:
                self._loop_later(took * _REST)

    def _loop_later(self, seconds: float) -> None:
        assert self._loop is not None
        self._loop.call_later(seconds, self._wake.set)

    async def _look_at(self, groups: list[_Group]) -> None:
        pairs = [(group.caller, group.verb) for group in groups]
        try:
            found = await self._pool.run(lambda: [self._one_look(*pair) for pair in pairs])
        except Unavailable as away:  # the pool is full or stopping: they are looked at in the next interval
            found = [away] * len(groups)
        now = time.monotonic()
        for group, got in zip(groups, found, strict=True):
            group.due = now + self._interval * random.uniform(0.8, 1.0)
            if isinstance(got, Unavailable):
                # One look may have met a connection that just broke, or a full pool. Two in a row: the board is away,
                # and whoever waits is told so.
                if group.away and not got.facts.get("busy"):
                    _resolve(group, got)
                group.away = True
                continue
            group.away = False
            if got is not None:
                _resolve(group, got)

    def _one_look(self, caller: Caller, verb: Wait) -> Awaited | FabricError | None:
        try:
            return self.look(caller, verb)
        except FabricError as error:
            return error
        except Exception:  # one bad look must not end the room
            log.exception("look failed task=%s queue=%r", verb.task, verb.queue)
            return None


def _resolve(group: _Group, got: Awaited | FabricError | None) -> None:
    for future in group.futures:
        if future.done():
            continue
        if isinstance(got, FabricError):
            future.set_exception(got)
        else:
            future.set_result(got)


def _expire(future: Waiting) -> None:
    if not future.done():
        future.set_result(None)


def _remove(index: dict[int, set[_Group]], key: int, group: _Group) -> None:
    groups = index.get(key)
    if groups is not None:
        groups.discard(group)
        if not groups:
            del index[key]
