"""What whoever sends a message waits for, told by the thread in which its run goes on."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from taskfabric.ports.a2a import Seen, Started
from taskfabric.surfaces.a2a.operations import Visit


@dataclass(slots=True, kw_only=True)
class Ticket:
    """What a sender waits for: that the task is there, and that its run in this server is over."""

    begun: asyncio.Future[tuple[Visit, Started]]
    wanted: bool  # somebody waits for that; else it is only noted, for a call of the loop costs as much as a statement
    ended: asyncio.Future[Seen | None]  # None: somebody else works on it
    noted: tuple[Visit, Started] | None = None

    @property
    def is_there(self) -> bool:
        """Whether the task is there, or will never be."""
        return self.noted is not None or self.begun.done()


async def settled(future: asyncio.Future[Any], timeout: float) -> None:
    """Returns when it is done, or after so many seconds: ``asyncio.wait`` for one future, for a third of its cost."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(timeout, _set, woken, None)

    def wake(_: object) -> None:
        _set(woken, None)

    future.add_done_callback(wake)
    try:
        await woken
    finally:
        timer.cancel()
        future.remove_done_callback(wake)


def consumed(future: asyncio.Future[Any]) -> None:
    """Whoever waited may be gone: then its error is nobody's."""
    if not future.cancelled():
        future.exception()


def _set(future: asyncio.Future[Any], value: object) -> None:
    if future.done():
        return
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)


def settle(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], value: object) -> None:
    """In any thread: the future has this value, or fails with it."""
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(_set, future, value)
