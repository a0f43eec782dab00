"""The table of legal moves: which verb leads from where to where, who may do it, and what it does to the counters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from taskfabric.domain.status import Status


class Who(StrEnum):
    """Whose act a verb is."""

    PRINCIPAL = "any principal that may"
    CLAIMER = "an agent whose card fits, or a human"
    FENCE = "the holder, by its fence"
    ANSWERER = "the one asked, or any human member"
    SWEEPER = "claim itself, or the keeper"
    VERIFIER = "not the producer, no agent of its ancestry or descent"
    OWNER = "the submitter, or a human member"
    HUMAN = "a human"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One row of the table."""

    verb: str
    sources: frozenset[Status]
    targets: frozenset[Status]
    who: Who
    attempts: int | None = 0  # added to the counter; None = set to 0
    epoch: int = 0


def _move(verb: str, sources: str, targets: str, who: Who, attempts: int | None = 0, epoch: int = 0) -> Move:
    return Move(
        verb=verb,
        sources=frozenset(Status(s) for s in sources.split()),
        targets=frozenset(Status(s) for s in targets.split()),
        who=who,
        attempts=attempts,
        epoch=epoch,
    )


MOVES: Final = (
    _move("submit", "", "backlog ready held", Who.PRINCIPAL),
    _move("claim", "ready", "working", Who.CLAIMER, 1, 1),
    _move("take", "ready", "working", Who.CLAIMER, 1, 1),
    _move("renew", "working", "working", Who.FENCE),
    _move("done", "working", "done verified", Who.FENCE),
    _move("park", "working", "ready held", Who.FENCE, -1),
    _move("ask", "working", "waiting held", Who.FENCE, -1),
    _move("wait", "working", "waiting ready held", Who.FENCE, -1),
    _move("answer", "waiting", "ready", Who.ANSWERER),
    _move("fail", "working", "ready dead", Who.FENCE),
    _move("release", "working", "ready held", Who.FENCE, -1),
    _move("sweep", "working", "ready dead", Who.SWEEPER),
    _move("refuse", "working", "rejected", Who.FENCE),
    _move("verify", "done", "verified", Who.VERIFIER),
    _move("reject", "done", "ready", Who.VERIFIER, None),
    _move("cancel", "backlog ready held working waiting done", "cancelled", Who.OWNER),
    _move("redrive", "dead held", "ready", Who.HUMAN, None),
)
BY_VERB: Final = {m.verb: m for m in MOVES}


def is_legal(verb: str, source: Status, target: Status) -> bool:
    """True if the table has this move. Moves by hand are facts and are not in the table."""
    move = BY_VERB.get(verb)
    return move is not None and source in move.sources and target in move.targets
