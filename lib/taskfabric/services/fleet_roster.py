"""The fleet as people see it: who is open, why not and until when; what is wrong with the cards; pause and resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskfabric.domain.account import Account, reopened
from taskfabric.domain.card import AgentCard, CardKind
from taskfabric.domain.card_file import lint, lint_together
from taskfabric.domain.errors import BadInput, Refused, not_found
from taskfabric.domain.limit import Learned
from taskfabric.domain.principal import Caller, Principal, Viewer
from taskfabric.domain.quota import Used, resets, utc
from taskfabric.domain.status import Status
from taskfabric.ports.standing import WorkerState
from taskfabric.services import fleet_verbs, policy
from taskfabric.services.answers import Check
from taskfabric.services.desk import Desk
from taskfabric.services.manning import Manning
from taskfabric.services.openings import Look, Openings
from taskfabric.services.reading import knows

_WAITING: Final = (Status.READY, Status.HELD, Status.BACKLOG)


class FleetRoster:
    """The verbs of people about agents."""

    def __init__(self, desk: Desk, manning: Manning) -> None:
        self._desk = desk
        self._manning = manning
        self._openings = Openings(desk)

    # -- the roster ----------------------------------------------------------------------------------

    def agents(self, caller: Caller, verb: fleet_verbs.Agents) -> list[dict[str, Any]]:
        """One entry a card; an agent sees itself and those it knows of."""
        self._manning.try_refresh()
        look = self._openings.look()
        people = {p.name: p for p in self._desk.credentials.principals()}
        depths = self._depths(caller)
        rows: list[dict[str, Any]] = []
        for card in look.deck.cards.values():
            who = people.get(card.name)
            if not caller.principal.is_human and (who is None or not knows(self._desk, caller, who)):
                continue
            rows.append(self._row(card, look, depths.get(card.name)))
        if caller.principal.is_human:
            broken = [(n, p) for n, p in look.deck.problems.items() if n not in look.deck.cards]
            rows += [_unreadable(name, problem) for name, problem in broken]
        return rows

    def _row(self, card: AgentCard, look: Look, depth: Mapping[Status, int] | None) -> dict[str, Any]:
        live, found = look.live(card), look.seen(card)
        counts = depth or {}
        closed = next((part.next for part in found.parts if not part.open and part.next), "")
        return {
            "name": card.name,
            "kind": card.kind.value,
            "description": card.description,
            "enabled": card.enabled,
            "open": found.open,
            "background": found.background,
            "why": found.reason,
            "until": utc(found.until),
            "next": closed,
            "parts": [part.to_json() for part in found.parts],
            "tiers": list(card.tiers),
            "capabilities": list(card.capabilities),
            "cost": card.cost.value,
            "trust": card.trust.word,
            "account": card.account_name,
            "memory": {
                "gpu_mb": card.gpu_mb,
                "ram_mb": card.ram_mb,
                "loaded": any(w.facts.get("loaded") for w in live),
            },
            "queue": {
                "waiting": sum(counts.get(status, 0) for status in _WAITING),
                "working": counts.get(Status.WORKING, 0),
            },
            "running": sum(worker.running for worker in live),
            "concurrency": card.concurrency,
            "quota": [_quota(used, look) for used in look.used.get(card.account_name, ())],
            "learned": [_learned(one) for one in look.learned.get(card.account_name, ())],
            "workers": [_worker(worker, live=worker in live) for worker in look.workers.get(card.name, ())],
            "problem": look.deck.problems.get(card.name, "") or self._manning.problems.get(card.name, ""),
        }

    def _depths(self, caller: Caller) -> dict[str, Mapping[Status, int]]:
        """By owner of the queue: its visible rows by status."""
        counts = self._desk.board.count(Viewer.of(caller))
        return {
            queue.owner: counts.get(queue.project_id, {})
            for queue in self._desk.projects.queues()
            if queue.owner is not None
        }

    # -- the cards -----------------------------------------------------------------------------------

    def check(self, caller: Caller, verb: fleet_verbs.CheckCards) -> list[dict[str, Any]]:
        """Errors of the files, then what could be better; for humans."""
        policy.need_human(caller, "checking the agent cards", "agents")
        self._manning.try_refresh()
        return [
            {"card": name, "state": state, "text": text}
            for name, state, text in sorted(self._findings(), key=lambda found: (found[0], found[1]))
        ]

    def _findings(self) -> Iterator[tuple[str, str, str]]:
        deck = self._desk.cards.deck()
        for name, problem in deck.problems.items():
            kept = " (its last good card stays in force)" if name in deck.cards else ""
            yield name, "fail", problem + kept
        for name, problem in self._manning.problems.items():
            yield name, "fail", problem
        for card in deck.cards.values():
            for text in lint(card):
                yield card.name, "warn", text
            if card.persona and not self._desk.cards.persona(card):
                yield card.name, "fail", f"names the persona {card.persona!r}, but there is no such SOUL.md"
            if card.kind is CardKind.HUMAN and card.enabled:
                who = self._desk.credentials.principal(card.name)
                if who is None or not who.is_human:
                    yield card.name, "warn", "is a human's card, but there is no human of that name"
        for name, text in lint_together(deck.cards):
            yield name, "warn", text

    def doctor(self) -> Iterator[Check]:
        """Lines of ``fabric doctor``."""
        deck = self._desk.cards.deck()
        broken = {**self._manning.problems, **deck.problems}
        for name, problem in broken.items():
            yield Check(name="card", state="fail", text=problem, next=f"correct {name}.toml; `fabric agents check`")
        if not broken:
            yield Check(name="cards", state="ok", text=f"{len(deck.cards)} agent card(s), all readable")
        look = self._openings.look()
        for account in look.accounts.values():
            if account.closed(look.now):
                part = account.part(look.now)
                text = f"{part.reason} (until {utc(part.until)})"
                yield Check(name="account", state="warn", text=text, next="wait, or `fabric resume NAME --account`")
        yield from self._shut(look)
        off = [card.name for card in deck.cards.values() if not card.enabled]
        if off:
            how = "copy its file to the folder cards of the fabric's home and set enabled = true"
            yield Check(name="agents", state="ok", text=f"could be switched on: {', '.join(off)}; {how}")

    def _shut(self, look: Look) -> Iterator[Check]:
        """Agents that are switched on and closed: why, and what would open them."""
        for card in look.deck.cards.values():
            row = self._row(card, look, None)
            if card.enabled and not row["open"]:
                until = f" (until {row['until']})" if row["until"] else ""
                how = f"; {row['next']}" if row["next"] else ""
                yield Check(name="agent", state="ok", text=f"{card.name} is closed: {row['why']}{until}{how}")

    # -- pause and resume ----------------------------------------------------------------------------

    def pause(self, caller: Caller, verb: fleet_verbs.Pause) -> dict[str, Any]:
        """Within one poll its workers start nothing more; what runs goes on."""
        card = self._managed(caller, verb.name, "pausing an agent")
        if verb.until is not None and verb.until <= self._desk.board.now():
            raise BadInput("that instant is past", field="until")
        self._desk.standing.pause(card.name, verb.until, verb.note, caller.stamp())
        return {"name": card.name, "paused": True, "until": utc(verb.until)}

    def resume(self, caller: Caller, verb: fleet_verbs.Resume) -> dict[str, Any]:
        card = self._managed(caller, verb.name, "resuming an agent")
        was = self._desk.standing.resume(card.name, caller.stamp())
        opened = False
        if verb.account:
            before, _ = self._desk.ledger.change(card.account_name, _open, caller.stamp())
            opened = before.closed(self._desk.board.now())
        return {"name": card.name, "paused": False, "was_paused": was, "account_opened": opened}

    def _managed(self, caller: Caller, name: str, what: str) -> AgentCard:
        """The card, if the caller may stop it: an administrator, the human it answers to, a human his own."""
        policy.need_human(caller, what, "pause")
        card = self._desk.cards.deck().cards.get(name)
        if card is None:
            raise not_found("agent card")
        me, agent = caller.principal, self._desk.credentials.principal(name)
        if not (me.is_admin or _answers_to(agent, me)):
            raise Refused(
                f"{name} does not answer to you", next="ask an administrator, or whom it answers to", rule="pause"
            )
        return card


def _answers_to(agent: Principal | None, me: Principal) -> bool:
    return agent is not None and me.id in (agent.id, agent.owner_id)


def _open(account: Account) -> Account:
    return reopened(account)


def _quota(used: Used, look: Look) -> dict[str, Any]:
    window = used.span.window
    return {
        "window": window.name,
        "unit": window.unit,
        "limit": window.limit,
        "used": used.amount,
        "left": max(0, window.limit - used.amount),
        "reset": utc(resets(used, look.now)) if used.amount or used.span.end else None,
    }


def _learned(one: Learned) -> dict[str, Any]:
    """What the provider itself said of a window."""
    return {
        "window": one.window,
        "used": round(one.used, 4),
        "limit": one.amount,
        "reset": utc(one.reset),
        "seen": utc(one.seen),
    }


def _worker(worker: WorkerState, *, live: bool) -> dict[str, Any]:
    return {
        "instance": worker.instance,
        "state": worker.state if live or worker.state == "gone" else "silent",
        "since": utc(worker.since),
        "seen": utc(worker.seen),
        "reason": worker.reason,
        "until": utc(worker.until),
        "running": worker.running,
        "facts": worker.facts,
    }


def _unreadable(name: str, problem: str) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "",
        "description": "",
        "enabled": False,
        "open": False,
        "background": False,
        "why": "its card cannot be read",
        "until": None,
        "next": "`fabric agents check` says what is wrong",
        "parts": [],
        "tiers": [],
        "capabilities": [],
        "cost": "",
        "trust": "",
        "account": "",
        "memory": {"gpu_mb": 0, "ram_mb": 0, "loaded": False},
        "queue": {"waiting": 0, "working": 0},
        "running": 0,
        "concurrency": 0,
        "quota": [],
        "learned": [],
        "workers": [],
        "problem": problem,
    }
