"""Quota windows across clock changes, and the governor that keeps the last of a window for urgent work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.card import Window
from taskfabric.domain.quota import Used, governed, resets, span_of, time_left, windows_of

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
FIVE = Window(name="five_hour", length=timedelta(hours=5), limit=60)
DAY = Window(name="day", length=timedelta(days=1), limit=100, calendar="day")


def used(amount: int, *, ago: float = 0.0, interactive: int = 0, window: Window = FIVE, now: datetime = NOON) -> Used:
    """So much was used, the first of it so many hours ago."""
    return Used(
        span=span_of(window, "UTC", now), amount=amount, interactive=interactive, oldest=now - timedelta(hours=ago)
    )


@pytest.mark.parametrize(
    ("calendar", "now", "since", "end"),
    [
        # The day on which the clocks go forward has 23 hours, the one on which they go back 25.
        ("day", datetime(2026, 3, 29, 10, tzinfo=UTC), (2026, 3, 28, 23), (2026, 3, 29, 22)),
        ("day", datetime(2026, 10, 25, 10, tzinfo=UTC), (2026, 10, 24, 22), (2026, 10, 25, 23)),
        ("week", datetime(2026, 12, 1, 12, tzinfo=UTC), (2026, 11, 29, 23), (2026, 12, 6, 23)),
        ("month", datetime(2026, 12, 31, 22, 59, tzinfo=UTC), (2026, 11, 30, 23), (2026, 12, 31, 23)),
        ("month", datetime(2026, 12, 31, 23, tzinfo=UTC), (2026, 12, 31, 23), (2027, 1, 31, 23)),
    ],
)
def test_calendar_windows_begin_and_end_at_local_midnight(
    calendar: str, now: datetime, since: tuple[int, ...], end: tuple[int, ...]
) -> None:
    span = span_of(Window(name="w", length=timedelta(days=1), limit=1, calendar=calendar), "Europe/Berlin", now)
    assert span.since == datetime(*since, tzinfo=UTC)  # type: ignore[misc, arg-type]
    assert span.end == datetime(*end, tzinfo=UTC)  # type: ignore[misc, arg-type]


@given(
    st.integers(1_767_225_600, 1_830_297_600).map(lambda at: datetime.fromtimestamp(at, UTC)),
    st.sampled_from(["day", "week", "month"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Beirut", "Atlantic/Azores", "America/Havana", "UTC"]),
)
def test_every_instant_lies_in_its_window_and_windows_meet_without_a_gap(
    now: datetime, calendar: str, zone: str
) -> None:
    window = Window(name="w", length=timedelta(days=1), limit=1, calendar=calendar)
    span = span_of(window, zone, now)
    assert span.end is not None
    assert span.since <= now < span.end
    assert span_of(window, zone, span.end).since == span.end


def test_a_rolling_window_has_room_again_when_its_oldest_use_leaves_it() -> None:
    assert resets(used(60, ago=4), NOON) == NOON + timedelta(hours=1)
    part = governed(used(60, ago=4), NOON)
    assert (part.open, part.background, part.until) == (False, False, NOON + timedelta(hours=1))


def test_background_work_stops_at_the_reserve_and_interactive_work_goes_on_to_the_last_unit() -> None:
    assert governed(used(47, ago=1), NOON).open
    kept = governed(used(48, ago=1), NOON)
    assert (kept.open, kept.background) == (False, True)
    assert governed(used(59, ago=1), NOON).background
    assert not governed(used(60, ago=1), NOON).background


def test_what_interactive_work_will_use_until_the_reset_is_kept_as_well() -> None:
    # 20 of 60 used by people in the first hour: 80 more may be expected, so background work yields at once.
    assert not governed(used(20, ago=1, interactive=20), NOON).open
    assert governed(used(20, ago=1), NOON).open


def test_in_the_last_fifth_background_work_goes_on_only_while_more_than_half_would_lapse() -> None:
    assert time_left(used(20, ago=4.5), NOON) == pytest.approx(0.1)
    assert governed(used(29, ago=4.5), NOON).open
    assert not governed(used(30, ago=4.5), NOON).open


def test_a_calendar_budget_counts_to_its_end() -> None:
    part = governed(used(100, window=DAY), NOON)
    assert part.until == datetime(2026, 12, 2, tzinfo=UTC)


def test_a_run_of_several_units_needs_room_for_all_of_them() -> None:
    assert governed(used(10), NOON, units=50).open
    assert not governed(used(10), NOON, units=51).open


def test_windows_of_one_name_on_one_account_are_counted_once() -> None:
    assert windows_of([("UTC", FIVE), ("UTC", FIVE), ("UTC", DAY)]) == [("UTC", FIVE), ("UTC", DAY)]
