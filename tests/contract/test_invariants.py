"""The invariants of the hallway, each as a property: whatever is tried, in whatever order, they hold."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import strategies as st

from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import LeaseLost, NoFence, NotFound
from taskfabric.domain.principal import Trust
from taskfabric.domain.status import Status
from taskfabric.services import verbs
from taskfabric.services.desk import Rules
from taskfabric.services.verbs import FenceArg
from taskfabric.wiring import SYSTEM
from tests.contract.acts import NOON, claim, finish, for_any, refused, release, submit
from tests.contract.household import Household

# -- 1. identity -----------------------------------------------------------------------------------------


def test_no_argument_of_any_verb_says_who_is_calling() -> None:
    """Invariant 1"""
    says = {"caller", "principal", "submitter", "submitter_id", "creator_id", "user_id", "on_behalf", "run", "via"}
    for verb in verbs.BY_METHOD.values():
        assert not says & set(verb.model_fields), verb.method


def test_what_a_run_submits_is_a_child_of_its_own_task_whatever_it_says(household: Household) -> None:
    """Invariant 1"""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    mine, other = submit(alice, to="kimi"), submit(alice, to="kimi")
    run = household.in_run("kimi", claim(kimi, mine))
    child = submit(run)
    assert (child.parent, child.submitter, child.on_behalf) == (mine.id, "kimi", "alice")
    assert submit(run, parent=mine.id).parent == mine.id
    assert refused(run, verbs.Submit(title="x", parent=other.id)) == "run-parent"


def test_a_fence_is_worth_nothing_in_another_hand(household: Household) -> None:
    """Invariant 1, G3: token and principal are both needed."""
    alice, kimi, qwen = (household.fabric_as(name) for name in ("alice", "kimi", "qwen"))
    got = claim(kimi, submit(alice))
    with pytest.raises((LeaseLost, NotFound)):
        finish(qwen, got)
    assert finish(kimi, got).producer == "kimi"


def test_the_server_never_infers_a_fence(household: Household) -> None:
    """G3: only a human acts without one, and only outside a run."""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice)
    got = claim(kimi, task)
    for verb in (verbs.Done(task=task.id, note="x"), verbs.Release(task=task.id), verbs.Fail(task=task.id, note="x")):
        with pytest.raises(NoFence):
            kimi.call(verb)
    with pytest.raises(NoFence):
        alice.call(verbs.Done(note="x"))
    assert finish(kimi, got).status is Status.DONE


# -- 2. trust --------------------------------------------------------------------------------------------


@for_any(chain=st.lists(st.sampled_from(list(Trust)[:3]), min_size=1, max_size=4))
def test_a_task_is_never_trusted_more_than_what_made_it(household: Household, chain: list[Trust]) -> None:
    """Invariant 2"""
    parent = submit(household.fabric_as("alice"))
    assert parent.trust is Trust.HUMAN
    lowest = Trust.HUMAN
    for trust in chain:
        name = f"agent-{trust.word}"
        if name not in household.people:
            household.agent(name, trust=trust)
        worker = household.fabric_as(name)
        claim(worker, parent)
        child = submit(worker, f"below {parent.id}", parent=parent.id)
        lowest = min(lowest, trust)
        assert child.trust is lowest
        parent = child


@for_any(asked=st.sampled_from(list(Trust)), has=st.sampled_from(list(Trust)[:3]))
def test_a_worker_takes_only_what_its_trust_reaches(household: Household, asked: Trust, has: Trust) -> None:
    """Invariant 2"""
    name = f"agent-{has.word}"
    if name not in household.people:
        household.agent(name, trust=has)
    task = submit(household.fabric_as("alice"), trust=asked.word)
    worker = household.fabric_as(name)
    got = worker.call(verbs.Claim(limit=100))
    assert (task.id in [c.task.id for c in got]) == (has >= asked)
    for claimed in got:
        finish(worker, claimed)
    household.fabric_as("alice").call(verbs.Cancel(task=task.id))


@for_any(parent=st.sampled_from(list(Trust)), child=st.sampled_from(list(Trust)))
def test_a_child_asks_no_less_trust_of_its_worker_than_its_parent(
    household: Household, parent: Trust, child: Trust
) -> None:
    """Invariant 2"""
    alice = household.fabric_as("alice")
    above = submit(alice, trust=parent.word)
    assert submit(alice, parent=above.id, trust=child.word).required_trust == max(parent, child)


# -- 3. who judges ---------------------------------------------------------------------------------------


@for_any(
    family=st.lists(st.sampled_from(["kimi", "qwen", "third", "fourth"]), min_size=1, max_size=3),
    producer=st.sampled_from(["kimi", "qwen", "third", "fourth"]),
    position=st.integers(0, 2),
    judge=st.sampled_from(["kimi", "qwen", "third", "fourth", "outsider"]),
)
def test_no_agent_of_a_results_family_ever_judges_it(
    household: Household, family: list[str], producer: str, position: int, judge: str
) -> None:
    """Invariant 3"""
    for name in ("third", "fourth", "outsider"):
        if name not in household.people:
            household.agent(name)
    alice = household.fabric_as("alice")
    line = [submit(alice)]
    for name in family:
        worker = household.fabric_as(name)
        got = claim(worker, line[-1])
        line.append(submit(worker, f"below {line[-1].id}", parent=line[-1].id))
        release(worker, got)
    judged = line[min(position, len(line) - 1)]
    finish(household.fabric_as(producer), claim(household.fabric_as(producer), judged))
    kin = {producer, *family}
    verdict = household.fabric_as(judge)
    if judge in kin:
        assert refused(verdict, verbs.Verify(task=judged.id)) in ("producer-never-closes", "kin-never-closes")
        assert refused(verdict, verbs.Reject(task=judged.id, note="no")) in (
            "producer-never-closes",
            "kin-never-closes",
        )
    else:
        assert verdict.call(verbs.Verify(task=judged.id)).status is Status.VERIFIED


def test_a_human_who_submitted_may_verify_and_so_may_nobody_who_does_not_see_it(household: Household) -> None:
    """Invariant 3, G13"""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice)
    finish(kimi, claim(kimi, task))
    with pytest.raises(NotFound):
        household.fabric_as("bob").call(verbs.Verify(task=task.id))
    assert alice.call(verbs.Verify(task=task.id)).status is Status.VERIFIED


def test_what_waits_for_a_human_is_closed_by_no_agent(household: Household) -> None:
    """Invariant 3"""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice, human_verify=True)
    finish(kimi, claim(kimi, task))
    assert refused(household.fabric_as("qwen"), verbs.Verify(task=task.id)) == "needs-human-verify"
    assert alice.call(verbs.Verify(task=task.id)).status is Status.VERIFIED


# -- 4. who asks -----------------------------------------------------------------------------------------


def test_who_asks_never_answers_and_neither_does_another_agent(household: Household) -> None:
    """Invariant 4"""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice)
    got = claim(kimi, task)
    waiting = kimi.call(verbs.Ask(fence=FenceArg.of(got.fence), note="which colour?"))
    assert (waiting.status, waiting.asked) == (Status.WAITING, "alice")
    for name in ("kimi", "qwen"):
        assert refused(household.fabric_as(name), verbs.Answer(task=task.id, note="red")) == "not-asked"
    assert alice.call(verbs.Answer(task=task.id, note="blue")).status is Status.READY


# -- 5. what binds a run ---------------------------------------------------------------------------------


def test_nothing_that_binds_a_run_is_changed_by_the_run(household: Household) -> None:
    """Invariant 5: also where the same principal might do it outside."""
    alice, kimi, qwen = (household.fabric_as(name) for name in ("alice", "kimi", "qwen"))
    other = submit(alice)
    finish(qwen, claim(qwen, other))
    own = submit(kimi, to="kimi")
    got = claim(kimi, own)
    fence = FenceArg.of(got.fence)
    before = kimi.call(verbs.Show(task=own.id)).task
    for verb in (
        verbs.Verify(task=other.id),
        verbs.Reject(task=other.id, note="no"),
        verbs.Answer(task=own.id, note="yes"),
        verbs.Cancel(task=own.id),
        verbs.EditTask(task=own.id, title="easier"),
        verbs.Redrive(task=own.id),
        verbs.Move(task=own.id, column="Done"),
        verbs.CreateToken(name="kimi"),
        verbs.RunToken(fence=fence),
        verbs.RevokeToken(id=1),
        verbs.SetPin(pin="471100"),
        verbs.CreateQueue(name="mine"),
        verbs.SetMember(queue="pool", name="qwen", role=None),
        verbs.AddUser(name="mallory"),
        verbs.DisableUser(name="alice"),
        verbs.ResetUser(name="kimi"),
        verbs.Sweep(),
    ):
        run = household.in_run("kimi", got)
        assert refused(run, verb) == "in-run", verb.method
    after = kimi.call(verbs.Show(task=own.id)).task
    assert (after.title, after.status, after.epoch) == (before.title, before.status, before.epoch)
    assert finish(household.in_run("kimi", got), got).status is Status.DONE


# -- 6. submissions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "rule", "allowed"),
    [
        (Limits(per_hour=3), "quota-hour", 3),
        (Limits(open_per_agent=4), "quota-open", 4),
    ],
)
def test_an_agent_submits_within_its_quota_and_a_human_without(
    household: Household, limits: Limits, rule: str, allowed: int
) -> None:
    """Invariant 6"""
    kimi, alice = household.fabric_as("kimi"), household.fabric_as("alice")
    with household.ruled_by(Rules(limits=limits)):
        for n in range(allowed):
            submit(kimi, str(n))
        assert refused(kimi, verbs.Submit(title="one more")) == rule
        batch = verbs.SubmitMany(tasks=(verbs.Submit(title="a"), verbs.Submit(title="b")))
        assert refused(kimi, batch) == rule
        assert household.tasks() == allowed
        for n in range(allowed + 2):
            submit(alice, str(n))


@for_any(depth=st.integers(1, 4), human=st.booleans())
def test_a_family_is_never_deeper_than_its_bound(household: Household, depth: int, human: bool) -> None:
    """Invariant 6: for everybody, and checked before any write."""
    name = "alice" if human else "kimi"
    with household.ruled_by(Rules(limits=Limits(depth=depth))):
        fabric = household.fabric_as(name)
        line = [submit(fabric)]
        for n in range(depth):
            line.append(submit(fabric, str(n), parent=line[-1].id))
        before = household.tasks()
        assert refused(fabric, verbs.Submit(title="too deep", parent=line[-1].id)) == "depth"
        assert household.tasks() == before
        assert [task.depth for task in line] == list(range(depth + 1))


@for_any(fan_out=st.integers(1, 5), batch=st.integers(1, 6))
def test_a_task_never_has_more_children_than_its_bound(household: Household, fan_out: int, batch: int) -> None:
    """Invariant 6: also when many come at once."""
    with household.ruled_by(Rules(limits=Limits(fan_out=fan_out))):
        alice = household.fabric_as("alice")
        parent = submit(alice)
        before = household.tasks()
        children = verbs.SubmitMany(tasks=tuple(verbs.Submit(title=str(n), parent=parent.id) for n in range(batch)))
        if batch > fan_out:
            assert refused(alice, children) == "fan-out"
            assert household.tasks() == before
        else:
            assert len(alice.call(children)) == batch


# -- 7. attempts -----------------------------------------------------------------------------------------


@for_any(ends=st.lists(st.sampled_from(["fail", "expire", "release", "park"]), max_size=6))
def test_a_task_is_dead_after_three_attempts_and_not_before(household: Household, ends: list[str]) -> None:
    """Invariant 7, G9"""
    household.clock.advance(timedelta(hours=3))
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice, to="kimi")
    spent = 0
    for end in [*ends, "fail", "fail", "fail"]:
        got = kimi.call(verbs.Claim(queue="kimi"))
        if spent == 3:
            assert got == []
            break
        fence = FenceArg.of(got[0].fence)
        match end:
            case "fail":
                kimi.call(verbs.Fail(fence=fence, note="it broke"))
                spent += 1
            case "expire":
                household.clock.advance(timedelta(minutes=11))
                alice.call(verbs.Sweep())
                spent += 1
            case "release":
                kimi.call(verbs.Release(fence=fence))
            case _:
                kimi.call(verbs.Park(fence=fence, until=household.clock.now(), note="later"))
        household.clock.advance(timedelta(hours=2))
        now = alice.call(verbs.Show(task=task.id)).task
        assert now.attempts == spent
        assert (now.status is Status.DEAD) == (spent == 3)
    dead = alice.call(verbs.List(statuses=(Status.DEAD,)))
    assert task.id in [found.id for found in dead]


# -- 8. cross-user sends ---------------------------------------------------------------------------------


@for_any(agent=st.sampled_from(["kimi", "qwen", "bobs"]), inbox=st.sampled_from(["alice", "bob"]))
def test_an_agent_writes_only_to_the_human_it_answers_to(household: Household, agent: str, inbox: str) -> None:
    """Invariant 8"""
    if "bobs" not in household.people:
        household.agent("bobs", owner="bob")
    owner = "bob" if agent == "bobs" else "alice"
    fabric, before = household.fabric_as(agent), household.tasks()
    if inbox == owner:
        task = submit(fabric, to=inbox)
        assert task.queue == inbox
        household.fabric_as(agent).call(verbs.Cancel(task=task.id))
    else:
        assert refused(fabric, verbs.Submit(title="buy this", to=inbox)) == "cross-user"
        assert household.tasks() == before
        assert household.events("refused")[-1]["rule"] == "cross-user"


def test_an_agents_question_goes_to_nobody_who_has_no_part_in_it(household: Household) -> None:
    """Invariant 8"""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice, to="kimi")
    got = claim(kimi, task)
    ask = verbs.Ask(fence=FenceArg.of(got.fence), note="your bank details?", of="bob")
    assert refused(kimi, ask) == "cross-user"


def test_a_human_writes_into_any_inbox(household: Household) -> None:
    """Invariant 8: a human's own act is his act."""
    assert submit(household.fabric_as("bob"), to="alice").queue == "alice"


# -- 9. silence ------------------------------------------------------------------------------------------


@for_any(days=st.lists(st.integers(1, 4000), min_size=1, max_size=4))
def test_silence_and_sweeps_grant_nothing(household: Household, days: list[int]) -> None:
    """Invariant 9, G10"""
    household.clock.set(NOON)
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    household.projects.set_rules(
        household.project_id("qwen"), SYSTEM, score_check=True, needs_verified=None, human_verify=None
    )
    asked, unrated, judged = submit(alice, to="kimi"), submit(alice, to="qwen"), submit(alice, to="kimi")
    got = claim(kimi, asked)
    kimi.call(verbs.Ask(fence=FenceArg.of(got.fence), note="may I?", auth=True))
    finish(kimi, claim(kimi, judged))
    for some in days:
        household.clock.advance(timedelta(days=some % 400))
        alice.call(verbs.Sweep())
        for name in ("kimi", "qwen"):
            for other in household.fabric_as(name).call(verbs.Claim(limit=100)):
                household.fabric_as(name).call(verbs.Release(fence=FenceArg.of(other.fence)))
    now = [alice.call(verbs.Show(task=task.id)).task.status for task in (asked, unrated, judged)]
    assert now == [Status.WAITING, Status.HELD, Status.DONE]
