"""Tiers: how large a model a task asks for, from its tag or its score, and the rule that unrated tasks wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TIERS: Final = ("small", "medium", "large")
SCORES: Final = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)  # Fibonacci, as estimation games use them

DEFAULT_THRESHOLDS: Final = (2, 5)  # up to 2 small, up to 5 medium, above that large


def tier_of(score: int | None, explicit: str = "", thresholds: Sequence[int] = DEFAULT_THRESHOLDS) -> str:
    """The tier a task asks for: the explicit one, else by score; "" (any tier) if it has neither."""
    if explicit:
        return explicit
    if score is None or score == 0:
        return ""
    for tier, limit in zip(TIERS, thresholds, strict=False):
        if score <= limit:
            return tier
    return TIERS[min(len(thresholds), len(TIERS) - 1)]


def score_hold(score: int | None, explicit_tier: str, *, check: bool) -> str | None:
    """Why an unrated task waits in a queue with the score check; None if it may be claimed."""
    if not check or explicit_tier or score:
        return None
    return "it has no score yet; rate it with `fabric edit REF --score N`"
