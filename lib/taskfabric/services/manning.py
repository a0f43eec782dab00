"""Agents as their cards say them: an enabled card has a principal and a queue of its name; nothing else is touched."""

from __future__ import annotations

import logging
import threading
from typing import Final

from taskfabric.domain.card import AgentCard, CardKind
from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.domain.principal import Kind, Principal, ProjectRole, Stamp, Trust, Via
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.target import costs_at_most
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.services.desk import Desk

log = logging.getLogger(__name__)

FABRIC: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


class Manning:
    """Brings principals, queues and memberships in line with the cards, once for each change of the files."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._done = -1  # the generation of cards that is in force
        self.problems: dict[str, str] = {}  # by card

    def refresh(self) -> None:
        """The principals are as the cards say, if these changed since the last time."""
        generation = self._desk.cards.deck().generation
        if generation != self._done and self._lock.acquire(blocking=False):
            try:
                self.man()
            finally:
                self._lock.release()

    def man(self) -> dict[str, str]:
        """Every enabled card of an agent has its principal, its queue and its memberships; what could not be done, by
        card."""
        deck = self._desk.cards.deck()
        problems: dict[str, str] = {}
        owner = min(
            (p for p in self._desk.credentials.principals() if p.is_human and p.is_admin and p.active),
            key=lambda p: p.id,
            default=None,
        )
        for card in deck.cards.values():
            if not card.enabled or card.kind is CardKind.HUMAN:
                continue
            try:
                self._one(card, owner)
            except BadInput as error:
                problems[card.name] = error.message
                log.warning("agent card not manned card=%s reason=%r", card.name, error.message)
        self.problems, self._done = problems, deck.generation
        return problems

    def _one(self, card: AgentCard, owner: Principal | None) -> None:
        """Raises BadInput where a name belongs to somebody else."""
        desk = self._desk
        agent = desk.credentials.principal(card.name)
        able = (*card.capabilities, *costs_at_most(card.cost.value))
        if agent is None:
            agent = desk.credentials.add_principal(
                NewPrincipal(
                    name=card.name,
                    kind=Kind.AGENT,
                    trust=card.trust,
                    full_name=card.description[:255],
                    zone=card.zone,
                    owner_id=None if owner is None else owner.id,
                    tiers=card.tiers or None,
                    capabilities=able,
                    concurrency=card.concurrency,
                ),
                FABRIC,
            )
        elif agent.kind is not Kind.AGENT:
            raise BadInput(f"{card.name!r} is the name of a {agent.kind.value}; rename the card")
        else:
            desk.credentials.describe(
                agent.id,
                trust=card.trust,
                tiers=card.tiers or None,
                capabilities=able,
                concurrency=card.concurrency,
                stamp=FABRIC,
            )
        if not any(queue.owner_id == agent.id for queue in desk.projects.queues_of(agent.id)):
            desk.projects.make_queue(card.name, QueueKind.AGENT, FABRIC, owner_id=agent.id)
        for name in card.queues:
            self._join(name, agent)

    def _join(self, name: str, agent: Principal) -> None:
        desk = self._desk
        name = desk.rules.default_pool if name == "pool" else name
        queue = desk.projects.queue(name)
        if queue is None:
            queue, _ = desk.projects.make_queue(name, QueueKind.POOL, FABRIC)
        if queue.owner_id == agent.id:
            return
        if queue.kind is QueueKind.INBOX:
            raise BadInput(f"{name!r} is a human's inbox, which no agent drains")
        if desk.projects.role_of(queue.project_id, agent.id) is None:
            desk.projects.set_member(queue.project_id, agent.id, ProjectRole.MEMBER, FABRIC)

    def try_refresh(self) -> None:
        """As ``refresh``; what goes wrong is logged, for the call at hand does not depend on it."""
        try:
            self.refresh()
        except FabricError as error:
            log.warning("cards not brought in line reason=%s", error.message)
