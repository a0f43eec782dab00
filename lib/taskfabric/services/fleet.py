"""What workers ask and tell: their card, their availability, the limits they met, what a run cost, what it said."""

from __future__ import annotations

import hashlib
import json
import logging
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from taskfabric.domain.account import JITTER, Account, Met, begin_probe, met, reopened, start_run
from taskfabric.domain.availability import Part, compose
from taskfabric.domain.card import AgentCard
from taskfabric.domain.card_file import lint, shape_of
from taskfabric.domain.errors import NotFound, Refused, not_found
from taskfabric.domain.principal import Caller, Kind, Trust
from taskfabric.domain.quota import Used, governed, utc
from taskfabric.domain.task import NewTask
from taskfabric.ports.ledger import Spending
from taskfabric.ports.standing import Chunk, WorkerState
from taskfabric.services import fleet_verbs, policy
from taskfabric.services.desk import Desk
from taskfabric.services.drain import Draining
from taskfabric.services.manning import FABRIC, Manning
from taskfabric.services.openings import Openings

log = logging.getLogger(__name__)

_CHUNK: Final = 64 * 1024  # characters of one piece of output; the rest is cut, visibly


class Fleet:
    """The verbs of workers. Each acts for the card of its own name; none is for what a run started."""

    def __init__(self, desk: Desk, draining: Draining, manning: Manning) -> None:
        self._desk = desk
        self._draining = draining
        self._manning = manning
        self._openings = Openings(desk)

    # -- the card ------------------------------------------------------------------------------------

    def card(self, caller: Caller, verb: fleet_verbs.Card) -> dict[str, Any]:
        """For humans any card, for an agent its own. Raises NotFound."""
        card = self._desk.cards.deck().cards.get(verb.name)
        if card is None or not (caller.principal.is_human or caller.principal.name == verb.name):
            raise not_found("agent card")
        shape, persona = shape_of(card), self._desk.cards.persona(card)
        return {
            "name": card.name,
            "hash": _hash(shape, persona),
            "card": shape,
            "persona": persona,
            "warnings": lint(card),
        }

    def _own(self, caller: Caller) -> AgentCard:
        """The caller's own card. Raises Refused inside a run, NotFound where it has none."""
        policy.refuse_in_run(caller, "a worker's report")
        card = self._desk.cards.deck().cards.get(caller.principal.name)
        if card is None or caller.principal.kind is not Kind.AGENT:
            raise NotFound(
                f"there is no agent card for {caller.principal.name!r}",
                next="put one into the folder cards of the fabric's home; `fabric agents check` reads it",
            )
        return card

    # -- availability --------------------------------------------------------------------------------

    def report(self, caller: Caller, verb: fleet_verbs.Report) -> dict[str, Any]:
        """The worker's state is on the roster; the answer is a(t) as far as it can be known here."""
        card = self._own(caller)
        self._manning.try_refresh()
        self._desk.standing.report(
            WorkerState(
                principal_id=caller.principal.id,
                instance=verb.instance,
                state=verb.state,
                reason=verb.reason,
                until=verb.until,
                running=verb.running,
                facts=dict(verb.facts),
            )
        )
        look = self._openings.look([card])
        found, account = look.at(card, who=verb.instance), look.accounts.get(card.account_name)
        probes = False
        if found.open and account is not None and account.closed(look.now):
            probes = verb.state == "idle" and self._has_work(caller) and self._may_try(card, verb.instance)
            if not probes:
                wait = Part(name="account", open=False, until=look.now + timedelta(minutes=1), reason=_TRIED)
                found = compose([*(p for p in found.parts if p.name != "account"), wait])
        shape = shape_of(card)
        return {
            **found.to_json(),
            "probe": probes,
            "hash": _hash(shape, self._desk.cards.persona(card)),
            "concurrency": card.concurrency,
        }

    def _has_work(self, caller: Caller) -> bool:
        # The one try is worth nothing in the hands of a worker that has nothing to run.
        want = self._draining.want(caller, None, None)
        return bool(want.queues) and self._desk.board.has_work(want, caller.stamp())

    def _may_try(self, card: AgentCard, instance: str) -> bool:
        now = self._desk.board.now()

        def decide(account: Account) -> Account:
            free = account.closed(now) and account.may_probe(instance, now)
            return begin_probe(account, instance, now) if free else account

        _, after = self._desk.ledger.change(card.account_name, decide, FABRIC)
        return not after.closed(now) or after.prober == instance

    # -- quota ---------------------------------------------------------------------------------------

    def reserve(self, caller: Caller, verb: fleet_verbs.Reserve) -> dict[str, Any]:
        """Quota is put aside for one run, or the answer says until when there is none."""
        card, now = self._own(caller), self._desk.board.now()
        deck = self._desk.cards.deck()
        spans = self._openings.spans(deck, card.account_name, now)

        def decide(account: Account, used: Sequence[Used]) -> Account | Part:
            parts = [account.part(now, who=verb.instance), *(governed(u, now, units=verb.units) for u in used)]
            found = compose(parts)
            if not (found.open if verb.interactive else found.background):
                reason = found.reason or "its quota is kept for urgent work"
                return Part(name="quota", open=False, until=found.until, reason=reason)
            return start_run(account, now) if account.closed(now) else account

        fence = None if verb.fence is None else verb.fence.value
        got = self._desk.ledger.reserve(
            Spending(
                account=card.account_name,
                principal_id=caller.principal.id,
                units=verb.units,
                interactive=verb.interactive,
                task_id=None if fence is None else fence.task_id,
                epoch=None if fence is None else fence.epoch,
            ),
            spans,
            decide,
        )
        if isinstance(got, Part):
            return {"granted": False, "reservation": None, "until": utc(got.until), "reason": got.reason}
        return {"granted": True, "reservation": got, "until": None, "reason": ""}

    def spent(self, caller: Caller, verb: fleet_verbs.Spent) -> dict[str, Any]:
        """The run's true cost is in the ledger; an answer of the provider opens an account that was being tried."""
        self._own(caller)
        name = self._desk.ledger.settle(
            verb.reservation,
            caller.principal.id,
            units=verb.units,
            tokens=_tokens(verb.usage),
            cents=verb.usage.get("cents", 0),
            usage=dict(verb.usage),
        )
        if name is None:
            raise not_found("reservation")
        if verb.learned:
            self._desk.ledger.learn(name, [one.value for one in verb.learned])
        if verb.ok:
            self._answered(name, tried=verb.probe)
        return {"account": name}

    def _answered(self, name: str, *, tried: bool) -> None:
        account, now = self._desk.ledger.account(name), self._desk.board.now()

        # A run that began before the wall was met says nothing about what lies behind it.
        # The one that tried before the reset does.
        def over(account: Account) -> bool:
            if account.closed_until is None:
                return False
            return now >= account.closed_until or (tried and account.probe_until is not None)

        if not over(account) and not account.overloads:
            return

        def decide(account: Account) -> Account:
            return reopened(account) if account.closed_until is None or over(account) else account

        self._desk.ledger.change(name, decide, FABRIC)

    def limited(self, caller: Caller, verb: fleet_verbs.Limited) -> dict[str, Any]:
        """What the limit means is in force for every card on the account."""
        card, now = self._own(caller), self._desk.board.now()
        low, high = JITTER
        jitter = low + (high - low) * random.random()
        found: list[Met] = []

        def decide(account: Account) -> Account:
            found.append(met(account, verb.limit.value, now, jitter))
            return found[-1].account

        self._desk.ledger.change(card.account_name, decide, caller.stamp())
        last = found[-1]
        if last.tell:
            self._tell(caller, last)
        return {"until": utc(last.until), "account": card.account_name, "closed": last.closes}

    def _tell(self, caller: Caller, last: Met) -> None:
        """The human whom the agent answers to has a task about it, once for each closing."""
        owner = self._desk.person(caller.principal.owner_id)
        inbox = None if owner is None else self._desk.named(caller, owner.name)
        if owner is None or inbox is None:
            log.warning("account stays closed and nobody is there to be told account=%s", last.account.name)
            return
        account = last.account
        task = NewTask(
            project_id=inbox.project_id,
            title=f"The account {account.name} stays closed",
            description=_letter(account),
            priority=2,
            key=f"account/{account.name}/{utc(account.closed_since)}",
            body_hash=hashlib.sha256(account.name.encode()).digest(),
            trust=Trust.TRUSTED,
            on_behalf_id=owner.id,
        )
        self._desk.board.submit([task], FABRIC, self._desk.rules.limits)

    # -- output --------------------------------------------------------------------------------------

    def chunks(self, caller: Caller, verb: fleet_verbs.Chunks) -> dict[str, Any]:
        """Raises LeaseLost unless the caller holds the task by this fence."""
        if caller.run is not None and caller.run.task_id != verb.fence.task:
            raise Refused("a run writes only its own output", rule="in-run")
        pieces = [Chunk(n=n, stream=stream, text=_cut(text)) for n, stream, text in verb.chunks]
        return {"written": self._desk.standing.add_chunks(verb.fence.value, caller.principal.id, pieces)}

    def read_chunks(self, caller: Caller, verb: fleet_verbs.ReadChunks) -> dict[str, Any]:
        """For those who may see the task whole. What a program complains of, an exception with its words among it, is
        for people: another agent, which called it, reads what the run said and nothing else."""
        task = self._desk.see(caller, verb.task)
        called = caller.principal.kind is Kind.AGENT and caller.principal.name not in (task.queue, task.holder)
        epoch, found = self._desk.standing.chunks(
            task.id, verb.epoch, verb.after, verb.limit, stream="out" if called else None
        )
        return {
            "task": task.id,
            "epoch": epoch,
            "chunks": [{"n": c.n, "at": utc(c.at), "stream": c.stream, "text": c.text} for c in found],
        }


_TRIED: Final = "its quota was spent and the reset is not known; one worker with work to do tries whether it is back"


def _letter(account: Account) -> str:
    which = f" ({account.window})" if account.window else ""
    return (
        f"Its quota{which} was spent at {utc(account.closed_since)}; it is tried again at {utc(account.closed_until)},"
        f" after {account.probes} fruitless tries.\n\nWhat was met:\n\n    {account.evidence or 'nothing'}\n\n"
        "`fabric agents` shows who is affected, `fabric resume NAME --account` opens it."
    )


def _hash(shape: dict[str, Any], persona: str) -> str:
    text = json.dumps([shape, persona], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _tokens(usage: dict[str, int]) -> int:
    if "total_tokens" in usage:
        return usage["total_tokens"]
    return sum(usage.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"))


def _cut(text: str) -> str:
    if len(text) <= _CHUNK:
        return text
    return f"{text[:_CHUNK]}\n[… {len(text) - _CHUNK} characters cut]"
