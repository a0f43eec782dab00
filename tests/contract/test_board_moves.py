"""The table of moves: each verb leads from where it may to where it should, and from anywhere else nowhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from taskfabric.domain.errors import FabricError, IllegalMove, NotFound, NotYours
from taskfabric.domain.moves import BY_VERB
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from tests.contract.acts import NOON, fence, for_any, look, submit
from tests.contract.household import Household
from tests.contract.standing import STATUSES, Standing, stand

# A fence that was never granted, for tasks that nobody has held yet.
NEVER: Final = "0" * 16

Ask = Callable[[int], Verb[Any]]
AskWith = Callable[[FenceArg], Verb[Any]]

PEOPLES: Final[dict[str, Ask]] = {
    "answer": lambda task: verbs.Answer(task=task, note="blue"),
    "verify": lambda task: verbs.Verify(task=task),
    "reject": lambda task: verbs.Reject(task=task, note="not yet"),
    "cancel": lambda task: verbs.Cancel(task=task),
    "redrive": lambda task: verbs.Redrive(task=task),
}
HOLDERS: Final[dict[str, AskWith]] = {
    "done": lambda f: verbs.Done(fence=f, note="did it"),
    "park": lambda f: verbs.Park(fence=f, until=NOON + timedelta(hours=1), note="quota"),
    "ask": lambda f: verbs.Ask(fence=f, note="which?"),
    "fail": lambda f: verbs.Fail(fence=f, note="it broke"),
    "release": lambda f: verbs.Release(fence=f),
    "refuse": lambda f: verbs.Decline(fence=f, note="not for me"),
}
# Where each verb leads in the plain case; what else the table allows has tests of its own.
LEADS: Final = {
    "answer": Status.READY,
    "verify": Status.VERIFIED,
    "reject": Status.READY,
    "cancel": Status.CANCELLED,
    "redrive": Status.READY,
    "done": Status.DONE,
    "park": Status.READY,
    "ask": Status.WAITING,
    "fail": Status.READY,
    "release": Status.READY,
    "refuse": Status.REJECTED,
    "take": Status.WORKING,
}


def fence_of(standing: Standing) -> FenceArg:
    if standing.last is None:
        return FenceArg(task=standing.task.id, epoch=standing.task.epoch, token=NEVER)
    return fence(standing.last)


def unchanged(before: Task, after: Task) -> bool:
    return (after.status, after.epoch, after.attempts, after.holder, after.lease_until) == (
        before.status,
        before.epoch,
        before.attempts,
        before.holder,
        before.lease_until,
    )


@pytest.mark.parametrize("verb", list(PEOPLES))
def test_a_persons_verb_moves_a_task_only_from_where_the_table_says(noon: Household, verb: str) -> None:
    alice, move = noon.fabric_as("alice"), BY_VERB[verb]
    for status in STATUSES:
        task = stand(noon, status).task
        if status in move.sources:
            after = alice.call(PEOPLES[verb](task.id))
            assert after.status is LEADS[verb], status
            assert after.epoch == task.epoch
            if move.attempts is None:
                assert after.attempts == 0
        else:
            with pytest.raises(IllegalMove) as caught:
                alice.call(PEOPLES[verb](task.id))
            assert caught.value.facts["status"] == status.value
            assert unchanged(task, look(alice, task)), status


@pytest.mark.parametrize("verb", list(HOLDERS))
def test_a_holders_verb_moves_a_task_only_while_it_is_worked(noon: Household, verb: str) -> None:
    """G3: from every other status the last fence is refused, and nothing changes."""
    alice, kimi, move = noon.fabric_as("alice"), noon.fabric_as("kimi"), BY_VERB[verb]
    for status in STATUSES:
        standing = stand(noon, status)
        task = standing.task
        if status is Status.WORKING:
            after = kimi.call(HOLDERS[verb](fence_of(standing)))
            assert after.status is LEADS[verb]
            assert after.attempts == task.attempts + (move.attempts or 0)
            assert (after.epoch, after.holder, after.lease_until) == (task.epoch, None, None)
        else:
            with pytest.raises((NotYours, NotFound)):
                kimi.call(HOLDERS[verb](fence_of(standing)))
            assert unchanged(task, look(alice, task)), status


def test_a_task_is_taken_only_when_it_is_ready(noon: Household) -> None:
    """G2, G9: then the epoch and the attempts go up by one."""
    alice, kimi = noon.fabric_as("alice"), noon.fabric_as("kimi")
    for status in STATUSES:
        task = stand(noon, status).task
        if status is Status.READY:
            after = kimi.call(verbs.Take(task=task.id)).task
            assert (after.status, after.epoch, after.attempts) == (Status.WORKING, task.epoch + 1, task.attempts + 1)
        else:
            with pytest.raises((IllegalMove, NotYours)):
                kimi.call(verbs.Take(task=task.id))
            assert unchanged(task, look(alice, task)), status


def test_a_claim_passes_over_everything_that_is_not_ready(noon: Household) -> None:
    """G1"""
    standing = {status: stand(noon, status).task.id for status in STATUSES}
    got = noon.fabric_as("qwen").call(verbs.Claim(limit=100))
    assert got == []  # they are all in kimi's queue
    got = noon.fabric_as("kimi").call(verbs.Claim(limit=100))
    assert [one.task.id for one in got] == [standing[Status.READY]]


def test_a_lease_is_renewed_only_while_it_lasts(noon: Household) -> None:
    """G3"""
    kimi = noon.fabric_as("kimi")
    for status in STATUSES:
        (renewal,) = kimi.call(verbs.Renew(fences=(fence_of(stand(noon, status)),)))
        assert (renewal.until is not None) == (status is Status.WORKING), status


def test_nothing_leaves_the_backlog_by_itself(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, backlog=True, not_before=NOON + timedelta(hours=1))
    noon.later(days=30)
    alice.call(verbs.Sweep())
    assert kimi.call(verbs.Claim()) == []
    assert look(alice, task).status is Status.BACKLOG
    assert alice.call(verbs.Move(task=task.id, column="Ready")).status is Status.READY
    assert [got.task.id for got in kimi.call(verbs.Claim())] == [task.id]


# -- in any order --------------------------------------------------------------------------------------------

ACTS: Final = (*PEOPLES, *HOLDERS, "take", "sweep", "rest")


@for_any(acts=st.lists(st.sampled_from(ACTS), min_size=4, max_size=14))
def test_whatever_is_tried_each_move_is_one_of_the_table(household: Household, acts: list[str]) -> None:
    """G2, G9: through the fabric, by whoever may; what is refused changes nothing."""
    household.at(NOON)
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice, to="kimi")
    last = FenceArg(task=task.id, epoch=0, token=NEVER)
    for act in acts:
        before = look(alice, task)
        if act == "rest":
            household.later(hours=2)
            continue
        try:
            if act == "take":
                last = fence(kimi.call(verbs.Take(task=task.id)))
            elif act == "sweep":
                alice.call(verbs.Sweep())
            elif act in PEOPLES:
                alice.call(PEOPLES[act](task.id))
            else:
                kimi.call(HOLDERS[act](last))
        except FabricError:
            after = look(alice, task)
            swept = act == "take" and before.status is Status.WORKING  # which looks for expired leases first
            assert unchanged(before, after) or swept, act
            continue
        after = look(alice, task)
        if act == "sweep" and after.status is before.status:
            assert unchanged(before, after)
            continue
        move = BY_VERB[act]
        source = Status.READY if act == "take" and before.status is Status.WORKING else before.status
        assert source in move.sources, act
        assert after.status in move.targets, act
        assert after.epoch == before.epoch + move.epoch
