"""The order in which work is taken: own queue, priority, place on the board; and nobody starves."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.take_order import HOUSEHOLD
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.desk import Rules
from tests.contract.acts import NOON, claim, claimed_ids, for_any, next_of, release, submit
from tests.contract.household import Household


def test_the_first_that_came_is_the_first_that_goes(alice: Fabric, kimi: Fabric) -> None:
    tasks = [submit(alice, str(n)).id for n in range(4)]
    assert [next_of(kimi).task.id for _ in tasks] == tasks


def test_the_highest_priority_goes_first(alice: Fabric, kimi: Fabric) -> None:
    by_priority = {priority: submit(alice, priority=priority).id for priority in (0, 2, 1, 3)}
    assert claimed_ids(kimi) == [by_priority[priority] for priority in (3, 2, 1, 0)]


def test_the_order_of_priorities_is_a_setting(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    by_priority = {priority: submit(alice, priority=priority).id for priority in (0, 1, 2, 3)}
    with noon.ruled_by(Rules(take_order=HOUSEHOLD)):
        assert claimed_ids(kimi) == [by_priority[priority] for priority in HOUSEHOLD]


@pytest.mark.parametrize("limit", [1, 100])
def test_ones_own_queue_goes_before_the_pools(alice: Fabric, kimi: Fabric, limit: int) -> None:
    pooled, own = submit(alice, priority=3), submit(alice, to="kimi", priority=0)
    first = kimi.call(verbs.Claim(limit=limit))
    assert first[0].task.id == own.id
    assert pooled.id in [got.task.id for got in [*first, *kimi.call(verbs.Claim())]]


def test_lanes_of_one_priority_are_taken_by_their_place(noon: Household, alice: Fabric) -> None:
    """Tiers and needs make lanes, not ranks."""
    noon.agent("able", capabilities=("tools",))
    tasks = [
        submit(alice, tier="large"),
        submit(alice, needs=("tools",)),
        submit(alice, tier="small"),
        submit(alice),
        submit(alice, trust="sandboxed"),
    ]
    assert [next_of(noon.fabric_as("able")).task.id for _ in tasks] == [task.id for task in tasks]


def test_a_lane_whose_head_has_waited_too_long_goes_first(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """A flood of urgent work starves nobody."""
    low = submit(alice, "low", priority=0)
    noon.later(hours=4)
    flood = [submit(alice, str(n), priority=3).id for n in range(3)]
    assert next_of(kimi).task.id == flood[0]
    noon.later(seconds=1)
    assert next_of(kimi).task.id == low.id
    assert claimed_ids(kimi) == flood[1:]


def test_of_those_that_waited_too_long_the_longest_goes_first(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    middle = submit(alice, priority=1)
    noon.later(minutes=1)
    low = submit(alice, priority=0)
    noon.later(hours=5)
    urgent = submit(alice, priority=3)
    assert claimed_ids(kimi) == [middle.id, low.id, urgent.id]


def test_a_wait_counts_from_when_it_could_be_claimed(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """Not from when it was made: a task for later is not old when its time comes."""
    later = submit(alice, priority=0, not_before=NOON.replace(hour=20))
    noon.at(NOON.replace(hour=20))
    urgent = submit(alice, priority=3)
    assert claimed_ids(kimi) == [urgent.id, later.id]


def test_a_higher_priority_takes_effect_at_once(alice: Fabric, kimi: Fabric) -> None:
    first, second = submit(alice), submit(alice)
    alice.call(verbs.EditTask(task=second.id, priority=3))
    assert claimed_ids(kimi) == [second.id, first.id]


def test_a_released_task_is_at_the_head_of_its_lane(alice: Fabric, kimi: Fabric) -> None:
    first, second, third = (submit(alice, str(n)) for n in range(3))
    release(kimi, claim(kimi, third))
    assert claimed_ids(kimi) == [third.id, first.id, second.id]


# -- the place on the board ------------------------------------------------------------------------------------


def place(alice: Fabric, task: int, **where: object) -> None:
    alice.call(verbs.Move.model_validate({"task": task, **where}))


def test_a_card_moved_to_the_top_is_taken_first(alice: Fabric, kimi: Fabric) -> None:
    tasks = [submit(alice, str(n)).id for n in range(3)]
    place(alice, tasks[2], top=True)
    assert claimed_ids(kimi) == [tasks[2], tasks[0], tasks[1]]


def test_a_card_moved_below_another_is_taken_after_it(alice: Fabric, kimi: Fabric) -> None:
    tasks = [submit(alice, str(n)).id for n in range(4)]
    place(alice, tasks[0], after=tasks[2])
    assert claimed_ids(kimi) == [tasks[1], tasks[2], tasks[0], tasks[3]]


@pytest.mark.parametrize("position", [1, 2, 3, 4, 9])
def test_a_position_counts_from_one_as_people_do(alice: Fabric, kimi: Fabric, position: int) -> None:
    tasks = [submit(alice, str(n)).id for n in range(4)]
    moved = tasks[1]
    place(alice, moved, position=position)
    rest = [task for task in tasks if task != moved]
    assert claimed_ids(kimi) == [*rest[: position - 1], moved, *rest[position - 1 :]]


def test_a_card_goes_to_the_bottom_of_another_column(alice: Fabric, kimi: Fabric) -> None:
    back = submit(alice, backlog=True)
    ready = submit(alice)
    place(alice, back.id, column="Ready")
    assert claimed_ids(kimi) == [ready.id, back.id]


def test_a_place_that_does_not_exist_is_an_error(alice: Fabric) -> None:
    task, elsewhere = submit(alice), submit(alice, to="kimi")
    for where in ({"column": "Nowhere"}, {"swimlane": "Nowhere"}, {"after": elsewhere.id}, {"after": task.id}):
        with pytest.raises(BadInput):
            place(alice, task.id, **where)


@for_any(moves=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=12))
def test_whatever_is_moved_where_the_order_is_the_one_of_a_list(
    household: Household, moves: list[tuple[int, int]]
) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    cards = [submit(alice, str(n)).id for n in range(5)]
    for index, to in moves:
        card = cards.pop(index)
        if to == 0:
            cards.insert(0, card)
            place(alice, card, top=True)
        elif to <= len(cards):
            place(alice, card, after=cards[to - 1])
            cards.insert(to, card)
        else:
            cards.append(card)
            place(alice, card, position=len(cards))
    assert claimed_ids(kimi) == cards


def test_twenty_cards_squeezed_into_one_gap_keep_their_order(alice: Fabric, kimi: Fabric) -> None:
    """However often: the gap between two cards never runs out."""
    first = submit(alice, "first").id
    last = submit(alice, "last").id
    squeezed: list[int] = []
    for n in range(25):
        card = submit(alice, str(n)).id
        place(alice, card, after=first)
        squeezed.insert(0, card)
    assert claimed_ids(kimi) == [first, *squeezed, last]


def test_a_pool_that_one_does_not_work_in_is_not_drained(alice: Fabric, kimi: Fabric) -> None:
    alice.call(verbs.CreateQueue(name="errands", kind=QueueKind.POOL))
    submit(alice, to="errands")
    assert kimi.call(verbs.Claim()) == []
