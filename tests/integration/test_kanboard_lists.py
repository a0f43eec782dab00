"""Lists and boards of Kanboard's API are kept as text: whatever changes, they say what single cards say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from taskfabric.boards.native.cards.kept import Kept
from taskfabric.boards.native.cards.store import NativeFaces
from taskfabric.boards.native.names import Names
from tests.integration.board_api import BoardApi
from tests.integration.cards import Ground, project, queue


@pytest.fixture
def ground(shared_api: BoardApi) -> Ground:
    return project(shared_api)


def _compared(ground: Ground, by: str | None = None) -> int:
    """Both lists and the board are what getTask and searchTasks say of each card; how many cards there were."""
    listed = [row for status in (1, 0) for row in ground.call("getAllTasks", ground.id, status, by=by)]
    for row in listed:
        assert row == ground.call("getTask", row["id"], by=by)
    found = {row["id"]: row for row in ground.call("searchTasks", ground.id, "status:all", by=by)}
    board = [
        task
        for lane in ground.call("getBoard", ground.id, by=by)
        for column in lane["columns"]
        for task in column["tasks"]
    ]
    tags = {task["id"]: [tag["name"] for tag in task.pop("tags")] for task in board}
    assert all(task.pop("is_draggable") is True for task in board)
    assert {task["id"]: task for task in board} == found
    for id_, names in tags.items():
        assert sorted(names) == sorted(ground.call("getTaskTags", id_, by=by).values())
    assert len(listed) == len(board)
    return len(board)


def test_whatever_happens_to_cards_their_lists_say_what_they_say(ground: Ground) -> None:
    a, b, c = (ground.create(f'card \N{SNOWMAN} {n} " \\ \n', description="words " * n) for n in range(3))
    category = ground.call("createCategory", ground.id, "Sorts")
    call = ground.call
    changes: list[Callable[[], Any]] = [
        lambda: call("updateTask", id=a, title="another", description="", priority=7, color_id="red"),
        lambda: call("updateTask", id=a, description="words again", category_id=category, score=3, tags=["x", "y"]),
        lambda: call("updateTask", id=a, owner_id=ground.api.user_id("alice"), date_due="2030-01-01 10:00"),
        lambda: call("updateTask", id=a, color_id="no such colour", reference="R-1"),
        lambda: call("createComment", b, ground.api.user_id("alice"), "said"),
        lambda: call("createSubtask", task_id=b, title="a part", status=2),
        lambda: call("createTaskLink", b, c, 9),
        lambda: call("createExternalTaskLink", b, "https://example.org/", "related", "weblink"),
        lambda: call("createTaskFile", ground.id, b, "file.txt", "d29yZHM="),
        lambda: call("updateCategory", category, "Kinds", "blue"),
        lambda: call("updateColumn", ground.columns["Backlog"], "Ideas"),
        lambda: call("updateSwimlane", ground.id, ground.swimlane, "Everything"),
        lambda: call("updateProject", ground.id, "Renamed"),
        lambda: ground.move(c, "Ready"),
        lambda: ground.move(a, "Backlog", 2),
        lambda: call("closeTask", c),
        lambda: call("removeCategory", category),
        lambda: call("removeTask", b),
        lambda: call("openTask", c),
    ]
    assert _compared(ground) == 3
    for change in changes:
        assert change()
        assert _compared(ground) in (2, 3)


def test_a_queues_lists_say_what_its_cards_say_through_everybodys_eyes(shared_api: BoardApi) -> None:
    ground = queue(shared_api)
    ground.claimed("held", score=5, tags=("one",), priority=3)
    ground.submitted("bobs", by="bob")
    assert _compared(ground) == 1
    assert _compared(ground, by="bob") == 1
    assert _compared(ground, by="kimi") == 2


def test_nothing_is_kept_of_a_database_that_was_restored(ground: Ground) -> None:
    house = ground.api.served.house
    names = Names()
    faces = NativeFaces(house.database, names, house.signal)
    card = ground.create("as it is")
    [text] = faces.cards(ground.id, True, None, orjson.dumps)
    with house.database.connection() as conn:
        row = conn.execute("SELECT xmin FROM tasks WHERE id = %s", (card,)).fetchone()
    assert row is not None
    faces._kept[0].put((card, row[0], None, 1), b"of the copy before")
    assert faces.cards(ground.id, True, None, orjson.dumps) == [b"of the copy before"]
    names.forget()
    assert faces.cards(ground.id, True, None, orjson.dumps) == [text]


def test_what_is_kept_of_another_version_counts_for_nothing() -> None:
    kept = Kept()
    kept.put((1, "1"), b"old")
    assert kept.find([(1, "1"), (1, "2"), (2, "1")]) == [b"old", None, None]


def test_only_so_much_is_kept_and_what_is_used_stays() -> None:
    kept = Kept(room=1000)
    kept.put(0, b"x" * 100)
    for n in range(1, 100):
        kept.put(n, b"x" * 100)
        assert kept.find([0]) == [b"x" * 100]
    assert 10 <= sum(text is not None for text in kept.find(range(100))) <= 25


def test_a_version_has_one_number_as_long_as_it_is_the_same() -> None:
    kept = Kept()
    first = kept.number(1, ("a",))
    assert kept.number(1, ("a",)) == first
    assert len({first, kept.number(1, ("b",)), kept.number(2, ("b",)), kept.number(1, ("a",))}) == 4


def test_a_category_without_a_description_has_none_on_a_card_either(ground: Ground) -> None:
    category = ground.call("createCategory", ground.id, "Sorts")
    ground.create("a card", category_id=category)
    [row] = ground.call("searchTasks", ground.id, "category:Sorts")
    assert (row["category_name"], row["category_description"]) == ("Sorts", None)
    _compared(ground)
