"""Many clients of Kanboard's API at once: every true is really there afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.integration.board_api import BoardApi
from tests.integration.cards import TITLES, Ground, project

_CLIENTS: Final = 8


@pytest.fixture
def ground(shared_api: BoardApi) -> Ground:
    return project(shared_api)


def _at_once(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(_CLIENTS) as clients:
        return list(clients.map(work, items))


def _made(ground: Ground, count: int) -> list[int]:
    """Cards made in one request."""
    calls = [
        {"jsonrpc": "2.0", "id": n, "method": "createTask", "params": {"title": f"card {n}", "project_id": ground.id}}
        for n in range(count)
    ]
    answers = sorted(ground.api.post(calls).json, key=lambda answer: answer["id"])
    return [answer["result"] for answer in answers]


def test_of_192_moves_by_eight_movers_every_true_is_there(ground: Ground) -> None:
    cards = _made(ground, 48)
    for column in ("Ready", "Work in progress", "Done", "Ready"):
        answers = _at_once(functools.partial(ground.move, column=column), cards)
        assert answers == [True] * 48
        assert sorted(ground.order(column)) == sorted(cards)
    rows = ground.call("getAllTasks", ground.id)
    assert sorted(row["position"] for row in rows) == list(range(1, 49))


def test_movers_within_one_column_leave_distinct_positions(ground: Ground) -> None:
    cards = _made(ground, 16)
    _at_once(lambda n: ground.move(cards[n % 16], "Backlog", 1 + (n * 7) % 16), range(96))
    assert sorted(ground.order("Backlog")) == sorted(cards)
    assert sorted(r["position"] for r in ground.call("getAllTasks", ground.id)) == list(range(1, 17))


def test_200_concurrent_creates_have_200_positions(ground: Ground) -> None:
    made = _at_once(lambda n: ground.create(f"card {n}"), range(200))
    rows = ground.call("getAllTasks", ground.id)
    assert {row["id"] for row in rows} == set(made)
    assert sorted(row["position"] for row in rows) == list(range(1, 201))


def test_concurrent_closes_and_reopenings_lose_nothing(ground: Ground) -> None:
    cards = _made(ground, 32)
    assert _at_once(lambda card: ground.call("closeTask", card), cards) == [True] * 32
    assert ground.call("getAllTasks", ground.id) == []
    assert _at_once(lambda card: ground.call("openTask", card), cards[:16]) == [True] * 16
    assert sorted(row["id"] for row in ground.call("getAllTasks", ground.id)) == cards[:16]


def test_concurrent_tag_changes_end_as_one_of_them(ground: Ground) -> None:
    card = ground.create()
    sets = [[f"t{n}", f"u{n}", "all"] for n in range(24)]
    assert _at_once(lambda tags: ground.call("setTaskTags", ground.id, card, tags), sets) == [True] * 24
    assert sorted(ground.call("getTaskTags", card).values()) in [sorted(tags) for tags in sets]


def test_one_of_many_claimers_of_a_tag_gets_it(ground: Ground) -> None:
    for n in range(10):
        names = [f"L/1/{n}"] * _CLIENTS
        won = _at_once(lambda name: ground.call("createTag", ground.id, name), names)
        assert sum(bool(one) for one in won) == 1


def test_a_token_in_metadata_is_consumed_once(ground: Ground) -> None:
    card = ground.create()
    ground.call("saveTaskMetadata", card, {"token": "1"})
    taken = _at_once(lambda _: ground.call("removeTaskMetadata", card, "token"), range(16))
    assert sum(taken) == 1


def test_mixed_moves_edits_and_closes_all_end(ground: Ground) -> None:
    cards = _made(ground, 24)

    def act(n: int) -> Any:
        card = cards[n % 24]
        match n % 3:
            case 0:
                return ground.move(card, TITLES[n % 4], 1 + n % 5)
            case 1:
                return ground.call("updateTask", id=card, title=f"again {n}", tags=[f"t{n}"])
            case _:
                return ground.call("createComment", card, ground.api.user_id("alice"), f"word {n}")

    answers = _at_once(act, range(144))
    assert all(answer is not None for answer in answers)
    assert all(answers[n] is True for n in range(144) if n % 3 == 1)
    assert len(ground.call("getAllTasks", ground.id)) == 24
