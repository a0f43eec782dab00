"""In which order ready tasks are taken, and who may take them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Trust
from taskfabric.domain.take_order import HIGHEST_FIRST, HOUSEHOLD, PRIORITIES, Head, checked, first, serves
from tests.unit.making import NOW

HOUR = timedelta(hours=1)
orders = st.permutations(PRIORITIES)


def head(task_id: int, priority: int = 0, *, rank: int = 0, queue_order: int = 0, waited: timedelta = HOUR / 2) -> Head:
    return Head(task_id=task_id, priority=priority, queue_order=queue_order, rank=rank, ready_since=NOW - waited)


def taken(*heads: Head, order: tuple[int, ...] = HIGHEST_FIRST, now: datetime = NOW) -> int | None:
    chosen = first(heads, order, aging=HOUR, now=now)
    return None if chosen is None else chosen.task_id


heads_strategy = st.lists(
    st.builds(
        head,
        task_id=st.integers(1, 1000),
        priority=st.sampled_from(PRIORITIES),
        rank=st.integers(-5, 5),
        queue_order=st.integers(0, 3),
        waited=st.timedeltas(timedelta(0), 3 * HOUR),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda h: h.task_id,
)


def test_the_highest_priority_is_taken_first() -> None:
    assert taken(head(1, 0), head(2, 3), head(3, 2)) == 2


def test_the_household_rule_takes_one_two_nought_three() -> None:
    left = [head(10 + p, p) for p in PRIORITIES]
    order = []
    while left:
        chosen = first(left, HOUSEHOLD, aging=HOUR, now=NOW)
        assert chosen is not None
        order.append(chosen.priority)
        left.remove(chosen)
    assert order == [1, 2, 0, 3]


def test_the_claimers_own_queue_goes_before_a_pool() -> None:
    assert taken(head(1, 3, queue_order=1), head(2, 0, queue_order=0)) == 2


def test_within_a_priority_the_board_position_decides() -> None:
    assert taken(head(1, 2, rank=9), head(2, 2, rank=-3)) == 2


def test_a_lane_that_has_waited_past_its_bound_goes_before_all_others() -> None:
    """A flood of urgent work starves nobody."""
    assert taken(head(1, 3), head(2, 0, queue_order=2, waited=HOUR + timedelta(seconds=1))) == 2


def test_of_two_that_have_waited_too_long_the_longer_wait_goes_first() -> None:
    assert taken(head(1, 3, waited=2 * HOUR), head(2, 0, waited=3 * HOUR)) == 2


def test_a_wait_of_exactly_the_bound_is_not_past_it() -> None:
    assert taken(head(1, 3), head(2, 0, waited=HOUR)) == 1


def test_there_is_nothing_to_take_where_nothing_is_ready() -> None:
    assert taken() is None


@given(heads=heads_strategy, order=orders, data=st.data())
def test_the_choice_does_not_depend_on_the_order_of_looking(
    heads: list[Head], order: list[int], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(heads))
    chosen = first(heads, order, aging=HOUR, now=NOW)
    assert chosen == first(shuffled, order, aging=HOUR, now=NOW)
    assert chosen in heads


@given(heads=heads_strategy, order=orders)
def test_nobody_waits_past_the_bound_behind_one_who_does_not(heads: list[Head], order: list[int]) -> None:
    chosen = first(heads, order, aging=HOUR, now=NOW)
    assert chosen is not None
    overdue = [h.ready_since for h in heads if NOW - h.ready_since > HOUR]
    if overdue:
        assert chosen.ready_since == min(overdue)


@given(order=st.lists(st.integers(-1, 4), max_size=6))
def test_a_take_order_names_each_priority_once(order: list[int]) -> None:
    if sorted(order) == [0, 1, 2, 3]:
        assert checked(order) == tuple(order)
    else:
        with pytest.raises(BadInput, match="exactly once"):
            checked(order)


tiers = st.sampled_from(["", "small", "medium", "large"])
needs = st.frozensets(st.sampled_from(["tools", "vision", "web"]))
trusts = st.sampled_from(Trust)


@given(
    tier=tiers,
    wanted=needs,
    required=trusts,
    own=st.booleans(),
    offered=st.none() | st.lists(tiers),
    able=st.none() | needs,
    trust=trusts,
)
def test_a_claimer_takes_only_what_its_trust_and_its_capabilities_reach(
    tier: str,
    wanted: frozenset[str],
    required: Trust,
    own: bool,
    offered: list[str] | None,
    able: frozenset[str] | None,
    trust: Trust,
) -> None:
    may = serves(
        tier=tier,
        needs=wanted,
        required=required,
        own_queue=own,
        tiers=offered,
        capabilities=able,
        trust=trust,
    )
    if may:
        assert trust >= required
        assert able is None or wanted <= able
        assert own or tier == "" or offered is None or tier in offered


def test_a_task_addressed_by_name_does_not_ask_for_the_tier() -> None:
    def may(*, own_queue: bool) -> bool:
        return serves(
            tier="large",
            needs=(),
            required=Trust.UNTRUSTED,
            own_queue=own_queue,
            tiers=("small",),
            capabilities=(),
            trust=Trust.SANDBOXED,
        )

    assert may(own_queue=True)
    assert not may(own_queue=False)
