"""Rights that reach no further than they are meant to: people, families, runs, and tokens that are limited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskfabric.domain.errors import FabricError, LeaseLost, NeedsHuman, NotFound
from taskfabric.domain.principal import ProjectRole, Via
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from taskfabric.wiring import SYSTEM
from tests.contract.acts import (
    MINUTE,
    NOON,
    ask,
    claim,
    fail,
    fence,
    finish,
    look,
    refused,
    release,
    status,
    submit,
    wait_for_children,
)
from tests.contract.household import POOL, Household

PIN = "471100"


def works_in(noon: Household, name: str, queue: str) -> None:
    noon.projects.set_member(noon.project_id(queue), noon.people[name].id, ProjectRole.MEMBER, SYSTEM)


# -- people are made by people -----------------------------------------------------------------------------


def about_people(pin: str | None = None) -> list[Verb[Any]]:
    return [
        verbs.AddUser(name="carol", role="app-admin", pin=pin),
        verbs.DisableUser(name="bob", pin=pin),
        verbs.DisableUser(name="bob", enable=True, pin=pin),
        verbs.ResetUser(name="kimi", pin=pin),
        verbs.SetMember(queue=POOL, name="qwen", role=ProjectRole.MANAGER, pin=pin),
    ]


@pytest.mark.parametrize("via", [Via.LOCAL, Via.TOKEN])
def test_once_there_is_a_pin_the_owners_credential_alone_makes_and_moves_nobody(noon: Household, via: Via) -> None:
    alice = noon.fabric_as("alice", via=via)
    alice.call(verbs.SetPin(pin=PIN))
    before = len(noon.credentials.principals())
    for verb in about_people():
        with pytest.raises(NeedsHuman) as caught:
            alice.call(verb)
        assert caught.value.code == 7
        assert "--pin" in caught.value.next
    assert refused(alice, verbs.AddUser(name="carol", pin="000000")) == "pin"
    assert len(noon.credentials.principals()) == before
    for verb in about_people(PIN):
        alice.call(verb)
    assert noon.credentials.principal("carol") is not None


def test_before_there_is_a_pin_the_owner_adds_the_first_people(noon: Household) -> None:
    assert noon.fabric_as("alice", via=Via.LOCAL).call(verbs.AddUser(name="carol"))["inbox"] == "carol"


def test_a_session_needs_no_pin(noon: Household) -> None:
    noon.fabric_as("alice").call(verbs.SetPin(pin=PIN))
    assert noon.fabric_as("alice", via=Via.SESSION).call(verbs.AddUser(name="carol"))["inbox"] == "carol"


def test_who_set_a_pin_and_when_is_in_the_journal_and_with_the_doctor(noon: Household) -> None:
    alice = noon.fabric_as("alice", via=Via.LOCAL)

    def said() -> list[str]:
        return [check.text for check in alice.call(verbs.Doctor()) if check.name == "pin-set"]

    assert said() == []
    alice.call(verbs.SetPin(pin=PIN))
    assert said() == ["the PIN of alice was first set by alice (local) at 2026-11-30T12:00:00Z"]
    noon.later(hours=1)
    alice.call(verbs.SetPin(pin="222222", old=PIN))
    assert said() == ["the PIN of alice was changed by alice (local) at 2026-11-30T13:00:00Z"]
    assert [event["first"] for event in noon.events("pin-set")] == [True, False]


# -- questions -----------------------------------------------------------------------------------------------


def test_a_question_shows_a_pools_task_only_to_those_it_is_for(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G13: whoever is asked sees the task, and in a pool most see only their own."""
    got = claim(kimi, submit(alice))
    assert refused(kimi, verbs.Ask(fence=fence(got), note="which?", of="bob")) == "cross-user"
    assert ask(kimi, got, of="alice").asked == "alice"


def test_an_agents_own_human_is_not_shown_anothers_task(noon: Household, bob: Fabric, kimi: Fabric) -> None:
    """G13"""
    got = claim(kimi, submit(bob))
    assert refused(kimi, verbs.Ask(fence=fence(got), note="which?", of="alice")) == "cross-user"


def test_the_people_of_a_queue_that_is_no_pool_can_be_asked(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    works_in(noon, "bob", "kimi")
    assert ask(kimi, claim(kimi, submit(alice, to="kimi")), of="bob").asked == "bob"


def test_a_human_asks_whom_he_likes_with_his_own_hands(noon: Household, alice: Fabric) -> None:
    got = claim(alice, submit(alice))
    assert refused(noon.in_run("alice", got), verbs.Ask(fence=fence(got), note="which?", of="bob")) == "cross-user"
    assert ask(alice, got, of="bob").asked == "bob"


# -- holds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rating", [{"score": 1}, {"tier": "small"}, {"tier": ""}])
def test_no_agent_rates_what_is_held(noon: Household, alice: Fabric, kimi: Fabric, rating: dict[str, Any]) -> None:
    """A hold is released by a human's act."""
    alice.call(verbs.CreateQueue(name=POOL, score_check=True))
    task = submit(kimi)
    assert task.status is Status.HELD
    assert refused(kimi, verbs.EditTask(task=task.id, **rating)) == "held"
    kimi.call(verbs.EditTask(task=task.id, title="words are the submitter's"))
    assert status(kimi, task) is Status.HELD
    assert alice.call(verbs.EditTask(task=task.id, score=1)).status is Status.READY


# -- families ------------------------------------------------------------------------------------------------


def test_a_stranger_who_sees_a_task_makes_no_children_below_it(noon: Household, alice: Fabric, qwen: Fabric) -> None:
    """Fan-out is for the family: twelve children of a stranger's would leave the holder none."""
    task = submit(alice)
    assert refused(qwen, verbs.Submit(title="x", parent=task.id)) == "family"
    assert refused(qwen, verbs.SubmitMany(tasks=(verbs.Submit(title="x", parent=task.id),))) == "family"
    assert look(alice, task).children == 0


def test_a_family_is_made_by_its_holder_its_submitter_and_its_people(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    works_in(noon, "bob", "alice")
    mine = submit(kimi, to="alice")  # made by kimi, on behalf of alice
    for fabric in (kimi, alice, noon.fabric_as("bob")):
        assert submit(fabric, "below", parent=mine.id).parent == mine.id
    task = submit(alice)
    got = claim(kimi, task)
    assert submit(noon.in_run("kimi", got), "below").parent == task.id
    release(kimi, got)
    assert refused(kimi, verbs.Submit(title="x", parent=task.id)) == "family"


def test_a_family_that_is_hidden_is_not_there(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G13"""
    hidden = submit(alice, to="alice").id
    said = []
    for task in (hidden, hidden + 1000):
        with pytest.raises(NotFound) as caught:
            bob.call(verbs.Submit(title="x", parent=task))
        said.append(caught.value.to_json())
    assert said[0] == said[1]


# -- runs ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["kimi", "alice"])
def line(request: pytest.FixtureRequest, noon: Household) -> tuple[Fabric, list[Task], Claimed]:
    """A run of an agent's or a human's, with the tasks from the root down to the run's own."""
    name = request.param
    fabric = noon.fabric_as(name)
    tasks = [submit(fabric)]
    for _ in range(2):
        got = claim(fabric, tasks[-1])
        tasks.append(submit(fabric, f"below {tasks[-1].id}", parent=tasks[-1].id))
        release(fabric, got)
    got = claim(fabric, tasks[-1])
    return noon.in_run(name, got), tasks, got


ACTS: list[Callable[[int], Verb[Any]]] = [
    lambda task: verbs.Cancel(task=task),
    lambda task: verbs.EditTask(task=task, title="something easier"),
    lambda task: verbs.Move(task=task, column="Backlog"),
    lambda task: verbs.Reject(task=task, note="no"),
    lambda task: verbs.Verify(task=task),
    lambda task: verbs.Redrive(task=task),
]


@pytest.mark.parametrize("act", range(len(ACTS)))
def test_a_run_changes_nothing_that_it_descends_from(line: tuple[Fabric, list[Task], Claimed], act: int) -> None:
    """Invariant 5: also where run and ancestor are the same principal's."""
    run, tasks, _ = line
    for task in tasks:
        assert refused(run, ACTS[act](task.id)) == "in-run"


def test_a_run_cancels_what_it_made_itself(line: tuple[Fabric, list[Task], Claimed]) -> None:
    run, _, _ = line
    assert run.call(verbs.Cancel(task=submit(run, "below").id)).status is Status.CANCELLED


def test_a_run_ends_no_run_above_it(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    root = claim(kimi, submit(alice))
    child = submit(kimi, "below", parent=root.task.id)
    run = noon.in_run("kimi", claim(kimi, child))
    assert refused(run, verbs.Done(fence=fence(root), note="x")) == "in-run"
    assert status(alice, root.task) is Status.WORKING


# -- limited tokens ------------------------------------------------------------------------------------------


def by_fence(got: Claimed) -> list[Verb[Any]]:
    named = fence(got)
    return [
        verbs.Done(fence=named, note="x"),
        verbs.Park(fence=named, until=NOON + MINUTE, note="x"),
        verbs.Ask(fence=named, note="x"),
        verbs.WaitForChildren(fence=named),
        verbs.Fail(fence=named, note="x"),
        verbs.Release(fence=named),
        verbs.Decline(fence=named, note="x"),
        verbs.Attach(task=got.task.id, file=verbs.FileArg(name="a.txt", data="aGk="), fence=named),
    ]


def test_a_fence_outside_a_tokens_queues_is_worth_nothing(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """The token is limited, whoever holds the lease."""
    got = claim(kimi, submit(alice, to="kimi"))
    narrow = noon.fabric_as("kimi", queues=frozenset({noon.project_id(POOL)}))
    stranger = noon.fabric_as("bob")
    for verb in by_fence(got):
        said = []
        for fabric in (narrow, stranger):
            with pytest.raises(NotFound) as caught:
                fabric.call(verb)
            said.append(caught.value.to_json())
        assert said[0] == said[1]
    with pytest.raises(LeaseLost):
        narrow.call(verbs.RunToken(fence=fence(got)))
    assert look(alice, got.task).lease_until == got.task.lease_until
    assert finish(kimi, got).status is Status.DONE


def test_many_fences_at_once_are_asked_one_by_one(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    inside, outside = claim(kimi, submit(alice)), claim(kimi, submit(alice, to="kimi"))
    narrow = noon.fabric_as("kimi", queues=frozenset({noon.project_id(POOL)}))
    both = (outside, inside)
    renewed = narrow.call(verbs.Renew(fences=tuple(fence(got) for got in both)))
    assert [(one.task_id, one.until is None, one.holder) for one in renewed] == [
        (outside.task.id, True, None),
        (inside.task.id, False, None),
    ]
    lost, done = narrow.call(verbs.DoneMany(ends=tuple(verbs.End(fence=fence(got), note="x") for got in both)))
    assert isinstance(lost, NotFound)
    assert isinstance(done, Task)
    assert status(alice, outside.task) is Status.WORKING
    assert {"verb": "done", "rule": "scope"} in noon.events("refused")


def test_a_limited_token_makes_nothing_that_reaches_further(noon: Household) -> None:
    narrow = noon.fabric_as("alice", queues=frozenset({noon.project_id(POOL)}))
    for verb in (
        verbs.CreateToken(name="helper"),
        verbs.CreateToken(name="kimi", queues=(POOL,)),
        verbs.AddUser(name="carol"),
        verbs.DisableUser(name="bob"),
        verbs.ResetUser(name="kimi"),
        verbs.SetPin(pin=PIN),
        verbs.CreateQueue(name="things"),
    ):
        assert refused(narrow, verb) == "scope"
    other = noon.fabric_as("alice").call(verbs.CreateToken(name="kimi"))["id"]
    with pytest.raises(NotFound):
        narrow.call(verbs.RevokeToken(id=other))


# -- whose work it is, and who judges it -----------------------------------------------------------------------


def test_who_held_a_task_before_does_not_judge_its_result(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """Invariant 3: the result of a later epoch stands on the work of an earlier one."""
    noon.agent("third")
    qwen = noon.fabric_as("qwen")
    task = submit(alice)
    release(qwen, claim(qwen, task))
    finish(kimi, claim(kimi, task))
    assert refused(qwen, verbs.Verify(task=task.id)) == "kin-never-closes"
    assert refused(qwen, verbs.Reject(task=task.id, note="no")) == "kin-never-closes"
    assert noon.fabric_as("third").call(verbs.Verify(task=task.id)).status is Status.VERIFIED


def test_the_human_a_task_is_for_acts_on_it_as_its_submitter_does(noon: Household, alice: Fabric) -> None:
    """qwen submits into the pool on behalf of alice, kimi works."""
    qwen, kimi = noon.fabric_as("qwen"), noon.fabric_as("kimi")
    asked = submit(qwen, "asked")
    ask(kimi, claim(kimi, asked))
    assert alice.call(verbs.Answer(task=asked.id, note="this one")).status is Status.READY
    dead = submit(qwen, "dead")
    fail(kimi, claim(kimi, dead), final=True)
    assert alice.call(verbs.Redrive(task=dead.id)).status is Status.READY
    assert alice.call(verbs.Cancel(task=dead.id)).status is Status.CANCELLED
    for judge in (verbs.Verify, verbs.Reject):
        done = submit(qwen, f"to {judge.__name__}")
        finish(kimi, claim(kimi, done))
        alice.call(judge(task=done.id, note="seen"))
    parent = submit(qwen, "parent")
    got = claim(kimi, parent)
    child = submit(alice, "child", parent=parent.id)
    wait_for_children(kimi, got)
    assert alice.call(verbs.EditTask(task=child.id, priority=3)).priority == 3
    for verb in (verbs.Cancel(task=parent.id), verbs.Redrive(task=parent.id), verbs.Verify(task=parent.id)):
        with pytest.raises(FabricError):
            noon.fabric_as("bob").call(verb)
