"""a(t) as far as the server knows it: the card, pauses, waking hours, the account and its quota windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from taskfabric.domain.account import Account
from taskfabric.domain.availability import Availability, Part, compose, opening, paused, switched_on, waking
from taskfabric.domain.card import AgentCard, CardKind, Window
from taskfabric.domain.limit import Learned
from taskfabric.domain.quota import Span, Used, governed, resets, span_of, windows_of
from taskfabric.domain.status import Hindrance, Reason
from taskfabric.ports.cards import Deck
from taskfabric.ports.standing import Paused, WorkerState
from taskfabric.services.desk import Desk

SILENT: Final = timedelta(minutes=2)  # a worker not heard of for so long is not there
LEAVING: Final = timedelta(seconds=30)  # for so long after a worker has gone, what it gave back is left to its next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the stores said at one moment; a(t) of any of the cards follows from it."""

    now: datetime
    deck: Deck
    accounts: Mapping[str, Account]
    pauses: Mapping[str, Paused]
    used: Mapping[str, tuple[Used, ...]]  # by account, its windows
    workers: Mapping[str, tuple[WorkerState, ...]]  # by agent
    learned: Mapping[str, tuple[Learned, ...]]  # by account, what its provider said

    def parts(self, card: AgentCard, at: datetime, *, who: str = "") -> list[Part]:
        """All parts of a(t) at this instant, for the worker ``who``."""
        account = self.accounts.get(card.account_name, Account(name=card.account_name))
        parts = [switched_on(card), self._pause(card, at), waking(card.hours, card.zone, at), account.part(at, who=who)]
        for used in self.used.get(card.account_name, ()):
            # A window that has been reset by then has room again.
            over = at > self.now and at >= resets(used, self.now)
            parts.append(Part(name=f"quota {used.span.window.name}") if over else governed(used, at))
        return parts

    def at(self, card: AgentCard, *, who: str = "") -> Availability:
        """a(t) now; ``until`` is when it opens, also where several reasons follow each other."""
        found = compose(self.parts(card, self.now, who=who))
        if found.open:
            return found
        until = opening(lambda t: self.parts(card, t, who=who), self.now)
        return Availability(
            open=False, background=found.background, until=until, reason=found.reason, parts=found.parts
        )

    def seen(self, card: AgentCard) -> Availability:
        """a(t) as others see it: also closed while no worker runs, or while each of them says so."""
        found = self.at(card)
        if not found.open or card.kind is CardKind.HUMAN:
            return found
        live = self.live(card)
        if not live:
            how = f"`fabric worker {card.name}` starts one; `fabric up` starts those of the enabled cards"
            return compose([*found.parts, Part(name="worker", open=False, reason="no worker runs", next=how)])
        local = [worker for worker in live if worker.state in ("closed", "draining")]
        if len(local) < len(live):
            return found
        ends = [worker.until for worker in local if worker.until is not None]
        until = min(ends) if len(ends) == len(local) else None
        reason = local[0].reason or "its worker shuts down"
        return compose([*found.parts, Part(name="worker", open=False, until=until, reason=reason)])

    def live(self, card: AgentCard) -> list[WorkerState]:
        """The card's workers that were heard of lately."""
        return [
            worker
            for worker in self.workers.get(card.name, ())
            if worker.state != "gone" and worker.seen is not None and self.now - worker.seen <= SILENT
        ]

    def left(self, card: AgentCard) -> bool:
        """Whether a worker of the card has just gone: perhaps all of the fabric is being stopped or started anew."""
        return any(
            worker.state == "gone" and worker.seen is not None and self.now - worker.seen <= LEAVING
            for worker in self.workers.get(card.name, ())
        )

    def _pause(self, card: AgentCard, at: datetime) -> Part:
        held = self.pauses.get(card.name)
        if held is None or (held.until is not None and held.until <= at):
            return Part(name="pause")
        return paused(held.until, held.by, held.note, human=card.kind is CardKind.HUMAN)


class Openings:
    """Looks at the stores on behalf of the roster, of `why`, of workers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def look(self, cards: Iterable[AgentCard] | None = None) -> Look:
        """The stores at this moment; with the quota windows of these cards' accounts (None = of all)."""
        desk = self._desk
        deck, now = desk.cards.deck(), desk.board.now()
        names = dict.fromkeys(card.account_name for card in (deck.cards.values() if cards is None else cards))
        return Look(
            now=now,
            deck=deck,
            accounts=desk.ledger.accounts(),
            pauses=desk.standing.pauses(),
            workers=self._workers(),
            learned=desk.ledger.learned(),
            used={name: tuple(desk.ledger.used(name, self.spans(deck, name, now))) for name in names},
        )

    def _workers(self) -> dict[str, tuple[WorkerState, ...]]:
        found: dict[str, tuple[WorkerState, ...]] = {}
        for worker in self._desk.standing.workers():
            found[worker.agent] = (*found.get(worker.agent, ()), worker)
        return found

    def spans(self, deck: Deck, account: str, now: datetime) -> list[Span]:
        """The account's windows, from all cards on it, as they lie at ``now``."""
        return [span_of(window, zone, now) for zone, window in windows_of(declared(deck, account))]

    def all_closed(self, names: Sequence[str]) -> Reason | None:
        """Why none of these agents may start work now, and until when; None if one may, or is not known to be closed
        (an agent without an enabled card says for itself what it does)."""
        deck = self._desk.cards.deck()
        cards = [deck.cards[name] for name in names if name in deck.cards and deck.cards[name].enabled]
        if not names or len(cards) < len(names):
            return None
        look = self.look(cards)
        states = [(card.name, look.seen(card)) for card in cards]
        if any(state.background for _, state in states):
            return None
        told = "; ".join(f"{name}: {state.reason}" for name, state in states)
        ends = [state.until for _, state in states if state.until is not None]
        return Reason(
            kind=Hindrance.CLOSED,
            text=f"every agent that fits is closed ({told})",
            until=min(ends, default=None),
        )


def declared(deck: Deck, account: str) -> list[tuple[str, Window]]:
    """(zone, window) of every card on this account."""
    return [
        (card.zone, window) for card in deck.cards.values() if card.account_name == account for window in card.windows
    ]
