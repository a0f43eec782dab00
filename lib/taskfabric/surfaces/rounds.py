"""A thread that makes one round after the other while the server runs, and whose faults are never the server's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

from taskfabric.domain.errors import Unavailable
from taskfabric.ports.signal import Change, Signal

log = logging.getLogger(__name__)


class Rounds:
    """Rounds of ``act`` until the end of the block: ``idle()`` seconds after the last one, or sooner after a sign.

    ``gather`` seconds lie between a sign and its round, so that a flood of signs is answered by few. ``act`` may say
    that itself, for the next time, by returning a number of seconds."""

    def __init__(
        self,
        name: str,
        act: Callable[[], float | None],
        *,
        idle: Callable[[], float],
        signal: Signal | None = None,
        gather: float = 0.0,
    ) -> None:
        self._name = name
        self._act = act
        self._idle = idle
        self._signal = signal
        self._gather = gather
        self._sign = threading.Event()
        self._stop = threading.Event()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        if self._signal is not None:
            self._unsubscribe = self._signal.subscribe(self._hear)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()
        self._stop.set()
        self._sign.set()
        self._thread.join(2.0)

    @property
    def stopped(self) -> bool:
        """The block has ended: what is not begun yet is left to the next server."""
        return self._stop.is_set()

    def soon(self) -> None:
        """There is a reason for a round."""
        self._sign.set()

    def _hear(self, _: Change) -> None:
        self._sign.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._sign.wait(self._idle()) and self._stop.wait(self._gather):
                return
            self._sign.clear()
            if self._stop.is_set():
                return
            try:
                gather = self._act()
                self._gather = self._gather if gather is None else gather
            except Unavailable as away:
                log.info("%s waits reason=%r", self._name, away.message)
                self._stop.wait(self._idle())
            except Exception:  # the next round tries again
                log.exception("round failed name=%s", self._name)
                self._stop.wait(self._idle())
