"""How a run ends: what each end makes of the task, what it costs, and when a human must look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import pytest

from taskfabric.domain.errors import BadInput, FabricError, IllegalMove, LeaseLost
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import (
    HOUR,
    MINUTE,
    NOON,
    ask,
    claim,
    claimed_ids,
    decline,
    fail,
    fence,
    finish,
    look,
    next_of,
    park,
    release,
    said,
    submit,
    wait_for_children,
)
from tests.contract.household import Household


def test_a_finished_task_stands_in_done_open_until_somebody_verifies(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    done = finish(kimi, claim(kimi, task), "painted it")
    assert (done.status, done.column, done.is_open) == (Status.DONE, "Done", True)
    assert (done.note, done.verdict, done.producer, done.completed) == ("painted it", "pass", "kimi", NOON)
    assert (done.holder, done.lease_until, done.attempts) == (None, None, 1)
    assert said(alice, task, "note") == ["✅ painted it"]
    assert look(alice, task) == done


@pytest.mark.parametrize("many", [False, True])
def test_a_finish_answers_as_the_task_then_reads(noon: Household, alice: Fabric, kimi: Fabric, many: bool) -> None:
    """Also after attempts that failed, with tags, texts and children."""
    task = submit(alice, tags=("home",), description="words", refs=("git:a@b",), key="k", human_verify=True)
    fail(kimi, claim(kimi, task), "the spade broke")
    noon.later(minutes=1)
    submit(alice, parent=task.id)
    got = next_of(kimi)
    assert got.task.id == task.id
    submit(alice, parent=task.id)
    alice.call(verbs.EditTask(task=task.id, add_tags=("late",)))
    end = verbs.End(fence=fence(got), note="dug it")
    (done,) = kimi.call(verbs.DoneMany(ends=(end,))) if many else [finish(kimi, got, "dug it")]
    assert done == look(alice, task)


def test_a_finish_after_a_failure_answers_as_the_task_then_reads(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    fail(kimi, claim(kimi, task), "the spade broke")
    noon.later(minutes=1)
    assert finish(kimi, next_of(kimi)) == look(alice, task)


def test_a_verdict_of_fail_is_a_veto(alice: Fabric, kimi: Fabric) -> None:
    done = finish(kimi, claim(kimi, submit(alice)), "it does not hold", verdict="fail")
    assert (done.status, done.verdict, "veto" in done.all_tags) == (Status.DONE, "fail", True)


def test_one_finish_is_accepted_for_each_epoch(alice: Fabric, kimi: Fabric) -> None:
    """G3, G4"""
    got = claim(kimi, submit(alice))
    finish(kimi, got, "first")
    with pytest.raises(LeaseLost):
        finish(kimi, got, "second")
    assert look(alice, got.task).note == "first"


def test_many_finishes_are_accepted_each_for_itself(alice: Fabric, kimi: Fabric) -> None:
    """G3: a lost lease stops no other, and its result is kept."""
    good, lost = claim(kimi, submit(alice)), claim(kimi, submit(alice))
    release(kimi, lost)
    ends = tuple(verbs.End(fence=fence(got), note=f"of {got.task.id}") for got in (lost, good))
    first, second = kimi.call(verbs.DoneMany(ends=ends))
    assert isinstance(first, LeaseLost)
    assert isinstance(second, Task)
    assert (second.id, second.status, second.note) == (good.task.id, Status.DONE, f"of {good.task.id}")
    (late,) = alice.call(verbs.Show(task=lost.task.id)).late_results
    assert late.text == f"of {lost.task.id}"


def test_a_wrong_fence_beside_the_right_one_is_refused_itself(alice: Fabric, kimi: Fabric) -> None:
    """G3: each answer is that of its own fence, also where only the token differs."""
    got = claim(kimi, submit(alice))
    right = fence(got)
    wrong = verbs.FenceArg(task=right.task, epoch=right.epoch, token="0" * 16)
    ends = (verbs.End(fence=wrong, note="wrong"), verbs.End(fence=right, note="right"))
    first, second = kimi.call(verbs.DoneMany(ends=ends))
    assert isinstance(first, LeaseLost)
    assert isinstance(second, Task)
    assert (second.note, look(alice, got.task).note) == ("right", "right")


def test_one_fence_twice_in_a_batch_is_an_error_and_finishes_nothing(alice: Fabric, kimi: Fabric) -> None:
    """G3"""
    got = claim(kimi, submit(alice))
    with pytest.raises(BadInput):
        kimi.call(verbs.DoneMany(ends=tuple(verbs.End(fence=fence(got), note=note) for note in ("a", "b"))))
    assert look(alice, got.task).status is Status.WORKING
    assert finish(kimi, got).status is Status.DONE


# -- park ------------------------------------------------------------------------------------------------------


def test_a_parked_task_comes_back_at_its_time_and_costs_no_attempt(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    """G9"""
    task = submit(alice)
    parked = park(kimi, claim(kimi, task), NOON + 5 * HOUR)
    assert (parked.status, parked.attempts, parked.parks) == (Status.READY, 0, 1)
    assert (parked.not_before, "parked" in parked.all_tags) == (NOON + 5 * HOUR, True)
    assert said(alice, task, "parked") == ["⏸ parked until 2026-11-30T17:00:00Z: quota is spent"]
    noon.at(NOON + 5 * HOUR - MINUTE)
    assert kimi.call(verbs.Claim()) == []
    noon.at(NOON + 5 * HOUR)
    got = next_of(kimi).task
    assert (got.id, got.attempts, "parked" in got.all_tags) == (task.id, 1, False)


def test_a_task_parked_at_the_head_goes_before_its_neighbours(alice: Fabric, kimi: Fabric) -> None:
    first, _, third = submit(alice, "1"), submit(alice, "2"), submit(alice, "3")
    park(kimi, claim(kimi, third), NOON, head=True)
    assert claimed_ids(kimi, limit=2) == [third.id, first.id]


def test_a_task_parked_otherwise_keeps_its_place(alice: Fabric, kimi: Fabric) -> None:
    first, second = submit(alice, "1"), submit(alice, "2")
    park(kimi, claim(kimi, first), NOON)
    assert claimed_ids(kimi) == [first.id, second.id]


# -- fail ------------------------------------------------------------------------------------------------------


def test_a_failed_task_rests_longer_each_time_and_is_then_dead(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G9, invariant 7"""
    task = submit(alice)
    first = fail(kimi, claim(kimi, task), "once")
    assert (first.status, first.attempts, first.not_before, first.error) == (
        Status.READY,
        1,
        NOON + timedelta(seconds=30),
        "once",
    )
    assert kimi.call(verbs.Claim()) == []
    noon.later(seconds=30)
    second = fail(kimi, next_of(kimi), "twice")
    assert second.not_before == NOON + timedelta(seconds=150)
    noon.later(minutes=2)
    dead = fail(kimi, next_of(kimi), "thrice")
    assert (dead.status, dead.column, dead.is_open) == (Status.DEAD, "Done", True)
    assert ("dead-letter" in dead.all_tags, dead.attempts, dead.error) == (True, 3, "thrice")
    noon.later(days=30)
    assert kimi.call(verbs.Claim()) == []
    assert said(alice, task, "failed") == ["❌ attempt 1/3: once", "❌ attempt 2/3: twice"]
    assert len(said(alice, task, "dead")) == 1


def test_a_final_failure_is_dead_at_once(alice: Fabric, kimi: Fabric) -> None:
    dead = fail(kimi, claim(kimi, submit(alice)), "no such file", final=True)
    assert (dead.status, dead.attempts, dead.error) == (Status.DEAD, 1, "no such file")


def test_a_dead_letter_is_seen_and_goes_back_only_on_purpose(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """With fresh attempts; the epoch goes on."""
    task = submit(alice)
    fail(kimi, claim(kimi, task), final=True)
    assert [t.id for t in alice.call(verbs.List(statuses=(Status.DEAD,)))] == [task.id]
    back = alice.call(verbs.Redrive(task=task.id, note="try again"))
    assert (back.status, back.attempts, back.epoch) == (Status.READY, 0, 1)
    assert "dead-letter" not in back.all_tags
    assert next_of(kimi).fence.epoch == 2


# -- release, decline, wait ------------------------------------------------------------------------------------


@pytest.mark.parametrize("drained", [False, True])
def test_a_released_task_is_ready_at_once_and_costs_no_attempt(alice: Fabric, kimi: Fabric, drained: bool) -> None:
    """G4, G9"""
    task = submit(alice)
    back = release(kimi, claim(kimi, task), note="shutting down", drained=drained)
    assert (back.status, back.attempts, back.releases, back.holder) == (Status.READY, 0, 1, None)
    assert claimed_ids(kimi) == [task.id]
    assert len(said(alice, task, "released")) == 1


def test_a_declined_task_is_rejected_and_closed(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    gone = decline(kimi, claim(kimi, task), "that is not allowed here")
    assert (gone.status, gone.is_open, "rejected" in gone.all_tags) == (Status.REJECTED, False, True)
    assert "that is not allowed here" in said(alice, task, "declined")[0]
    noon.later(days=1)
    assert kimi.call(verbs.Claim()) == []


def test_a_question_stops_the_task_and_costs_no_attempt(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G9: nobody claims it meanwhile, and no lease is held."""
    task = submit(alice)
    waiting = ask(kimi, claim(kimi, task), "which colour?")
    assert (waiting.status, waiting.attempts, waiting.waits) == (Status.WAITING, 0, 1)
    assert (waiting.asked, waiting.holder, waiting.lease_until) == ("alice", None, None)
    assert {"blocked", "needs-input"} <= set(waiting.all_tags)
    noon.later(days=30)
    assert kimi.call(verbs.Claim()) == []
    assert alice.call(verbs.Sweep()).ready == ()
    assert said(alice, task, "question")[0].endswith("which colour?")


def test_what_is_missing_may_be_an_authorisation(alice: Fabric, kimi: Fabric) -> None:
    waiting = ask(kimi, claim(kimi, submit(alice)), "may I?", auth=True)
    assert {"blocked", "needs-auth"} <= set(waiting.all_tags)
    assert "needs-input" not in waiting.all_tags


def test_the_end_of_one_run_is_no_end_of_the_next(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G3: a late release of the holder before would close the next one's run."""
    old = claim(kimi, submit(alice))
    release(kimi, old)
    new = claim(qwen, old.task)
    ends: tuple[Callable[[], Task], ...] = (
        lambda: release(kimi, old),
        lambda: park(kimi, old, NOON),
        lambda: fail(kimi, old, final=True),
        lambda: ask(kimi, old),
        lambda: decline(kimi, old),
    )
    for end in ends:
        with pytest.raises(LeaseLost):
            end()
    now = look(alice, old.task)
    assert (now.status, now.holder, now.epoch) == (Status.WORKING, "qwen", 2)
    assert finish(qwen, new).status is Status.DONE


# -- bounds ----------------------------------------------------------------------------------------------------

BOUND: Final = 20
End = Callable[[Fabric, Claimed, datetime], Task]


def _park(fabric: Fabric, got: Claimed, now: datetime) -> Task:
    return park(fabric, got, now)


def _wait(fabric: Fabric, got: Claimed, now: datetime) -> Task:
    return ask(fabric, got)


def _release(fabric: Fabric, got: Claimed, now: datetime) -> Task:
    return release(fabric, got)


@pytest.mark.parametrize(("rule", "end"), [("parks", _park), ("waits", _wait), ("releases", _release)])
def test_ends_that_cost_nothing_have_a_bound_then_a_human_must_look(
    noon: Household, alice: Fabric, kimi: Fabric, rule: str, end: End
) -> None:
    """G9"""
    task = after = submit(alice)
    for number in range(1, BOUND + 1):
        after = end(kimi, claim(kimi, task), NOON)
        assert (getattr(after, rule), after.attempts) == (number, 0)
        if number < BOUND and after.status is Status.WAITING:
            after = alice.call(verbs.Answer(task=task.id, note="blue"))
        assert after.status is (Status.READY if number < BOUND else Status.HELD)
    assert (after.hold is not None, "blocked" in after.all_tags) == (True, True)
    assert len(said(alice, task, "held")) == 1
    noon.later(days=30)
    alice.call(verbs.Sweep())
    assert kimi.call(verbs.Claim()) == []
    back = alice.call(verbs.Redrive(task=task.id))
    assert (back.status, getattr(back, rule)) == (Status.READY, 0)
    assert claimed_ids(kimi) == [task.id]


def test_the_bounds_count_each_end_for_itself(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G9"""
    task = submit(alice)
    for _ in range(BOUND - 1):
        park(kimi, claim(kimi, task), NOON)
        release(kimi, claim(kimi, task))
    now = look(alice, task)
    assert (now.status, now.parks, now.releases) == (Status.READY, BOUND - 1, BOUND - 1)


# -- children that one waits for -------------------------------------------------------------------------------


def test_who_waits_for_children_must_have_some(alice: Fabric, kimi: Fabric) -> None:
    """Nothing is promoted because a set is empty."""
    got = claim(kimi, submit(alice))
    with pytest.raises(IllegalMove):
        wait_for_children(kimi, got)
    assert look(alice, got.task).status is Status.WORKING


def test_who_waits_for_children_that_have_finished_goes_on_at_once(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    task = submit(alice, to="kimi")
    got = claim(kimi, task)
    finish(qwen, claim(qwen, submit(alice, parent=task.id)))
    after = wait_for_children(kimi, got)
    assert (after.status, after.attempts) == (Status.READY, 0)


# -- a human's own ends ----------------------------------------------------------------------------------------


def test_work_that_a_human_did_himself_is_closed_by_him(alice: Fabric, bob: Fabric) -> None:
    submit(alice, to="bob")
    closed = finish(bob, next_of(bob), "called her")
    assert (closed.status, closed.is_open, closed.producer) == (Status.VERIFIED, False, "bob")


def test_a_human_ends_by_hand_whatever_an_agent_was_doing(alice: Fabric, kimi: Fabric) -> None:
    """A fact: it ends the lease, and the run is told by its next write."""
    got = claim(kimi, submit(alice))
    done = alice.call(verbs.Done(task=got.task.id, note="did it myself"))
    assert (done.status, done.producer, done.holder) == (Status.VERIFIED, "alice", None)
    (renewal,) = kimi.call(verbs.Renew(fences=(fence(got),)))
    assert renewal.until is None
    with pytest.raises(LeaseLost):
        finish(kimi, got)


def test_a_human_gives_back_by_hand_what_an_agent_holds(alice: Fabric, kimi: Fabric) -> None:
    """G9"""
    got = claim(kimi, submit(alice))
    back = alice.call(verbs.Release(task=got.task.id, note="let somebody else"))
    assert (back.status, back.attempts, back.holder) == (Status.READY, 0, None)
    with pytest.raises(LeaseLost):
        finish(kimi, got)


def test_nobody_ends_by_hand_what_is_over(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    finish(kimi, claim(kimi, task))
    for verb in (verbs.Done(task=task.id, note="x"), verbs.Release(task=task.id), verbs.Fail(task=task.id, note="x")):
        with pytest.raises(FabricError):
            alice.call(verb)
    assert look(alice, task).status is Status.DONE
