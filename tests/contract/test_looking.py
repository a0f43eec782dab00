"""Reading, waiting, files and the doctor, through the fabric."""

from __future__ import annotations

import base64
import threading
from datetime import UTC, datetime, timedelta

import pytest

from taskfabric.domain.errors import BadInput, NotFound
from taskfabric.domain.status import Hindrance, Status
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from tests.contract.acts import claim, finish, refused, submit
from tests.contract.household import Household


def test_who_am_i(household: Household) -> None:
    hello = household.fabric_as("kimi").call(verbs.Hello())
    assert (hello.name, hello.kind, hello.trust, hello.facts["queue"]) == ("kimi", "agent", "sandboxed", "kimi")


def test_a_list_shows_what_is_open_unless_a_status_is_named(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    first, second = submit(alice), submit(alice, to="kimi")
    finish(kimi, claim(kimi, first))
    alice.call(verbs.Verify(task=first.id))
    assert [task.id for task in alice.call(verbs.List())] == [second.id]
    assert [task.id for task in alice.call(verbs.List(statuses=(Status.VERIFIED,)))] == [first.id]
    assert [task.id for task in alice.call(verbs.List(queue="kimi"))] == [second.id]


def test_mine_is_what_one_submitted_holds_or_is_asked(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    held, other = submit(alice), submit(alice)
    claim(kimi, held)
    assert [task.id for task in kimi.call(verbs.List(mine=True))] == [held.id]
    assert [task.id for task in alice.call(verbs.List(mine=True))] == [held.id, other.id]


def test_why_names_the_one_thing_that_holds_a_task(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    household.clock.set(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))
    task = submit(alice, not_before=datetime(2026, 12, 1, tzinfo=UTC))
    why = alice.call(verbs.Why(task=task.id))
    assert why.first is not None
    assert (why.claimable, why.first.kind, why.first.until) == (
        False,
        Hindrance.NOT_BEFORE,
        datetime(2026, 12, 1, tzinfo=UTC),
    )
    ready = submit(alice)
    assert alice.call(verbs.Why(task=ready.id)).claimers == ("kimi", "qwen")
    claim(kimi, ready)
    held = alice.call(verbs.Why(task=ready.id)).first
    assert held is not None
    assert held.text == "kimi has it"


def test_why_says_when_no_agent_fits(household: Household) -> None:
    alice = household.fabric_as("alice")
    why = alice.call(verbs.Why(task=submit(alice, needs=("tools",)).id))
    assert why.first is not None
    assert (why.claimable, why.claimers, why.first.text) == (True, (), "no agent of 'pool' fits: needs tools")


# -- waiting ---------------------------------------------------------------------------------------------


def test_a_wait_for_a_task_ends_when_it_is_done_or_asks(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    done, asks = submit(alice), submit(alice)
    assert not alice.call(verbs.Wait(task=done.id, timeout=0)).happened
    finish(kimi, claim(kimi, done))
    kimi.call(verbs.Ask(fence=FenceArg.of(claim(kimi, asks).fence), note="which?"))
    for task, status in ((done, Status.DONE), (asks, Status.WAITING)):
        found = alice.call(verbs.Wait(task=task.id, timeout=0))
        assert found.task is not None
        assert (found.happened, found.task.status) == (True, status)


def test_a_wait_for_work_ends_when_a_claim_would_get_some(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    look_once = verbs.Wait(timeout=0)
    submit(alice, needs=("tools",))
    assert kimi.call(verbs.Claim()) == []
    assert not kimi.call(look_once).happened
    submit(alice)
    assert kimi.call(look_once).happened
    assert len(kimi.call(verbs.Claim(limit=9))) == 1
    assert not kimi.call(look_once).happened


def test_a_wait_that_runs_out_says_so(household: Household) -> None:
    kimi = household.fabric_as("kimi")
    assert kimi.call(verbs.Wait(timeout=0)).happened is False
    with pytest.raises(NotFound):
        kimi.call(verbs.Wait(queue="qwen", timeout=0))
    with pytest.raises(BadInput):
        kimi.call(verbs.Wait(queue="kimi", task=1, timeout=0))


def test_a_waiting_thread_is_woken_by_new_work(household: Household) -> None:
    """G6"""
    found: list[verbs.Awaited] = []
    kimi = household.fabric_as("kimi")
    waiter = threading.Thread(target=lambda: found.append(kimi.call(verbs.Wait(timeout=30))))
    waiter.start()
    submit(household.fabric_as("alice"))
    waiter.join(timeout=20)
    assert [awaited.happened for awaited in found] == [True]


# -- by hand ---------------------------------------------------------------------------------------------


def test_a_human_ends_his_own_work_without_a_fence_and_closes_it(household: Household) -> None:
    bob = household.fabric_as("bob")
    task = submit(household.fabric_as("alice"), to="bob")
    bob.call(verbs.Claim())
    assert bob.call(verbs.Done(task=task.id, note="did it myself")).status is Status.VERIFIED


def test_finishing_says_something(household: Household) -> None:
    kimi = household.fabric_as("kimi")
    got = claim(kimi, submit(household.fabric_as("alice")))
    for note in ("", " \n "):
        with pytest.raises(BadInput):
            finish(kimi, got, note)


def test_a_task_is_parked_for_a_year_at_most(household: Household) -> None:
    household.clock.set(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))
    kimi = household.fabric_as("kimi")
    fence = FenceArg.of(claim(kimi, submit(household.fabric_as("alice"))).fence)
    with pytest.raises(BadInput):
        kimi.call(verbs.Park(fence=fence, until=datetime(2028, 1, 1, tzinfo=UTC), note="later"))
    parked = kimi.call(verbs.Park(fence=fence, until=datetime(2020, 1, 1, tzinfo=UTC), note="now"))
    assert parked.status is Status.READY


def test_many_finishes_in_one_call_are_answered_one_by_one(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    first, second = claim(kimi, submit(alice)), claim(kimi, submit(alice))
    kimi.call(verbs.Release(fence=FenceArg.of(second.fence)))
    ends = tuple(verbs.End(fence=FenceArg.of(got.fence), note="done") for got in (first, second))
    good, lost = kimi.call(verbs.DoneMany(ends=ends))
    assert getattr(good, "status", None) is Status.DONE
    assert getattr(lost, "code", None) == 4


def test_an_agent_edits_only_what_it_submitted_and_nobody_took(household: Household) -> None:
    alice, kimi, qwen = (household.fabric_as(name) for name in ("alice", "kimi", "qwen"))
    theirs, its = submit(alice), submit(kimi)
    assert refused(kimi, verbs.EditTask(task=theirs.id, priority=3)) == "edit"
    assert kimi.call(verbs.EditTask(task=its.id, title="better")).title == "better"
    claim(qwen, its)
    assert refused(kimi, verbs.EditTask(task=its.id, title="best")) == "edit"
    assert refused(kimi, verbs.Move(task=its.id, column="Done")) == "hand-move"


def test_a_task_moves_to_a_queue_where_its_mover_may_submit(household: Household) -> None:
    alice = household.fabric_as("alice")
    task = submit(alice)
    assert alice.call(verbs.Move(task=task.id, queue="kimi")).queue == "kimi"
    with pytest.raises(NotFound):
        alice.call(verbs.Move(task=task.id, queue="nothing"))
    with pytest.raises(BadInput):
        alice.call(verbs.Move(task=task.id, queue="pool", top=True))
    with pytest.raises(BadInput):
        alice.call(verbs.Move(task=task.id))


# -- files -----------------------------------------------------------------------------------------------


def test_a_file_comes_back_as_it_was_given(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice)
    got = claim(kimi, task)
    file = verbs.FileArg(name="plan.txt", data=base64.b64encode(b"dig").decode())
    kimi.call(verbs.Done(fence=FenceArg.of(got.fence), note="did it", attach=(file,)))
    (listed,) = alice.call(verbs.Show(task=task.id)).attachments
    assert alice.call(verbs.Download(attachment=listed.id)) == file
    with pytest.raises(NotFound):
        household.fabric_as("bob").call(verbs.Download(attachment=listed.id))


@pytest.mark.parametrize(
    "file",
    [
        verbs.FileArg(name="a.txt", data="not base64!"),
        verbs.FileArg(name="../a.txt", data="aGk="),
        verbs.FileArg(name=" ", data="aGk="),
        verbs.FileArg(name="a.txt", data="A" * (14 * 2**20)),
    ],
)
def test_what_is_no_file_is_refused_and_the_task_goes_on(household: Household, file: verbs.FileArg) -> None:
    kimi = household.fabric_as("kimi")
    got = claim(kimi, submit(household.fabric_as("alice")))
    with pytest.raises(BadInput):
        kimi.call(verbs.Done(fence=FenceArg.of(got.fence), note="did it", attach=(file,)))
    assert finish(kimi, got).status is Status.DONE


# -- the doctor ------------------------------------------------------------------------------------------


def test_the_doctor_says_what_could_be_better(household: Household) -> None:
    alice = household.fabric_as("alice")
    found = {check.name: check for check in alice.call(verbs.Doctor())}
    assert found["board"].state == found["queues"].state == found["clock"].state == "ok"
    assert (found["pin"].state, "alice" in found["pin"].text) == ("warn", True)
    household.clock.set(datetime.now(UTC) - timedelta(hours=1))
    alice.call(verbs.SetPin(pin="471100"))
    found = {check.name: check for check in alice.call(verbs.Doctor())}
    assert (found["clock"].state, found["pin"].state) == ("warn", "ok")


def test_the_doctor_tells_others_only_what_is_theirs(household: Household) -> None:
    """G13"""
    names = {check.name for check in household.fabric_as("bob").call(verbs.Doctor())}
    assert not names & {"pin", "queues", "pth"}


def test_a_refusal_is_written_down(household: Household) -> None:
    """G3: every refusal of the hallway is in the journal, with its rule."""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    task = submit(alice)
    finish(kimi, claim(kimi, task))
    assert refused(kimi, verbs.Verify(task=task.id)) == "producer-never-closes"
    (event,) = household.events("refused")
    assert (event["verb"], event["rule"]) == ("verify", "producer-never-closes")
