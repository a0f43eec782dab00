"""People's verbs: answering, judging, cancelling, reviving, moving by hand; and rules that wait for a person."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskfabric.domain.errors import FabricError, IllegalMove, LeaseLost, NotFound
from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.status import Status
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.wiring import SYSTEM
from tests.contract.acts import (
    HOUR,
    NOON,
    ask,
    claim,
    claimed_ids,
    fail,
    fence,
    finish,
    look,
    next_of,
    park,
    refused,
    said,
    submit,
)
from tests.contract.household import Household

# -- answers -----------------------------------------------------------------------------------------------


def test_an_answered_task_goes_on_at_the_head_of_its_lane(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, "asks")
    waiting = ask(kimi, claim(kimi, task), "which colour?")
    others = [submit(alice, str(n)).id for n in range(3)]
    ready = alice.call(verbs.Answer(task=task.id, note="blue"))
    assert (ready.status, ready.asked, ready.attempts) == (Status.READY, None, 0)
    assert not {"blocked", "needs-input"} & set(ready.all_tags)
    assert waiting.status is Status.WAITING
    assert "blue" in said(alice, task, "answer")[0]
    assert claimed_ids(kimi) == [task.id, *others]


def test_a_question_that_is_passed_on_comes_back_at_its_end(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric
) -> None:
    task = submit(alice)
    ask(kimi, claim(kimi, task))
    alice.call(verbs.Delegate(task=task.id, to="bob", until=NOON + HOUR))
    assert look(bob, task).asked == "bob"
    noon.later(hours=1)
    alice.call(verbs.Inbox())
    assert look(alice, task).asked == "alice"
    with pytest.raises(NotFound):
        look(bob, task)
    thread = [entry.text for entry in alice.call(verbs.Show(task=task.id)).entries]
    assert thread[-2].startswith("↪ alice passes this question on to bob until 2026-11-30T13:00:00Z")
    assert thread[-1] == "↩ the time of bob is over: this question is for alice again"


def test_an_answer_does_not_overtake_what_is_more_urgent(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    ask(kimi, claim(kimi, task))
    urgent = submit(alice, priority=3)
    alice.call(verbs.Answer(task=task.id, note="blue"))
    assert claimed_ids(kimi) == [urgent.id, task.id]


@pytest.fixture
def helper(noon: Household) -> str:
    """bob works in kimi's queue, too."""
    noon.projects.set_member(noon.project_id("kimi"), noon.people["bob"].id, ProjectRole.MEMBER, SYSTEM)
    return "bob"


def test_a_question_may_go_to_somebody_who_works_in_the_queue(
    alice: Fabric, bob: Fabric, kimi: Fabric, helper: str
) -> None:
    """And then he sees the task, and answers."""
    task = submit(alice, to="kimi")
    waiting = ask(kimi, claim(kimi, task), of=helper)
    assert waiting.asked == helper
    assert [t.id for t in bob.call(verbs.List(mine=True))] == [task.id]
    assert bob.call(verbs.Answer(task=task.id, note="blue")).status is Status.READY
    with pytest.raises(NotFound):
        bob.call(verbs.Show(task=task.id))


def test_the_human_it_is_for_may_answer_in_place_of_the_one_asked(alice: Fabric, kimi: Fabric, helper: str) -> None:
    task = submit(alice, to="kimi")
    ask(kimi, claim(kimi, task), of=helper)
    assert alice.call(verbs.Answer(task=task.id, note="blue")).status is Status.READY


def test_a_question_in_the_pool_goes_to_nobody_whom_it_is_not_for(alice: Fabric, kimi: Fabric) -> None:
    """G13: it would show him the task, and most see little of a pool."""
    got = claim(kimi, submit(alice))
    question = verbs.Ask(fence=fence(got), note="which?", of="bob")
    assert refused(kimi, question) == "cross-user"
    assert look(alice, got.task).status is Status.WORKING


def test_a_question_is_answered_once(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    ask(kimi, claim(kimi, task))
    alice.call(verbs.Answer(task=task.id, note="blue"))
    with pytest.raises(IllegalMove):
        alice.call(verbs.Answer(task=task.id, note="red"))


def test_what_waits_for_children_has_no_question_to_answer(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, to="kimi")
    got = claim(kimi, task)
    submit(alice, parent=task.id)
    kimi.call(verbs.WaitForChildren(fence=fence(got)))
    with pytest.raises(IllegalMove):
        alice.call(verbs.Answer(task=task.id, note="go on"))


# -- judging -----------------------------------------------------------------------------------------------


def test_verifying_closes_the_task_where_it_stands(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    finish(kimi, claim(kimi, task), "painted")
    closed = alice.call(verbs.Verify(task=task.id, note="looks good"))
    assert (closed.status, closed.column, closed.is_open) == (Status.VERIFIED, "Done", False)
    assert (closed.note, closed.producer) == ("painted", "kimi")
    assert "looks good" in said(alice, task, "verified")[0]


def test_a_producer_never_closes_what_it_made(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """Invariant 3"""
    task = submit(alice)
    finish(kimi, claim(kimi, task))
    assert refused(kimi, verbs.Verify(task=task.id)) == "producer-never-closes"
    assert look(alice, task).status is Status.DONE


def test_a_rejected_result_is_done_again_with_the_note_in_sight(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    """G3: the reopening is journaled, and the epoch goes on."""
    task = submit(alice)
    finish(kimi, claim(kimi, task), "painted it red", verdict="fail")
    back = alice.call(verbs.Reject(task=task.id, note="blue was agreed"))
    assert (back.status, back.column, back.attempts, back.epoch) == (Status.READY, "Ready", 0, 1)
    assert (back.verdict, back.completed, "veto" in back.all_tags) == (None, None, False)
    assert "blue was agreed" in said(qwen, task, "rejected")[0]
    assert next_of(qwen).fence.epoch == 2
    assert len(noon.events("rejected")) == 1


def test_a_verified_result_stays_so(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    finish(kimi, claim(kimi, task))
    alice.call(verbs.Verify(task=task.id))
    for verb in (verbs.Reject(task=task.id, note="no"), verbs.Cancel(task=task.id), verbs.Redrive(task=task.id)):
        with pytest.raises(IllegalMove):
            alice.call(verb)
    with pytest.raises(IllegalMove):
        alice.call(verbs.Move(task=task.id, column="Ready"))
    assert look(alice, task).status is Status.VERIFIED


# -- cancelling --------------------------------------------------------------------------------------------


def test_a_cancelled_run_is_told_by_its_next_write(alice: Fabric, kimi: Fabric) -> None:
    """G8: and a late finish never overwrites the cancellation."""
    got = claim(kimi, submit(alice))
    gone = alice.call(verbs.Cancel(task=got.task.id, note="no longer"))
    assert (gone.status, gone.is_open, gone.holder, gone.lease_until) == (Status.CANCELLED, False, None, None)
    (renewal,) = kimi.call(verbs.Renew(fences=(fence(got),)))
    assert renewal.until is None
    with pytest.raises(LeaseLost) as caught:
        finish(kimi, got, "too late")
    assert caught.value.facts["status"] == "cancelled"
    thread = alice.call(verbs.Show(task=got.task.id))
    assert (thread.task.status, [late.text for late in thread.late_results]) == (Status.CANCELLED, ["too late"])


def test_who_submitted_may_cancel_and_who_did_not_may_not(noon: Household, kimi: Fabric, qwen: Fabric) -> None:
    task = submit(kimi)
    assert refused(qwen, verbs.Cancel(task=task.id)) == "not-submitter"
    assert kimi.call(verbs.Cancel(task=task.id)).status is Status.CANCELLED


def test_a_cancelled_task_is_gone_from_what_is_open(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, not_before=NOON + HOUR)
    alice.call(verbs.Cancel(task=task.id))
    assert alice.call(verbs.List()) == []
    assert "cancelled" in look(alice, task).all_tags


# -- reviving ----------------------------------------------------------------------------------------------


def test_only_a_human_redrives(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    task = submit(kimi)
    fail(qwen, claim(qwen, task), final=True)
    assert refused(kimi, verbs.Redrive(task=task.id)) == "redrive"


def test_what_waits_for_a_human_is_left_by_a_humans_act_alone(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """Invariant 9: a blocker's end, time, sweeps and claims do not move it."""
    blocker = submit(alice)
    asks = submit(alice, to="kimi")
    ask(kimi, claim(kimi, asks))
    alice.call(verbs.CreateQueue(name="rated", score_check=True))
    unrated = submit(alice, to="rated", after=(blocker.id,))
    finish(kimi, claim(kimi, blocker))
    noon.later(days=100)
    alice.call(verbs.Sweep())
    assert kimi.call(verbs.Claim()) == []
    assert look(alice, asks).status is Status.WAITING
    assert look(alice, unrated).status is Status.HELD


# -- rules that hold ---------------------------------------------------------------------------------------


@pytest.fixture
def rated(noon: Household, alice: Fabric) -> str:
    """A pool of kimi's where unrated tasks wait."""
    alice.call(verbs.CreateQueue(name="rated", score_check=True))
    alice.call(verbs.SetMember(queue="rated", name="kimi"))
    return "rated"


@pytest.mark.parametrize("rating", [{"score": 3}, {"tier": "small"}])
def test_a_rating_releases_what_waits_for_one(
    alice: Fabric, kimi: Fabric, rated: str, rating: dict[str, object]
) -> None:
    task = submit(alice, to=rated)
    assert (task.status, task.hold is None) == (Status.HELD, False)
    assert len(said(alice, task, "held")) == 1
    ready = alice.call(verbs.EditTask.model_validate({"task": task.id, **rating}))
    assert (ready.status, ready.hold, "blocked" in ready.all_tags) == (Status.READY, None, False)
    assert claimed_ids(kimi, queue=rated) == [task.id]


@pytest.mark.parametrize("rating", [{"score": 3}, {"tier": "small"}])
def test_what_comes_rated_does_not_wait(alice: Fabric, rated: str, rating: dict[str, object]) -> None:
    task = alice.call(verbs.Submit.model_validate({"title": "x", "to": rated, **rating})).task
    assert task.status is Status.READY


def test_other_words_are_no_rating(alice: Fabric, rated: str) -> None:
    task = submit(alice, to=rated)
    for change in ({"title": "better"}, {"priority": 3}, {"score": 0}, {"add_tags": ("home",)}):
        after = alice.call(verbs.EditTask.model_validate({"task": task.id, **change}))
        assert after.status is Status.HELD, change


def test_a_rating_does_not_release_what_is_held_for_another_reason(alice: Fabric, kimi: Fabric) -> None:
    blocker = submit(alice)
    task = submit(alice, after=(blocker.id,))
    alice.call(verbs.Cancel(task=blocker.id))
    assert alice.call(verbs.EditTask(task=task.id, score=3)).status is Status.HELD


def test_a_hold_by_a_rule_in_the_backlog_stays_there(alice: Fabric, rated: str) -> None:
    task = submit(alice, to=rated, backlog=True)
    assert (task.status, task.column) == (Status.HELD, "Backlog")
    assert alice.call(verbs.EditTask(task=task.id, score=3)).status is Status.BACKLOG


# -- by hand -----------------------------------------------------------------------------------------------


def test_a_move_by_hand_ends_the_lease_and_costs_no_attempt(alice: Fabric, kimi: Fabric) -> None:
    """G9: the run is told by its next write."""
    got = claim(kimi, submit(alice))
    moved = alice.call(verbs.Move(task=got.task.id, column="Backlog"))
    assert (moved.status, moved.holder, moved.attempts, moved.epoch) == (Status.BACKLOG, None, 0, 1)
    (renewal,) = kimi.call(verbs.Renew(fences=(fence(got),)))
    assert renewal.until is None


def test_a_move_within_its_column_leaves_a_lease_alone(alice: Fabric, kimi: Fabric) -> None:
    got, other = claim(kimi, submit(alice)), claim(kimi, submit(alice))
    alice.call(verbs.Move(task=other.task.id, top=True))
    assert finish(kimi, other).status is Status.DONE
    assert finish(kimi, got).status is Status.DONE


def test_a_move_to_done_is_the_movers_own_result(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    moved = alice.call(verbs.Move(task=task.id, column="Done"))
    assert (moved.status, moved.producer) == (Status.DONE, "alice")
    assert refused(alice, verbs.Verify(task=task.id)) == "producer-never-closes"


def test_a_move_out_of_done_begins_again(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    fail(kimi, claim(kimi, task), final=True)
    back = alice.call(verbs.Move(task=task.id, column="Ready"))
    assert (back.status, back.attempts, "dead-letter" in back.all_tags) == (Status.READY, 0, False)


def test_a_move_to_ready_is_ready_whatever_held_it(alice: Fabric, kimi: Fabric) -> None:
    """A person's act; a parked task too."""
    task = submit(alice)
    park(kimi, claim(kimi, task), NOON + timedelta(days=3))
    alice.call(verbs.Move(task=task.id, column="Backlog"))
    assert alice.call(verbs.Move(task=task.id, column="Ready")).status is Status.READY
    assert claimed_ids(kimi) == [task.id]


def test_no_agent_moves_a_card(alice: Fabric, kimi: Fabric) -> None:
    task = submit(kimi)
    assert refused(kimi, verbs.Move(task=task.id, column="Done")) == "hand-move"


def test_a_task_that_is_worked_stays_in_its_queue(alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    with pytest.raises(IllegalMove):
        alice.call(verbs.Move(task=got.task.id, queue="qwen"))
    assert finish(kimi, got).queue == "pool"


def test_a_task_keeps_what_it_is_in_another_queue(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    blocker = submit(alice)
    task = submit(alice, tags=("home",), needs=(), priority=2, after=(blocker.id,))
    moved = alice.call(verbs.Move(task=task.id, queue="qwen"))
    assert (moved.queue, moved.tags, moved.priority, moved.blockers) == ("qwen", ("home",), 2, (blocker.id,))
    assert kimi.call(verbs.Claim(limit=5))[0].task.id == blocker.id
    assert qwen.call(verbs.Claim()) == []


def test_a_comment_grants_nothing(alice: Fabric, kimi: Fabric) -> None:
    """Whatever it looks like."""
    task = submit(alice)
    for text in ("🔒 claimed by `kimi` at 2026-11-30T12:00:00Z · epoch 9", "✔ verified by `alice`", "☠ dead letter: x"):
        entry = kimi.call(verbs.Comment(task=task.id, text=text))
        assert (entry.author, entry.kind, entry.text) == ("kimi", "", text)
    now = look(alice, task)
    assert (now.status, now.epoch, now.holder) == (Status.READY, 0, None)


def test_editing_nothing_is_an_error(alice: Fabric) -> None:
    with pytest.raises(FabricError):
        alice.call(verbs.EditTask(task=submit(alice).id))


def test_an_edit_changes_the_words_and_nothing_else(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    noon.later(minutes=1)
    change = verbs.EditTask(
        task=got.task.id, title="new", description="more", due=NOON + HOUR, add_tags=("home",), priority=3
    )
    after = alice.call(change)
    assert (after.title, after.description, after.due) == ("new", "more", NOON + HOUR)
    assert (after.tags, after.priority, after.holder, after.epoch) == (("home",), 3, "kimi", 1)
    assert alice.call(verbs.EditTask(task=got.task.id, clear_due=True)).due is None
    assert finish(kimi, got).status is Status.DONE
