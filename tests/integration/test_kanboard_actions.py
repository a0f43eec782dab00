"""Automatic actions: offered, kept, and carried out in the wake of a change, never in a chain."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from taskfabric.surfaces.postman import follower
from tests.integration.board_api import BoardApi, Refusal
from tests.integration.cards import Ground, follow, project, queue

_PATIENCE = 20.0


@pytest.fixture
def ground(shared_api: BoardApi) -> Ground:
    return project(shared_api)


def _action(ground: Ground, name: str, event: str, **params: object) -> int:
    told = {key: str(value) for key, value in params.items()}
    made = ground.call("createAction", ground.id, event, f"\\Kanboard\\Action\\{name}", told)
    assert made, "the action was not made"
    return int(made)


def _follow(ground: Ground) -> None:
    follow(ground.api)


def test_at_least_eight_actions_are_offered_and_each_says_its_events(ground: Ground) -> None:
    offered = ground.call("getAvailableActions")
    events = ground.call("getAvailableActionEvents")
    assert len(offered) >= 8
    for name in offered:
        compatible = ground.call("getCompatibleActionEvents", name)
        assert compatible
        assert set(compatible) <= set(events)


def test_an_action_is_kept_listed_and_removed(ground: Ground) -> None:
    made = _action(ground, "TaskCloseColumn", "task.move.column", column_id=ground.columns["Done"])
    assert ground.call("getActions", ground.id) == [
        {
            "id": made,
            "project_id": ground.id,
            "event_name": "task.move.column",
            "action_name": "\\Kanboard\\Action\\TaskCloseColumn",
            "params": {"column_id": str(ground.columns["Done"])},
        }
    ]
    assert ground.call("removeAction", made) is True
    assert ground.call("getActions", ground.id) == []


@pytest.mark.parametrize(
    ("name", "event", "params"),
    [
        ("TaskUnknown", "task.create", {}),
        ("TaskCloseColumn", "task.create", {"column_id": "1"}),
        ("TaskCloseColumn", "task.move.column", {}),
        ("TaskCloseColumn", "task.move.column", {"column_id": "1", "more": "2"}),
    ],
)
def test_what_is_not_offered_is_not_kept(ground: Ground, name: str, event: str, params: dict[str, str]) -> None:
    assert ground.call("createAction", ground.id, event, f"\\Kanboard\\Action\\{name}", params) is False


def test_only_managers_see_and_make_actions(ground: Ground) -> None:
    with pytest.raises(Refusal) as caught:
        ground.call("getActions", ground.id, by="bob")
    assert caught.value.code == 403


def _colour_in_column(ground: Ground, card: int) -> bool:
    ground.move(card, "Ready")
    _follow(ground)
    return bool(ground.task(card)["color_id"] == "red")


def test_a_card_gets_the_colour_of_its_column(ground: Ground) -> None:
    _action(*(ground, "TaskAssignColorColumn", "task.move.column"), column_id=ground.columns["Ready"], color_id="red")
    assert _colour_in_column(ground, ground.create())


def test_a_card_is_closed_in_its_last_column(ground: Ground) -> None:
    _action(ground, "TaskCloseColumn", "task.move.column", column_id=ground.columns["Done"])
    card = ground.create()
    ground.move(card, "Done")
    _follow(ground)
    assert ground.task(card)["is_active"] == 0


def test_an_assigned_card_moves_and_an_unassigned_one_moves_back(ground: Ground) -> None:
    for name, there, back in (
        ("TaskMoveColumnAssigned", "Backlog", "Ready"),
        ("TaskMoveColumnUnAssigned", "Ready", "Backlog"),
    ):
        _action(
            *(ground, name, "task.assignee_change"),
            src_column_id=ground.columns[there],
            dest_column_id=ground.columns[back],
        )
    card = ground.create()
    ground.call("updateTask", id=card, owner_id=ground.api.user_id("alice"))
    _follow(ground)
    assert ground.task(card)["column_id"] == ground.columns["Ready"]
    ground.call("updateTask", id=card, owner_id=0)
    _follow(ground)
    assert ground.task(card)["column_id"] == ground.columns["Backlog"]


def test_a_priority_gives_a_colour_and_a_colour_a_category(ground: Ground) -> None:
    category = ground.call("createCategory", ground.id, "hot")
    _action(ground, "TaskAssignColorPriority", "task.create_update", priority=3, color_id="red")
    _action(ground, "TaskAssignCategoryColor", "task.create_update", color_id="blue", category_id=category)
    first, second = ground.create(priority=3), ground.create(color_id="blue")
    _follow(ground)
    assert ground.task(first)["color_id"] == "red"
    assert ground.task(second)["category_id"] == category


def test_a_new_card_gets_a_due_date_and_a_moved_one_a_comment(ground: Ground) -> None:
    _action(ground, "TaskAssignDueDateOnCreation", "task.create", duration=3)
    _action(ground, "CommentCreationMoveTaskColumn", "task.move.column", column_id=ground.columns["Ready"])
    card = ground.create()
    ground.move(card, "Ready")
    _follow(ground)
    row = ground.task(card)
    assert 2.9 * 86400 < row["date_due"] - row["date_creation"] < 3.1 * 86400
    assert [c["comment"] for c in ground.call("getAllComments", card)] == ["Moved to column Ready"]


def test_what_an_action_does_is_no_cause_for_another_one(ground: Ground) -> None:
    a, b = ground.columns["Ready"], ground.columns["Work in progress"]
    for there, back in ((a, b), (b, a)):
        _action(ground, "TaskMoveColumnAssigned", "task.update", src_column_id=there, dest_column_id=back)
    _action(ground, "TaskAssignColorColumn", "task.move.column", column_id=b, color_id="red")
    card = ground.create(column_id=a, owner_id=ground.api.user_id("alice"))
    ground.call("updateTask", id=card, title="changed")
    for _ in range(3):
        _follow(ground)
    row = ground.task(card)
    # The second action found the card where the first had put it; their own moves set nothing off.
    assert row["column_id"] == a
    assert row["color_id"] == "yellow"


def test_an_event_before_the_action_is_no_cause(ground: Ground) -> None:
    card = ground.create()
    ground.move(card, "Ready")
    _follow(ground)
    _action(*(ground, "TaskAssignColorColumn", "task.move.column"), column_id=ground.columns["Ready"], color_id="red")
    _follow(ground)
    assert ground.task(card)["color_id"] == "yellow"


def test_in_a_queue_an_action_colours_and_neither_verifies_nor_takes_a_leased_card(shared_api: BoardApi) -> None:
    pool = queue(shared_api)
    working, done = pool.columns["Work in progress"], pool.columns["Done"]
    _action(pool, "TaskCloseColumn", "task.move.column", column_id=done)
    _action(pool, "TaskAssignSpecificUser", "task.move.column", column_id=working, user_id=pool.api.user_id("qwen"))
    _action(pool, "TaskAssignColorColumn", "task.move.column", column_id=working, color_id="red")
    held = pool.claimed()
    other = pool.create("by hand")
    pool.move(other, "Done")
    _follow(pool)
    assert pool.task(held)["owner_id"] == pool.api.user_id("kimi")
    assert pool.task(held)["color_id"] == "red"
    assert pool.api.served.house.board.get(other, None).status.value == "done"


def test_the_servers_thread_follows_by_itself(ground: Ground) -> None:
    _action(*(ground, "TaskAssignColorColumn", "task.move.column"), column_id=ground.columns["Ready"], color_id="red")
    house = ground.api.served.house
    with follower(house.hallway.following, house.signal):
        card = ground.create()
        ground.move(card, "Ready")
        assert _until(lambda: bool(ground.task(card)["color_id"] == "red"))


def _until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
    return True
