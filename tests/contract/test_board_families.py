"""Families: a child records who caused it and gates nothing; a parent that waits for its children resumes by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from taskfabric.domain.status import Hindrance, Status
from taskfabric.domain.task import Kin, Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import (
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
    refused,
    release,
    status,
    submit,
    wait_for_children,
)
from tests.contract.household import Household

End = Callable[[Fabric, Fabric, Task], object]

ENDS: Final[dict[str, End]] = {
    "done": lambda alice, kimi, task: finish(kimi, claim(kimi, task)),
    "veto": lambda alice, kimi, task: finish(kimi, claim(kimi, task), verdict="fail"),
    "dead": lambda alice, kimi, task: fail(kimi, claim(kimi, task), final=True),
    "rejected": lambda alice, kimi, task: decline(kimi, claim(kimi, task)),
    "cancelled": lambda alice, kimi, task: alice.call(verbs.Cancel(task=task.id)),
    "moved": lambda alice, kimi, task: alice.call(verbs.Move(task=task.id, column="Done")),
}


def test_a_family_gates_nothing(alice: Fabric, kimi: Fabric) -> None:
    """Parent and child are claimed, and end, in any order."""
    parent = submit(alice, "parent")
    child = submit(alice, "child", parent=parent.id)
    assert claimed_ids(kimi) == [parent.id, child.id]


def test_a_parent_may_finish_before_its_children(alice: Fabric, kimi: Fabric) -> None:
    parent = submit(alice)
    child = submit(alice, parent=parent.id)
    finish(kimi, claim(kimi, parent))
    assert (status(alice, parent), status(alice, child)) == (Status.DONE, Status.READY)
    assert claimed_ids(kimi) == [child.id]


def waiting_parent(alice: Fabric, kimi: Fabric, children: int = 1) -> tuple[Task, list[Task]]:
    """A task of kimi's that waits for so many children in the pool."""
    parent = submit(alice, "parent", to="kimi")
    got = claim(kimi, parent)
    made = [submit(alice, f"child {n}", parent=parent.id) for n in range(children)]
    assert wait_for_children(kimi, got).status is Status.WAITING
    return parent, made


def test_a_parent_that_waits_holds_no_worker_and_costs_no_attempt(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G9"""
    parent, _ = waiting_parent(alice, kimi)
    now = look(alice, parent)
    assert (now.holder, now.lease_until, now.attempts, now.waits) == (None, None, 0, 1)
    noon.later(days=2)
    alice.call(verbs.Sweep())
    assert status(alice, parent) is Status.WAITING
    first = alice.call(verbs.Why(task=parent.id)).first
    assert first is not None
    assert first.kind is Hindrance.CHILDREN


@pytest.mark.parametrize("how", list(ENDS))
def test_a_waiting_parent_resumes_when_its_last_child_ends_however(
    alice: Fabric, kimi: Fabric, qwen: Fabric, how: str
) -> None:
    """In the child's own transaction."""
    parent, (first, last) = waiting_parent(alice, kimi, children=2)
    finish(qwen, claim(qwen, first))
    assert (status(alice, parent), look(alice, parent).open_children) == (Status.WAITING, 1)
    ENDS[how](alice, qwen, last)
    now = look(alice, parent)
    assert (now.status, now.open_children, now.children) == (Status.READY, 0, 2)
    assert next_of(kimi, queue="kimi").task.id == parent.id


def test_a_resumed_parent_is_at_the_head_of_its_lane(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    parent, (child,) = waiting_parent(alice, kimi)
    others = [submit(alice, str(n), to="kimi").id for n in range(2)]
    finish(qwen, claim(qwen, child))
    assert claimed_ids(kimi, queue="kimi") == [parent.id, *others]


@pytest.mark.parametrize("how", ["parked", "released", "asked", "failed"])
def test_a_child_that_has_not_ended_resumes_nobody(alice: Fabric, kimi: Fabric, qwen: Fabric, how: str) -> None:
    parent, (child,) = waiting_parent(alice, kimi)
    got = claim(qwen, child)
    match how:
        case "parked":
            park(qwen, got, NOON)
        case "released":
            release(qwen, got)
        case "asked":
            ask(qwen, got)
        case _:
            fail(qwen, got)
    assert (status(alice, parent), look(alice, parent).open_children) == (Status.WAITING, 1)


def test_grandchildren_are_their_parents_business(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    parent, (child,) = waiting_parent(alice, kimi)
    grandchild = submit(alice, parent=child.id)
    finish(qwen, claim(qwen, child))
    assert (status(alice, parent), status(alice, grandchild)) == (Status.READY, Status.READY)


def test_a_child_that_is_reopened_counts_again(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    parent, (first, second) = waiting_parent(alice, kimi, children=2)
    finish(qwen, claim(qwen, first))
    alice.call(verbs.Reject(task=first.id, note="again"))
    finish(qwen, claim(qwen, second))
    assert (status(alice, parent), look(alice, parent).open_children) == (Status.WAITING, 1)
    finish(qwen, claim(qwen, first))
    assert status(alice, parent) is Status.READY


def test_a_verified_child_counts_once(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    parent = submit(alice, to="kimi")
    first, _ = submit(alice, parent=parent.id), submit(alice, parent=parent.id)
    finish(qwen, claim(qwen, first))
    alice.call(verbs.Verify(task=first.id))
    assert look(alice, parent).open_children == 1


def test_a_question_is_not_answered_by_children(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """Invariant 9: who asks a human waits for the human."""
    parent = submit(alice, to="kimi")
    got = claim(kimi, parent)
    child = submit(alice, parent=parent.id)
    ask(kimi, got)
    finish(qwen, claim(qwen, child))
    assert status(alice, parent) is Status.WAITING


# -- cancelling ------------------------------------------------------------------------------------------------


def test_a_cancelled_parent_takes_its_unstarted_children_along(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    root = submit(alice)
    started, ready = submit(alice, parent=root.id), submit(alice, parent=root.id)
    backlog = submit(alice, parent=root.id, backlog=True)
    below = submit(alice, parent=ready.id)
    asked = submit(alice, parent=root.id)
    got = claim(qwen, started)
    ask(qwen, claim(qwen, asked))
    below_started = submit(alice, parent=started.id)
    alice.call(verbs.Cancel(task=root.id, note="no longer wanted"))
    gone = [task.id for task in (root, ready, backlog, below) if status(alice, task) is Status.CANCELLED]
    assert gone == [root.id, ready.id, backlog.id, below.id]
    assert (status(alice, started), status(alice, asked)) == (Status.WORKING, Status.WAITING)
    assert status(alice, below_started) is Status.READY
    assert finish(qwen, got).status is Status.DONE
    assert len(noon.events("cancelled")) == 4


def test_a_child_that_was_given_back_has_been_started(alice: Fabric, kimi: Fabric) -> None:
    root = submit(alice)
    child = submit(alice, parent=root.id)
    release(kimi, claim(kimi, child))
    alice.call(verbs.Cancel(task=root.id))
    assert status(alice, child) is Status.READY


def test_a_cancelled_child_breaks_what_it_blocks(alice: Fabric) -> None:
    root = submit(alice)
    child = submit(alice, parent=root.id)
    waits = submit(alice, after=(child.id,))
    alice.call(verbs.Cancel(task=root.id))
    assert status(alice, waits) is Status.HELD


# -- the tree --------------------------------------------------------------------------------------------------


Shape = tuple[int, list[Any]]


def shape(kin: Kin) -> Shape:
    return kin.task.id, [shape(child) for child in kin.children]


def test_a_tree_is_the_task_with_its_descendants(alice: Fabric) -> None:
    root = submit(alice)
    one, two = submit(alice, parent=root.id), submit(alice, parent=root.id)
    below = submit(alice, parent=one.id)
    submit(alice, "somebody else's")
    whole: Shape = (root.id, [(one.id, [(below.id, [])]), (two.id, [])])
    assert shape(alice.call(verbs.Tree(task=root.id))) == whole
    assert shape(alice.call(verbs.Tree(task=one.id))) == (one.id, [(below.id, [])])
    assert [task.id for task in alice.call(verbs.List(parent=root.id))] == [one.id, two.id]


def test_what_a_run_submits_is_its_tasks_child(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """Invariant 1"""
    got = claim(kimi, submit(alice, to="kimi"))
    child = submit(noon.in_run("kimi", got), "a part of it")
    assert (child.parent, child.on_behalf, child.submitter) == (got.task.id, "alice", "kimi")
    assert wait_for_children(kimi, got).status is Status.WAITING


def test_the_same_child_again_and_again_looks_like_a_loop(alice: Fabric, kimi: Fabric) -> None:
    """Invariant 6"""
    parent = submit(kimi)
    submit(kimi, "again", parent=parent.id)
    submit(kimi, "again", parent=parent.id)
    assert refused(kimi, verbs.Submit(title="again", parent=parent.id)) == "loop"
