"""The inbox: what waits for a human, and nothing of what waits for another (G13)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from taskfabric.domain.errors import BadInput, IllegalMove, NotFound
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from tests.contract.acts import HOUR, NOON, ask, claim, fail, finish, look, refused, submit
from tests.contract.approving import MAIL, approve, asked, asks, at_the_door, deny, keeper_of, not_his, with_pin
from tests.contract.household import Household


def inbox(fabric: Fabric, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fabric.call(verbs.Inbox(**more))["items"]
    return found


def kinds(fabric: Fabric, **more: Any) -> list[tuple[str, str]]:
    return [(item["kind"], item["ref"]) for item in inbox(fabric, **more)]


def test_everything_that_waits_for_him_is_in_it_oldest_first(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    mine = submit(alice, "fix the tap", to="alice")
    noon.later(minutes=1)
    question = ask(kimi, claim(kimi, submit(alice, to="kimi")))
    noon.later(minutes=1)
    _, approval = asked(noon)
    noon.later(minutes=1)
    done = finish(kimi, claim(kimi, submit(alice, to="kimi")))
    noon.later(minutes=1)
    dead = fail(kimi, claim(kimi, submit(alice, to="kimi")), final=True)
    assert kinds(alice) == [
        ("work", str(mine.id)),
        ("question", str(question.id)),
        ("approval", str(approval["task"])),
        ("verify", str(done.id)),
        ("dead", str(dead.id)),
    ]


def test_what_is_new_is_seen_behind_a_thousand_that_are_old(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    for _ in range(11):
        alice.call(verbs.SubmitMany(tasks=tuple(verbs.Submit(title="for an agent", to="kimi") for _ in range(100))))
    mine = submit(alice, "fix the tap", to="alice")
    question = ask(kimi, claim(kimi, submit(alice, to="kimi")))
    assert {ref for _, ref in kinds(alice)} == {str(mine.id), str(question.id)}


MANY: Final = 1010


def many_pending(home: Household) -> None:
    """More requests for alice than any page holds, as they stand in the tables."""
    home.ground.rows(
        "WITH made AS (INSERT INTO approvals (action, args, hash, level, requester_id, gate_id, expires)"
        " SELECT 'mail.send', '{}', lpad(n::text, 64, '0'), 2, %s, 1000000 + n, fabric_now() + interval '1 day'"
        " FROM generate_series(1, %s) n RETURNING id)"
        " INSERT INTO approval_deciders (approval_id, user_id, how) SELECT id, %s, 'asked' FROM made RETURNING 1",
        home.people["kimi"].id,
        MANY,
        home.people["alice"].id,
    )


def test_however_many_decisions_wait_all_of_them_are_shown(noon: Household, alice: Fabric) -> None:
    many_pending(noon)
    assert len(inbox(alice)) == MANY


def test_whoever_decides_meanwhile_has_all_of_them_however_many(noon: Household, alice: Fabric, bob: Fabric) -> None:
    many_pending(noon)
    alice.call(verbs.Vacation(until=NOON + HOUR, to="bob"))
    assert len(inbox(bob)) == MANY


def test_the_keeper_reminds_of_all_that_is_pending_and_not_only_of_what_expires_first(noon: Household) -> None:
    many_pending(noon)
    noon.later(hours=7)
    keeper = keeper_of(noon)
    assert [keeper.call(verbs.Tend())["reminded"] for _ in range(2)] == [MANY, 0]


def test_an_item_says_what_happens_on_yes_no_and_silence(noon: Household, alice: Fabric) -> None:
    _, approval = asked(noon, why="the invoice is due")
    (item,) = inbox(alice)
    assert (item["who"], item["why"], item["until"]) == ("kimi", "the invoice is due", approval["expires"])
    assert item["on_yes"] == "kimi may do exactly this, once"
    assert "expires: nothing is done" in item["on_silence"]
    assert item["approval"]["args"] == MAIL
    assert item["approval"]["may_decide"]


def test_what_is_decided_is_gone(noon: Household, alice: Fabric) -> None:
    _, approval = asked(noon)
    approve(at_the_door(noon), approval)
    assert inbox(alice) == []


def test_what_has_expired_waits_as_a_question_whether_a_keeper_ran_or_not(noon: Household, alice: Fabric) -> None:
    task, _ = asked(noon)
    noon.later(days=2)
    assert kinds(alice) == [("question", str(task.id))]
    keeper_of(noon).call(verbs.Tend())
    assert kinds(alice) == [("question", str(task.id))]


def test_what_is_put_off_comes_back_by_itself(noon: Household, alice: Fabric) -> None:
    mine = submit(alice, to="alice")
    alice.call(verbs.Snooze(task=mine.id, until=NOON + HOUR))
    assert inbox(alice) == []
    assert alice.call(verbs.Inbox())["snoozed"] == 1
    assert kinds(alice, snoozed=True) == [("work", str(mine.id))]
    noon.later(hours=1)
    assert kinds(alice) == [("work", str(mine.id))]


def test_putting_off_stops_no_expiry(noon: Household, alice: Fabric) -> None:
    """G10"""
    _, approval = asked(noon)
    alice.call(verbs.Snooze(task=approval["task"], until=NOON + 100 * HOUR))
    noon.later(days=2)
    assert keeper_of(noon).call(verbs.Tend())["expired"] == 1


def test_work_is_handed_to_another_human(noon: Household, alice: Fabric, bob: Fabric) -> None:
    mine = submit(alice, to="alice")
    assert alice.call(verbs.Delegate(task=mine.id, to="bob", note="you know how"))["kind"] == "work"
    assert kinds(bob) == [("work", str(mine.id))]
    assert look(bob, mine).queue == "bob"


def test_a_question_is_passed_on_and_whoever_sent_the_task_reads_so(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric
) -> None:
    task = ask(kimi, claim(kimi, submit(alice, to="kimi")))
    assert alice.call(verbs.Delegate(task=task.id, to="bob", note="your tap"))["kind"] == "question"
    assert kinds(bob) == [("question", str(task.id))]
    assert kinds(alice) == []
    words = [entry.text for entry in alice.call(verbs.Show(task=task.id)).entries]
    assert "↪ alice passes this question on to bob until 2026-12-07T12:00:00Z: your tap" in words
    assert bob.call(verbs.Answer(task=task.id, note="the left one")).status is Status.READY


def test_a_question_is_passed_on_only_by_whom_it_is_for(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric
) -> None:
    task = ask(kimi, claim(kimi, submit(alice, to="kimi")))
    alice.call(verbs.Delegate(task=task.id, to="bob"))
    assert refused(alice, verbs.Delegate(task=task.id, to="bob")) == "delegate"
    alice.call(verbs.Answer(task=task.id, note="the left one"))
    assert refused(alice, verbs.Delegate(task=task.id, to="bob")) == "delegate"


def lent(home: Household, kimi: Fabric) -> Task:
    """A question of alice's that bob is asked for an hour."""
    task = ask(kimi, claim(kimi, submit(home.fabric_as("alice"), to="kimi")))
    home.fabric_as("alice").call(verbs.Delegate(task=task.id, to="bob", until=NOON + HOUR))
    return task


def test_whoever_decides_in_another_s_place_reads_whose_it_is_and_is_offered_only_what_he_may(
    noon: Household, alice: Fabric, bob: Fabric
) -> None:
    _, approval = asked(noon)
    alice.call(verbs.Delegate(task=approval["task"], to="bob", until=NOON + HOUR))
    (item,) = inbox(bob)
    assert item["delegated"] == {"by": "alice", "until": "2026-11-30T13:00:00Z"}
    assert (item["opens"], "delegate" in item["actions"]) == (False, False)
    (mine,) = inbox(alice)
    assert (mine["delegated"], mine["opens"], "delegate" in mine["actions"]) == (None, True, True)


def test_whoever_has_a_question_in_another_s_place_reads_whose_it_is_and_until_when(
    noon: Household, bob: Fabric, kimi: Fabric
) -> None:
    lent(noon, kimi)
    (item,) = inbox(bob)
    assert item["delegated"] == {"by": "alice", "until": "2026-11-30T13:00:00Z"}
    assert item["until"] == "2026-11-30T13:00:00Z"
    assert item["on_silence"] == "at 2026-11-30T13:00:00Z the question is for alice again"


def test_after_its_end_a_question_is_again_for_who_passed_it_on_whether_a_keeper_ran_or_not(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric
) -> None:
    task = lent(noon, kimi)
    noon.later(hours=1)
    assert not_his(bob, verbs.Answer(task=task.id, note="the left one")) == not_his(bob, verbs.Show(task=task.id))
    assert kinds(bob) == []
    assert kinds(alice) == [("question", str(task.id))]
    words = [entry.text for entry in alice.call(verbs.Show(task=task.id)).entries]
    assert "↩ the time of bob is over: this question is for alice again" in words
    assert alice.call(verbs.Answer(task=task.id, note="the right one")).status is Status.READY


def test_the_keeper_gives_a_question_back_once(noon: Household, kimi: Fabric) -> None:
    lent(noon, kimi)
    keeper = keeper_of(noon)
    assert keeper.call(verbs.Tend())["taken_back"] == 0
    noon.later(hours=1)
    assert [keeper.call(verbs.Tend())["taken_back"] for _ in range(2)] == [1, 0]
    assert noon.events("passed-back") == [{"from": "bob", "to": "alice"}]


def test_an_answer_ends_it_and_the_end_of_one_question_is_not_that_of_a_later_one(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric
) -> None:
    task = lent(noon, kimi)
    bob.call(verbs.Answer(task=task.id, note="the left one"))
    ask(kimi, claim(kimi, task))
    alice.call(verbs.Delegate(task=task.id, to="bob", until=NOON + 3 * HOUR))
    noon.later(hours=2)
    assert keeper_of(noon).call(verbs.Tend())["taken_back"] == 0
    assert look(bob, task).asked == "bob"


def test_who_has_a_question_in_another_s_place_passes_it_on_no_further(
    noon: Household, bob: Fabric, kimi: Fabric
) -> None:
    task = lent(noon, kimi)
    assert refused(bob, verbs.Delegate(task=task.id, to="alice")) == "delegate"


def test_what_is_passed_on_has_an_end_that_is_to_come(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = ask(kimi, claim(kimi, submit(alice, to="kimi")))
    mine = submit(alice, to="alice")
    for number, until in ((task.id, NOON), (task.id, NOON + 10_000 * HOUR), (mine.id, NOON + HOUR)):
        with pytest.raises(BadInput):
            alice.call(verbs.Delegate(task=number, to="bob", until=until))
    assert set(kinds(alice)) == {("question", str(task.id)), ("work", str(mine.id))}


def test_a_decision_that_is_passed_on_until_then_is_only_his_own_afterwards(
    noon: Household, alice: Fabric, bob: Fabric
) -> None:
    _, approval = asked(noon)
    got = alice.call(verbs.Delegate(task=approval["task"], to="bob", until=NOON + HOUR))
    assert got["until"] == "2026-11-30T13:00:00Z"
    (item,) = inbox(bob)
    assert [(d["name"], d["until"]) for d in item["approval"]["deciders"]] == [("alice", None), ("bob", got["until"])]
    noon.later(hours=1)
    assert kinds(bob) == []
    not_his(at_the_door(noon, "bob"), verbs.Approve(task=approval["task"], seen=approval["hash"]))
    assert kinds(alice) == [("approval", str(approval["task"]))]


def test_what_is_private_is_passed_on_to_nobody(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, to="kimi", label="private")
    question = ask(kimi, claim(kimi, task))
    assert refused(alice, verbs.Delegate(task=question.id, to="bob")) == "private"
    alice.call(verbs.Answer(task=task.id, note="the left one"))
    approval = asks(kimi, claim(kimi, task), level="confirm", action="home.light", args={"on": True})
    assert refused(alice, verbs.Delegate(task=approval["task"], to="bob")) == "private"


def test_a_child_of_what_is_private_is_private(alice: Fabric) -> None:
    task = submit(alice, to="kimi", label="private")
    assert submit(alice, to="kimi", parent=task.id, label="household").label == "private"


def test_several_are_verified_each_by_itself(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    done = finish(kimi, claim(kimi, submit(alice, to="kimi")))
    open_still = submit(alice, to="kimi")
    verified, refusal = alice.call(verbs.VerifyMany(tasks=(done.id, open_still.id)))
    assert isinstance(verified, Task)
    assert verified.status is Status.VERIFIED
    assert isinstance(refusal, IllegalMove)
    with pytest.raises(BadInput):
        alice.call(verbs.VerifyMany(tasks=(done.id, done.id)))


def test_several_are_put_off_at_once_or_none_of_them(noon: Household, alice: Fabric) -> None:
    first, second = submit(alice, to="alice"), submit(alice, to="alice")
    with pytest.raises(NotFound):
        alice.call(verbs.SnoozeMany(tasks=(first.id, 10**9), until=NOON + HOUR))
    assert len(inbox(alice)) == 2
    assert len(alice.call(verbs.SnoozeMany(tasks=(first.id, second.id), until=NOON + HOUR))) == 2
    assert inbox(alice) == []


def test_an_agent_has_no_inbox(noon: Household, kimi: Fabric) -> None:
    assert refused(kimi, verbs.Inbox()) == "inbox"


# -- nothing of another's (G13) ------------------------------------------------------------------------------------


def test_an_inbox_shows_nothing_of_another_s(noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric) -> None:
    """G13"""
    submit(alice, "the surprise party", to="alice")
    ask(kimi, claim(kimi, submit(alice, "the surprise cake", to="kimi")))
    asked(noon, why="surprise")
    asks(kimi, args={"to": "surprise@example.org"})
    shape = bob.call(verbs.Inbox())
    assert shape == {"items": [], "away": None, "snoozed": 0}
    assert bob.call(verbs.ListApprovals()) == []
    assert len(alice.call(verbs.ListApprovals())) == 2


def _about(ref: int, number: int) -> list[Verb[Any]]:
    """Each verb that names an approval, about this one."""
    return [
        verbs.ShowApproval(task=ref),
        verbs.ShowApproval(approval=number),
        verbs.Approve(task=ref, seen="0" * 64),
        verbs.Approve(task=ref, seen="0" * 64, pin="246810"),
        verbs.ApproveMany(items=({"task": ref, "seen": "0" * 64},)),  # type: ignore[arg-type]
        verbs.Deny(task=ref, note="x"),
        verbs.Withdraw(approval=number),
        verbs.Consume(approval=number, args={}),
        verbs.Delegate(task=ref, to="alice"),
        verbs.Snooze(task=ref, until=NOON + HOUR),
        verbs.Comment(task=ref, text="/approve"),
    ]


@pytest.mark.parametrize("number", range(len(_about(1, 1))))
@pytest.mark.parametrize("who", ["bob", "qwen"])
def test_another_s_approval_and_none_are_the_same_bytes(noon: Household, who: str, number: int) -> None:
    """G13"""
    with_pin(noon, "bob")
    _, approval = asked(noon)
    stranger = at_the_door(noon, who) if who == "bob" else noon.fabric_as(who)
    said = []
    for ref, id in ((approval["task"], approval["id"]), (approval["task"] + 1000, approval["id"] + 1000)):
        try:
            stranger.call(_about(ref, id)[number])
        except Exception as error:
            said.append(error.to_json())  # type: ignore[attr-defined]
    assert len(said) == 2
    assert said[0] == said[1]
    assert said[0]["name"] in ("not-found", "refused")
    assert said[0]["name"] == "not-found" or who == "qwen"


def test_sessions_and_settings_are_one_s_own(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G13"""
    sessions = noon.hallway.sessions
    token, _ = noon.credentials.create_token(
        noon.people["alice"].id, name="x", via=noon.caller("alice").via, stamp=noon.caller("alice").stamp()
    )
    signed = sessions.sign_in(token, "Firefox")
    assert bob.call(verbs.ListSessions()) == []
    assert not_his(bob, verbs.ListSessions(name="alice")) == not_his(bob, verbs.ListSessions(name="nobody"))
    there = not_his(bob, verbs.RevokeSession(id=signed.session.id))
    assert there == not_his(bob, verbs.RevokeSession(id=signed.session.id + 1000))
    assert not_his(at_the_door(noon, "bob"), verbs.SignInLink(name="alice"))["name"] == "not-found"


def test_a_denial_s_reason_is_told_to_who_asked_and_to_nobody_else(noon: Household, qwen: Fabric, bob: Fabric) -> None:
    """G13"""
    task, approval = asked(noon)
    deny(at_the_door(noon), approval, "the party is a secret")
    noon.caught_up()
    for stranger in (qwen, bob):
        with pytest.raises(NotFound):
            stranger.call(verbs.Show(task=task.id))
        not_his(stranger, verbs.ShowApproval(approval=approval["id"]))
        events = stranger.call(verbs.Events()).events
        assert "party" not in repr(events)


# -- away ------------------------------------------------------------------------------------------------------------


def test_whoever_waits_for_a_human_sees_until_when_he_is_away(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    alice.call(verbs.Vacation(until=NOON + 24 * HOUR, note="by the sea"))
    task = ask(kimi, claim(kimi, submit(alice, to="kimi")))
    reasons = alice.call(verbs.Why(task=task.id)).reasons
    assert ("alice is not there: away: by the sea", NOON + 24 * HOUR) in [(r.text, r.until) for r in reasons]
    assert asks(kimi)["away"]["until"] == "2026-12-01T12:00:00Z"
    alice.call(verbs.Vacation(off=True))
    assert [r for r in alice.call(verbs.Why(task=task.id)).reasons if "not there" in r.text] == []


def test_whoever_sent_something_to_an_inbox_sees_until_when_its_owner_is_away(
    noon: Household, alice: Fabric, bob: Fabric
) -> None:
    task = submit(bob, "look at this", to="alice")
    assert bob.call(verbs.Why(task=task.id)).first is None
    alice.call(verbs.Vacation(until=NOON + 24 * HOUR))
    found = bob.call(verbs.Why(task=task.id))
    assert found.claimable
    assert found.first is not None
    assert (found.first.text, found.first.until) == ("alice is not there: away", NOON + 24 * HOUR)


def test_quiet_hours_close_a_human_s_a_t_until_they_are_over(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    alice.call(verbs.SetMe(quiet_begin="11:00", quiet_end="13:30"))
    assert asks(kimi)["away"] == {
        "name": "alice",
        "until": "2026-11-30T13:30:00Z",
        "to": None,
        "note": "in his quiet hours",
    }


def test_a_vacation_ends_in_the_future_and_a_delegation_has_an_end(alice: Fabric) -> None:
    with pytest.raises(BadInput):
        alice.call(verbs.Vacation(until=NOON - HOUR))
    with pytest.raises(BadInput):
        alice.call(verbs.Vacation(to="bob"))
    with pytest.raises(BadInput):
        alice.call(verbs.Vacation(until=NOON + HOUR, to="alice"))
