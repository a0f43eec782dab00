"""The thread that follows the journal while the server runs: soon after a change when there is something to follow for,
and else every few seconds, to see whether there is by now."""

from __future__ import annotations

import logging
import threading
from typing import Final, Self

from taskfabric.domain.errors import Unavailable
from taskfabric.ports.signal import Change, Signal
from taskfabric.services.following import Following

log = logging.getLogger(__name__)

_IDLE: Final = 5.0  # seconds
_SETTLE: Final = 0.1  # between two rounds: a flood of changes is followed in few
_LOOK: Final = 1.0  # the same while there is nothing to follow for


class Follower:
    """Rounds until the end of the block."""

    def __init__(self, following: Following, signal: Signal, *, idle: float = _IDLE) -> None:
        self._following = following
        self._signal = signal
        self._idle = idle
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def __enter__(self) -> Self:
        self._unsubscribe = self._signal.subscribe(self._hear)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()
        self._stop.set()
        self._wake.set()
        self._thread.join(2.0)

    def _hear(self, _: Change) -> None:
        self._wake.set()

    def _run(self) -> None:
        follows = True
        while not self._stop.is_set():
            self._wake.wait(self._idle)
            self._wake.clear()
            if self._stop.wait(_SETTLE if follows else _LOOK):
                return
            try:
                follows = self._following.round().follows
            except Unavailable as away:
                log.info("follower waits reason=%r", away.message)
                self._stop.wait(self._idle)
            except Exception:  # the next round tries again
                log.exception("round of the follower failed")
                self._stop.wait(self._idle)
