"""The threads that tell owners of their tasks over A2A's push, while the server runs.

One looks for what is due and hands it out; a receiver that hangs holds up one of the few tellers and nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Self

from taskfabric.domain.errors import Unavailable
from taskfabric.ports.push import Delivery
from taskfabric.ports.signal import Change, Signal
from taskfabric.services.push import PushDelivery

log = logging.getLogger(__name__)

_INTERVAL: Final = 1.0  # seconds between two looks without a sign
_GATHER: Final = 0.05  # seconds in which signs are folded together
_TELLERS: Final = 8


class PushPostman:
    """Tells until the end of the block. What is on its way then is told again by the next server, under its key."""

    def __init__(self, delivery: PushDelivery, signal: Signal, *, interval: float = _INTERVAL) -> None:
        self._delivery = delivery
        self._signal = signal
        self._interval = interval
        self._sign = threading.Event()
        self._stop = threading.Event()
        self._free = threading.Semaphore(_TELLERS)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="push", daemon=True)

    def __enter__(self) -> Self:
        self._unsubscribe = self._signal.subscribe(self._hear)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()
        self._stop.set()
        self._sign.set()
        self._thread.join(2.0)

    def _hear(self, change: Change) -> None:
        self._sign.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._sign.wait(self._interval):
                self._stop.wait(_GATHER)
            self._sign.clear()
            try:
                self._round()
            except Unavailable as away:
                log.info("push waits reason=%r", away.message)
                self._stop.wait(self._interval)
            except Exception:  # the next round tries again
                log.exception("round of push failed")
                self._stop.wait(self._interval)

    def _round(self) -> None:
        while not self._stop.is_set():
            # Only what can be told at once is taken, so that it is not kept from another server's tellers.
            hands = int(self._free.acquire(timeout=self._interval))
            while hands and self._free.acquire(blocking=False):
                hands += 1
            due = self._delivery.due(hands) if hands else []
            for _ in range(hands - len(due)):
                self._free.release()
            for one in due:
                threading.Thread(target=self._tell, args=(one,), name="push-teller", daemon=True).start()
            if not due:
                return

    def _tell(self, one: Delivery) -> None:
        try:
            if self._delivery.tell(one):
                self._sign.set()  # what comes after it is due
        except Unavailable as away:
            log.info("push waits reason=%r", away.message)
        except Exception:  # it is told again when its minute is over
            log.exception("telling failed config=%d", one.number)
        finally:
            self._free.release()
