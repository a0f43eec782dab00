"""An account is closed by its provider's limit, and opened again by the reset, or by one worker's try."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from taskfabric.domain.account import TELL_PROBES, Account, Met, begin_probe, met, reopened, start_run
from taskfabric.domain.limit import Confidence, Limit, LimitClass

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
JITTER = timedelta(seconds=45)
OPEN = Account(name="acme")


def limit(cls: LimitClass, *, reset: datetime | None = None, sure: Confidence = Confidence.EXACT) -> Limit:
    confidence = Confidence.UNKNOWN if reset is None else sure
    return Limit(cls=cls, window="five_hour", reset=reset, confidence=confidence, evidence="limit reached")


def exhausted(account: Account, now: datetime, reset: datetime | None = None) -> Met:
    return met(account, limit(LimitClass.EXHAUSTED, reset=reset), now, JITTER)


def test_a_known_reset_closes_the_account_until_then_and_a_little_longer() -> None:
    after = exhausted(OPEN, NOON, NOON + 60 * MINUTE).account
    assert after.closed_until == NOON + 60 * MINUTE + JITTER
    assert not after.part(NOON + 60 * MINUTE).open
    assert after.part(NOON + 60 * MINUTE + JITTER).open
    assert "five_hour quota of account acme is spent" in after.part(NOON).reason


def test_a_reset_in_a_guessed_zone_counts_five_minutes_later() -> None:
    guessed = limit(LimitClass.EXHAUSTED, reset=NOON + 60 * MINUTE, sure=Confidence.HOST_ZONE)
    assert met(OPEN, guessed, NOON, JITTER).until == NOON + 65 * MINUTE + JITTER


def test_an_unknown_reset_is_tried_after_15_then_30_then_60_minutes() -> None:
    account, now, waits = OPEN, NOON, []
    for _ in range(5):
        found = exhausted(account, now)
        waits.append((found.until - now) // MINUTE)
        account, now = found.account, found.until
    assert waits == [15, 30, 60, 60, 60]


def test_runs_under_way_that_meet_the_same_wall_are_no_further_try() -> None:
    first = exhausted(OPEN, NOON)
    second = exhausted(first.account, NOON + MINUTE)
    assert second.account == first.account


def test_a_displayed_reset_that_passes_without_effect_is_unknown() -> None:
    account = exhausted(OPEN, NOON, NOON + MINUTE).account
    later = NOON + 5 * MINUTE
    again = exhausted(account, later, NOON + MINUTE)
    assert (again.account.known, again.until) == (False, later + 15 * MINUTE)


def test_of_two_spent_windows_the_later_reset_counts() -> None:
    week = exhausted(OPEN, NOON, NOON + 3000 * MINUTE).account
    assert exhausted(week, NOON, NOON + MINUTE).until == week.closed_until


def test_one_worker_tries_and_the_others_wait() -> None:
    account = exhausted(OPEN, NOON).account
    then = NOON + 15 * MINUTE
    trying = begin_probe(account, "a@box", then)
    assert trying.part(then, who="a@box").open
    assert not trying.part(then, who="b@box").open
    # One that does nothing with its turn loses it; one that has begun keeps it for a quarter of an hour.
    assert trying.part(then + 2 * MINUTE, who="b@box").open
    begun = start_run(trying, then)
    assert not begun.part(then + 10 * MINUTE, who="b@box").open
    assert reopened(begun).part(then).open


def test_a_human_is_told_once_after_six_fruitless_tries_or_of_a_reset_far_away() -> None:
    account, now, told = OPEN, NOON, []
    for _ in range(TELL_PROBES + 2):
        found = exhausted(account, now)
        told.append(found.tell)
        account, now = found.account, found.until
    assert told == [False] * (TELL_PROBES - 1) + [True, False, False]
    assert exhausted(OPEN, NOON, NOON + timedelta(days=20)).tell


@pytest.mark.parametrize("cls", [LimitClass.THROTTLE, LimitClass.OVERLOAD, LimitClass.OK, LimitClass.UNKNOWN])
def test_whatever_is_not_exhausted_closes_no_account(cls: LimitClass) -> None:
    found = met(OPEN, limit(cls), NOON, JITTER)
    assert not found.closes
    assert found.account.part(NOON).open
    assert found.until >= NOON


def test_overload_backs_off_more_each_time_in_a_row() -> None:
    account, waits = OPEN, []
    for _ in range(8):
        found = met(account, limit(LimitClass.OVERLOAD), NOON, JITTER)
        waits.append((found.until - NOON).total_seconds())
        account = found.account
    assert waits == [15, 30, 60, 120, 240, 480, 600, 600]


def test_a_warning_stops_background_work_only() -> None:
    account = met(OPEN, limit(LimitClass.WARNING, reset=NOON + 60 * MINUTE), NOON, JITTER).account
    part = account.part(NOON)
    assert (part.open, part.background) == (False, True)
    assert account.part(NOON + 60 * MINUTE).open


# ---------------------------------------------------------------- a known reset, tried once before


HOURS_4 = timedelta(hours=4)


def test_a_known_reset_far_away_is_tried_once_half_way_by_one_worker() -> None:
    account = exhausted(OPEN, NOON, NOON + HOURS_4).account
    assert not account.part(NOON + HOURS_4 / 2 - MINUTE, who="a@box").open
    later = NOON + HOURS_4 / 2 + MINUTE
    assert account.part(later, who="a@box").open
    assert not account.part(later).open, "for everybody else it is closed until the reset"
    running = start_run(begin_probe(account, "a@box", later), later)
    assert not running.part(later, who="a@box").open
    assert not running.part(later + timedelta(hours=1), who="b@box").open, "once"


def test_a_try_that_meets_the_same_wall_is_the_only_one() -> None:
    account = exhausted(OPEN, NOON, NOON + HOURS_4).account
    later = NOON + HOURS_4 / 2 + MINUTE
    again = exhausted(start_run(begin_probe(account, "a@box", later), later), later, NOON + HOURS_4).account
    assert again.closed_until == account.closed_until
    assert not again.part(later + timedelta(hours=1), who="b@box").open
    assert again.part(NOON + HOURS_4 + 2 * MINUTE, who="b@box").open


def test_a_reset_that_is_near_is_waited_for() -> None:
    account = exhausted(OPEN, NOON, NOON + 50 * MINUTE).account
    assert not account.part(NOON + 40 * MINUTE, who="a@box").open
