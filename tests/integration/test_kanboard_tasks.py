"""Tasks through Kanboard's API, in a project that is no queue: they behave as Kanboard's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from taskfabric.wiring import SYSTEM
from tests.integration.board_api import BoardApi, Refusal
from tests.integration.cards import Ground, project, queue


@pytest.fixture
def ground(shared_api: BoardApi) -> Ground:
    return project(shared_api)


_FIELDS = {
    *("id", "title", "description", "date_creation", "color_id", "project_id", "column_id", "owner_id", "position"),
    *("is_active", "date_completed", "score", "date_due", "category_id", "creator_id", "date_modification"),
    *("reference", "date_started", "time_spent", "time_estimated", "swimlane_id", "date_moved"),
    *("recurrence_status", "recurrence_trigger", "recurrence_factor", "recurrence_timeframe"),
    *("recurrence_basedate", "recurrence_parent", "recurrence_child", "priority", "external_provider"),
    *("external_uri", "url", "color"),
}


def test_a_new_card_stands_in_the_first_column_with_kanboards_defaults(ground: Ground) -> None:
    row = ground.task(ground.create("write it down"))
    assert set(row) == _FIELDS
    assert row["title"] == "write it down"
    assert row["column_id"] == ground.columns["Backlog"]
    assert row["swimlane_id"] == ground.swimlane
    assert row["color_id"] == "yellow"
    assert row["color"]["name"] == "Yellow"
    assert (row["position"], row["is_active"], row["owner_id"], row["category_id"]) == (1, 1, 0, 0)
    assert (row["date_due"], row["date_started"], row["date_completed"], row["score"]) == (0, 0, None, 0)
    assert row["creator_id"] == ground.api.user_id("alice")


@pytest.mark.parametrize("column", ["Work in progress", "Done"])
def test_a_card_begins_in_any_column_as_it_was_given_and_nothing_has_begun_by_that(ground: Ground, column: str) -> None:
    made = ground.create("a card", column_id=ground.columns[column], owner_id=ground.api.user_id("alice"))
    row = ground.task(made)
    assert (row["owner_id"], row["column_id"]) == (ground.api.user_id("alice"), ground.columns[column])
    assert (row["date_started"], row["date_completed"], row["is_active"]) == (0, None, 1)


def test_every_word_that_is_given_is_kept(ground: Ground) -> None:
    category = ground.call("createCategory", ground.id, "urgent")
    row = ground.task(
        ground.create(
            "all of it",
            color_id="green",
            column_id=ground.columns["Ready"],
            owner_id=ground.api.user_id("alice"),
            date_due="2030-05-06 07:08",
            description="what is meant",
            category_id=category,
            score=3,
            priority=2,
            recurrence_status=1,
            recurrence_factor=4,
            reference="T-1",
            tags=["one", "two"],
            date_started="2030-01-01 00:00",
            time_spent=1.5,
            time_estimated="2",
        )
    )
    assert row["date_due"] == datetime(2030, 5, 6, 7, 8, tzinfo=UTC).timestamp()
    assert row["date_started"] == datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    assert row["description"] == "what is meant"
    assert (row["color_id"], row["column_id"], row["category_id"]) == ("green", ground.columns["Ready"], category)
    assert (row["score"], row["priority"], row["reference"]) == (3, 2, "T-1")
    assert (row["time_spent"], row["time_estimated"]) == (1.5, 2.0)
    assert (row["recurrence_status"], row["recurrence_factor"]) == (1, 4)
    assert sorted(ground.call("getTaskTags", row["id"]).values()) == ["one", "two"]


@pytest.mark.parametrize(
    "fields",
    [
        {"title": ""},
        {"title": "x", "owner_id": 999_999},
        {"title": "x", "date_due": 1_900_000_000},
        {"title": "x", "date_due": "2030-05-06T07:08:00"},
        {"title": "x", "date_due": "tomorrow"},
        {"title": "x", "date_due": "2030-13-45"},
        {"title": "x", "category_id": 999_999},
        {"title": "x", "reference": "r" * 192},
    ],
)
def test_what_is_not_valid_makes_no_card(ground: Ground, fields: dict[str, Any]) -> None:
    assert ground.call("createTask", project_id=ground.id, **fields) is False
    assert ground.call("getAllTasks", project_id=ground.id) == []


@pytest.mark.parametrize("named", ["column_id", "swimlane_id"])
def test_a_card_in_a_place_that_is_not_there_is_0(ground: Ground, named: str) -> None:
    fields: dict[str, Any] = {"title": "x", "project_id": ground.id, named: 999_999}
    made = ground.call("createTask", **fields)
    assert (made, made is False) == (0, False)
    assert ground.call("getAllTasks", project_id=ground.id) == []


def test_a_copy_of_a_card_that_is_not_there_is_0_to_the_app_token(ground: Ground) -> None:
    card = ground.create()
    for method, args in (
        ("createTask", ["x", 999_999]),
        ("duplicateTaskToProject", [999_999, ground.id]),
        ("duplicateTaskToProject", [card, 999_999]),
    ):
        made = ground.call(method, *args, by="jsonrpc")
        assert (made, made is False) == (0, False)


def test_an_array_that_is_none_is_invalid_params(ground: Ground) -> None:
    with pytest.raises(Refusal) as caught:
        ground.call("createTask", title="x", project_id=ground.id, tags="x")
    assert caught.value.code == -32602


def test_a_column_of_another_project_is_no_place(ground: Ground) -> None:
    other = project(ground.api)
    assert ground.call("createTask", title="x", project_id=ground.id, column_id=other.columns["Ready"]) == 0
    task = ground.create()
    assert ground.call("moveTaskPosition", ground.id, task, other.columns["Ready"], 1, 0) is False
    assert ground.task(task)["column_id"] == ground.columns["Backlog"]


def test_an_update_changes_what_is_named_and_leaves_the_rest(ground: Ground) -> None:
    task = ground.create("old", description="old words", score=5, date_due="2030-01-01 10:00")
    assert ground.call("updateTask", id=task, title="new", priority=3, color_id="red") is True
    row = ground.task(task)
    assert (row["title"], row["description"], row["score"]) == ("new", "old words", 5)
    assert (row["priority"], row["color_id"]) == (3, "red")
    assert row["date_due"] > 0


def test_a_card_may_be_due_at_the_end_of_the_calendar(ground: Ground) -> None:
    card = ground.create(date_due="9999-12-31 23:59")
    assert ground.task(card)["date_due"] == 253_402_300_740
    assert [row["id"] for row in ground.call("getAllTasks", ground.id) if row["date_due"]] == [card]


def test_an_empty_text_clears_and_zero_is_no_date(ground: Ground) -> None:
    task = ground.create(description="words", date_due="2030-01-01 10:00")
    assert ground.call("updateTask", id=task, date_due=0) is False
    assert ground.call("updateTask", id=task, date_due="", description="") is True
    row = ground.task(task)
    assert (row["date_due"], row["description"]) == (0, "")


def test_an_update_that_changes_nothing_is_true(ground: Ground) -> None:
    task = ground.create()
    assert ground.call("updateTask", id=task) is True


def test_a_priority_beyond_the_four_is_kept(ground: Ground) -> None:
    task = ground.create(priority=99)
    assert ground.task(task)["priority"] == 99
    ground.call("updateTask", id=task, priority=-1)
    assert ground.task(task)["priority"] == -1
    ground.call("updateTask", id=task, priority=2)
    assert ground.task(task)["priority"] == 2


def test_assigning_and_unassigning(ground: Ground) -> None:
    task = ground.create()
    alice = ground.api.user_id("alice")
    assert ground.call("updateTask", id=task, owner_id=alice) is True
    assert ground.task(task)["owner_id"] == alice
    assert ground.call("updateTask", id=task, owner_id=ground.api.user_id("bob")) is False, "bob is no member"
    assert ground.call("updateTask", id=task, owner_id=0) is True
    assert ground.task(task)["owner_id"] == 0


def test_a_card_is_found_by_its_reference(ground: Ground) -> None:
    task = ground.create(reference="R/1")
    assert ground.call("getTaskByReference", ground.id, "R/1")["id"] == task
    assert ground.call("getTaskByReference", ground.id, "R/2") is None


# -- places ----------------------------------------------------------------------------------------------


def test_positions_run_from_one_to_n(ground: Ground) -> None:
    cards = [ground.create(f"card {n}") for n in range(4)]
    assert ground.order("Backlog") == cards
    assert [ground.task(card)["position"] for card in cards] == [1, 2, 3, 4]


def test_a_card_goes_to_the_top_the_middle_and_the_bottom(ground: Ground) -> None:
    a, b, c, d = (ground.create(f"card {n}") for n in range(4))
    assert ground.move(d, "Backlog", 1) is True
    assert ground.order("Backlog") == [d, a, b, c]
    assert ground.move(d, "Backlog", 3) is True
    assert ground.order("Backlog") == [a, b, d, c]
    assert ground.move(a, "Backlog", 99) is True
    assert ground.order("Backlog") == [b, d, c, a]


def test_a_card_that_is_there_already_is_not_moved(ground: Ground) -> None:
    a = ground.create()
    assert ground.move(a, "Backlog", 1) is False
    assert ground.move(a, "Backlog", 0) is False


def test_a_card_moved_between_two_others_thirty_times_still_finds_room(ground: Ground) -> None:
    first, *rest = [ground.create(f"card {n}") for n in range(32)]
    for card in rest[1:]:
        ground.move(card, "Backlog", 2)
    assert ground.order("Backlog") == [first, *reversed(rest[1:]), rest[0]]


def test_a_move_to_another_column_keeps_assignee_and_says_when(ground: Ground) -> None:
    alice = ground.api.user_id("alice")
    card = ground.create(owner_id=alice)
    assert ground.move(card, "Work in progress") is True
    row = ground.task(card)
    assert row["column_id"] == ground.columns["Work in progress"]
    assert row["owner_id"] == alice
    assert row["date_moved"] >= row["date_creation"]
    assert ground.call("getAllComments", card) == []


def test_a_swimlane_of_its_own_has_positions_of_its_own(ground: Ground) -> None:
    lane = ground.call("addSwimlane", ground.id, "second")
    a, b = ground.create("a"), ground.create("b")
    assert ground.move(b, "Backlog", 1, swimlane=lane) is True
    assert (ground.task(a)["position"], ground.task(b)["position"]) == (1, 1)
    assert ground.task(b)["swimlane_id"] == lane


def test_a_wrong_project_is_false(ground: Ground) -> None:
    other = project(ground.api)
    card = ground.create()
    assert ground.call("moveTaskPosition", other.id, card, ground.columns["Ready"], 1, 0) is False


# -- ends ------------------------------------------------------------------------------------------------


def test_closing_completes_the_subtasks_and_reopening_leaves_them(ground: Ground) -> None:
    card = ground.create()
    subtask = ground.call("createSubtask", card, "a part")
    assert ground.call("closeTask", card) is True
    assert ground.call("closeTask", card) is True
    row = ground.task(card)
    assert (row["is_active"], row["date_completed"] > 0) == (0, True)
    assert ground.call("getSubtask", subtask)["status"] == 2
    assert ground.call("openTask", card) is True
    assert ground.call("openTask", card) is True
    assert ground.task(card)["is_active"] == 1
    assert ground.call("getSubtask", subtask)["status"] == 2


def test_open_and_closed_cards_are_listed_apart(ground: Ground) -> None:
    a, b = ground.create("a"), ground.create("b")
    ground.call("closeTask", a)
    assert [row["id"] for row in ground.call("getAllTasks", ground.id)] == [b]
    assert [row["id"] for row in ground.call("getAllTasks", ground.id, 0)] == [a]
    with pytest.raises(Refusal) as caught:
        ground.call("getAllTasks", ground.id, 2)
    assert caught.value.code == -32602


def test_a_removed_card_is_gone_with_all_its_parts(ground: Ground) -> None:
    card = ground.create(tags=["x"])
    ground.call("createSubtask", card, "part")
    ground.call("createComment", card, ground.api.user_id("alice"), "word")
    assert ground.call("removeTask", card) is True
    with pytest.raises(Refusal) as caught:
        ground.task(card)
    assert caught.value.code == 403
    assert ground.api.call("getTask", card, by="jsonrpc") is None


def test_the_dashboard_shows_my_open_cards_with_their_tags(ground: Ground) -> None:
    me = ground.api.user_id("alice")
    mine, plain = ground.create("mine", owner_id=me, tags=["b", "a"]), ground.create("plain", owner_id=me)
    rows = {row["id"]: row for row in ground.call("getMyDashboard")}
    assert [tag["name"] for tag in rows[mine]["tags"]] == ["a", "b"]
    assert set(rows[mine]["tags"][0]) == {"id", "name", "color_id", "task_id"}
    assert rows[plain]["tags"] == []


# -- elsewhere -------------------------------------------------------------------------------------------


def test_what_blocks_another_card_is_removed_where_no_queue_is_and_gates_no_more(ground: Ground) -> None:
    blocker, waiter = ground.create("blocker"), ground.create("waiter")
    assert ground.call("createTaskLink", waiter, blocker, 3)
    assert ground.call("removeTask", blocker) is True
    assert ground.call("getAllTaskLinks", waiter) == []
    assert ground.api.served.house.board.get(waiter, None).open_blockers == 0


def test_what_a_task_of_a_queue_waits_for_is_removed_nowhere(ground: Ground) -> None:
    pool = queue(ground.api)
    blocker, waiter = ground.create("blocker"), pool.submitted("waiter")
    assert ground.call("createTaskLink", waiter, blocker, 3)
    assert ground.call("removeTask", blocker) is False


@pytest.mark.parametrize("hours", [4.5, 3])
def test_a_copy_keeps_the_estimate_and_no_time_is_spent_on_it(ground: Ground, hours: float) -> None:
    card = ground.create(time_estimated=hours, time_spent=2)
    row = ground.task(ground.call("duplicateTaskToProject", card, ground.id))
    assert (row["time_estimated"], row["time_spent"]) == (hours, 0)


def test_a_copy_takes_words_tags_and_subtasks_along(ground: Ground) -> None:
    card = ground.create("original", description="words", tags=["x"], color_id="red", priority=3)
    ground.call("createSubtask", card, "part")
    ground.call("createExternalTaskLink", card, "https://example.org/page", "related")
    copy = ground.call("duplicateTaskToProject", card, ground.id)
    row = ground.task(copy)
    assert (row["title"], row["description"], row["color_id"], row["priority"]) == ("original", "words", "red", 3)
    assert list(ground.call("getTaskTags", copy).values()) == ["x"]
    assert [s["title"] for s in ground.call("getAllSubtasks", copy)] == ["part"]
    assert [e["url"] for e in ground.call("getAllExternalTaskLinks", copy)] == ["https://example.org/page"]
    assert [(n["label"], n["task_id"]) for n in ground.call("getAllTaskLinks", copy)] == [("duplicates", card)]


def test_a_card_moves_to_the_like_place_of_another_project(ground: Ground) -> None:
    other = project(ground.api)
    ground.call("createCategory", ground.id, "urgent")
    there = other.call("createCategory", other.id, "urgent")
    here = ground.call("getAllCategories", ground.id)[0]["id"]
    card = ground.create(tags=["x"], column_id=ground.columns["Ready"], category_id=here)
    assert ground.call("moveTaskToProject", card, other.id) is True
    row = ground.task(card)
    assert (row["project_id"], row["column_id"], row["category_id"]) == (other.id, other.columns["Ready"], there)
    assert list(ground.call("getTaskTags", card).values()) == ["x"]


def test_a_strangers_project_is_forbidden_to_move_to(ground: Ground) -> None:
    card = ground.create()
    hidden = project(ground.api, by="alice")
    ground.api.served.house.projects.remove_member(hidden.id, ground.api.user_id("alice"), SYSTEM)
    with pytest.raises(Refusal) as caught:
        ground.call("moveTaskToProject", card, hidden.id)
    assert caught.value.code == 403


def test_overdue_cards_are_those_whose_date_has_passed(ground: Ground) -> None:
    late = ground.create("late", date_due="2020-01-01 00:00", owner_id=ground.api.user_id("alice"))
    ground.create("not yet", date_due="2090-01-01 00:00")
    ground.create("never")
    rows = ground.call("getOverdueTasksByProject", ground.id)
    assert [row["id"] for row in rows] == [late]
    assert set(rows[0]) == {
        *("id", "title", "date_due", "project_id", "project_name", "creator_id", "owner_id"),
        *("assignee_username", "assignee_name"),
    }
    assert rows[0]["assignee_username"] == "alice"
    assert late in [row["id"] for row in ground.call("getOverdueTasks")]


def test_the_board_shows_swimlanes_with_columns_with_cards(ground: Ground) -> None:
    a, b = ground.create("a", tags=["x"], score=2), ground.create("b", score=3)
    ground.move(b, "Ready")
    board = ground.call("getBoard", ground.id)
    assert [lane["name"] for lane in board] == ["Default swimlane"]
    assert (board[0]["nb_tasks"], board[0]["nb_columns"], board[0]["score"]) == (2, 4, 5)
    columns = {column["title"]: column for column in board[0]["columns"]}
    assert list(columns) == ["Backlog", "Ready", "Work in progress", "Done"]
    assert [t["id"] for t in columns["Backlog"]["tasks"]] == [a]
    assert [t["name"] for t in columns["Backlog"]["tasks"][0]["tags"]] == ["x"]
    assert columns["Ready"]["nb_tasks"] == columns["Ready"]["nb_open_tasks"] == 1
    assert columns["Ready"]["tasks"][0]["column_name"] == "Ready"
