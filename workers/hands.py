"""The tasks that a worker has in its hands: each is carried out in a thread of its own, under the heartbeat."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final

from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.outcome import Failed, Released
from taskfabric.domain.task import Claimed
from workers.ending import deliver, fit
from workers.errand import Agent, Errand, Kit
from workers.spool import Ended, Spool

log = logging.getLogger(__name__)

_LAST: Final = 25.0  # seconds for runs to come back once they were told to end


class Hands:
    """What runs. ``away`` is told until when the account is to be left alone, ``ended`` that a run has ended."""

    def __init__(
        self, kit: Kit, spool: Spool, *, away: Callable[[datetime, str], None], ended: Callable[[], None]
    ) -> None:
        self._kit = kit
        self._spool = spool
        self._away = away
        self._ended = ended
        self._errands: dict[Errand, threading.Thread] = {}

    def __len__(self) -> int:
        return len(self._errands)

    def begin(self, agent: Agent, claimed: Claimed, sent: float, *, probes: bool) -> None:
        """It is being carried out. The lease counts from ``sent``, when it was asked for."""
        held = self._kit.heartbeat.hold(claimed.fence, agent.card.lease, sent=sent)
        errand = Errand(agent, claimed, held, self._kit, probes=probes, away=self._away)
        thread = threading.Thread(target=self._attend, args=(errand,), name=f"errand-{claimed.fence}", daemon=True)
        self._errands[errand] = thread
        log.info("claimed task=%s", claimed.fence)
        thread.start()

    def drop(self) -> None:
        """All are told to end, and what they have not finished goes back; none runs afterwards, as far as they obey."""
        for errand in list(self._errands):
            errand.drain()
        for thread in list(self._errands.values()):
            thread.join(_LAST)

    def offer(self) -> None:
        """What could not be told while the server was away is told, with its fence. Raises Unavailable."""
        self._spool.offer(lambda ended: deliver(self._kit.fabric, ended))

    @property
    def spooled(self) -> int:
        """How many results wait for the server."""
        return len(self._spool)

    def _attend(self, errand: Errand) -> None:
        try:
            ended = _carried_out(errand)
            if ended is not None:
                log.info("ended task=%s outcome=%s", ended.fence, type(ended.outcome).__name__.lower())
                self._settle(ended)
        except Exception:  # whatever it is: the lease runs out, and the next one tries
            log.exception("errand broken task=%s", errand.held.fence)
        finally:
            self._kit.heartbeat.let_go(errand.held)
            self._errands.pop(errand, None)
            self._ended()

    def _settle(self, ended: Ended) -> None:
        """One outcome, with the fence; into the spool while the server is away."""
        try:
            deliver(self._kit.fabric, ended)
        except FabricError as error:
            log.warning("end not delivered task=%s reason=%s", ended.fence, error.message)
            self._spool.put(ended)


def _carried_out(errand: Errand) -> Ended | None:
    """How it ended, also when it could not begin."""
    fence = errand.held.fence
    try:
        return errand.carry_out()
    except Unavailable as error:
        outcome, _ = fit(Released(reason=f"the fabric went away before it began: {error.message}"), ())
    except FabricError as error:
        outcome, _ = fit(Failed(error=error.message), ())
    return Ended(fence=fence, outcome=outcome)
