"""The judge of a history: what clients saw and what the board wrote down must fit the promises, call by call.

    violations = check(read_history(files), read_board(dsn))

The journal is walked task by task as a small state machine; then each client's calls are matched with it. A call that
is unknown may have been carried out or not, but never twice, and never both "refused" and carried out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.history import Board, Call, Event, Grant, Row

STEP: Final = 1_000_000  # what a restore adds to every epoch

# Kinds by which a holder ends its run, and all by which a lease ends.
FINISHES: Final = frozenset({"done", "parked", "asked", "waiting", "failed", "dead", "released", "rejected", "resumed"})
_REFUNDED: Final = frozenset({"parked", "asked", "waiting", "resumed", "released", "restored"})
_OVER: Final = frozenset({"cancelled", "expired", "restored", "moved"})

# Where a task may stand when this was its last transition; a kind that is not here moves nothing.
_AFTER: Final[dict[str, frozenset[str]]] = {
    "submitted": frozenset({"ready", "backlog", "held"}),
    "claimed": frozenset({"working"}),
    "done": frozenset({"done", "verified"}),
    "parked": frozenset({"ready", "held"}),
    "released": frozenset({"ready", "held"}),
    "failed": frozenset({"ready", "held"}),
    "expired": frozenset({"ready", "held"}),
    "restored": frozenset({"ready", "held"}),
    "resumed": frozenset({"ready", "held"}),
    "answered": frozenset({"ready", "held"}),
    "redriven": frozenset({"ready", "held"}),
    "asked": frozenset({"waiting", "held"}),
    "waiting": frozenset({"waiting", "held"}),
    "dead": frozenset({"dead"}),
    "verified": frozenset({"verified"}),
    "cancelled": frozenset({"cancelled"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was broken."""

    rule: str
    task: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: " + ("" if self.task is None else f"task {self.task}: ") + self.text


@dataclass
class _Life:
    """One task, as its journal tells it."""

    task: int
    claims: int = 0
    attempts: int = 0
    holder: int | None = None  # actor of the live lease
    epoch: int = 0  # of the last grant
    allowed: frozenset[str] | None = None  # statuses after the last transition
    finished: set[int] = field(default_factory=set)  # epochs with an accepted end
    bad: list[Violation] = field(default_factory=list)

    def wrong(self, rule: str, text: str) -> None:
        self.bad.append(Violation(rule=rule, task=self.task, text=text))

    def step(self, event: Event, lifts: int, humans: frozenset[int]) -> None:
        by_hand = bool(event.data.get("by_hand"))
        if event.kind == "claimed":
            self._claimed(event, lifts)
        elif event.kind == "done" and not by_hand and self.holder is None:
            self.wrong("fence", f"done in epoch {event.epoch} without a live lease")
        elif event.kind in FINISHES and self.holder is not None and not by_hand:
            self._finished(event)
        if event.kind == "expired" and self.holder is None:
            self.wrong("fence", f"a lease expired that nobody had (after epoch {self.epoch})")
        self._count(event, humans)
        self.allowed = self._where(event)
        if event.kind in FINISHES | _OVER:
            self.holder = None

    def _claimed(self, event: Event, lifts: int) -> None:
        if self.holder is not None:
            self.wrong("overlap", f"epoch {event.epoch} was granted while {self.holder} held epoch {self.epoch}")
        step, rest = divmod((event.epoch or 0) - self.epoch - 1, STEP)
        if rest or not 0 <= step <= lifts:
            self.wrong("epochs", f"epoch {event.epoch} was granted after {self.epoch}")
        self.holder, self.epoch = event.actor, event.epoch or 0
        self.claims += 1

    def _finished(self, event: Event) -> None:
        if event.epoch != self.epoch:
            self.wrong("fence", f"{event.kind} names epoch {event.epoch}, the last grant was {self.epoch}")
        buried = event.kind == "dead" and event.actor == 0  # the sweep's, of a lease that expired
        if event.actor != self.holder and not buried:
            self.wrong("fence", f"{event.kind} by {event.actor} in epoch {self.epoch}, which {self.holder} held")
        if self.epoch in self.finished:
            self.wrong("twice", f"epoch {self.epoch} ended more than once")
        self.finished.add(self.epoch)

    def _count(self, event: Event, humans: frozenset[int]) -> None:
        leased = self.holder is not None
        if event.kind == "claimed":
            self.attempts += 1
        elif event.kind == "redriven" or (event.kind == "rejected" and not leased):
            self.attempts = 0
        elif leased and (
            event.kind in _REFUNDED
            or (event.kind == "moved" and event.data.get("lease_ended"))
            or (event.kind == "expired" and self.holder in humans)
        ):
            self.attempts = max(0, self.attempts - 1)

    def _where(self, event: Event) -> frozenset[str] | None:
        if event.kind == "moved":
            return None  # a human's fact: anywhere
        if event.kind == "rejected":
            return frozenset({"rejected"}) if self.holder is not None else frozenset({"ready", "held"})
        return _AFTER.get(event.kind, self.allowed)


def check(history: Sequence[Call], board: Board) -> list[Violation]:
    """Every broken promise that this history shows; an empty list for a good one."""
    events: dict[int, list[Event]] = defaultdict(list)
    for event in board.journal:
        if event.seq is not None:
            events[event.task].append(event)
    rows = {row.task: row for row in board.rows}
    found = [*_rows_are_whole(board.rows, events)]
    for task, told in events.items():
        life = _Life(task=task)
        found += _sequence(task, told, rows.get(task))
        for event in sorted(told, key=lambda e: e.seq or 0):
            life.step(event, board.lifts, board.humans)
        found += life.bad
        found += _end(life, rows.get(task), board.lifts)
    found += _submits(history, board.rows)
    found += _claims(history, board.journal)
    found += _ends(history, board.journal)
    found += _stale(history)
    return found


def _rows_are_whole(rows: Sequence[Row], events: dict[int, list[Event]]) -> Iterable[Violation]:
    for task, times in Counter(row.task for row in rows).items():
        if times > 1:
            yield Violation(rule="status", task=task, text=f"it has {times} rows")
    for row in rows:
        if row.status != row.shown:
            yield Violation(rule="status", task=row.task, text=f"it is {row.status}, its card shows {row.shown}")
        if row.task not in events:
            yield Violation(rule="journal", task=row.task, text="the journal does not know it")


def _sequence(task: int, told: Sequence[Event], row: Row | None) -> Iterable[Violation]:
    numbers = [event.seq or 0 for event in told]
    if sorted(numbers) != list(range(1, len(numbers) + 1)):
        yield Violation(rule="seq", task=task, text=f"events are missing or doubled: {sorted(numbers)}")
    elif numbers != sorted(numbers):
        yield Violation(rule="order", task=task, text=f"readers see its events as {numbers}")
    if row is not None and row.seq != len(numbers):
        yield Violation(rule="seq", task=task, text=f"its row counts {row.seq} events, the journal has {len(numbers)}")


def _end(life: _Life, row: Row | None, lifts: int) -> Iterable[Violation]:
    def wrong(rule: str, text: str) -> Violation:
        return Violation(rule=rule, task=life.task, text=text)

    if row is None:
        yield wrong("status", "the journal tells of it, but there is no such task")
        return
    if life.allowed is not None and row.status not in life.allowed:
        yield wrong("status", f"it is {row.status}, its journal says {' or '.join(sorted(life.allowed))}")
    if row.leased != (life.holder is not None):
        yield wrong(
            "lease", "its row has a lease without a claim" if row.leased else "its claim ended without an event"
        )
    step, rest = divmod(row.epoch - life.claims, STEP)
    if rest or not 0 <= step <= lifts:
        yield wrong("starts", f"epoch {row.epoch} after {life.claims} starts")
    if row.attempts != life.attempts:
        yield wrong("attempts", f"{row.attempts} attempts, its journal makes {life.attempts}")


def _submits(history: Sequence[Call], rows: Sequence[Row]) -> Iterable[Violation]:
    there = {row.task for row in rows}
    by_key: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        if row.key is not None:
            by_key[row.key].append(row.task)
    answered: dict[str, set[int]] = defaultdict(set)
    perhaps: set[str] = set()
    for call in history:
        if call.verb != "submit":
            continue
        if call.state == "ok" and call.task not in there:
            yield Violation(rule="submits", task=call.task, text=f"its submit succeeded ({call.client}); it is gone")
        if call.key is not None and call.state == "ok" and call.task is not None:
            answered[call.key].add(call.task)
        if call.key is not None and call.state != "fail":
            perhaps.add(call.key)
    for key, tasks in by_key.items():
        if len(tasks) > 1:
            yield Violation(rule="submits", task=tasks[0], text=f"the key {key!r} made {len(tasks)} tasks")
    for key, tasks_told in answered.items():
        if len(tasks_told) > 1:
            yield Violation(rule="submits", task=None, text=f"the key {key!r} was answered with {sorted(tasks_told)}")
    for key in {call.key for call in history if call.verb == "submit" and call.key is not None} - perhaps:
        if key in by_key:
            text = f"every submit with the key {key!r} failed for certain, yet it is there"
            yield Violation(rule="submits", task=by_key[key][0], text=text)


def _claims(history: Sequence[Call], journal: Sequence[Event]) -> Iterable[Violation]:
    granted = {(e.task, e.epoch): e.actor for e in journal if e.kind == "claimed" and e.seq is not None}
    told: dict[tuple[int, int | None], str] = {}
    tokens: dict[int, tuple[int, int]] = {}
    perhaps: Counter[int] = Counter()
    for call in (call for call in history if call.verb == "claim"):
        if call.state == "unknown":
            perhaps[call.actor] += 1
        for grant in call.grants if call.state == "ok" else ():
            place = (grant.task, grant.epoch)
            if place in told:
                text = f"epoch {grant.epoch} was told to {told[place]} and to {call.client}"
                yield Violation(rule="claims", task=grant.task, text=text)
            if tokens.setdefault(grant.token, place) != place:
                yield Violation(rule="claims", task=grant.task, text="a token was drawn twice")
            told[place] = call.client
            if granted.get(place) != call.actor:
                text = f"{call.client} was told epoch {grant.epoch}; the journal gives it to {granted.get(place)}"
                yield Violation(rule="claims", task=grant.task, text=text)
    if not history:
        return
    actors = {call.actor for call in history if call.verb == "claim"}
    untold = Counter(actor for place, actor in granted.items() if place not in told and actor in actors)
    for actor, times in untold.items():
        if times > perhaps[actor]:
            text = f"{times} grants to {actor} that nobody was told, after {perhaps[actor]} unknown claims"
            yield Violation(rule="unexplained", task=None, text=text)


def _ends(history: Sequence[Call], journal: Sequence[Event]) -> Iterable[Violation]:
    written = {(e.task, e.epoch, e.actor) for e in journal if e.kind in FINISHES and e.seq is not None}
    states: dict[tuple[int, int, int], Counter[str]] = defaultdict(Counter)
    for call in history:
        if call.verb in FINISHES:
            for grant in call.grants:
                states[grant.task, grant.epoch, call.actor][call.state] += 1
    for (task, epoch, actor), seen in states.items():
        there = (task, epoch, actor) in written
        if seen["ok"] > 1:
            yield Violation(rule="twice", task=task, text=f"{seen['ok']} ends of epoch {epoch} were accepted")
        if seen["ok"] and not there:
            yield Violation(rule="ends", task=task, text=f"the accepted end of epoch {epoch} is not in the journal")
        if there and not seen["ok"] and not seen["unknown"]:
            text = f"the end of epoch {epoch} was refused, yet it is in the journal"
            yield Violation(rule="unexplained", task=task, text=text)
    actors = {call.actor for call in history if call.verb in FINISHES}
    for event in journal:
        place = (event.task, event.epoch or 0, event.actor)
        if event.kind in FINISHES and event.seq is not None and event.actor in actors and place not in states:
            text = f"{event.kind} in epoch {event.epoch}, which nobody called"
            yield Violation(rule="unexplained", task=event.task, text=text)


def _stale(history: Sequence[Call]) -> Iterable[Violation]:
    """A holder's write that began after somebody had been told a later epoch must not succeed (G3)."""
    told: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for call in history:
        if call.verb == "claim" and call.state == "ok" and call.ended is not None:
            for grant in call.grants:
                told[grant.task].append((grant.epoch, call.ended))
    for call in history:
        if call.state == "ok" and (call.verb == "renew" or call.verb in FINISHES):
            for grant in call.grants:
                if _outdated(grant, call.begun, told[grant.task]):
                    text = f"{call.verb} of epoch {grant.epoch} was accepted from {call.client} after a later grant"
                    yield Violation(rule="stale", task=grant.task, text=text)


def _outdated(grant: Grant, begun: int, told: Sequence[tuple[int, int]]) -> bool:
    return any(epoch > grant.epoch and ended < begun for epoch, ended in told)
