"""What a worker does, over and over: a(t)? claim, resolve refs, run, settle.

a(t)?      closed: rest until it opens, and say so on the roster; nothing is claimed      (standing.py)
claim      from its own queue, then from the pools it serves
run        each claimed task in a thread of its own, under the heartbeat      (hands.py, errand.py, run.py)
settle     one outcome, with the fence; into the spool while the server is away
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskfabric.domain.card import AgentCard
from taskfabric.domain.errors import FabricError, HeldBy, IllegalMove, NotFound, Refused, Unavailable
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from workers import clock
from workers.errand import Kit
from workers.hands import Hands
from workers.heartbeat import Heartbeat
from workers.run import Workspaces
from workers.spool import Spool
from workers.standing import Opening, Standing, greeted

log = logging.getLogger(__name__)

_RENEWAL: Final = 5.0  # seconds for one renewal at most; less for a short lease, so that it can be tried again
_URGENT: Final = 3  # the priority of interactive work
_LONGEST_AWAY: Final = 30.0  # seconds between two looks whether the server is back


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How this worker is run."""

    url: str
    instance: str  # new at each start, so that nobody's orphans look like ours
    folder: Path  # the spool, the workspaces, what is loaded on this machine
    roots: tuple[Path, ...]  # below these files may be read
    poll: float = 20.0  # seconds: how long it waits for work at once, and how late it may notice a pause
    grace: float = 60.0  # seconds that runs may go on once it drains
    once: bool = False  # end when nothing is left to claim
    patient: bool = False  # a card that cannot be served is a closed agent, and not an error at the start


class Worker:
    """The worker of one card. ``work`` runs until it is drained; the other methods may be called meanwhile."""

    def __init__(self, fabric: Fabric, connect: Callable[[float], Fabric], name: str, options: Options) -> None:
        """``connect`` makes the heartbeat a line of its own, on which it waits so many seconds for an answer."""
        self._fabric = fabric
        self._options = options
        agent, asked = greeted(fabric, name), clock.now()
        renewing = connect(min(_RENEWAL, agent.card.lease.total_seconds() / 12))
        self._heartbeat = Heartbeat(
            lambda fences: renewing.call(verbs.Renew(fences=tuple(verbs.FenceArg.of(f) for f in fences)))
        )
        self._kit = Kit(
            fabric=fabric,
            heartbeat=self._heartbeat,
            workspaces=Workspaces(options.folder / "runs" / options.instance),
            roots=options.roots,
            url=options.url,
            instance=options.instance,
            board=clock.BoardClock(fabric.call(verbs.Hello()).now, asked),
            keep=options.folder,
        )
        self._standing = Standing(
            fabric, agent, self._kit, loaded=options.folder.parent / "loaded", patient=options.patient
        )
        self._nudge = threading.Event()
        spool = Spool(options.folder / "spool")
        self._hands = Hands(self._kit, spool, away=self._standing.keep_away, ended=self._nudge.set)
        self._drained_at: float | None = None
        self._released = False
        self._ear: threading.Thread | None = None
        self._called = self._empty = False
        self._fruitless = self._misses = 0
        self.claimed = 0  # tasks so far

    @property
    def card(self) -> AgentCard:
        """Our card as the server had it last."""
        return self._standing.card

    # ---------------------------------------------------------------- from outside

    def drain(self) -> None:
        """Claim nothing more and end when the runs have; a second call gives back at once what they work on."""
        if self._drained_at is None:
            self._drained_at = clock.now()
        else:
            self._released = True
        self._nudge.set()

    def release(self) -> None:
        """Give back at once what the runs work on, and end."""
        self.drain()
        self.drain()

    # ---------------------------------------------------------------- the loop

    def work(self) -> None:
        """Returns when it has drained, or, with ``once``, when nothing was left to do. Raises the errors of a server
        that will not have us: NotAuthenticated, NotFound."""
        self._heartbeat.start()
        try:
            while self._drained_at is None and not (self._options.once and self._empty and not self._hands):
                try:
                    self._cycle()
                    self._misses = 0
                except Unavailable as error:
                    if self._options.once and not self._hands:
                        raise
                    self._stay_away(error)
        finally:
            self._leave()

    def _cycle(self) -> None:
        self._hands.offer()
        opening = self._standing.opening(running=len(self._hands), spooled=self._hands.spooled)
        if not opening.all.open:
            self._empty = not self._hands
            if not (self._options.once and self._empty):
                self._pause(self._standing.rest(opening.all, self._options.poll))
            return
        idle, claimed = not self._hands, self._claim(opening)
        for one, sent in claimed:
            self._hands.begin(self._standing.agent, one, sent, probes=opening.probes)
        self.claimed += len(claimed)
        self._fruitless = self._fruitless + 1 if self._called and not claimed and self._free else 0
        self._called, self._empty = False, idle and not claimed
        if not (self._options.once and self._empty):
            self._await_work()  # also beside runs: what is ready by now is told at once

    # ---------------------------------------------------------------- claim

    @property
    def _free(self) -> int:
        return max(0, self.card.concurrency - len(self._hands))

    def _claim(self, opening: Opening) -> list[tuple[Claimed, float]]:
        """What we got, each with the moment at which it was asked for: from then on its lease counts."""
        free = self._free
        if opening.probes:
            # One run finds out whether the account is back; whatever it finds, the server is asked before the next.
            free = int(not self._hands)
            self._standing.forget()
        if not free or not self._standing.is_ready(running=len(self._hands)):
            return []
        lease = self.card.lease.total_seconds()
        if not opening.all.background:
            return self._take_urgent(lease)
        sent = clock.now()
        return [(got, sent) for got in self._fabric.call(verbs.Claim(limit=free, lease=lease))]

    def _take_urgent(self, lease: float) -> list[tuple[Claimed, float]]:
        """While the rest of the quota is kept for interactive work: one such task, if there is one."""
        now = self._kit.board.now()
        for task in self._fabric.call(verbs.List(statuses=(Status.READY,), limit=200)):
            if task.priority < _URGENT or (task.not_before is not None and task.not_before > now):
                continue
            sent = clock.now()
            try:
                return [(self._fabric.call(verbs.Take(task=task.id, lease=lease)), sent)]
            except (HeldBy, IllegalMove, NotFound, Refused):  # another was quicker, or it is none for us
                continue
        return []

    def _await_work(self) -> None:
        """Wait until a run has ended, somebody calls, or there may be work; one poll at most."""
        if self._fruitless:  # there is work, but not for us: nobody is helped by asking without a pause
            self._pause(min(5.0, 0.1 * 2 ** min(self._fruitless, 6)) * random.uniform(0.5, 1.0))
        if self._free and (self._ear is None or not self._ear.is_alive()):
            self._ear = threading.Thread(target=self._listen, name="ear", daemon=True)
            self._ear.start()
        self._pause(self._options.poll)

    def _listen(self) -> None:
        try:
            self._called = self._fabric.call(verbs.Wait(timeout=self._options.poll)).happened
        except FabricError as error:  # the loop asks next, and finds out by itself
            log.debug("not waiting reason=%s", error.message)
            return
        self._nudge.set()

    # ---------------------------------------------------------------- coming and going

    def _stay_away(self, error: Unavailable) -> None:
        """The server is away: look again after a while, later and later, not all of us at once."""
        self._misses += 1
        self._standing.forget()
        rest = min(_LONGEST_AWAY, 0.5 * 2 ** min(self._misses - 1, 10)) * random.uniform(0.5, 1.0)
        log.warning("server away reason=%s rest=%.1f", error.message, rest)
        self._pause(rest)

    def _leave(self) -> None:
        """Drain: runs may go on for the grace; then they are told to end, and what they have not finished goes back."""
        self._standing.say("draining", running=len(self._hands), spooled=self._hands.spooled)
        begun = self._drained_at or clock.now()
        while self._hands and not self._released and clock.now() - begun < self._options.grace:
            self._pause(min(1.0, self._options.grace))
        self._hands.drop()
        self._heartbeat.end()
        self._kit.close()
        self._standing.leave()
        self._standing.say("gone", running=len(self._hands), spooled=self._hands.spooled)

    def _pause(self, seconds: float) -> None:
        self._nudge.wait(seconds)
        self._nudge.clear()


__all__ = ["Options", "Worker"]
