"""What a worker does, over and over: a(t)? claim, resolve refs, run, settle.

a(t)?      closed: rest until it opens, and say so on the roster; nothing is claimed
claim      from its own queue, then from the pools it serves
run        each claimed task in a thread of its own, as ``errand.py`` says, under the heartbeat
settle     one outcome, with the fence; into the spool while the server is away
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from taskfabric import __version__
from taskfabric.domain.availability import Availability, Part, compose
from taskfabric.domain.card import AgentCard
from taskfabric.domain.card_file import read_card
from taskfabric.domain.errors import FabricError, HeldBy, IllegalMove, NotFound, Refused, Unavailable
from taskfabric.domain.outcome import Failed, Released
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed, instant
from taskfabric.ports.fabric import Fabric
from taskfabric.services import fleet_verbs, verbs
from workers import clock
from workers.availability import Node, Room
from workers.ending import deliver, fit
from workers.errand import Agent, Errand, Kit
from workers.heartbeat import Heartbeat
from workers.run import Workspaces
from workers.spool import Ended, Spool

log = logging.getLogger(__name__)

State = Literal["idle", "running", "closed", "draining", "gone"]

_RENEWAL: Final = 5.0  # seconds for one renewal at most; less for a short lease, so that it can be tried again
_FRESH: Final = 1.0  # seconds for which an answer about a(t) is used again
_TRY_ON: Final = 30.0  # seconds between two looks whether a card can be served by now
_URGENT: Final = 3  # the priority of interactive work
_LAST: Final = 25.0  # seconds for runs to come back once they were told to end
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """a(t) as server and worker see it together."""

    all: Availability
    probes: bool = False  # open for one run only: whether the account is back


class Worker:
    """The worker of one card. ``work`` runs until it is drained; the other methods may be called meanwhile."""

    def __init__(self, fabric: Fabric, connect: Callable[[float], Fabric], name: str, options: Options) -> None:
        """``connect`` makes the heartbeat a line of its own, on which it waits so many seconds for an answer."""
        self._fabric = fabric
        self._options = options
        self._name = name
        self._agent = self._greeted()
        renewing = connect(min(_RENEWAL, self.card.lease.total_seconds() / 12))
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
            board=self._board_clock(),
            keep=options.folder,
        )
        self._unfit: Part | None = None  # why this card cannot be served here
        self._unfit_at = 0.0
        self._try_on()
        self._spool = Spool(options.folder / "spool")
        self._node, self._room = Node(self.card), Room(self.card, options.folder.parent / "loaded")
        self._errands: dict[Errand, threading.Thread] = {}
        self._nudge = threading.Event()
        self._drained_at: float | None = None
        self._released = False
        self._shut: Part | None = None  # why we keep away by ourselves
        self._asked: tuple[float, Opening] | None = None
        self._ear: threading.Thread | None = None
        self._called = self._empty = False
        self._fruitless = self._misses = 0
        self.claimed = 0  # tasks so far

    @property
    def card(self) -> AgentCard:
        """Our card as the server had it last."""
        return self._agent.card

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
            while self._drained_at is None and not (self._options.once and self._empty and not self._errands):
                try:
                    self._cycle()
                    self._misses = 0
                except Unavailable as error:
                    if self._options.once and not self._errands:
                        raise
                    self._stay_away(error)
        finally:
            self._leave()

    def _cycle(self) -> None:
        self._spool.offer(lambda ended: deliver(self._fabric, ended))
        opening = self._opening()
        if not opening.all.open:
            self._empty = not self._errands
            if not (self._options.once and self._empty):
                self._rest(opening.all)
            return
        idle, claimed = not self._errands, self._claim(opening)
        for one, sent in claimed:
            self._begin(one, sent, probes=opening.probes)
        self._fruitless = self._fruitless + 1 if self._called and not claimed and self._free else 0
        self._called, self._empty = False, idle and not claimed
        if not claimed and not (self._options.once and self._empty):
            self._await_work()

    # -- a(t)? ---------------------------------------------------------------------------------------

    def _opening(self) -> Opening:
        """a(t), at most a second old. The roster knows how we are."""
        if self._asked is not None and clock.now() - self._asked[0] < _FRESH:
            return self._asked[1]
        self._housekeep()
        here = compose([p for p in (self._unfit, self._node.part(work=False), self._away()) if p is not None])
        state: State = "running" if self._errands else "idle" if here.open else "closed"
        answer = self._report(state, here)
        if answer["hash"] != self._agent.hash:
            self._change_card()
        there = Availability(
            open=answer["open"],
            background=answer["background"],
            until=instant(answer["until"]),
            reason=answer["reason"],
        )
        found = Opening(all=there if here.open else here, probes=bool(answer["probe"]))
        self._asked = (clock.now(), found)
        return found

    def _report(self, state: State, here: Availability) -> dict[str, Any]:
        answer: dict[str, Any] = self._fabric.call(
            fleet_verbs.Report(
                instance=self._options.instance,
                state=state,
                reason=here.reason[:2000],
                until=here.until,
                running=len(self._errands),
                facts={"version": __version__, "spooled": len(self._spool), "asleep": self._node.asleep},
            )
        )
        return answer

    def _away(self) -> Part | None:
        """Why we keep away by ourselves: a limit that was met, a place that is taken."""
        shut = self._shut
        if shut is not None and shut.until is not None and shut.until <= self._kit.board.now():
            self._shut = shut = None
        return shut

    def _try_on(self) -> None:
        """A runtime for our card is at hand, or why there is none is known (or, without patience, raised)."""
        self._unfit_at = clock.now()
        try:
            self._kit.idle.append((self.card, self._kit.take(self.card)))
        except FabricError as error:
            if not self._options.patient:
                raise
            self._unfit = Part(name="runtime", open=False, reason=error.message, next=error.next)
            log.warning("card cannot be served reason=%r next=%r", error.message, error.next)
        else:
            self._unfit = None

    def _keep_away(self, until: datetime, reason: str) -> None:
        self._shut = Part(name="account", open=False, until=until, reason=reason)
        self._asked = None

    def _housekeep(self) -> None:
        if self._unfit is not None and clock.now() - self._unfit_at > _TRY_ON:
            self._try_on()  # somebody may have installed what was missing
        if self._errands:
            self._node.used()
        elif self._node.rest():
            self._room.leave()
        elif self._room.is_wanted:
            self._node.stop()
            self._room.leave()

    def _rest(self, closed: Availability) -> None:
        """Closed: wait until it opens, one poll at most, so that it is noticed when somebody opens it before."""
        left = self._options.poll
        if closed.until is not None:
            left = min(left, max(0.0, (closed.until - self._kit.board.now()).total_seconds()))
        self._pause(max(0.2, min(left, self._node.seconds_to_next or left)) * random.uniform(1.0, 1.1))

    # -- claim ---------------------------------------------------------------------------------------

    @property
    def _free(self) -> int:
        return max(0, self.card.concurrency - len(self._errands))

    def _claim(self, opening: Opening) -> list[tuple[Claimed, float]]:
        """What we got, each with the moment at which it was asked for: from then on its lease counts."""
        free = self._free
        if opening.probes:
            # One run finds out whether the account is back; whatever it finds, the server is asked before the next.
            free, self._asked = int(not self._errands), None
        if not free or not self._is_ready():
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

    def _is_ready(self) -> bool:
        """Whether what the work runs on is awake and has room; it is woken only when there is work."""
        card = self.card
        if not (card.wake or card.gpu_mb or card.ram_mb) or self._errands:
            return True
        if not self._fabric.call(verbs.Wait(timeout=0.0)).happened:
            return False
        for place in (self._node, self._room):
            part = place.part(work=True)
            if not part.open:
                self._shut = Part(
                    name=part.name,
                    open=False,
                    until=self._kit.board.now() + timedelta(seconds=max(2.0, self._node.seconds_to_next)),
                    reason=part.reason,
                )
                self._asked = None
                return False
        return True

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

    # -- run and settle ------------------------------------------------------------------------------

    def _begin(self, claimed: Claimed, sent: float, *, probes: bool) -> None:
        held = self._heartbeat.hold(claimed.fence, self.card.lease, sent=sent)
        errand = Errand(self._agent, claimed, held, self._kit, probes=probes, away=self._keep_away)
        thread = threading.Thread(target=self._attend, args=(errand,), name=f"errand-{claimed.fence}", daemon=True)
        self._errands[errand] = thread
        self.claimed += 1
        log.info("claimed task=%s", claimed.fence)
        thread.start()

    def _attend(self, errand: Errand) -> None:
        try:
            ended = _carried_out(errand)
            if ended is not None:
                log.info("ended task=%s outcome=%s", ended.fence, type(ended.outcome).__name__.lower())
                self._settle(ended)
        except Exception:  # whatever it is: the lease runs out, and the next one tries
            log.exception("errand broken task=%s", errand.held.fence)
        finally:
            self._heartbeat.let_go(errand.held)
            self._errands.pop(errand, None)
            self._nudge.set()

    def _settle(self, ended: Ended) -> None:
        try:
            deliver(self._fabric, ended)
        except FabricError as error:
            log.warning("end not delivered task=%s reason=%s", ended.fence, error.message)
            self._spool.put(ended)

    # -- coming and going ----------------------------------------------------------------------------

    def _greeted(self) -> Agent:
        """Our card. Raises Refused when the token is somebody else's, NotFound when there is no such card."""
        hello = self._fabric.call(verbs.Hello())
        if hello.name != self._name:
            raise Refused(
                f"this token is {hello.name}'s, and not {self._name}'s",
                next=f"`fabric token create {self._name}` makes one",
                rule="not-its-token",
            )
        return self._card_of_server()

    def _card_of_server(self) -> Agent:
        shape = self._fabric.call(fleet_verbs.Card(name=self._name))
        return Agent(card=read_card(shape["card"], name=self._name), persona=shape["persona"], hash=shape["hash"])

    def _change_card(self) -> None:
        """The card's file was changed: what runs goes on under the old one, what comes next goes by the new one."""
        self._agent = self._card_of_server()
        self._room.leave()
        self._node, self._room = Node(self.card), Room(self.card, self._options.folder.parent / "loaded")
        try:
            self._try_on()
        except FabricError as error:
            self._unfit = Part(name="runtime", open=False, reason=error.message, next=error.next)
        log.info("card changed hash=%s", self._agent.hash)

    def _board_clock(self) -> clock.BoardClock:
        at = clock.now()
        return clock.BoardClock(self._fabric.call(verbs.Hello()).now, at)

    def _stay_away(self, error: Unavailable) -> None:
        """The server is away: look again after a while, later and later, not all of us at once."""
        self._misses += 1
        self._asked = None
        rest = min(_LONGEST_AWAY, 0.5 * 2 ** min(self._misses - 1, 10)) * random.uniform(0.5, 1.0)
        log.warning("server away reason=%s rest=%.1f", error.message, rest)
        self._pause(rest)

    def _leave(self) -> None:
        """Drain: runs may go on for the grace; then they are told to end, and what they have not finished goes back."""
        self._say("draining")
        begun = self._drained_at or clock.now()
        while self._errands and not self._released and clock.now() - begun < self._options.grace:
            self._pause(min(1.0, self._options.grace))
        for errand in list(self._errands):
            errand.drain()
        for thread in list(self._errands.values()):
            thread.join(_LAST)
        self._heartbeat.end()
        self._kit.close()
        self._room.leave()
        self._say("gone")

    def _say(self, state: State) -> None:
        try:
            self._report(state, compose([]))
        except FabricError as error:
            log.info("not told state=%s reason=%s", state, error.message)

    def _pause(self, seconds: float) -> None:
        self._nudge.wait(seconds)
        self._nudge.clear()


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


__all__ = ["Options", "Worker"]
