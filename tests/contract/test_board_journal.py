"""The journal: each fact once, in order, to those who may see it; a late commit is not skipped."""

from __future__ import annotations

import pytest

from taskfabric.domain.errors import BadInput, NotFound
from taskfabric.domain.journal import Event
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import HOUR, NOON, ask, claim, fail, fence, finish, park, refused, release, submit
from tests.contract.household import Household


def read(home: Household, fabric: Fabric, cursor: str = "", **of: object) -> tuple[list[Event], str]:
    """All that can be read now, and where to go on."""
    home.caught_up()
    page = fabric.call(verbs.Events.model_validate({"cursor": cursor, "limit": 1000, **of}))
    return list(page.events), str(page.cursor)


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_a_tasks_whole_life_is_told_in_order_and_without_a_gap(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    park(kimi, claim(kimi, task), NOON)
    release(kimi, claim(kimi, task))
    ask(kimi, claim(kimi, task))
    alice.call(verbs.Answer(task=task.id, note="blue"))
    fail(kimi, claim(kimi, task))
    noon.later(hours=1)
    claim(kimi, task)
    noon.later(hours=1)
    alice.call(verbs.Sweep())
    alice.call(verbs.EditTask(task=task.id, title="other"))
    alice.call(verbs.Comment(task=task.id, text="hm"))
    finish(kimi, claim(kimi, task))
    alice.call(verbs.Reject(task=task.id, note="again"))
    finish(kimi, claim(kimi, task))
    alice.call(verbs.Verify(task=task.id))
    events, _ = read(noon, alice, task=task.id)
    assert kinds(events) == [
        *("submitted", "claimed", "parked", "claimed", "released", "claimed", "asked", "answered"),
        *("claimed", "failed", "claimed", "expired", "edited", "commented", "claimed", "done", "rejected"),
        *("claimed", "done", "verified"),
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.actor for event in events} == {"alice", "kimi"}


def test_an_event_says_who_when_and_of_which_epoch(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    noon.at(NOON + HOUR)
    claim(kimi, task)
    (event,) = [e for e in read(noon, alice, task=task.id)[0] if e.kind == "claimed"]
    assert (event.actor, event.at, event.epoch, event.via) == ("kimi", NOON + HOUR, 1, "token")


@pytest.mark.parametrize("page", [1, 2, 5])
def test_page_after_page_each_event_comes_once_and_in_order(
    noon: Household, alice: Fabric, kimi: Fabric, page: int
) -> None:
    tasks = [submit(alice, str(n)) for n in range(3)]
    for task in tasks:
        finish(kimi, claim(kimi, task))
    noon.caught_up()
    told: list[tuple[int | None, str]] = []
    cursor = ""
    while True:
        got = alice.call(verbs.Events(cursor=cursor, limit=page))
        if not got.events:
            break
        assert len(got.events) <= page
        told += [(event.task_id, event.kind) for event in got.events if event.task_id is not None]
        cursor = str(got.cursor)
    assert told == [(task.id, "submitted") for task in tasks] + [
        (task.id, kind) for task in tasks for kind in ("claimed", "done")
    ]


def test_from_the_end_on_only_what_is_new_is_told(noon: Household, alice: Fabric) -> None:
    submit(alice)
    noon.caught_up()
    cursor = str(alice.call(verbs.Events(cursor="end")).cursor)
    task = submit(alice)
    events, cursor = read(noon, alice, cursor)
    assert [event.task_id for event in events] == [task.id]
    assert read(noon, alice, cursor)[0] == []


def test_an_event_that_commits_late_is_not_skipped(noon: Household, alice: Fabric) -> None:
    """A reader waits before it, whatever is committed meanwhile, and then tells all of it in order."""
    first = submit(alice, "first")
    with noon.late_event(first):
        submit(alice, "second")
        page = alice.call(verbs.Events())
        assert "late" not in kinds(list(page.events))
        before = [event.task_id for event in page.events if event.kind == "submitted"]
        third = submit(alice, "third")
    events, _ = read(noon, alice, str(page.cursor))
    assert "late" in kinds(events)
    told = before + [event.task_id for event in events if event.kind == "submitted"]
    assert told == sorted(told, key=int)  # type: ignore[arg-type]
    assert len(told) == len(set(told)) == 3
    assert told[-1] == third.id


def test_renewals_are_not_told(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    for _ in range(3):
        kimi.call(verbs.Renew(fences=(fence(got),)))
    assert kinds(read(noon, alice, task=got.task.id)[0]) == ["submitted", "claimed"]


def test_nobody_is_told_of_tasks_that_are_not_his(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G13"""
    hers, his = submit(alice), submit(bob)
    assert {event.task_id for event in read(noon, alice)[0] if event.task_id} == {hers.id}
    assert {event.task_id for event in read(noon, bob)[0] if event.task_id} == {his.id}
    with pytest.raises(NotFound):
        bob.call(verbs.Events(task=hers.id))


def test_from_above_no_event_is_told(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G13: state and result note are on the task; what happened there is not theirs."""
    got = claim(kimi, submit(alice, to="kimi"))
    child = submit(noon.in_run("kimi", got), "inner", to="kimi")
    assert child.id not in {event.task_id for event in read(noon, alice)[0]}
    assert read(noon, alice, task=child.id)[0] == []


def test_a_queue_tells_its_own(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    pooled, own = submit(alice), submit(alice, to="kimi")
    assert {event.task_id for event in read(noon, kimi, queue="pool")[0] if event.task_id} == {pooled.id}
    assert {event.task_id for event in read(noon, kimi, queue="kimi")[0] if event.task_id} == {own.id}


def test_a_refusal_is_told_too(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G3: with the rule, to the one it was for."""
    task = submit(alice)
    finish(kimi, claim(kimi, task))
    refused(kimi, verbs.Verify(task=task.id))
    (event,) = [event for event in read(noon, kimi)[0] if event.kind == "refused"]
    assert (event.actor, event.data["verb"], event.data["rule"]) == ("kimi", "verify", "producer-never-closes")


@pytest.mark.parametrize("cursor", ["99999999999999999999-1", "1-9999999999999999999"])
def test_what_is_no_cursor_is_an_error(alice: Fabric, cursor: str) -> None:
    with pytest.raises(BadInput):
        alice.call(verbs.Events(cursor=cursor))


def test_a_cursor_of_the_future_brings_nothing(noon: Household, alice: Fabric) -> None:
    submit(alice)
    noon.caught_up()
    assert alice.call(verbs.Events(cursor="9999999999999999999-1")).events == ()
