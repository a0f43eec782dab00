"""What ``auto`` comes to: a tier and needs, said on the card; and the question to a person where it is not sure.

A task that nobody can judge is held, and its submitter (for an agent the human it answers to) has a task in his inbox
that asks how demanding it is. Finishing that one with a tier as its note rates the held task; so does rating the held
task itself, which withdraws the question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import BadInput, NotFound
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Caller, Kind, Trust, Viewer
from taskfabric.domain.queue import Queue
from taskfabric.domain.routing import Choice, Offer, Verdict, fitted, matters, rating, told
from taskfabric.domain.status import FINISHED, Status
from taskfabric.domain.target import Target, TargetKind
from taskfabric.domain.task import NewTask, Task
from taskfabric.domain.tier import TIERS
from taskfabric.ports.board import Edit, Filter
from taskfabric.services import policy
from taskfabric.services.desk import Desk
from taskfabric.services.manning import FABRIC
from taskfabric.services.openings import Openings

_MARK: Final = "auto"  # the reference of such a question; only those of the fabric itself count
_UNJUDGED: Final = (Status.HELD, Status.READY, Status.BACKLOG)
_ROOM: Final = Limits(depth=1000, fan_out=1000)  # the fabric's own question is nobody's child too many


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """What was decided for one task, before it is made."""

    choice: Choice
    comment: str
    asks: int | None = None  # the human who is asked, since it was not sure

    @property
    def hold(self) -> str | None:
        """Why it starts held."""
        if self.asks is None:
            return None
        return "`auto` is not sure how demanding it is; answer its question, or rate it: `fabric edit REF --score N`"


class Routing:
    """The hallway's side of the router."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def applied(self, new: NewTask, place: tuple[Target, Queue], *, asks: int | None) -> tuple[NewTask, Routed | None]:
        """The task as it is then made, and what is to be said of it."""
        target, queue = place
        text = f"{new.title}\n{new.description}".strip()
        routed = self._decide(target, queue, text, tier=new.tier, needs=new.needs, asks=asks)
        if routed is None:
            return new, None
        choice = routed.choice
        hold = new.hold if choice.tier else new.hold or routed.hold
        return replace(new, tier=choice.tier, needs=choice.needs, hold=None if choice.tier else hold), routed

    def _decide(
        self, target: Target, queue: Queue, text: str, *, tier: str, needs: Sequence[str], asks: int | None
    ) -> Routed | None:
        """What a task for ``auto`` asks for; ``tier`` and ``needs`` are what its submitter said already.

        None: nothing is added, because it is for somebody else, or it makes no difference."""
        if target.kind is not TargetKind.AUTO:
            return None
        offers = self._offers(queue)
        if not matters(offers):
            return None
        verdict = self._desk.fleet.router.judge(text)
        sure = verdict.sure or bool(tier)
        if verdict.route is None or not sure:
            return self._unsure(verdict, offers, tier=tier, needs=needs, asks=asks)
        choice = fitted(verdict.route, offers, tier=tier, asked=needs)
        return Routed(choice=choice, comment=told(choice, verdict, sure=True))

    def _unsure(
        self, verdict: Verdict, offers: Sequence[Offer], *, tier: str, needs: Sequence[str], asks: int | None
    ) -> Routed:
        """Somebody is asked; where nobody is there to be asked the guess stands."""
        if verdict.route is None or asks is not None or tier:
            choice = Choice(tier=tier, needs=tuple(needs))
        else:
            choice = fitted(verdict.route, offers, tier=tier, asked=needs)
        if tier:
            return Routed(choice=choice, comment=told(choice, verdict, sure=True))
        if asks is not None:
            guess = "" if verdict.route is None else f"; nearest is {verdict.route.name!r} ({verdict.route.tier})"
            return Routed(choice=choice, comment=f"auto: not sure, {verdict.why}{guess}", asks=asks)
        if verdict.route is None:
            return Routed(choice=choice, comment=f"auto: any tier, {verdict.why}, and nobody is there to be asked")
        return Routed(choice=choice, comment=told(choice, verdict, sure=False))

    def _offers(self, queue: Queue) -> list[Offer]:
        """What the agents of the pool take. Who is closed and will not open by himself counts only where all are."""
        desk = self._desk
        agents = [
            p
            for p in desk.credentials.principals()
            if p.kind is Kind.AGENT and p.active and policy.is_of(desk, p.id, queue.project_id)
        ]
        deck = desk.cards.deck()
        # An agent without an enabled card says for itself what it does.
        cards = [deck.cards[p.name] for p in agents if p.name in deck.cards and deck.cards[p.name].enabled]
        look = Openings(desk).look(cards)
        states = {card.name: look.seen(card) for card in cards}
        shut = {name for name, state in states.items() if not state.open and state.until is None}
        there = [p for p in agents if p.name not in shut] or agents
        return [Offer(tiers=p.tiers, capabilities=_able(p.capabilities)) for p in there]

    # -- after the task is made ----------------------------------------------------------------------

    def say(self, task: Task, routed: Routed) -> None:
        """What was decided is on the card, and the question in its inbox."""
        self._desk.board.comment(task.id, routed.comment, FABRIC)
        human = None if routed.asks is None else self._desk.credentials.principal(routed.asks)
        if human is None:
            return
        inbox = next((q for q in self._desk.projects.queues_of(human.id) if q.owner_id == human.id), None)
        if inbox is None:
            return
        new = NewTask(
            project_id=inbox.project_id,
            title=f"How demanding is #{task.id}? {task.title}"[: self._desk.rules.title],
            description=(
                f"{routed.comment}.\n\nFinish this with the tier as the note: {', '.join(TIERS)}."
                f" Or rate the task itself: `fabric edit {task.id} --score N`."
            ),
            priority=2,
            reference=_MARK,
            parent=task.id,
            key=f"{_MARK}/{task.id}",
            body_hash=hashlib.sha256(str(task.id).encode()).digest(),
            trust=Trust.TRUSTED,
            on_behalf_id=human.id,
        )
        self._desk.board.submit([new], FABRIC, _ROOM)

    def answered(self, caller: Caller, target: Fence | int, note: str) -> None:
        """Where ``target`` is such a question, the task that it asks about has the tier that the note names.

        Raises BadInput for a note that names none: the question stays open."""
        if not caller.principal.is_human or caller.run is not None:
            return
        try:
            asked = self._desk.board.get(target.task_id if isinstance(target, Fence) else target, Viewer.of(caller))
        except NotFound:  # whoever finishes what he does not see hears so from the board
            return
        if asked.submitter_id != FABRIC.principal_id or asked.reference != _MARK or asked.parent is None:
            return
        tier = rating(note)
        if tier is None:
            raise BadInput(
                "the note names no tier", next=f"write one of {', '.join(TIERS)}", field="note", task=asked.id
            )
        about = self._desk.board.get(asked.parent, None)
        if about.status in _UNJUDGED and not about.tier:
            self._desk.board.edit(about.id, Edit(tier=tier), caller.stamp())

    def rated(self, task: Task) -> None:
        """Somebody rated the task itself: the question about it is withdrawn."""
        for asked in self._desk.board.find(Filter(parent=task.id, submitter_id=FABRIC.principal_id), _OURS):
            if asked.reference == _MARK and asked.status not in FINISHED:
                self._desk.board.cancel(asked.id, f"#{task.id} was rated", FABRIC)


def _able(capabilities: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Without what only says how much it costs: agents that differ in nothing else are alike."""
    return None if capabilities is None else tuple(c for c in capabilities if not c.startswith("cost/"))


_OURS: Final = Viewer(principal_id=FABRIC.principal_id, kind=Kind.SERVICE)
