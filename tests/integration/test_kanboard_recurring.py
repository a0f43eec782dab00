"""Recurring cards: carried out as Kanboard does it, once, and in a queue only for what was really done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from taskfabric.services.verbs import Cancel, Done, FenceArg, Take, Verify
from tests.integration.board_api import BoardApi
from tests.integration.cards import Ground, follow, project, queue

_FIRST, _LAST, _CLOSED = range(3)
_MARCH: Final = datetime(2024, 3, 2, 10, 30, tzinfo=UTC).timestamp()


@pytest.fixture
def ground(shared_api: BoardApi) -> Ground:
    return project(shared_api)


@pytest.fixture
def pool(shared_api: BoardApi) -> Ground:
    return queue(shared_api)


def _recurring(ground: Ground, trigger: int, **more: Any) -> int:
    again: dict[str, Any] = {"status": 1, "trigger": trigger, "factor": 1, "timeframe": 1}
    return ground.create(
        "water the plants",
        date_due="2024-01-31 10:30",
        **{f"recurrence_{name}": value for name, value in again.items()},
        **more,
    )


_ACTS: Final[list[tuple[int, Callable[[Ground, int], Any]]]] = [
    (_FIRST, lambda ground, card: ground.move(card, "Ready")),
    (_LAST, lambda ground, card: ground.move(card, "Done")),
    (_CLOSED, lambda ground, card: ground.call("closeTask", card)),
]


@pytest.mark.parametrize(("trigger", "act"), _ACTS, ids=["first-column", "last-column", "closed"])
def test_a_recurring_card_comes_again_in_the_first_column_with_its_words_and_parts(
    ground: Ground, trigger: int, act: Callable[[Ground, int], Any]
) -> None:
    alice = ground.api.user_id("alice")
    words = {"description": "all of them", "color_id": "red", "priority": 2, "score": 3, "reference": "R"}
    card = _recurring(ground, trigger, owner_id=alice, tags=["x", "y"], **words)
    ground.call("createSubtask", task_id=card, title="the fern", user_id=alice, status=2)
    ground.call("createExternalTaskLink", card, "https://example.org/", "related", "weblink")
    ground.call("createComment", card, alice, "not copied")
    assert act(ground, card) is True
    before = ground.task(card)
    assert (before["recurrence_status"], before["recurrence_parent"]) == (2, None)
    after = ground.task(before["recurrence_child"])
    assert (after["recurrence_status"], after["recurrence_parent"], after["recurrence_child"]) == (1, card, None)
    assert {name: after[name] for name in words} == words
    assert (after["title"], after["owner_id"], after["creator_id"]) == ("water the plants", alice, alice)
    assert (after["column_id"], after["is_active"], after["date_due"]) == (ground.columns["Backlog"], 1, _MARCH)
    assert sorted(ground.call("getTaskTags", after["id"]).values()) == ["x", "y"]
    [part] = ground.call("getAllSubtasks", after["id"])
    assert (part["title"], part["user_id"], part["status"]) == ("the fern", alice, 0)
    assert len(ground.call("getAllExternalTaskLinks", after["id"])) == 1
    assert ground.call("getAllComments", after["id"]) == []


@pytest.mark.parametrize(("trigger", "act"), _ACTS, ids=["first-column", "last-column", "closed"])
def test_a_recurring_card_comes_again_once(ground: Ground, trigger: int, act: Callable[[Ground, int], Any]) -> None:
    card = _recurring(ground, trigger)
    act(ground, card)
    child = ground.task(card)["recurrence_child"]
    ground.move(card, "Backlog")
    ground.call("openTask", card)
    act(ground, card)
    follow(ground.api)
    assert ground.task(card)["recurrence_child"] == child
    assert len(ground.found("status:all")) == 2


def test_other_moves_and_other_settings_make_no_card_come_again(ground: Ground) -> None:
    last, processed, closing = (
        _recurring(ground, _LAST),
        ground.create(recurrence_status=2),
        _recurring(ground, _CLOSED),
    )
    ground.move(last, "Work in progress")
    ground.call("closeTask", last)
    ground.call("closeTask", processed)
    ground.move(closing, "Done")
    follow(ground.api)
    assert len(ground.found("status:all")) == 3


def test_closed_by_ten_at_once_it_comes_again_once(ground: Ground) -> None:
    card = _recurring(ground, _CLOSED)
    with ThreadPoolExecutor(10) as threads:
        assert all(threads.map(lambda _: ground.call("closeTask", card), range(10)))
    assert len(ground.found("status:all")) == 2


def _children(pool: Ground, card: int) -> list[int]:
    follow(pool.api)
    child = pool.task(card)["recurrence_child"]
    return [] if child is None else [int(child)]


def test_in_a_queue_what_was_verified_comes_again_into_backlog_as_its_submitters(pool: Ground) -> None:
    card = _recurring(pool, _CLOSED, column_id=pool.columns["Ready"])
    claimed = pool.fabric("kimi").call(Take(task=card))
    pool.fabric("kimi").call(Done(fence=FenceArg.of(claimed.fence), note="done"))
    assert _children(pool, card) == []
    pool.fabric("alice").call(Verify(task=card))
    [child] = _children(pool, card)
    row = pool.task(child)
    assert (row["creator_id"], row["owner_id"], row["column_id"]) == (
        pool.api.user_id("alice"),
        0,
        pool.columns["Backlog"],
    )
    assert (row["recurrence_parent"], row["date_due"]) == (card, _MARCH)


def test_in_a_queue_a_finish_enters_the_last_column_and_the_lease_ends_as_ever(pool: Ground) -> None:
    card = _recurring(pool, _LAST, column_id=pool.columns["Ready"])
    claimed = pool.fabric("kimi").call(Take(task=card))
    assert _children(pool, card) == []
    done = pool.fabric("kimi").call(Done(fence=FenceArg.of(claimed.fence), note="done"))
    assert (done.status.value, len(_children(pool, card))) == ("done", 1)


def test_in_a_queue_what_is_cancelled_does_not_come_again(pool: Ground) -> None:
    card = _recurring(pool, _CLOSED)
    pool.fabric("alice").call(Cancel(task=card, note="no more plants"))
    assert _children(pool, card) == []


def test_in_a_queue_nothing_comes_again_of_what_an_agent_submitted(pool: Ground) -> None:
    made = pool.create("mine", by="kimi", recurrence_status=1, recurrence_trigger=_FIRST)
    assert pool.move(made, "Ready", by="kimi") is True
    follow(pool.api)
    assert pool.call("getTask", made, by="kimi")["recurrence_child"] is None


def test_in_a_queue_nothing_comes_again_of_somebody_whose_account_is_disabled(pool: Ground) -> None:
    bob = pool.api.user_id("bob")
    card = _recurring(pool, _FIRST, by="bob")
    assert pool.move(card, "Ready", by="bob") is True
    assert pool.call("disableUser", bob) is True
    follow(pool.api)
    assert pool.found("status:all", by="jsonrpc") == [card]
    assert pool.call("enableUser", bob) is True
