"""The sweep: an expired lease comes back by the next claim or the keeper's round, and its attempt is spent."""

from __future__ import annotations

import pytest

from taskfabric.domain.errors import LeaseLost
from taskfabric.domain.status import Status
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import (
    HOUR,
    MINUTE,
    NOON,
    claim,
    claimed_ids,
    fence,
    finish,
    look,
    next_of,
    refused,
    said,
    submit,
)
from tests.contract.household import Household


def test_an_expired_lease_is_taken_back_and_its_attempt_is_spent(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G4, G9"""
    task = submit(alice)
    claim(kimi, task)
    noon.later(minutes=11)
    assert alice.call(verbs.Sweep()).ready == (task.id,)
    back = look(alice, task)
    assert (back.status, back.attempts, back.epoch, back.holder) == (Status.READY, 1, 1, None)
    assert said(alice, task, "expired") == ["⏰ lease expired, swept · held by `kimi` · epoch 1"]


def test_a_live_lease_is_left_alone(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    noon.later(minutes=9)
    kimi.call(verbs.Renew(fences=(fence(got),)))
    noon.later(minutes=9)
    swept = alice.call(verbs.Sweep())
    assert (swept.ready, swept.dead) == ((), ())
    assert look(alice, got.task).holder == "kimi"


def test_a_claim_takes_back_what_has_expired_without_any_keeper(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    """G6"""
    task = submit(alice)
    claim(kimi, task)
    noon.later(minutes=11)
    got = next_of(qwen)
    assert (got.task.id, got.fence.epoch, got.task.attempts) == (task.id, 2, 2)


def test_a_task_that_kills_its_worker_is_dead_after_its_attempts(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G9, invariant 7: others go on."""
    poison, other = submit(alice, "poison"), submit(alice, "other")
    for attempt in (1, 2, 3):
        assert claim(kimi, poison).task.attempts == attempt
        noon.later(minutes=11)
        swept = alice.call(verbs.Sweep())
        assert (swept.ready, swept.dead) == (((poison.id,), ()) if attempt < 3 else ((), (poison.id,)))
    dead = look(alice, poison)
    assert (dead.status, dead.attempts, dead.holder) == (Status.DEAD, 3, None)
    assert "kimi" in str(dead.error)
    assert claimed_ids(kimi) == [other.id]


def test_a_humans_lease_that_expires_costs_nothing(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G9: however often he lets it lie, he never loses the task."""
    task = submit(alice, to="bob")
    for epoch in range(1, 6):
        assert next_of(bob).fence.epoch == epoch
        noon.later(hours=9)
        assert alice.call(verbs.Sweep()).ready == (task.id,)
        assert bob.call(verbs.Show(task=task.id)).task.attempts == 0


def test_a_humans_lease_that_expires_gives_back_no_attempt_of_an_agents(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    """G9"""
    task = submit(alice)
    claim(kimi, task)
    noon.later(minutes=11)
    claim(alice, task)
    noon.later(hours=9)
    alice.call(verbs.Sweep())
    assert look(alice, task).attempts == 1


def test_what_a_person_moved_into_work_is_never_swept(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    moved = alice.call(verbs.Move(task=task.id, column="Work in progress"))
    assert (moved.status, moved.holder, moved.lease_until) == (Status.WORKING, "alice", None)
    noon.later(days=300)
    assert alice.call(verbs.Sweep()).ready == ()
    assert kimi.call(verbs.Claim()) == []
    assert look(alice, task).holder == "alice"


def test_a_round_sweeps_as_many_as_it_is_told_and_the_oldest_first(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    tasks = []
    for n in range(5):
        noon.at(NOON + n * MINUTE)
        tasks.append(claim(kimi, submit(alice, str(n))).task.id)
    noon.later(hours=1)
    assert alice.call(verbs.Sweep(limit=2)).ready == tuple(tasks[:2])
    assert alice.call(verbs.Sweep(limit=2)).ready == tuple(tasks[2:4])
    assert alice.call(verbs.Sweep()).ready == (tasks[4],)


def test_a_holder_who_finished_before_the_sweep_has_finished(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G3: late, but nobody had taken it back."""
    got = claim(kimi, submit(alice))
    noon.later(minutes=11)
    finish(kimi, got)
    assert alice.call(verbs.Sweep()).ready == ()
    assert look(alice, got.task).status is Status.DONE


def test_a_swept_holder_learns_it_by_its_next_renewal(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G8"""
    got = claim(kimi, submit(alice))
    noon.later(minutes=11)
    alice.call(verbs.Sweep())
    (renewal,) = kimi.call(verbs.Renew(fences=(fence(got),)))
    assert (renewal.until, renewal.holder) == (None, None)
    with pytest.raises(LeaseLost):
        finish(kimi, got)


def test_a_swept_task_is_behind_nobody_who_came_later(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    first, second = submit(alice, "1"), submit(alice, "2")
    claim(kimi, first)
    noon.later(minutes=11)
    assert claimed_ids(kimi) == [first.id, second.id]


def test_only_the_keeper_and_administrators_sweep(bob: Fabric, kimi: Fabric) -> None:
    assert refused(bob, verbs.Sweep()) == "admin"
    assert refused(kimi, verbs.Sweep()) == "admin"


def test_nothing_but_expiry_ends_a_lease_from_outside(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G4: however many look."""
    got = claim(kimi, submit(alice))
    for _ in range(5):
        alice.call(verbs.Sweep())
        noon.fabric_as("qwen").call(verbs.Claim())
        noon.later(minutes=1)
    assert finish(kimi, got).epoch == 1
    assert noon.clock.now() < NOON + HOUR
