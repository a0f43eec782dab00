"""Approvals: a run asks and waits without a worker; a human's act, bound to what he was shown, is used once (G10)."""

from __future__ import annotations

from typing import Any

import pytest

from taskfabric.domain.errors import LeaseLost, NeedsHuman, Refused
from taskfabric.domain.principal import ProjectRole, Via
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.inbox_verbs import Inbox
from taskfabric.wiring import SYSTEM
from tests.contract.acts import NOON, claim, fail, fence, look, refused, said, status, submit
from tests.contract.approving import (
    MAIL,
    PIN,
    again,
    approve,
    asked,
    asks,
    at_the_door,
    consume,
    deny,
    keeper_of,
    not_his,
    stands,
    with_pin,
)
from tests.contract.household import Household

# -- asking ------------------------------------------------------------------------------------------------


def test_a_run_that_asks_waits_and_holds_no_worker(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task, approval = asked(noon)
    waiting = look(alice, task)
    assert (waiting.status, waiting.holder, waiting.asked) == (Status.WAITING, None, "alice")
    assert (approval["state"], approval["allowed"], approval["level"]) == ("pending", False, "confirm")
    gate = alice.call(verbs.Show(task=approval["task"])).task
    assert (gate.queue, gate.submitter, gate.due is not None) == ("alice", "fabric", True)
    assert "bank@example.org" in gate.description


def test_a_run_asks_with_its_own_token_and_needs_no_fence(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, to="kimi")
    assert asks(noon.in_run("kimi", claim(kimi, task)))["for"] == task.id
    assert status(alice, task) is Status.WAITING


def test_why_names_the_decision_that_a_task_waits_for_and_until_when(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, to="kimi")
    asked = asks(kimi, claim(kimi, task))
    first = alice.call(verbs.Why(task=task.id)).first
    assert first is not None
    assert f"a decision of alice: `fabric inbox` has it as #{asked['task']}" in first.text
    assert first.until is not None
    assert first.until.isoformat() == asked["expires"].replace("Z", "+00:00")


def test_what_only_reads_needs_nobody_and_what_can_be_undone_is_written_down(noon: Household, kimi: Fabric) -> None:
    assert asks(kimi, action="read.mail", args={})["allowed"]
    assert noon.events("action-allowed") == []
    assert asks(kimi, action="note.add", args={"text": "x"})["allowed"]
    assert [event["action"] for event in noon.events("action-allowed")] == ["note.add"]


def test_a_request_may_raise_its_level_and_never_lowers_it(noon: Household, kimi: Fabric) -> None:
    assert asks(kimi, action="note.add", args={}, level="secure")["level"] == "secure"
    assert asks(kimi, action="pay.invoice", args={}, level="logged")["level"] == "secure"


def test_an_amount_above_the_bound_needs_a_pin(noon: Household, kimi: Fabric) -> None:
    assert asks(kimi, args={**MAIL, "amount": 50})["level"] == "confirm"
    assert asks(kimi, args={**MAIL, "amount": 50.01})["level"] == "secure"
    assert asks(kimi, args={**MAIL, "amount": "about ninety"})["level"] == "secure"


def test_what_a_worker_makes_of_a_run_that_waits_is_no_result(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G3: the run has ended itself by asking; its program's exit code says nothing more."""
    got = claim(kimi, submit(alice, to="kimi"))
    asks(kimi, got)
    with pytest.raises(LeaseLost):
        fail(kimi, got, "exit code 7")
    assert alice.call(verbs.Show(task=got.task.id)).late_results == ()


def test_an_approval_whose_decider_has_no_open_inbox_is_decided_under_the_number_of_its_task(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    inbox = noon.projects.queue("alice")
    assert inbox is not None
    noon.projects.set_active(inbox.project_id, False, SYSTEM)
    task, approval = asked(noon)
    assert approval["task"] == task.id
    assert [f"(#{task.id})" in line for line in said(alice, task, "question")] == [True]
    [item] = alice.call(Inbox())["items"]
    assert (item["kind"], item["ref"]) == ("approval", str(task.id))
    why = alice.call(verbs.Why(task=task.id)).first
    assert why is not None
    assert f"#{task.id}" in why.text
    assert approve(at_the_door(noon), approval)["state"] == "approved"
    assert status(alice, task) is Status.READY
    assert refused(kimi, verbs.RequestApproval(action="mail.send", args=MAIL)) == "no-inbox"
    assert noon.ground.rows("SELECT count(*) FROM approvals") == [(1,)]


def test_a_stale_run_asks_nothing(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice, to="kimi"))
    kimi.call(verbs.Release(fence=fence(got)))
    with pytest.raises(LeaseLost):
        asks(kimi, got)
    assert noon.ground.rows("SELECT count(*) FROM approvals") == [(0,)]


def test_asking_twice_outside_a_run_asks_once(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    first, second = asks(kimi), asks(kimi)
    assert first["id"] == second["id"]
    assert noon.ground.rows("SELECT count(*) FROM approvals") == [(1,)]


def test_a_human_needs_nobody_for_what_he_does_himself(noon: Household, alice: Fabric) -> None:
    assert refused(alice, verbs.RequestApproval(action="mail.send", args=MAIL)) == "own-act"


# -- deciding ----------------------------------------------------------------------------------------------


def test_a_yes_wakes_the_run_which_is_told_what_was_decided(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task, approval = asked(noon)
    got = approve(at_the_door(noon), approval, note="go on")
    assert (got["state"], got["decided_by"], got["decided_args"], got["via"]) == ("approved", "alice", MAIL, "session")
    assert status(alice, task) is Status.READY
    assert "yes, by alice: go on" in said(alice, task, "answer")[0]
    gate = alice.call(verbs.Show(task=approval["task"])).task
    assert (gate.status, gate.verdict) == (Status.VERIFIED, "pass")
    run, answer = again(noon, task)
    assert (answer["allowed"], answer["decided_args"]) == (True, MAIL)
    assert consume(run, answer)["consumed_at"] is not None


def test_a_yes_that_comes_before_the_run_has_ended_wakes_it_all_the_same(
    noon: Household, alice: Fabric, kimi: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, settle = claim(kimi, submit(alice, to="kimi")), noon.board.settle

    def late(*args: Any) -> Task:
        monkeypatch.undo()
        [pending] = alice.call(verbs.ListApprovals())
        assert approve(at_the_door(noon), pending)["state"] == "approved"
        return settle(*args)

    monkeypatch.setattr(noon.board, "settle", late)
    assert asks(kimi, task)["allowed"]
    assert status(alice, task.task) is Status.READY


def test_an_approval_is_used_once(noon: Household) -> None:
    """G10"""
    task, approval = asked(noon)
    approve(at_the_door(noon), approval)
    run, answer = again(noon, task)
    consume(run, answer)
    assert refused(run, verbs.Consume(approval=answer["id"], args=MAIL)) == "unusable"


def test_what_was_used_is_asked_for_anew(noon: Household, alice: Fabric) -> None:
    task, approval = asked(noon)
    approve(at_the_door(noon), approval)
    run, answer = again(noon, task)
    consume(run, answer)
    other = asks(run)
    assert (other["id"] != approval["id"], other["state"]) == (True, "pending")
    assert status(alice, task) is Status.WAITING


def test_changed_arguments_need_another_decision(noon: Household) -> None:
    """G10"""
    task, approval = asked(noon)
    approve(at_the_door(noon), approval)
    run, answer = again(noon, task)
    for changed in ({**MAIL, "to": "thief@example.org"}, {**MAIL, "cc": "x"}, {"to": MAIL["to"]}):
        assert refused(run, verbs.Consume(approval=answer["id"], args=changed)) == "changed"
    assert consume(run, answer)["consumed_at"] is not None


def test_a_yes_to_something_else_than_was_shown_is_refused(noon: Household) -> None:
    """G10: bound to the hash of what was shown."""
    _, approval = asked(noon)
    assert refused(at_the_door(noon), verbs.Approve(task=approval["task"], seen="0" * 64)) == "seen"
    assert stands(at_the_door(noon), approval) == "pending"


def test_an_edited_yes_is_good_for_the_edited_arguments_only(noon: Household, alice: Fabric) -> None:
    task, approval = asked(noon)
    other = {**MAIL, "text": "kindly"}
    got = approve(at_the_door(noon), approval, args=other)
    assert (got["state"], got["args"], got["decided_args"]) == ("edited-approved", MAIL, other)
    assert "kindly" in said(alice, task, "answer")[0]
    run, answer = again(noon, task)
    assert (answer["state"], answer["decided_args"]) == ("edited-approved", other)
    assert refused(run, verbs.Consume(approval=answer["id"], args=MAIL)) == "changed"
    consume(run, answer, other)


def test_an_edit_that_raises_the_level_needs_the_pin(noon: Household) -> None:
    _, approval = asked(noon)
    with pytest.raises(NeedsHuman):
        approve(at_the_door(noon), approval, args={**MAIL, "amount": 100})


def test_a_no_is_told_with_its_reason_and_stands_in_its_task(noon: Household, alice: Fabric) -> None:
    task, approval = asked(noon)
    assert deny(at_the_door(noon), approval, "not this month")["state"] == "denied"
    run, answer = again(noon, task, again=True)
    assert (answer["state"], answer["allowed"], answer["note"]) == ("denied", False, "not this month")
    assert refused(run, verbs.Consume(approval=answer["id"], args=MAIL)) == "unusable"
    assert status(alice, task) is Status.WORKING


def test_of_two_decisions_the_first_is_final(noon: Household) -> None:
    """G10"""
    _, approval = asked(noon)
    alice = at_the_door(noon)
    deny(alice, approval)
    assert refused(alice, verbs.Approve(task=approval["task"], seen=approval["hash"])) == "decided"
    assert stands(alice, approval) == "denied"


def test_another_request_of_the_same_task_supersedes_the_first(noon: Household, alice: Fabric) -> None:
    task, first = asked(noon)
    alice.call(verbs.Move(task=task.id, column="Ready"))
    _, second = again(noon, task, args={**MAIL, "text": "now"})
    assert stands(at_the_door(noon), first) == "superseded"
    assert refused(at_the_door(noon), verbs.Approve(task=first["task"], seen=first["hash"])) == "decided"
    assert alice.call(verbs.Show(task=first["task"])).task.status is Status.CANCELLED
    approve(at_the_door(noon), second)


def test_who_asked_may_withdraw(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    approval = asks(kimi)
    assert kimi.call(verbs.Withdraw(approval=approval["id"]))["state"] == "withdrawn"
    assert refused(at_the_door(noon), verbs.Approve(task=approval["task"], seen=approval["hash"])) == "decided"


# -- who decides -------------------------------------------------------------------------------------------


def test_who_asks_and_other_agents_decide_nothing(noon: Household, kimi: Fabric, qwen: Fabric) -> None:
    """Invariant 4"""
    _, approval = asked(noon)
    for agent in (kimi, qwen):
        not_his(agent, verbs.Approve(task=approval["task"], seen=approval["hash"]))
        not_his(agent, verbs.Deny(task=approval["task"], note="x"))


def test_a_run_of_the_human_himself_decides_nothing(noon: Household, alice: Fabric) -> None:
    """Invariant 5"""
    _, approval = asked(noon)
    run = noon.in_run("alice", claim(alice, submit(alice, to="alice")))
    assert refused(run, verbs.Approve(task=approval["task"], seen=approval["hash"])) == "in-run"


def test_the_machine_s_credential_decides_only_with_the_pin(noon: Household) -> None:
    """An agent's program on the owner's machine has it, too."""
    with_pin(noon)
    _, approval = asked(noon)
    for via in (Via.LOCAL, Via.TOKEN):
        alice = noon.fabric_as("alice", via=via)
        with pytest.raises(NeedsHuman):
            approve(alice, approval)
        with pytest.raises(NeedsHuman):
            deny(alice, approval)
    got = approve(noon.fabric_as("alice", via=Via.LOCAL), approval, pin=PIN)
    assert (got["state"], got["via"]) == ("approved", "pin")


def test_what_is_secure_needs_the_pin_in_a_web_session_too(noon: Household) -> None:
    with_pin(noon)
    _, approval = asked(noon, action="pay.invoice")
    alice = at_the_door(noon)
    with pytest.raises(NeedsHuman):
        approve(alice, approval)
    assert refused(alice, verbs.Approve(task=approval["task"], seen=approval["hash"], pin="000000")) == "pin"
    assert approve(alice, approval, pin=PIN)["state"] == "approved"


def test_five_wrong_pins_lock_it_and_the_right_one_waits_as_well(noon: Household) -> None:
    with_pin(noon)
    _, approval = asked(noon, action="pay.invoice")
    alice = at_the_door(noon)
    for _ in range(5):
        assert refused(alice, verbs.Approve(task=approval["task"], seen=approval["hash"], pin="000000")) == "pin"
    assert refused(alice, verbs.Approve(task=approval["task"], seen=approval["hash"], pin=PIN)) == "pin-locked"
    noon.later(minutes=16)
    assert approve(alice, approval, pin=PIN)["state"] == "approved"


def test_several_are_approved_together_each_with_its_receipt(noon: Household) -> None:
    _, one = asked(noon)
    _, two = asked(noon, args={**MAIL, "text": "two"})
    items = tuple({"task": a["task"], "seen": a["hash"]} for a in (one, two))
    got = at_the_door(noon).call(verbs.ApproveMany(items=items))  # type: ignore[arg-type]
    assert [a["state"] for a in got] == ["approved", "approved"]


def test_what_is_secure_is_in_no_batch_and_then_nothing_is_decided(noon: Household) -> None:
    with_pin(noon)
    _, one = asked(noon)
    _, two = asked(noon, action="pay.invoice")
    items = tuple({"task": a["task"], "seen": a["hash"]} for a in (one, two))
    alice = at_the_door(noon)
    assert refused(alice, verbs.ApproveMany(items=items, pin=PIN)) == "batch"  # type: ignore[arg-type]
    assert [stands(alice, a) for a in (one, two)] == ["pending", "pending"]


# -- by comment --------------------------------------------------------------------------------------------


def test_a_comment_with_a_human_s_own_credential_decides(noon: Household, alice: Fabric) -> None:
    task, approval = asked(noon)
    alice.call(verbs.Comment(task=approval["task"], text="/approve"))
    assert stands(alice, approval) == "approved"
    other, denied = asked(noon, args={**MAIL, "text": "x"})
    alice.call(verbs.Comment(task=other.id, text="/deny not now"))
    assert alice.call(verbs.ShowApproval(approval=denied["id"]))["note"] == "not now"
    assert (status(alice, task), status(alice, other)) == (Status.READY, Status.READY)


def test_a_yes_is_said_on_the_gate_which_is_one_request_s_and_not_on_the_task_that_waits(
    noon: Household, alice: Fabric
) -> None:
    """G10: on the task it may be a later request than the one that he has read."""
    task, approval = asked(noon)
    assert refused(alice, verbs.Comment(task=task.id, text="/approve")) == "seen"
    assert stands(alice, approval) == "pending"


def test_the_words_of_a_gate_are_changed_by_nobody_while_it_is_open(noon: Household, alice: Fabric) -> None:
    """G10: they are what he reads before he decides."""
    _, approval = asked(noon)
    before = alice.call(verbs.Show(task=approval["task"])).task.description
    noon.projects.set_member(noon.project_id("alice"), noon.people["bob"].id, ProjectRole.MEMBER, SYSTEM)
    for name in ("alice", "bob"):
        verb = verbs.EditTask(task=approval["task"], description="water the plants")
        assert refused(noon.fabric_as(name), verb) == "approval"
    assert alice.call(verbs.Show(task=approval["task"])).task.description == before


def test_what_differs_only_in_its_kind_is_another_request(noon: Household, kimi: Fabric) -> None:
    approval = asks(kimi, args={"lamp": 1}, action="home.lamp", level="confirm")
    made = approve(at_the_door(noon), approval, args={"lamp": True})
    assert (made["state"], made["decided_args"]) == ("edited-approved", {"lamp": True})


def test_after_a_restore_no_yes_of_the_copy_is_used_and_no_grant_of_it_counts(noon: Household, kimi: Fabric) -> None:
    """G10: what was used or revoked since the copy was made is not known there."""
    approval = asks(kimi)
    approve(at_the_door(noon), approval, always=True)
    noon.ground.rows("SELECT fabric_lift_epochs()")
    assert refused(kimi, verbs.Consume(approval=approval["id"], args=MAIL)) == "unusable"
    assert asks(kimi)["state"] == "pending"
    assert asks(kimi, args={**MAIL, "text": "again"})["state"] == "pending"


def test_a_gate_is_not_closed_over_kanboards_api(noon: Household, alice: Fabric) -> None:
    _, approval = asked(noon)
    with pytest.raises(Refused, match="decides nothing"):
        noon.hallway.cards.close(noon.caller("alice"), approval["task"])
    assert stands(alice, approval) == "pending"


def test_a_comment_over_kanboards_api_that_cannot_decide_says_where(noon: Household, alice: Fabric) -> None:
    _, secure = asked(noon, action="pay.invoice")
    me = noon.caller("alice")
    with pytest.raises(NeedsHuman, match="PIN"):
        noon.hallway.annex.create_comment(me, secure["task"], me.principal.id, "/approve", "", "app-user")
    assert stands(alice, secure) == "pending"


def test_a_comment_decides_nothing_for_an_agent_or_with_the_machine_s_credential(noon: Household, kimi: Fabric) -> None:
    task, approval = asked(noon)
    kimi.call(verbs.Comment(task=task.id, text="/approve"))
    local = noon.fabric_as("alice", via=Via.LOCAL)
    assert refused(local, verbs.Comment(task=approval["task"], text="/approve")) == "decision"
    assert stands(local, approval) == "pending"


def test_a_comment_does_not_decide_what_needs_a_pin(noon: Household, alice: Fabric) -> None:
    _, approval = asked(noon, action="pay.invoice")
    assert refused(alice, verbs.Comment(task=approval["task"], text="/approve")) == "pin"
    assert stands(alice, approval) == "pending"


# -- the gate is no way around ------------------------------------------------------------------------------


def test_a_gate_that_is_done_cancelled_or_answered_by_hand_decides_nothing(noon: Household, alice: Fabric) -> None:
    """G10"""
    task, approval = asked(noon)
    gate = approval["task"]
    assert refused(alice, verbs.Done(task=gate, note="fine")) == "approval"
    assert refused(alice, verbs.Cancel(task=gate)) == "approval"
    assert refused(alice, verbs.Answer(task=task.id, note="fine")) == "approval"
    alice.call(verbs.Move(task=gate, column="Done"))
    assert stands(alice, approval) == "pending"
    assert status(alice, task) is Status.WAITING
    approve(at_the_door(noon), approval)
    assert status(alice, task) is Status.READY


def test_a_waiting_run_that_is_moved_on_by_hand_has_no_yes(noon: Household, alice: Fabric) -> None:
    """G10"""
    task, approval = asked(noon)
    alice.call(verbs.Move(task=task.id, column="Ready"))
    _, answer = again(noon, task)
    assert (answer["id"], answer["allowed"]) == (approval["id"], False)
    assert status(alice, task) is Status.WAITING


def test_a_cancelled_task_takes_its_request_with_it(noon: Household, alice: Fabric) -> None:
    task, approval = asked(noon)
    alice.call(verbs.Cancel(task=task.id))
    assert refused(at_the_door(noon), verbs.Approve(task=approval["task"], seen=approval["hash"])) == "decided"
    assert stands(at_the_door(noon), approval) == "withdrawn"


# -- time --------------------------------------------------------------------------------------------------


def test_time_that_runs_out_is_no_yes_and_no_human_s_no_and_wakes_nobody(noon: Household, alice: Fabric) -> None:
    """G10"""
    task, approval = asked(noon)
    noon.later(days=2)
    counts = keeper_of(noon).call(verbs.Tend())
    assert counts["expired"] == 1
    got = alice.call(verbs.ShowApproval(approval=approval["id"]))
    assert (got["state"], got["decided_by"], got["allowed"]) == ("expired", None, False)
    assert status(alice, task) is Status.WAITING
    assert refused(at_the_door(noon), verbs.Approve(task=approval["task"], seen=approval["hash"])) == "expired"
    alice.call(verbs.Answer(task=task.id, note="go on without"))
    run, answer = again(noon, task)
    assert (answer["state"], answer["allowed"]) == ("expired", False)
    assert asks(run, again=True)["state"] == "pending"


def test_a_late_yes_finds_it_expired_whether_a_keeper_ran_or_not(noon: Household) -> None:
    """G10, G7"""
    _, approval = asked(noon)
    noon.later(days=2)
    assert refused(at_the_door(noon), verbs.Approve(task=approval["task"], seen=approval["hash"])) == "expired"


def test_what_was_approved_is_not_good_for_ever(noon: Household) -> None:
    task, approval = asked(noon)
    approve(at_the_door(noon), approval)
    noon.later(days=2)
    _, answer = again(noon, task)
    assert (answer["id"] != approval["id"], answer["state"]) == (True, "pending")


def test_the_keeper_decides_nothing(noon: Household) -> None:
    """G10"""
    _, approval = asked(noon)
    keeper = keeper_of(noon)
    for hours in range(47):
        noon.at(NOON)
        noon.later(hours=hours)
        keeper.call(verbs.Tend())
        assert stands(noon.fabric_as("alice"), approval) == "pending"
    not_his(keeper, verbs.Approve(task=approval["task"], seen=approval["hash"]))


def test_what_a_crash_left_half_told_is_finished_and_nothing_more(noon: Household, alice: Fabric) -> None:
    """G5: the decision is kept first; gate and waiting task are told by the next round."""
    task, approval = asked(noon)
    noon.ground.rows(
        "UPDATE approvals SET state = 'denied', decided_by = %s, decided_at = fabric_now(), note = 'no' RETURNING id",
        noon.people["alice"].id,
    )
    assert keeper_of(noon).call(verbs.Tend())["told"] == 1
    assert status(alice, task) is Status.READY
    assert alice.call(verbs.Show(task=approval["task"])).task.status is Status.VERIFIED
    assert keeper_of(noon).call(verbs.Tend())["told"] == 0
