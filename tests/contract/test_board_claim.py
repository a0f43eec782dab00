"""Claiming: one lease at a time, a new fence for each, and only to whom the task may go."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from taskfabric.domain.errors import HeldBy, LeaseLost
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.status import Status
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from tests.contract.acts import (
    HOUR,
    MINUTE,
    NOON,
    claim,
    claimed_ids,
    fail,
    fence,
    finish,
    look,
    next_of,
    refused,
    release,
    said,
    submit,
)
from tests.contract.household import Household


def test_a_claim_says_who_has_it_and_until_when(alice: Fabric, kimi: Fabric) -> None:
    """G1"""
    task = submit(alice)
    got = next_of(kimi)
    assert (got.task.id, got.task.status, got.task.column) == (task.id, Status.WORKING, "Work in progress")
    assert (got.task.holder, got.task.lease_until, got.task.started) == ("kimi", NOON + 10 * MINUTE, NOON)
    assert (got.fence.task_id, got.fence.epoch, got.task.epoch) == (task.id, 1, 1)
    seen = look(alice, task)
    assert (seen.status, seen.holder, seen.lease_until, seen.attempts) == (
        Status.WORKING,
        "kimi",
        NOON + 10 * MINUTE,
        1,
    )


@pytest.mark.parametrize("limit", [1, 5])
def test_a_claim_brings_the_task_whole(alice: Fabric, kimi: Fabric, limit: int) -> None:
    """What the holder works by: words, tags, references, and what went wrong before."""
    task = submit(alice, "dig", description="a hole", tags=("garden",), refs=("git:a@b",), needs=(), key="k")
    fail(kimi, next_of(kimi), "the spade broke", final=True)
    alice.call(verbs.Redrive(task=task.id))
    got = next_of(kimi, limit=limit).task
    assert (got.title, got.description, got.tags, got.refs, got.key) == (
        "dig",
        "a hole",
        ("garden",),
        ("git:a@b",),
        "k",
    )
    assert got == look(alice, task)


@pytest.mark.parametrize("limit", [1, 5])
def test_a_claim_brings_what_went_wrong_before(noon: Household, alice: Fabric, kimi: Fabric, limit: int) -> None:
    task = submit(alice)
    fail(kimi, claim(kimi, task), "the spade broke")
    noon.later(minutes=1)
    got = next_of(kimi, limit=limit).task
    assert (got.error, got.attempts) == ("the spade broke", 2)
    assert got == look(alice, task)


def test_a_claim_is_a_comment_that_everybody_sees(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    got = next_of(kimi)
    (line,) = said(alice, task, "claimed")
    assert line.startswith("🔒 claimed by `kimi`")
    assert "at 2026-11-30T12:00:00Z · epoch 1 · lease until 2026-11-30T12:10:00Z" in line
    kimi.call(verbs.Renew(fences=(fence(got),), lease=3600))
    assert said(alice, task, "claimed")[0].endswith("lease until 2026-11-30T13:00:00Z")


def test_a_second_claim_gets_nothing_until_the_lease_expires(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    """G1, G7"""
    task = submit(alice)
    next_of(kimi)
    noon.at(NOON + 10 * MINUTE)
    assert qwen.call(verbs.Claim()) == []
    noon.later(seconds=1)
    assert next_of(qwen).task.id == task.id


def test_who_takes_what_is_held_learns_by_whom_and_until_when(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G1"""
    task = submit(alice)
    claim(kimi, task)
    with pytest.raises(HeldBy) as caught:
        claim(qwen, task)
    facts = caught.value.facts
    assert (facts["holder"], facts["until"], facts["epoch"]) == ("kimi", "2026-11-30T12:10:00Z", 1)
    assert "kimi" in caught.value.message


def test_of_many_who_claim_at_once_each_gets_another_task(noon: Household, alice: Fabric) -> None:
    """G1"""
    tasks = {submit(alice, str(n)).id for n in range(6)}
    fabrics = [noon.fabric_as(name) for name in ("kimi", "qwen")] * 4
    gate = threading.Barrier(len(fabrics))

    def go(fabric: Fabric) -> list[int]:
        gate.wait(20)
        return [got.task.id for got in fabric.call(verbs.Claim())]

    with ThreadPoolExecutor(len(fabrics)) as threads:
        got = [task for found in threads.map(go, fabrics) for task in found]
    assert sorted(got) == sorted(tasks)


def test_of_many_who_take_one_task_exactly_one_has_it(noon: Household, alice: Fabric) -> None:
    """G1"""
    task = submit(alice)
    fabrics = [noon.fabric_as(name) for name in ("kimi", "qwen")] * 3
    gate = threading.Barrier(len(fabrics))

    def go(fabric: Fabric) -> str:
        gate.wait(20)
        try:
            return str(claim(fabric, task).task.holder)
        except HeldBy as held:
            return f"held by {held.facts['holder']}"

    with ThreadPoolExecutor(len(fabrics)) as threads:
        got = list(threads.map(go, fabrics))
    (winner,) = [one for one in got if not one.startswith("held by")]
    assert got.count(f"held by {winner}") == 5
    assert look(alice, task).epoch == 1


def test_each_grant_has_a_new_epoch_and_a_new_token(alice: Fabric, kimi: Fabric) -> None:
    """G2"""
    submit(alice)
    fences = []
    for _ in range(4):
        got = next_of(kimi)
        fences.append(got.fence)
        release(kimi, got)
    assert [f.epoch for f in fences] == [1, 2, 3, 4]
    assert len({f.token for f in fences}) == 4


@pytest.mark.parametrize("wrong", ["epoch", "token"])
def test_a_fence_is_an_epoch_and_a_token_both_right(alice: Fabric, kimi: Fabric, wrong: str) -> None:
    """G2, G3"""
    got = claim(kimi, submit(alice))
    right = fence(got)
    other: dict[str, object] = {"epoch": right.epoch + 1} if wrong == "epoch" else {"token": "0" * 16}
    with pytest.raises(LeaseLost):
        kimi.call(verbs.Done(fence=FenceArg.model_validate(right.model_dump() | other), note="done"))
    assert look(alice, got.task).status is Status.WORKING
    assert finish(kimi, got).status is Status.DONE


def test_a_batch_is_as_many_as_there_are(alice: Fabric, kimi: Fabric) -> None:
    tasks = [submit(alice, str(n)).id for n in range(3)]
    got = kimi.call(verbs.Claim(limit=10))
    assert [one.task.id for one in got] == tasks
    assert len({one.fence.token for one in got}) == 3
    assert all(finish(kimi, one).status is Status.DONE for one in got)


def test_a_lease_lasts_as_long_as_was_asked(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    submit(alice)
    got = next_of(kimi, lease=3600)
    assert got.task.lease_until == NOON + HOUR
    noon.later(minutes=30)
    (renewal,) = kimi.call(verbs.Renew(fences=(fence(got),)))
    assert renewal.until == NOON + 30 * MINUTE + HOUR  # by the same length
    (renewal,) = kimi.call(verbs.Renew(fences=(fence(got),), lease=60))
    assert renewal.until == NOON + 31 * MINUTE


def test_renewals_answer_one_by_one(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G3: for the lost one with who has it now."""
    first, second = claim(kimi, submit(alice)), claim(kimi, submit(alice))
    release(kimi, first)
    claim(qwen, first.task)
    lost, good = kimi.call(verbs.Renew(fences=(fence(first), fence(second))))
    assert (lost.until, lost.holder) == (None, "qwen")
    assert good.until == NOON + 10 * MINUTE


def test_a_stale_fence_beside_the_current_one_is_not_renewed_by_it(alice: Fabric, kimi: Fabric) -> None:
    """G3: of one task, by one holder, in one call."""
    old = claim(kimi, submit(alice))
    release(kimi, old)
    new = claim(kimi, old.task)
    first, second = kimi.call(verbs.Renew(fences=(fence(old), fence(new))))
    assert (first.epoch, first.until) == (1, None)
    assert (second.epoch, second.until) == (2, NOON + 10 * MINUTE)


def test_a_humans_lease_lasts_eight_hours(alice: Fabric, bob: Fabric) -> None:
    submit(alice, to="bob")
    assert next_of(bob).task.lease_until == NOON + 8 * HOUR


def test_an_agent_with_a_limit_never_holds_more(noon: Household, alice: Fabric) -> None:
    """An expired lease does not count, or one that died with the only place would stop everything."""
    noon.agent("single", concurrency=1)
    single = noon.fabric_as("single")
    first, second = submit(alice), submit(alice)
    got = single.call(verbs.Claim(limit=5))
    assert [one.task.id for one in got] == [first.id]
    assert single.call(verbs.Claim()) == []
    assert refused(single, verbs.Take(task=second.id)) == "concurrency"
    finish(single, got[0])
    assert claimed_ids(single) == [second.id]
    third = submit(alice)
    noon.later(minutes=11)
    assert set(claimed_ids(single)) <= {second.id, third.id}
    assert len([task for task in alice.call(verbs.List()) if task.holder == "single"]) == 1


# -- who may take what ---------------------------------------------------------------------------------------


def test_only_who_can_do_it_gets_it(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    noon.agent("able", capabilities=("tools", "vision"))
    task = submit(alice, needs=("tools",))
    assert kimi.call(verbs.Claim()) == []
    assert refused(kimi, verbs.Take(task=task.id)) == "card-does-not-fit"
    assert claimed_ids(noon.fabric_as("able")) == [task.id]


def test_a_tier_matters_in_the_pool_and_not_in_ones_own_queue(noon: Household, alice: Fabric) -> None:
    noon.agent("small", tiers=("small",))
    small = noon.fabric_as("small")
    alice.call(verbs.CreateQueue(name="small", kind=QueueKind.AGENT))
    pooled, any_tier, own = (submit(alice, tier="large"), submit(alice), submit(alice, to="small", tier="large"))
    assert set(claimed_ids(small)) == {any_tier.id, own.id}
    assert refused(small, verbs.Take(task=pooled.id)) == "card-does-not-fit"


def test_trust_matters_everywhere(alice: Fabric, kimi: Fabric) -> None:
    own = submit(alice, to="kimi", trust="trusted")
    assert kimi.call(verbs.Claim()) == []
    assert refused(kimi, verbs.Take(task=own.id)) == "card-does-not-fit"


def test_a_human_may_do_anything_of_his_queues(bob: Fabric, alice: Fabric) -> None:
    task = submit(alice, to="bob", tier="large", needs=("tools",), trust="human")
    assert claimed_ids(bob) == [task.id]


def test_no_agent_claims_from_an_inbox(alice: Fabric, kimi: Fabric) -> None:
    submit(alice, to="alice")
    assert kimi.call(verbs.Claim()) == []


def test_a_queue_that_is_named_is_the_only_one(alice: Fabric, kimi: Fabric) -> None:
    pooled, own = submit(alice), submit(alice, to="kimi")
    assert claimed_ids(kimi, queue="pool") == [pooled.id]
    assert claimed_ids(kimi, queue="kimi") == [own.id]


# -- stale holders -------------------------------------------------------------------------------------------


def test_an_expired_lease_that_nobody_swept_may_still_be_renewed_or_finished(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    """G3"""
    got = claim(kimi, submit(alice))
    noon.later(hours=5)
    (renewal,) = kimi.call(verbs.Renew(fences=(fence(got),)))
    assert renewal.until == NOON + 5 * HOUR + 10 * MINUTE
    noon.later(hours=5)
    assert finish(kimi, got).status is Status.DONE


def test_a_late_result_is_refused_and_kept_once(noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G3: it changes nothing, and is not thrown away."""
    old = claim(kimi, submit(alice))
    noon.later(minutes=11)
    new = next_of(qwen)
    for note in ("my late work", "the same again"):
        with pytest.raises(LeaseLost) as caught:
            finish(kimi, old, note)
        assert (caught.value.facts["holder"], caught.value.facts["epoch"]) == ("qwen", 2)
    thread = alice.call(verbs.Show(task=old.task.id))
    (late,) = thread.late_results
    assert (late.author, late.epoch, late.outcome, late.text) == ("kimi", 1, "done", "my late work")
    assert (thread.task.status, thread.task.holder, thread.task.epoch) == (Status.WORKING, "qwen", 2)
    assert finish(qwen, new, "mine").note == "mine"


def test_each_epoch_keeps_its_own_late_result(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G3"""
    task = submit(alice)
    runs = []
    for _ in range(2):
        runs.append(claim(kimi, task))
        noon.later(minutes=11)
        alice.call(verbs.Sweep())
    for run in runs:
        with pytest.raises(LeaseLost):
            finish(kimi, run, f"of epoch {run.fence.epoch}")
    late = alice.call(verbs.Show(task=task.id)).late_results
    assert [(one.epoch, one.text) for one in late] == [(1, "of epoch 1"), (2, "of epoch 2")]


def test_a_late_result_is_kept_up_to_its_limit(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G3"""
    got = claim(kimi, submit(alice))
    noon.later(minutes=11)
    alice.call(verbs.Sweep())
    whole = "ä" * (2**19)  # 1 MiB of UTF-8
    with pytest.raises(LeaseLost):
        finish(kimi, got, whole)
    (late,) = alice.call(verbs.Show(task=got.task.id)).late_results
    assert late.text == whole


def test_a_stale_refusal_is_in_the_journal(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G3: each refused write of a holder, a renewal too."""
    got = claim(kimi, submit(alice))
    noon.later(minutes=11)
    alice.call(verbs.Sweep())
    kimi.call(verbs.Renew(fences=(fence(got),)))
    with pytest.raises(LeaseLost):
        finish(kimi, got)
    assert [(e["verb"], e["epoch"], e["current"]) for e in noon.events("refused")] == [("renew", 1, 1), ("done", 1, 1)]


def test_the_clock_of_the_board_is_the_only_one(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G7: a lease lasts by the board's clock, whatever a worker's says."""
    got = claim(kimi, submit(alice))
    noon.at(NOON - timedelta(days=3))
    assert alice.call(verbs.Sweep()).ready == ()
    noon.at(NOON + timedelta(days=3))
    assert alice.call(verbs.Sweep()).ready == (got.task.id,)
