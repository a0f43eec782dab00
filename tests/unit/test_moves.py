"""The table of legal moves: closed, and exactly what the design page says."""

from __future__ import annotations

from itertools import product

import pytest

from taskfabric.domain.moves import BY_VERB, MOVES, Who, is_legal
from taskfabric.domain.status import FINISHED, Status


def _leaving(status: Status) -> set[str]:
    return {m.verb for m in MOVES if status in m.sources and m.targets != {status}}


def test_every_verb_has_one_row() -> None:
    assert len(BY_VERB) == len(MOVES)


def test_every_status_of_a_task_is_reached_from_submit() -> None:
    """A record is a reply without a task: no verb leads to it."""
    reached: set[Status] = set()
    wave = set(BY_VERB["submit"].targets)
    while wave - reached:
        reached |= wave
        wave = {target for m in MOVES if m.sources & reached for target in m.targets}
    assert reached == set(Status) - {Status.RECORD}


@pytest.mark.parametrize(
    ("status", "verbs"),
    [
        (Status.DONE, {"verify", "reject", "cancel"}),
        (Status.DEAD, {"redrive"}),
        (Status.VERIFIED, set()),
        (Status.CANCELLED, set()),
        (Status.REJECTED, set()),
        (Status.RECORD, set()),
    ],
)
def test_what_has_ended_is_left_only_on_purpose(status: Status, verbs: set[str]) -> None:
    assert status in FINISHED
    assert _leaving(status) == verbs


def test_nothing_leaves_the_backlog_by_itself() -> None:
    assert _leaving(Status.BACKLOG) == {"cancel"}


def test_what_waits_for_a_human_is_left_only_by_a_persons_act() -> None:
    for verb in _leaving(Status.HELD):
        assert BY_VERB[verb].who in (Who.HUMAN, Who.OWNER)


def test_only_a_claim_raises_the_epoch_and_counts_an_attempt() -> None:
    """G2 and G9: +1 at claim, in the claim's own move, and nowhere else."""
    assert {m.verb for m in MOVES if m.epoch} == {"claim", "take"}
    assert {m.verb for m in MOVES if m.attempts is not None and m.attempts > 0} == {"claim", "take"}
    assert all(m.epoch in (0, 1) for m in MOVES)


def test_an_attempt_is_refunded_when_a_run_ends_without_a_result() -> None:
    """G9: parked, waiting, released."""
    assert {m.verb for m in MOVES if m.attempts == -1} == {"park", "ask", "wait", "release"}


def test_an_attempt_is_not_refunded_by_failure_or_expiry() -> None:
    """G9: a task that kills its worker ends among the dead letters."""
    assert BY_VERB["fail"].attempts == 0
    assert BY_VERB["sweep"].attempts == 0


def test_a_reopening_starts_the_count_anew_but_never_the_epoch() -> None:
    assert {m.verb for m in MOVES if m.attempts is None} == {"reject", "redrive"}
    assert all(m.epoch == 0 for m in MOVES if m.attempts is None)


def test_every_verb_of_a_holder_starts_from_working() -> None:
    """G3: there is a fence only while a task is worked on."""
    for move in MOVES:
        if move.who is Who.FENCE:
            assert move.sources == {Status.WORKING}


def test_only_a_claim_leads_to_working() -> None:
    """G1: no other verb makes a holder."""
    into = {m.verb for m in MOVES if Status.WORKING in m.targets and Status.WORKING not in m.sources}
    assert into == {"claim", "take"}


def test_a_move_is_legal_exactly_if_the_table_has_it() -> None:
    for verb, source, target in product(BY_VERB, Status, Status):
        row = BY_VERB[verb]
        assert is_legal(verb, source, target) == (source in row.sources and target in row.targets)


@pytest.mark.parametrize(
    ("verb", "source", "target"),
    [
        ("claim", "done", "working"),
        ("claim", "held", "working"),
        ("done", "ready", "done"),
        ("verify", "verified", "verified"),
        ("answer", "held", "ready"),
        ("sweep", "waiting", "ready"),
        ("cancel", "verified", "cancelled"),
        ("teleport", "ready", "done"),
    ],
)
def test_what_the_table_does_not_have_is_not_legal(verb: str, source: str, target: str) -> None:
    assert not is_legal(verb, Status(source), Status(target))
