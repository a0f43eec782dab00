"""Keys: one key is one task, for life or while it is open (G11)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from taskfabric.domain.errors import KeyConflict
from taskfabric.domain.status import Status
from taskfabric.domain.task import Submitted
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from tests.contract.acts import HOUR, NOON, claim, finish, status, submit
from tests.contract.household import Household
from tests.contract.standing import STATUSES, stand


def send(fabric: Fabric, title: str = "once", key: str = "k", **more: Any) -> Submitted:
    return fabric.call(verbs.Submit(title=title, key=key, **more))


def test_the_answer_to_a_repeated_submit_is_the_task_as_it_stands(alice: Fabric, kimi: Fabric) -> None:
    """G11"""
    first = send(alice, tags=("home",), description="words")
    claim(kimi, first.task)
    again = send(alice, tags=("home",), description="words")
    assert (again.created, again.task.id, again.task.status) == (False, first.task.id, Status.WORKING)
    assert (again.task.holder, again.task.key, again.task.tags) == ("kimi", "k", ("home",))


def test_a_repeated_submit_makes_and_changes_nothing(noon: Household, alice: Fabric) -> None:
    """G11: no task, no event, no count at the parent."""
    parent = submit(alice)
    first = send(alice, parent=parent.id)
    events, tasks = len(noon.events("submitted")), noon.tasks()
    for _ in range(3):
        assert not send(alice, parent=parent.id).created
    assert (len(noon.events("submitted")), noon.tasks()) == (events, tasks)
    assert alice.call(verbs.Show(task=parent.id)).task.children == 1
    assert alice.call(verbs.Show(task=first.task.id)).task.updated_at == NOON


@pytest.mark.parametrize(
    "other",
    [
        {"title": "twice"},
        {"priority": 3},
        {"to": "kimi"},
        {"due": NOON + HOUR},
        {"tags": ("home",)},
        {"needs": ("tools",)},
        {"backlog": True},
    ],
)
def test_another_body_under_the_same_key_is_an_error_and_makes_nothing(
    noon: Household, alice: Fabric, other: dict[str, Any]
) -> None:
    """G11: and it names the task that has the key."""
    first = send(alice)
    before = noon.tasks()
    with pytest.raises(KeyConflict) as caught:
        send(alice, **{"title": "once", **other})
    assert caught.value.facts["task"] == first.task.id
    assert noon.tasks() == before


def test_a_key_for_life_outlives_everything_that_becomes_of_its_task(alice: Fabric, kimi: Fabric) -> None:
    """G11"""
    first = send(alice)
    alice.call(verbs.Cancel(task=first.task.id))
    assert (send(alice).created, send(alice).task.status) == (False, Status.CANCELLED)


def test_a_key_for_open_tasks_counts_exactly_while_its_task_is_not_over(noon: Household) -> None:
    """G11: a recurring alert makes one task at a time."""
    alice = noon.fabric_as("alice")
    over = {Status.DONE, Status.VERIFIED, Status.DEAD, Status.CANCELLED, Status.REJECTED}
    for want in STATUSES:
        key = f"alert {want}"
        first = send(alice, "alert", key, key_scope="open", to="kimi", backlog=want is Status.BACKLOG)
        if want is Status.HELD:
            blocker = submit(alice)
            alice.call(verbs.Cancel(task=blocker.id))
            key = "alert that is held"
            first = send(alice, "alert", key, key_scope="open", to="kimi", after=(blocker.id,))
            again = send(alice, "alert", key, key_scope="open", to="kimi", after=(blocker.id,))
        elif want is Status.BACKLOG:
            again = send(alice, "alert", key, key_scope="open", to="kimi", backlog=True)
        else:
            bring(noon, first, want)
            again = send(alice, "alert", key, key_scope="open", to="kimi")
        assert again.created is (want in over), want
        assert (again.task.id != first.task.id) is again.created, want


def bring(household: Household, made: Submitted, want: Status) -> None:
    """This ready task into that status; what stands before it in kimi's queue does not matter."""
    alice, kimi, task = household.fabric_as("alice"), household.fabric_as("kimi"), made.task
    if want is Status.READY:
        return
    if want is Status.CANCELLED:
        alice.call(verbs.Cancel(task=task.id))
        return
    got = verbs.FenceArg.of(claim(kimi, task).fence)
    ends: dict[Status, Verb[Any]] = {
        Status.WAITING: verbs.Ask(fence=got, note="which?"),
        Status.DONE: verbs.Done(fence=got, note="done"),
        Status.VERIFIED: verbs.Done(fence=got, note="done"),
        Status.DEAD: verbs.Fail(fence=got, note="broke", final=True),
        Status.REJECTED: verbs.Decline(fence=got, note="no"),
    }
    if want in ends:
        kimi.call(ends[want])
    if want is Status.VERIFIED:
        alice.call(verbs.Verify(task=task.id))
    assert status(alice, task) is want


def test_a_key_for_open_tasks_may_bring_another_body_once_its_task_is_over(alice: Fabric, kimi: Fabric) -> None:
    """G11"""
    first = send(alice, "disk at 91 %", key_scope="open")
    with pytest.raises(KeyConflict):
        send(alice, "disk at 95 %", key_scope="open")
    finish(kimi, claim(kimi, first.task))
    second = send(alice, "disk at 95 %", key_scope="open")
    assert (second.created, second.task.title) == (True, "disk at 95 %")
    assert send(alice, "disk at 95 %", key_scope="open").task.id == second.task.id


def test_many_who_submit_one_key_at_once_get_one_task(noon: Household) -> None:
    """G11"""
    fabrics = [noon.fabric_as("alice")] * 6
    gate = threading.Barrier(len(fabrics))

    def go(fabric: Fabric) -> Submitted:
        gate.wait(20)
        return send(fabric)

    with ThreadPoolExecutor(len(fabrics)) as threads:
        got = list(threads.map(go, fabrics))
    assert len({one.task.id for one in got}) == 1
    assert sorted(one.created for one in got) == [False] * 5 + [True]


def test_a_refused_submit_leaves_its_key_free(noon: Household, alice: Fabric) -> None:
    """G11"""
    with pytest.raises(Exception, match="no such"):
        send(alice, after=(10**9,))
    assert send(alice).created


def test_who_may_not_see_a_keys_task_learns_nothing_of_it(alice: Fabric, bob: Fabric) -> None:
    """G13: keys belong to their submitter."""
    hers = send(alice, "the surprise party")
    his = send(bob, "another thing")
    assert his.created
    assert his.task.id != hers.task.id


def test_a_task_without_a_key_is_always_new(noon: Household) -> None:
    made = [stand(noon, Status.READY).task.id for _ in range(3)]
    assert len(set(made)) == 3
