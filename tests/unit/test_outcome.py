"""What follows from the end of a run: retry or dead letter, and how long a failed task rests."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.outcome import Backoff, DeadLetter, Retry, after_expiry, after_failure

spans = st.timedeltas(timedelta(0), timedelta(days=30))
backoffs = st.builds(Backoff, base=spans, factor=st.floats(1, 1000), ceiling=spans)
attempts = st.integers(0, 10_000)


def test_the_rest_grows_fourfold_up_to_an_hour() -> None:
    rests = [Backoff().after(n) for n in range(1, 6)]
    assert rests == [timedelta(seconds=s) for s in (30, 120, 480, 1920, 3600)]


@given(backoff=backoffs, tries=attempts)
def test_the_rest_never_shrinks_and_never_passes_the_ceiling(backoff: Backoff, tries: int) -> None:
    assert timedelta(0) <= backoff.after(tries) <= backoff.after(tries + 1) <= backoff.ceiling


def test_the_rest_after_very_many_attempts_is_the_ceiling() -> None:
    """Thirty steps of four from half a minute are more than a timedelta can hold."""
    assert Backoff().after(1000) == timedelta(hours=1)


@given(tries=attempts, most=st.integers(1, 100), backoff=backoffs)
def test_a_failure_is_tried_again_only_while_attempts_are_left(tries: int, most: int, backoff: Backoff) -> None:
    """G9: at most ``most`` attempts."""
    decision = after_failure(tries, most, retry=True, backoff=backoff)
    assert isinstance(decision, DeadLetter) == (tries >= most)


@given(tries=attempts, most=st.integers(1, 100), backoff=backoffs)
def test_a_final_failure_ends_at_once(tries: int, most: int, backoff: Backoff) -> None:
    assert after_failure(tries, most, retry=False, backoff=backoff) == DeadLetter()


@given(tries=attempts, most=st.integers(1, 100), retry=st.booleans(), backoff=backoffs)
def test_no_further_attempt_brings_a_dead_letter_back(tries: int, most: int, retry: bool, backoff: Backoff) -> None:
    if isinstance(after_failure(tries, most, retry=retry, backoff=backoff), DeadLetter):
        assert isinstance(after_failure(tries + 1, most, retry=retry, backoff=backoff), DeadLetter)


@given(most=st.integers(1, 50))
def test_a_task_that_kills_its_worker_is_started_as_often_as_it_may_and_no_more(most: int) -> None:
    """G9: each claim counts one attempt, an expiry gives none back."""
    starts = 0
    while True:
        starts += 1
        if after_expiry(starts, most) == DeadLetter():
            break
    assert starts == most


def test_an_expired_lease_is_ready_again_without_a_rest() -> None:
    assert after_expiry(1, 3) == Retry(rest=timedelta(0))
