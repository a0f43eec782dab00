"""``auto``: what is decided is on the card, and what cannot be decided is asked."""

from __future__ import annotations

import pytest

from taskfabric.domain.errors import BadInput
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.wiring import SYSTEM
from tests.contract.acts import submit
from tests.contract.household import Household


@pytest.fixture
def alice(household: Household) -> Fabric:
    """kimi takes large tasks with code, qwen small ones."""
    for name, tiers, able in (("kimi", ("medium", "large"), ("text", "code")), ("qwen", ("small",), ("text",))):
        household.credentials.describe(
            household.people[name].id,
            trust=household.people[name].trust,
            tiers=tiers,
            capabilities=able,
            concurrency=2,
            stamp=SYSTEM,
        )
    return household.fabric_as("alice")


def said(fabric: Fabric, task: Task) -> str:
    return "\n".join(entry.text for entry in fabric.call(verbs.Show(task=task.id)).entries)


def inbox(fabric: Fabric) -> list[Task]:
    return [task for task in fabric.call(verbs.List(queue="alice")) if task.reference == "auto"]


def test_auto_gives_a_tier_and_needs_and_says_why(alice: Fabric) -> None:
    task = submit(alice, "Fix the bug in the script", to="auto")
    assert (task.queue, task.tier, task.needs, task.status) == ("pool", "medium", ("code",), Status.READY)
    assert "auto: medium, needs code, by its words" in said(alice, task)


def test_what_the_submitter_says_himself_stands(alice: Fabric) -> None:
    task = submit(alice, "Fix the bug", to="auto", score=8, needs=("text",))
    assert (task.tier, task.needs) == ("large", ("code", "text"))


def test_while_all_agents_are_alike_nothing_is_decided_and_nobody_asked(household: Household) -> None:
    fabric = household.fabric_as("alice")
    task = submit(fabric, "whatever it is", to="auto")
    assert (task.tier, task.needs, task.status) == ("", (), Status.READY)
    assert said(fabric, task) == ""


def test_what_cannot_be_judged_is_held_and_asked_in_the_submitters_inbox(alice: Fabric) -> None:
    task = submit(alice, "That thing", to="auto")
    assert task.status is Status.HELD
    (question,) = inbox(alice)
    assert question.title == f"How demanding is #{task.id}? That thing"
    assert question.parent == task.id


def test_the_answer_rates_the_task_and_lets_it_go(alice: Fabric) -> None:
    task = submit(alice, "That thing", to="auto")
    (question,) = inbox(alice)
    with pytest.raises(BadInput, match="names no tier"):
        alice.call(verbs.Done(task=question.id, note="whatever you like"))
    assert alice.call(verbs.Done(task=question.id, note="Large, please")).status is Status.VERIFIED
    now = alice.call(verbs.Show(task=task.id)).task
    assert (now.status, now.tier) == (Status.READY, "large")


def test_rating_the_task_itself_withdraws_the_question(alice: Fabric) -> None:
    task = submit(alice, "That thing", to="auto")
    (question,) = inbox(alice)
    assert alice.call(verbs.EditTask(task=task.id, score=1)).status is Status.READY
    assert alice.call(verbs.Show(task=question.id)).task.status is Status.CANCELLED


def test_cancelling_the_task_takes_the_question_with_it(alice: Fabric) -> None:
    task = submit(alice, "That thing", to="auto")
    (question,) = inbox(alice)
    alice.call(verbs.Cancel(task=task.id))
    assert alice.call(verbs.Show(task=question.id)).task.status is Status.CANCELLED


def test_an_agents_question_goes_to_the_human_it_answers_to(alice: Fabric, household: Household) -> None:
    task = submit(household.fabric_as("kimi"), "That thing", to="auto")
    assert task.status is Status.HELD
    assert [one.parent for one in inbox(alice)] == [task.id]


def test_the_same_submission_asks_once(alice: Fabric) -> None:
    """G11"""
    for _ in range(2):
        submit(alice, "That thing", to="auto", key="once")
    assert len(inbox(alice)) == 1


def test_a_question_that_somebody_else_made_up_rates_nothing(alice: Fabric, household: Household) -> None:
    task = submit(alice, "That thing", to="auto")
    forged = submit(alice, "How demanding?", to="alice", reference="auto", parent=task.id)
    alice.call(verbs.Done(task=forged.id, note="small"))
    assert alice.call(verbs.Show(task=task.id)).task.status is Status.HELD


def test_a_constraint_on_cost_admits_what_costs_no_more(household: Household) -> None:
    fabric = household.fabric_as("alice")
    assert submit(fabric, to="any:cost=flat").needs == ("cost/flat",)
    with pytest.raises(BadInput, match="is not a cost"):
        submit(fabric, to="any:cost=free")
