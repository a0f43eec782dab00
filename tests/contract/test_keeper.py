"""The keeper's chores over the board: it mends, reminds and counts, each thing once, and decides nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fabric_keeper.dead_letters import DeadLetters
from fabric_keeper.deadlines import Deadlines
from fabric_keeper.digest import Digests
from fabric_keeper.inbox import Inbox
from fabric_keeper.leases import Leases
from fabric_keeper.rounds import Chore, Keeper, Report
from fabric_keeper.waits import Waits
from taskfabric.domain.errors import Unavailable
from taskfabric.domain.principal import Kind, Trust
from taskfabric.domain.status import Status
from taskfabric.domain.watch import Matter
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric, R, Verb
from taskfabric.services import verbs
from taskfabric.services.upkeep import CRON, KEEPER, METRICS
from taskfabric.wiring import SYSTEM
from tests.contract.acts import HOUR, NOON, ask, claim, fail, finish, look, refused, said, submit, wait_for_children
from tests.contract.household import Household

DAY = timedelta(days=1)


@pytest.fixture
def keeper(noon: Household) -> Fabric:
    """Access as the fabric's own keeper."""
    for name in (KEEPER, CRON, METRICS):
        noon.credentials.add_principal(NewPrincipal(name=name, kind=Kind.SERVICE, trust=Trust.TRUSTED), SYSTEM)
    return noon.fabric_as(KEEPER)


def run(chore: Chore, fabric: Fabric, *, rounds: int = 1) -> Report:
    """The last of so many rounds."""
    reports = [Keeper(fabric, [chore], instance="k1", every=timedelta(seconds=15)).run_once() for _ in range(rounds)]
    return reports[-1][0]


def told(home: Household) -> list[tuple[str, int, list[int]]]:
    return [(event["matter"], event["level"], event["to"]) for event in home.events("told")]


def people(home: Household, *names: str) -> list[int]:
    return [home.people[name].id for name in names]


# -- leases ------------------------------------------------------------------------------------------------


def test_an_expired_lease_is_taken_back_by_a_round(
    noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    """G6: where nobody claims."""
    task = claim(kimi, submit(alice)).task
    leases = Leases()
    run(leases, keeper)
    noon.later(minutes=4)
    run(leases, keeper)
    noon.later(minutes=7)
    assert run(leases, keeper).counts["ready"] == 1
    assert look(alice, task).status is Status.READY


def test_after_a_gap_longer_than_a_lease_a_renewal_period_passes_before_the_first_sweep(
    noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    """Situation 8: who slept with the machine renews first."""
    got = claim(kimi, submit(alice))
    leases = Leases()
    run(leases, keeper)
    noon.later(minutes=4)
    run(leases, keeper)
    noon.later(minutes=15)
    assert "gap" in run(leases, keeper).note
    noon.later(minutes=1)
    assert run(leases, keeper).counts == {}
    (renewal,) = kimi.call(verbs.Renew(fences=(verbs.FenceArg.of(got.fence),)))
    assert renewal.until is not None
    noon.later(minutes=3)
    assert run(leases, keeper).counts["ready"] == 0
    assert look(alice, got.task).holder == "kimi"


# -- several keepers, none --------------------------------------------------------------------------------


def test_of_two_keepers_one_works_until_it_stops(noon: Household, keeper: Fabric) -> None:
    first, second = (
        Keeper(keeper, [DeadLetters()], instance=name, every=timedelta(seconds=15)) for name in ("one", "two")
    )
    assert first.run_once()
    assert second.run_once() == []
    noon.later(seconds=30)
    assert second.run_once() == []
    assert first.run_once()
    noon.later(seconds=46)
    assert second.run_once()
    assert first.run_once() == []


def test_without_any_keeper_work_still_flows(noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G6: claims sweep, finishes release."""
    lost, parent = submit(alice), submit(alice, "parent")
    claim(kimi, lost)
    got = claim(qwen, parent)
    child = noon.in_run("qwen", got).call(verbs.Submit(title="child")).task
    wait_for_children(qwen, got)
    finish(kimi, claim(kimi, child))
    assert look(alice, parent).status is Status.READY
    noon.later(minutes=11)
    assert lost.id in [c.task.id for c in qwen.call(verbs.Claim(limit=10))]


def test_a_chore_that_fails_stops_no_other(keeper: Fabric, alice: Fabric) -> None:
    class Broken:
        name = "broken"

        def run_once(self, fabric: Fabric, turn: object) -> Report:
            alice.call(verbs.Show(task=10**9))
            raise AssertionError

    keeping = Keeper(keeper, [Broken(), DeadLetters()], instance="k", every=timedelta(seconds=15))
    broken, after = keeping.run_once()
    assert "failed" in broken.note
    assert after.chore == "dead_letters"


def test_a_server_that_is_away_ends_the_round_and_not_the_keeper() -> None:
    class Away:
        def call(self, verb: Verb[R]) -> R:
            raise Unavailable("away")

    with pytest.raises(Unavailable):
        Keeper(Away(), [DeadLetters()], instance="k", every=timedelta(seconds=15)).run_once()


# -- waits ---------------------------------------------------------------------------------------------------


def test_a_parent_that_was_not_told_of_its_last_child_is_told(
    noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    got = claim(kimi, submit(alice, "parent"))
    child = noon.in_run("kimi", got).call(verbs.Submit(title="child")).task
    wait_for_children(kimi, got)
    assert run(Waits(), keeper).counts == {"children": 0, "blockers": 0}
    # What no verb does: the child's end does not reach the parent.
    noon.ground.rows(
        "UPDATE tasks SET role = 'done', status = 'done', column_id = (SELECT done_column FROM queues q"
        " WHERE q.project_id = tasks.project_id) WHERE id = %s RETURNING id",
        child.id,
    )
    assert run(Waits(), keeper).counts == {"children": 1, "blockers": 0}
    assert look(alice, got.task).status is Status.READY
    assert look(alice, got.task).open_children == 0
    assert run(Waits(), keeper).counts == {"children": 0, "blockers": 0}


def test_a_dependent_that_was_not_told_of_its_blockers_end_is_told(
    noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    blocker = submit(alice, "first")
    task = submit(alice, "second", after=(blocker.id,))
    finish(kimi, claim(kimi, blocker))
    noon.ground.rows("UPDATE task_has_links SET state = 'open' WHERE link_id = 3 RETURNING id")
    noon.ground.rows("UPDATE tasks SET open_blockers = 1 WHERE id = %s RETURNING id", task.id)
    assert run(Waits(), keeper).counts == {"children": 0, "blockers": 1}
    assert look(alice, task).open_blockers == 0
    assert run(Waits(), keeper).counts == {"children": 0, "blockers": 0}


def test_who_waits_for_a_humans_answer_is_promoted_by_no_net(
    noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    """G10"""
    got = claim(kimi, submit(alice))
    ask(kimi, got)
    noon.later(days=300)
    assert run(Waits(), keeper).counts == {"children": 0, "blockers": 0}
    for matter in (Matter.CHILDREN, Matter.BLOCKERS):
        assert keeper.call(verbs.Mend(matter=matter, task=got.task.id)) is False
    assert look(alice, got.task).status is Status.WAITING


# -- reminders -------------------------------------------------------------------------------------------------


def test_an_overdue_task_is_told_once_and_escalated_once(
    noon: Household, alice: Fabric, bob: Fabric, keeper: Fabric
) -> None:
    task = submit(alice, to="bob", due=NOON + HOUR)
    chore = Deadlines(escalate_after=DAY)
    assert run(chore, keeper).counts == {"told": 0, "escalated": 0}
    noon.later(hours=2)
    assert run(chore, keeper).counts == {"told": 1, "escalated": 0}
    assert run(chore, keeper, rounds=3).counts == {"told": 0, "escalated": 0}
    noon.later(days=1)
    assert run(chore, keeper).counts == {"told": 0, "escalated": 1}
    noon.later(days=30)
    assert run(chore, keeper, rounds=3).counts == {"told": 0, "escalated": 0}
    assert told(noon) == [("overdue", 0, people(noon, "bob")), ("overdue", 1, people(noon, "bob", "alice"))]
    assert any("overdue" in text for text in said(bob, task, ""))


def test_a_new_due_date_is_a_new_occasion(noon: Household, alice: Fabric, keeper: Fabric) -> None:
    task = submit(alice, to="bob", due=NOON + HOUR)
    noon.later(hours=2)
    assert run(Deadlines(escalate_after=DAY), keeper).counts["told"] == 1
    alice.call(verbs.EditTask(task=task.id, due=NOON + 3 * HOUR))
    assert run(Deadlines(escalate_after=DAY), keeper).counts["told"] == 0
    noon.later(hours=2)
    assert run(Deadlines(escalate_after=DAY), keeper).counts["told"] == 1


def test_what_is_finished_is_not_overdue(noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric) -> None:
    task = submit(alice, due=NOON + HOUR)
    noon.later(hours=2)
    concern = keeper.call(verbs.Watch(matter=Matter.OVERDUE))[0]
    finish(kimi, claim(kimi, task))
    assert run(Deadlines(escalate_after=DAY), keeper).counts["told"] == 0
    late = verbs.Tell(matter=Matter.OVERDUE, task=task.id, occasion=concern.occasion, level=0)
    assert keeper.call(late) is False, "the condition is repeated in the write"


def test_the_owner_is_told_of_a_dead_letter_once_a_death(
    noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    task = submit(alice)
    fail(kimi, claim(kimi, task), final=True)
    assert run(DeadLetters(), keeper).counts == {"told": 1}
    assert run(DeadLetters(), keeper, rounds=2).counts == {"told": 0}
    alice.call(verbs.Redrive(task=task.id, note="again"))
    assert look(alice, task).status is Status.READY
    fail(kimi, claim(kimi, task), final=True)
    assert run(DeadLetters(), keeper).counts == {"told": 1}
    assert told(noon) == [("dead", 0, people(noon, "alice"))] * 2
    assert look(alice, task).status is Status.DEAD, "no rule redrives it"


def test_a_question_is_reminded_of_at_a_quarter_half_and_nine_tenths_and_never_answered(
    noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    """G10"""
    task = submit(alice)
    ask(kimi, claim(kimi, task))
    chore = Inbox(span=timedelta(hours=10))
    reminded = []
    for _ in range(15):
        noon.later(hours=1)
        reminded.append(run(chore, keeper).counts["reminded"])
    assert reminded == [0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert [level for _, level, _ in told(noon)] == [25, 50, 90]
    assert look(alice, task).status is Status.WAITING


def test_nobody_is_named_who_may_not_see_the_task(noon: Household, alice: Fabric, bob: Fabric, keeper: Fabric) -> None:
    """G13"""
    submit(bob, to="bob", due=NOON + HOUR)
    noon.later(days=3)
    run(Deadlines(escalate_after=DAY), keeper, rounds=2)
    assert {person for _, _, to in told(noon) for person in to} == set(people(noon, "bob"))


# -- the digest ------------------------------------------------------------------------------------------------


def pages(fabric: Fabric) -> list[str]:
    """The digests in this human's inbox."""
    cards = [t for t in fabric.call(verbs.List(queue="me")) if t.reference == "fabric:digest"]
    return [
        fabric.call(verbs.Download(attachment=file.id)).bytes.decode()
        for card in cards
        for file in fabric.call(verbs.Show(task=card.id)).attachments
    ]


def moved_in_before(home: Household) -> None:
    home.ground.rows("UPDATE users SET date_creation = %s - interval '3 days' RETURNING id", NOON)


def test_each_human_gets_one_digest_a_day_from_his_hour_on(noon: Household, alice: Fabric, keeper: Fabric) -> None:
    moved_in_before(noon)
    noon.at(NOON.replace(hour=6))
    assert run(Digests(), keeper).counts == {"written": 0}
    noon.at(NOON.replace(hour=7))
    assert run(Digests(), keeper).counts == {"written": 2}
    assert run(Digests(), keeper, rounds=3).counts == {"written": 0}
    noon.later(days=1)
    assert run(Digests(), keeper).counts == {"written": 2}
    assert len(pages(alice)) == 2


def test_a_digest_says_what_waits_for_him_and_nothing_of_others(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    """G13"""
    moved_in_before(noon)
    submit(bob, "bob's own secret", to="bob")
    submit(alice, "a question of hers")
    ask(kimi, kimi.call(verbs.Claim())[0])
    submit(alice, "cold and old", to="alice")
    submit(alice, "hot and new", to="alice", priority=3)
    run(Digests(), keeper)
    (page,) = pages(alice)
    assert "bob" not in page.replace("alice", "")
    assert "Questions for you (1)" in page
    assert page.index("hot and new") < page.index("cold and old")
    (of_bob,) = pages(bob)
    assert "secret" in of_bob
    assert "hers" not in of_bob
    assert "hot" not in of_bob


def test_a_digest_is_in_its_readers_own_zone(noon: Household, bob: Fabric, keeper: Fabric) -> None:
    moved_in_before(noon)
    noon.ground.rows("UPDATE users SET timezone = 'Pacific/Auckland' WHERE username = 'bob' RETURNING id")
    noon.at(datetime(2026, 11, 30, 18, 30, tzinfo=UTC))  # 07:30 on the first of December there
    run(Digests(), keeper)
    (page,) = pages(bob)
    assert "07:30 NZDT" in page


def test_who_moved_in_today_gets_his_first_digest_tomorrow(noon: Household, alice: Fabric, keeper: Fabric) -> None:
    noon.ground.rows("UPDATE users SET date_creation = %s RETURNING id", NOON)
    assert run(Digests(), keeper).counts == {"written": 0}
    noon.later(days=1)
    assert run(Digests(), keeper).counts == {"written": 2}


# -- numbers, and who may ---------------------------------------------------------------------------------------


def test_numbers_of_the_whole_house_hold_no_name_and_are_for_its_services(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric, keeper: Fabric
) -> None:
    """G13"""
    submit(bob, "bob's own", to="bob")
    claim(kimi, submit(alice))
    text = noon.fabric_as(METRICS).call(verbs.Metrics())
    assert 'fabric_tasks{status="ready"} 1\n' in text
    assert 'fabric_leases{state="live"} 1\n' in text
    assert not any(name in text for name in ("bob", "alice", "kimi", "pool"))
    hers = alice.call(verbs.Metrics())
    assert 'fabric_tasks{status="working"} 1\n' in hers
    assert 'fabric_tasks{status="ready"} 0\n' in hers, "bob's is not hers to count"
    assert "leases" not in hers


def test_the_keepers_verbs_are_the_keepers_alone(noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric) -> None:
    task = submit(alice)
    calls: list[Verb[Any]] = [
        verbs.Turn(instance="x"),
        verbs.Watch(matter=Matter.DEAD),
        verbs.Tell(matter=Matter.DEAD, task=task.id, occasion="1", level=0),
        verbs.Mend(matter=Matter.CHILDREN, task=task.id),
        verbs.Reconcile(),
        verbs.Readers(),
        verbs.Digest(name="alice", day=NOON.date()),
        verbs.Tick(),
    ]
    for who in (alice, kimi, noon.fabric_as(METRICS)):
        assert {refused(who, call) for call in calls} == {"service"}


def test_the_keeper_decides_nothing(noon: Household, alice: Fabric, kimi: Fabric, keeper: Fabric) -> None:
    """Invariant 9"""
    got = claim(kimi, submit(alice))
    finish(kimi, got)
    for verb in (
        verbs.Verify(task=got.task.id),
        verbs.Reject(task=got.task.id, note="no"),
        verbs.Cancel(task=got.task.id),
        verbs.Redrive(task=got.task.id),
        verbs.Answer(task=got.task.id, note="yes"),
    ):
        with pytest.raises(Exception, match=r"no such|service|human|part"):
            keeper.call(verb)
    assert look(alice, got.task).status is Status.DONE


def test_the_file_of_the_digests_stays_one_card(noon: Household, alice: Fabric, keeper: Fabric) -> None:
    moved_in_before(noon)
    for _ in range(3):
        run(Digests(), keeper)
        noon.later(days=1)
    cards = [t for t in alice.call(verbs.List(queue="me")) if t.reference == "fabric:digest"]
    assert [card.status for card in cards] == [Status.BACKLOG]
