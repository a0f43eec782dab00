"""What the end of a blocker does to the task that waits for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.dependency import Effect, broken_reason, effect_of
from taskfabric.domain.status import FINISHED, Flag, Status

any_flags = st.integers(0, 2 * max(Flag) - 1).map(Flag)


@pytest.mark.parametrize(
    ("status", "flags", "needs_verified", "effect"),
    [
        ("done", Flag.NONE, False, Effect.SATISFY),
        ("done", Flag.NONE, True, Effect.WAIT),
        ("done", Flag.VETO, False, Effect.BREAK),
        ("done", Flag.VETO, True, Effect.BREAK),
        ("verified", Flag.NONE, True, Effect.SATISFY),
        ("verified", Flag.NONE, False, Effect.SATISFY),
        ("verified", Flag.VETO, False, Effect.BREAK),
        ("dead", Flag.DEAD_LETTER, False, Effect.BREAK),
        ("cancelled", Flag.CANCELLED, False, Effect.BREAK),
        ("rejected", Flag.REJECTED, False, Effect.BREAK),
        ("record", Flag.A2A_MESSAGE, False, Effect.BREAK),
        ("working", Flag.NONE, False, Effect.WAIT),
        ("held", Flag.BLOCKED, False, Effect.WAIT),
    ],
)
def test_each_end_has_its_effect(status: str, flags: Flag, needs_verified: bool, effect: Effect) -> None:
    assert effect_of(Status(status), flags, needs_verified=needs_verified) is effect


@given(status=st.sampled_from(Status), flags=any_flags, needs_verified=st.booleans())
def test_only_a_good_result_releases(status: Status, flags: Flag, needs_verified: bool) -> None:
    if effect_of(status, flags, needs_verified=needs_verified) is Effect.SATISFY:
        assert status in (Status.DONE, Status.VERIFIED)
        assert Flag.VETO not in flags


@given(status=st.sampled_from(Status), flags=any_flags)
def test_asking_for_verification_never_releases_more(status: Status, flags: Flag) -> None:
    if effect_of(status, flags, needs_verified=True) is Effect.SATISFY:
        assert effect_of(status, flags, needs_verified=False) is Effect.SATISFY


@given(status=st.sampled_from(Status), flags=any_flags, needs_verified=st.booleans())
def test_what_is_not_finished_breaks_nothing(status: Status, flags: Flag, needs_verified: bool) -> None:
    if status not in FINISHED:
        assert effect_of(status, flags, needs_verified=needs_verified) is Effect.WAIT


def test_a_broken_dependency_says_which_and_how() -> None:
    assert broken_reason(7, Status.CANCELLED, Flag.CANCELLED) == "#7, which blocks it, is cancelled"
    assert broken_reason(7, Status.DONE, Flag.VETO) == "#7, which blocks it, ended with a veto"
