"""Dependencies: only "is blocked by" gates, only a good end releases, a bad one puts the dependent before a human."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from taskfabric.domain.errors import FabricError
from taskfabric.domain.status import Hindrance, Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import (
    HOUR,
    NOON,
    ask,
    claim,
    claimed_ids,
    decline,
    fail,
    finish,
    look,
    next_of,
    park,
    release,
    said,
    status,
    submit,
    wait_for_children,
)
from tests.contract.household import Household

Break = Callable[[Fabric, Fabric, Task], object]

BREAKS: Final[dict[str, Break]] = {
    "dead": lambda alice, kimi, task: fail(kimi, claim(kimi, task), final=True),
    "rejected": lambda alice, kimi, task: decline(kimi, claim(kimi, task)),
    "cancelled": lambda alice, kimi, task: alice.call(verbs.Cancel(task=task.id)),
    "veto": lambda alice, kimi, task: finish(kimi, claim(kimi, task), verdict="fail"),
}
NO_ENDS: Final[dict[str, Break]] = {
    "parked": lambda alice, kimi, task: park(kimi, claim(kimi, task), NOON),
    "released": lambda alice, kimi, task: release(kimi, claim(kimi, task)),
    "failed": lambda alice, kimi, task: fail(kimi, claim(kimi, task)),
    "asked": lambda alice, kimi, task: ask(kimi, claim(kimi, task)),
    "claimed": lambda alice, kimi, task: claim(kimi, task),
}


def test_a_task_is_claimed_only_when_every_blocker_is_done(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    first, second = submit(alice, "1"), submit(alice, "2")
    task = submit(alice, "after both", to="kimi", after=(first.id, second.id))
    assert (task.status, task.blockers, task.open_blockers) == (Status.READY, (first.id, second.id), 2)
    assert kimi.call(verbs.Claim(queue="kimi")) == []
    finish(qwen, claim(qwen, first))
    assert kimi.call(verbs.Claim(queue="kimi")) == []
    assert look(alice, task).blockers == (second.id,)
    with pytest.raises(FabricError):
        claim(kimi, task)
    finish(qwen, claim(qwen, second))
    assert (look(alice, task).blockers, look(alice, task).open_blockers) == ((), 0)
    assert claimed_ids(kimi) == [task.id]


def test_a_finish_releases_its_dependents_without_any_keeper(alice: Fabric, kimi: Fabric) -> None:
    """In its own transaction: the next claim already gets one."""
    blocker = submit(alice)
    dependents = [submit(alice, str(n), after=(blocker.id,)).id for n in range(3)]
    finish(kimi, next_of(kimi))
    assert claimed_ids(kimi) == dependents


def test_many_finishes_at_once_release_theirs_too(alice: Fabric, kimi: Fabric) -> None:
    blockers = [submit(alice, str(n)) for n in range(3)]
    task = submit(alice, after=tuple(b.id for b in blockers))
    got = [claim(kimi, b) for b in blockers]
    kimi.call(verbs.DoneMany(ends=tuple(verbs.End(fence=verbs.FenceArg.of(one.fence), note="done") for one in got)))
    assert claimed_ids(kimi) == [task.id]


def test_what_is_done_already_blocks_nothing(alice: Fabric, kimi: Fabric) -> None:
    done = submit(alice)
    finish(kimi, claim(kimi, done))
    task = submit(alice, after=(done.id,))
    assert (task.status, task.open_blockers) == (Status.READY, 0)
    assert claimed_ids(kimi) == [task.id]


@pytest.mark.parametrize("how", list(NO_ENDS))
def test_what_is_no_end_neither_releases_nor_breaks(alice: Fabric, kimi: Fabric, how: str) -> None:
    blocker = submit(alice, to="kimi")
    task = submit(alice, after=(blocker.id,))
    NO_ENDS[how](alice, kimi, blocker)
    after = look(alice, task)
    assert (after.status, after.open_blockers) == (Status.READY, 1)


@pytest.mark.parametrize("how", list(BREAKS))
def test_a_blocker_that_ends_badly_puts_the_dependent_before_a_human(
    noon: Household, alice: Fabric, kimi: Fabric, how: str
) -> None:
    blocker = submit(alice, to="kimi")
    task = submit(alice, after=(blocker.id,))
    BREAKS[how](alice, kimi, blocker)
    held = look(alice, task)
    assert (held.status, "blocked" in held.all_tags) == (Status.HELD, True)
    assert f"#{blocker.id}" in str(held.hold)
    assert len(said(alice, task, "held")) == 1
    noon.later(days=30)
    alice.call(verbs.Sweep())
    assert kimi.call(verbs.Claim()) == []
    assert alice.call(verbs.Redrive(task=task.id)).status is Status.READY
    assert claimed_ids(kimi) == [task.id]


@pytest.mark.parametrize("how", list(BREAKS))
def test_a_dependent_of_what_has_ended_badly_begins_before_a_human(alice: Fabric, kimi: Fabric, how: str) -> None:
    blocker = submit(alice, to="kimi")
    BREAKS[how](alice, kimi, blocker)
    task = submit(alice, after=(blocker.id,))
    assert (task.status, f"#{blocker.id}" in str(task.hold)) == (Status.HELD, True)


def test_a_blocker_whose_attempts_run_out_by_sweeps_breaks_too(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    blocker = submit(alice, to="kimi")
    task = submit(alice, after=(blocker.id,))
    for _ in range(3):
        claim(kimi, blocker)
        noon.later(minutes=11)
        alice.call(verbs.Sweep())
    assert status(alice, blocker) is Status.DEAD
    assert status(alice, task) is Status.HELD


def test_one_bad_end_among_good_ones_is_enough(alice: Fabric, kimi: Fabric) -> None:
    good, bad = submit(alice), submit(alice)
    task = submit(alice, after=(good.id, bad.id))
    alice.call(verbs.Cancel(task=bad.id))
    finish(kimi, claim(kimi, good))
    assert status(alice, task) is Status.HELD


def test_a_redriven_dependent_still_waits_for_what_is_open(alice: Fabric, kimi: Fabric) -> None:
    """What was broken is waived by the human, what is open is not."""
    broken, still_open = submit(alice, "1"), submit(alice, "2")
    task = submit(alice, "3", after=(broken.id, still_open.id))
    alice.call(verbs.Cancel(task=broken.id))
    after = alice.call(verbs.Redrive(task=task.id))
    assert (after.status, after.blockers) == (Status.READY, (still_open.id,))
    finish(kimi, next_of(kimi))
    assert claimed_ids(kimi) == [task.id]


def test_a_held_dependent_stays_before_its_human_whatever_its_blocker_does(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    """Invariant 9"""
    blocker = submit(alice)
    task = submit(alice, after=(blocker.id,))
    fail(kimi, claim(kimi, blocker), final=True)
    alice.call(verbs.Redrive(task=blocker.id))
    assert status(alice, task) is Status.HELD
    finish(kimi, claim(kimi, blocker))
    assert status(alice, task) is Status.HELD
    alice.call(verbs.Redrive(task=task.id))
    assert claimed_ids(kimi) == [task.id]


def test_a_blocker_that_is_rejected_blocks_again(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    blocker = submit(alice)
    task = submit(alice, to="kimi", after=(blocker.id,))
    finish(qwen, claim(qwen, blocker))
    alice.call(verbs.Reject(task=blocker.id, note="again"))
    assert look(alice, task).blockers == (blocker.id,)
    assert kimi.call(verbs.Claim(queue="kimi")) == []
    finish(qwen, claim(qwen, blocker))
    assert claimed_ids(kimi) == [task.id]


def test_a_queue_may_ask_that_its_results_are_verified_first(alice: Fabric, kimi: Fabric) -> None:
    alice.call(verbs.CreateQueue(name="careful", needs_verified=True))
    alice.call(verbs.SetMember(queue="careful", name="kimi"))
    blocker = submit(alice, to="careful")
    task = submit(alice, after=(blocker.id,))
    finish(kimi, claim(kimi, blocker))
    assert kimi.call(verbs.Claim()) == []
    assert look(alice, task).blockers == (blocker.id,)
    alice.call(verbs.Verify(task=blocker.id))
    assert claimed_ids(kimi) == [task.id]


def test_a_vetoed_result_that_is_verified_all_the_same_releases_nothing(alice: Fabric, kimi: Fabric) -> None:
    blocker = submit(alice)
    task = submit(alice, after=(blocker.id,))
    finish(kimi, claim(kimi, blocker), verdict="fail")
    alice.call(verbs.Verify(task=blocker.id))
    assert status(alice, task) is Status.HELD


def test_no_task_waits_for_its_own_ancestor(alice: Fabric) -> None:
    """Invariant 6: that would be a ring."""
    root = submit(alice)
    child = submit(alice, parent=root.id)
    for above in (root, child):
        with pytest.raises(FabricError) as caught:
            submit(alice, parent=child.id, after=(above.id,))
        assert caught.value.facts["rule"] == "cycle"


def test_why_names_the_open_blocker(alice: Fabric) -> None:
    blocker = submit(alice)
    task = submit(alice, after=(blocker.id,))
    first = alice.call(verbs.Why(task=task.id)).first
    assert first is not None
    assert (first.kind, f"#{blocker.id}" in first.text) == (Hindrance.BLOCKERS, True)


def test_a_blocker_may_be_work_of_a_human(alice: Fabric, bob: Fabric, kimi: Fabric) -> None:
    """A gate: what waits for it goes on when he has done it."""
    gate = submit(alice, "may it be bought?", to="bob")
    task = submit(alice, after=(gate.id,))
    assert kimi.call(verbs.Claim()) == []
    assert finish(bob, next_of(bob), "yes").status is Status.VERIFIED
    assert claimed_ids(kimi) == [task.id]


# -- what breaks while the dependent is not in Ready -----------------------------------------------------------


@pytest.mark.parametrize("end", ["release", "park", "ask", "fail", "sweep", "children"])
def test_a_dependency_that_broke_during_the_run_stops_what_comes_after(
    noon: Household, alice: Fabric, kimi: Fabric, end: str
) -> None:
    """The run may end as it likes; the task then stands before a human, who can let it go on."""
    blocker = submit(alice, "blocker")
    task = submit(alice, "task", after=(blocker.id,))
    finish(kimi, claim(kimi, blocker))
    got, child = claim(kimi, task), task
    if end == "ask":
        ask(kimi, got)
    if end == "children":
        child = submit(alice, "child", to="alice", parent=task.id)
        wait_for_children(kimi, got)
    alice.call(verbs.Reject(task=blocker.id, note="no good"))
    alice.call(verbs.Cancel(task=blocker.id))
    match end:
        case "release":
            release(kimi, got)
        case "park":
            park(kimi, got, NOON)
        case "ask":
            alice.call(verbs.Answer(task=task.id, note="blue"))
        case "fail":
            fail(kimi, got)
        case "children":
            alice.call(verbs.Cancel(task=child.id))
        case _:
            noon.later(minutes=11)
            alice.call(verbs.Sweep())
    noon.later(hours=1)
    held = look(alice, task)
    assert (held.status, f"#{blocker.id}" in str(held.hold)) == (Status.HELD, True)
    assert kimi.call(verbs.Claim()) == []
    alice.call(verbs.Redrive(task=task.id))
    assert claimed_ids(kimi) == [task.id]


def test_a_run_whose_dependency_broke_may_still_finish(alice: Fabric, kimi: Fabric) -> None:
    """G3: its fence is the current one."""
    blocker = submit(alice)
    task = submit(alice, after=(blocker.id,))
    finish(kimi, claim(kimi, blocker))
    got = claim(kimi, task)
    alice.call(verbs.Reject(task=blocker.id, note="no good"))
    alice.call(verbs.Cancel(task=blocker.id))
    assert finish(kimi, got).status is Status.DONE


def test_a_person_who_moves_a_held_task_to_ready_means_it(alice: Fabric, kimi: Fabric) -> None:
    """What was broken is waived, as by a redrive; what is open still counts."""
    broken, still_open = submit(alice, "1"), submit(alice, "2")
    task = submit(alice, "3", after=(broken.id, still_open.id))
    alice.call(verbs.Cancel(task=broken.id))
    alice.call(verbs.Move(task=task.id, column="Backlog"))
    after = alice.call(verbs.Move(task=task.id, column="Ready"))
    assert (after.status, after.blockers) == (Status.READY, (still_open.id,))
    finish(kimi, next_of(kimi))
    assert claimed_ids(kimi) == [task.id]


def test_a_rejected_result_whose_dependency_broke_meanwhile_stands_before_a_human(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    blocker = submit(alice)
    task = submit(alice, after=(blocker.id,))
    finish(kimi, claim(kimi, blocker))
    finish(kimi, claim(kimi, task))
    alice.call(verbs.Reject(task=blocker.id, note="no good"))
    alice.call(verbs.Cancel(task=blocker.id))
    alice.call(verbs.Reject(task=task.id, note="then this is no good either"))
    noon.at(NOON + HOUR)
    assert status(alice, task) is Status.HELD
