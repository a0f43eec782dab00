"""Limits of work in progress: asked at a claim and at a move by hand, and never in the way of a finish."""

from __future__ import annotations

import threading

import pytest

from taskfabric.domain.errors import IllegalMove, NotFound, Refused
from taskfabric.domain.status import Hindrance
from taskfabric.services.verbs import (
    Ask,
    Claim,
    Done,
    Fail,
    FenceArg,
    ListQueues,
    Move,
    SetLimit,
    Show,
    Submit,
    Take,
    Verify,
    Wait,
    Why,
)
from tests.contract.household import Household


def _fence(claimed: object) -> FenceArg:
    return FenceArg.of(claimed.fence)  # type: ignore[attr-defined]


def _filled(household: Household, number: int, *, to: str = "pool") -> list[int]:
    alice = household.fabric_as("alice")
    return [alice.call(Submit(title=f"task {n}", to=to)).task.id for n in range(number)]


def test_a_full_queue_gives_no_more_claims(household: Household) -> None:
    alice = household.fabric_as("alice")
    alice.call(SetLimit(queue="pool", column="Work in progress", limit=2))
    assert next(q.limits for q in alice.call(ListQueues()) if q.name == "pool") == {"Work in progress": 2}
    _filled(household, 4)
    kimi, qwen = household.fabric_as("kimi"), household.fabric_as("qwen")
    assert len(kimi.call(Claim(limit=10))) == 2
    assert qwen.call(Claim()) == []
    assert not qwen.call(Wait(queue="pool", timeout=0)).happened


def test_a_full_queue_refuses_a_take_and_says_why(household: Household) -> None:
    household.fabric_as("alice").call(SetLimit(queue="pool", column="Work in progress", limit=1))
    one, other = _filled(household, 2)
    household.fabric_as("kimi").call(Take(task=one))
    with pytest.raises(IllegalMove, match="full"):
        household.fabric_as("qwen").call(Take(task=other))


def test_what_a_full_queue_holds_back_says_so(household: Household) -> None:
    alice = household.fabric_as("alice")
    alice.call(SetLimit(queue="pool", column="Work in progress", limit=1))
    one, other = _filled(household, 2)
    assert alice.call(Why(task=other)).claimable
    household.fabric_as("kimi").call(Take(task=one))
    why = alice.call(Why(task=other))
    assert not why.claimable
    assert why.first is not None
    assert (why.first.kind, "'pool' is full" in why.first.text) == (Hindrance.FULL, True)


def test_what_waits_for_somebody_does_not_count(household: Household) -> None:
    household.fabric_as("alice").call(SetLimit(queue="pool", column="Work in progress", limit=1))
    _filled(household, 2)
    kimi = household.fabric_as("kimi")
    kimi.call(Ask(fence=_fence(kimi.call(Claim())[0]), note="which?"))
    assert len(kimi.call(Claim())) == 1


def test_a_full_done_stops_claims_until_something_is_reviewed(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    alice.call(SetLimit(queue="pool", column="Done", limit=1))
    _filled(household, 3)
    done = kimi.call(Done(fence=_fence(kimi.call(Claim())[0]), note="ready"))
    assert kimi.call(Claim()) == []
    alice.call(Verify(task=done.id))
    assert len(kimi.call(Claim())) == 1


def test_finishes_and_dead_letters_succeed_whatever_the_limits(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    _filled(household, 3)
    held = kimi.call(Claim(limit=3))
    alice.call(SetLimit(queue="pool", column="Done", limit=1))
    alice.call(SetLimit(queue="pool", column="Work in progress", limit=1))
    for claimed in held[:2]:
        assert kimi.call(Done(fence=_fence(claimed), note="x")).status.value == "done"
    assert kimi.call(Fail(fence=_fence(held[2]), note="x", final=True)).status.value == "dead"


def test_a_move_by_hand_into_a_full_column_is_refused(household: Household) -> None:
    alice = household.fabric_as("alice")
    one, other = _filled(household, 2, to="alice")
    alice.call(SetLimit(queue="alice", column="Work in progress", limit=1))
    alice.call(Move(task=one, column="Work in progress"))
    with pytest.raises(IllegalMove, match="its limit is 1"):
        alice.call(Move(task=other, column="Work in progress"))
    assert alice.call(Show(task=other)).task.column == "Ready"
    alice.call(Move(task=one, column="Work in progress", top=True))
    alice.call(SetLimit(queue="alice", column="Work in progress", limit=0))
    alice.call(Move(task=other, column="Work in progress"))


def test_two_claims_at_once_do_not_both_take_the_last_place(household: Household) -> None:
    household.fabric_as("alice").call(SetLimit(queue="pool", column="Work in progress", limit=3))
    _filled(household, 12)
    got: list[int] = []

    def claim(name: str) -> None:
        got.extend(c.task.id for c in household.fabric_as(name).call(Claim(limit=1)))

    threads = [threading.Thread(target=claim, args=(name,)) for name in ("kimi", "qwen") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(got) == len(set(got)) == 3


def test_only_who_manages_a_queue_limits_it(household: Household) -> None:
    with pytest.raises(Refused):
        household.fabric_as("bob").call(SetLimit(queue="pool", column="Done", limit=1))
    with pytest.raises(Refused):
        household.fabric_as("kimi").call(SetLimit(queue="pool", column="Done", limit=1))
    with pytest.raises(NotFound):
        household.fabric_as("alice").call(SetLimit(queue="pool", column="Nowhere", limit=1))
