"""Tiers, from a tag or from the score, and the rule that unrated tasks wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.tier import SCORES, TIERS, score_hold, tier_of

scores = st.none() | st.integers(0, 1000)
thresholds = st.lists(st.integers(1, 100), min_size=2, max_size=2).map(sorted)


@pytest.mark.parametrize(
    ("score", "tier"),
    [(None, ""), (0, ""), (1, "small"), (2, "small"), (3, "medium"), (5, "medium"), (8, "large"), (89, "large")],
)
def test_the_score_gives_the_tier(score: int | None, tier: str) -> None:
    assert tier_of(score) == tier


@given(score=scores, tier=st.sampled_from(TIERS), limits=thresholds)
def test_an_explicit_tier_beats_the_score(score: int | None, tier: str, limits: list[int]) -> None:
    assert tier_of(score, tier, limits) == tier


@given(score=st.integers(1, 1000), limits=thresholds)
def test_a_higher_score_never_asks_for_a_smaller_tier(score: int, limits: list[int]) -> None:
    lower, higher = tier_of(score, "", limits), tier_of(score + 1, "", limits)
    assert TIERS.index(lower) <= TIERS.index(higher)


@given(score=scores, limits=st.lists(st.integers(1, 100), max_size=5))
def test_every_score_has_a_tier_that_exists(score: int | None, limits: list[int]) -> None:
    assert tier_of(score, "", limits) in (*TIERS, "")


@given(score=scores, tier=st.sampled_from(("", *TIERS)), check=st.booleans())
def test_only_an_unrated_task_in_a_queue_with_the_check_waits(score: int | None, tier: str, check: bool) -> None:
    waits = score_hold(score, tier, check=check) is not None
    assert waits == (check and not tier and not score)


def test_the_scores_are_fibonacci_numbers() -> None:
    assert all(c == a + b for a, b, c in zip(SCORES[2:], SCORES[3:], SCORES[4:], strict=False))
