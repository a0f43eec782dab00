"""Limits of families, inherited trust, and who may judge a result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.ancestry import (
    Kinship,
    Limits,
    Parentage,
    check_child,
    check_quota,
    closes_a_cycle,
    inherited,
    may_judge,
)
from taskfabric.domain.errors import Refused
from taskfabric.domain.principal import Kind, Trust

counts = st.integers(0, 30)
people = st.integers(1, 6)
limits_strategy = st.builds(
    Limits,
    per_hour=st.integers(0, 20),
    open_per_agent=st.integers(0, 20),
    depth=st.integers(0, 8),
    fan_out=st.integers(0, 20),
)


@given(depth=counts, children=counts, limits=limits_strategy)
def test_a_child_stands_within_the_depth_and_the_fan_out_or_is_refused(
    depth: int, children: int, limits: Limits
) -> None:
    """Invariant 6."""
    parent = Parentage(depth=depth, children=children, is_open=True)
    fits = depth < limits.depth and children < limits.fan_out
    if fits:
        check_child(parent, limits)
    else:
        with pytest.raises(Refused) as refusal:
            check_child(parent, limits)
        assert refusal.value.facts["rule"] == ("depth" if depth >= limits.depth else "fan-out")


@given(last_hour=counts, still_open=counts, adding=st.integers(1, 10), limits=limits_strategy)
def test_an_agent_never_gets_past_its_quota(last_hour: int, still_open: int, adding: int, limits: Limits) -> None:
    """Invariant 6: a batch counts as what it adds, so that it is no way around."""
    fits = last_hour + adding <= limits.per_hour and still_open + adding <= limits.open_per_agent
    if fits:
        check_quota(last_hour, still_open, adding, limits)
    else:
        with pytest.raises(Refused) as refusal:
            check_quota(last_hour, still_open, adding, limits)
        assert refusal.value.facts["rule"] in ("quota-hour", "quota-open")


def test_the_limits_are_those_of_the_design_unless_told_otherwise() -> None:
    assert (Limits().depth, Limits().fan_out) == (4, 12)


@given(trusts=st.lists(st.sampled_from(Trust), min_size=1))
def test_trust_is_the_lowest_of_what_made_it(trusts: list[Trust]) -> None:
    """Invariant 2: no child is trusted more than anything that it came from."""
    result = inherited(trusts)
    assert result in trusts
    assert all(result <= trust for trust in trusts)


def test_what_nothing_taints_is_a_humans() -> None:
    assert inherited([]) is Trust.HUMAN


@given(
    closer=people,
    kind=st.sampled_from(Kind),
    producer=st.none() | people,
    submitter=people,
    relatives=st.frozensets(people),
    human_only=st.booleans(),
)
def test_a_result_is_judged_only_by_who_had_no_part_in_it(
    closer: int, kind: Kind, producer: int | None, submitter: int, relatives: frozenset[int], human_only: bool
) -> None:
    """Invariant 3."""
    kin = Kinship(producer_id=producer, submitter_id=submitter, relatives=relatives)
    allowed = may_judge(closer, kind, kin, human_only=human_only) is None
    stranger = closer not in relatives and closer != submitter
    match kind:
        case Kind.HUMAN:
            assert allowed == (closer != producer)
        case Kind.AGENT:
            assert allowed == (closer != producer and stranger and not human_only)
        case Kind.SERVICE:
            assert not allowed


@pytest.mark.parametrize(
    ("closer", "kind", "human_only", "rule"),
    [
        (1, Kind.AGENT, False, "producer-never-closes"),
        (1, Kind.HUMAN, False, "producer-never-closes"),
        (2, Kind.AGENT, False, "kin-never-closes"),
        (3, Kind.AGENT, False, "kin-never-closes"),
        (9, Kind.AGENT, True, "needs-human-verify"),
        (9, Kind.SERVICE, False, "service"),
    ],
)
def test_a_refusal_to_judge_names_its_rule(closer: int, kind: Kind, human_only: bool, rule: str) -> None:
    kin = Kinship(producer_id=1, submitter_id=2, relatives=frozenset({3}))
    refusal = may_judge(closer, kind, kin, human_only=human_only)
    assert refusal is not None
    assert refusal.facts["rule"] == rule
    assert refusal.next


def test_a_human_who_submitted_may_judge_what_another_produced() -> None:
    assert may_judge(2, Kind.HUMAN, Kinship(producer_id=1, submitter_id=2), human_only=True) is None


nodes = st.integers(1, 6)


@given(wanted=st.lists(st.tuples(nodes, nodes), max_size=20))
def test_links_that_pass_the_check_never_close_a_ring(wanted: list[tuple[int, int]]) -> None:
    blocked_by: dict[int, set[int]] = {}

    def all_that_block(task: int) -> set[int]:
        found: set[int] = set()
        wave = set(blocked_by.get(task, ()))
        while wave - found:
            found |= wave
            wave = {b for t in wave for b in blocked_by.get(t, ())}
        return found

    for blocker, dependent in wanted:
        if not closes_a_cycle(blocker, dependent, all_that_block(blocker)):
            blocked_by.setdefault(dependent, set()).add(blocker)
    assert all(task not in all_that_block(task) for task in range(1, 7))


def test_a_task_does_not_block_itself() -> None:
    assert closes_a_cycle(7, 7, ())
