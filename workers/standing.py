"""How an agent stands: its card as the server has it, and a(t) as server and worker see it together."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from taskfabric import __version__
from taskfabric.domain.availability import Availability, Part, compose
from taskfabric.domain.card import AgentCard
from taskfabric.domain.card_file import read_card
from taskfabric.domain.errors import FabricError, Refused
from taskfabric.domain.task import instant
from taskfabric.ports.fabric import Fabric
from taskfabric.services import fleet_verbs, verbs
from workers import clock
from workers.availability import Node, Room
from workers.errand import Agent, Kit

log = logging.getLogger(__name__)

State = Literal["idle", "running", "closed", "draining", "gone"]

_FRESH: Final = 1.0  # seconds for which an answer about a(t) is used again
_TRY_ON: Final = 30.0  # seconds between two looks whether a card can be served by now


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """a(t) as server and worker see it together."""

    all: Availability
    probes: bool = False  # open for one run only: whether the account is back


def greeted(fabric: Fabric, name: str) -> Agent:
    """Our card. Raises Refused when the token is somebody else's, NotFound when there is no such card."""
    hello = fabric.call(verbs.Hello())
    if hello.name != name:
        raise Refused(
            f"this token is {hello.name}'s, and not {name}'s",
            next=f"`fabric token create {name}` makes one",
            rule="not-its-token",
        )
    return _card_of_server(fabric, name)


def _card_of_server(fabric: Fabric, name: str) -> Agent:
    shape = fabric.call(fleet_verbs.Card(name=name))
    return Agent(card=read_card(shape["card"], name=name), persona=shape["persona"], hash=shape["hash"])


class Standing:
    """The agent's card and its a(t). ``loaded`` is the folder in which this machine's models say that they are loaded.

    Raises BadInput or Refused for a card that cannot be served here, unless ``patient``: it is closed then.
    """

    def __init__(self, fabric: Fabric, agent: Agent, kit: Kit, *, loaded: Path, patient: bool) -> None:
        self._fabric = fabric
        self.agent = agent
        self._kit = kit
        self._loaded = loaded
        self._unfit: Part | None = None  # why this card cannot be served here
        self._unfit_at = 0.0
        self._node, self._room = Node(self.card), Room(self.card, loaded)
        self._shut: Part | None = None  # why we keep away by ourselves
        self._asked: tuple[float, Opening] | None = None
        self._try_on(patient=patient)

    @property
    def card(self) -> AgentCard:
        """Our card as the server had it last."""
        return self.agent.card

    def opening(self, *, running: int, spooled: int) -> Opening:
        """a(t), at most a second old. The roster knows how we are; the card is the one that is in force."""
        if self._asked is not None and clock.now() - self._asked[0] < _FRESH:
            return self._asked[1]
        self._housekeep(running)
        here = compose([p for p in (self._unfit, self._node.part(work=False), self._away()) if p is not None])
        state: State = "running" if running else "idle" if here.open else "closed"
        answer = self._report(state, here, running, spooled)
        if answer["hash"] != self.agent.hash:
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

    def forget(self) -> None:
        """The server is asked anew before the next claim."""
        self._asked = None

    def keep_away(self, until: datetime, reason: str) -> None:
        """Nothing is claimed until then: a run has met a limit."""
        self._shut = Part(name="account", open=False, until=until, reason=reason)
        self.forget()

    def is_ready(self, *, running: int) -> bool:
        """Whether what the work runs on is awake and has room; it is woken only when there is work."""
        card = self.card
        if not (card.wake or card.gpu_mb or card.ram_mb) or running:
            return True
        if not self._fabric.call(verbs.Wait(timeout=0.0)).happened:
            return False
        for place in (self._node, self._room):
            part = place.part(work=True)
            if not part.open:
                rest = timedelta(seconds=max(2.0, self._node.seconds_to_next))
                self._shut = Part(name=part.name, open=False, until=self._kit.board.now() + rest, reason=part.reason)
                self.forget()
                return False
        return True

    def rest(self, closed: Availability, poll: float) -> float:
        """Seconds to wait while closed: until it opens, one poll at most, so that an earlier opening is noticed."""
        left = poll
        if closed.until is not None:
            left = min(left, max(0.0, (closed.until - self._kit.board.now()).total_seconds()))
        return max(0.2, min(left, self._node.seconds_to_next or left)) * random.uniform(1.0, 1.1)

    def leave(self) -> None:
        """Nothing of it is loaded any more."""
        self._room.leave()

    def say(self, state: State, *, running: int, spooled: int) -> None:
        """The roster knows that we are on our way out, if it can be told."""
        try:
            self._report(state, compose([]), running, spooled)
        except FabricError as error:
            log.info("not told state=%s reason=%s", state, error.message)

    # ------------------------------------------------------------------------------------------------

    def _report(self, state: State, here: Availability, running: int, spooled: int) -> dict[str, Any]:
        answer: dict[str, Any] = self._fabric.call(
            fleet_verbs.Report(
                instance=self._kit.instance,
                state=state,
                reason=here.reason[:2000],
                until=here.until,
                running=running,
                facts={
                    "version": __version__,
                    "spooled": spooled,
                    "asleep": self._node.asleep,
                    "loaded": self._room.is_loaded,
                },
            )
        )
        return answer

    def _away(self) -> Part | None:
        """Why we keep away by ourselves: a limit that was met, a place that is taken."""
        shut = self._shut
        if shut is not None and shut.until is not None and shut.until <= self._kit.board.now():
            self._shut = shut = None
        return shut

    def _try_on(self, *, patient: bool) -> None:
        """A runtime for our card is at hand, or why there is none is known (or, without patience, raised)."""
        self._unfit_at = clock.now()
        try:
            self._kit.idle.append((self.card, self._kit.take(self.card)))
        except FabricError as error:
            if not patient:
                raise
            self._unfit = Part(name="runtime", open=False, reason=error.message, next=error.next)
            log.warning("card cannot be served reason=%r next=%r", error.message, error.next)
        else:
            self._unfit = None

    def _housekeep(self, running: int) -> None:
        if self._unfit is not None and clock.now() - self._unfit_at > _TRY_ON:
            self._try_on(patient=True)  # somebody may have installed what was missing
        if running:
            self._node.used()
        elif self._node.rest():
            self._room.leave()
        elif self._room.is_wanted:
            self._node.stop()
            self._room.leave()

    def _change_card(self) -> None:
        """The card's file was changed: what runs goes on under the old one, what comes next goes by the new one."""
        self.agent = _card_of_server(self._fabric, self.card.name)
        self._room.leave()
        self._node, self._room = Node(self.card), Room(self.card, self._loaded)
        self._try_on(patient=True)
        log.info("card changed hash=%s", self.agent.hash)
