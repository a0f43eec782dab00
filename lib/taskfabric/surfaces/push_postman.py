"""The threads that tell owners of their tasks over A2A's push, while the server runs.

One looks for what is due and hands it out. A receiver that hangs holds up one of the few tellers, and all of
one owner, or at one host, no more than their share of them: the others' are told meanwhile.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Self

from taskfabric.domain.errors import Unavailable
from taskfabric.ports.push import Delivery, PushConfig
from taskfabric.ports.signal import Signal
from taskfabric.services.push import PushDelivery
from taskfabric.surfaces.rounds import Rounds

log = logging.getLogger(__name__)

_INTERVAL: Final = 1.0  # seconds between two looks without a sign
_GATHER: Final = 0.05  # seconds in which signs are folded together
_TELLERS: Final = 16
_SHARE: Final = 3  # of them, for one owner and at one host


class PushPostman:
    """Tells until the end of the block. What is on its way then is told again by the next server, under its key."""

    def __init__(self, delivery: PushDelivery, signal: Signal, *, interval: float = _INTERVAL) -> None:
        self._delivery = delivery
        self._interval = interval
        self._free = threading.Semaphore(_TELLERS)
        self._telling: dict[int, PushConfig] = {}  # by number: an address is told one thing at a time
        self._rounds = Rounds("push", self._round, idle=lambda: interval, signal=signal, gather=_GATHER)

    def __enter__(self) -> Self:
        self._rounds.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._rounds.__exit__(*error)

    def _round(self) -> None:
        while not self._rounds.stopped:
            # Only what can be told at once is taken, so that it is not kept from another server's tellers.
            hands = int(self._free.acquire(timeout=self._interval))
            while hands and self._free.acquire(blocking=False):
                hands += 1
            due: list[Delivery] = []
            try:
                due = list(self._delivery.due(hands, list(self._telling.values()), _SHARE)) if hands else []
            finally:  # also while the board is away: a teller that is not given back tells nothing ever again
                for _ in range(hands - len(due)):
                    self._free.release()
            for one in due:
                self._telling[one.number] = one.config
                threading.Thread(target=self._tell, args=(one,), name="push-teller", daemon=True).start()
            if not due:
                return

    def _tell(self, one: Delivery) -> None:
        try:
            if self._delivery.tell(one):
                self._rounds.soon()  # what comes after it is due
        except Unavailable as away:
            log.info("push waits reason=%r", away.message)
        except Exception:  # it is told again when its minute is over
            log.exception("telling failed config=%d", one.number)
        finally:
            self._telling.pop(one.number, None)
            self._free.release()
