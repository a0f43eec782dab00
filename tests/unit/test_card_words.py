"""What clients of Kanboard's API write: dates and queries, read without a board."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.card_dates import card_instant
from taskfabric.domain.card_query import CardQuery, day_span, range_span

_NOW = datetime(2026, 11, 30, 17, 45, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-24 18:30", datetime(2026, 12, 24, 18, 30, tzinfo=UTC)),
        ("12/24/2026 18:30", datetime(2026, 12, 24, 18, 30, tzinfo=UTC)),
        ("2026-12-24", datetime(2026, 12, 24, 17, 45, 12, tzinfo=UTC)),
        ("12/24/2026", datetime(2026, 12, 24, 17, 45, 12, tzinfo=UTC)),
        ("9999-12-31 23:59", datetime(9999, 12, 31, 23, 59, tzinfo=UTC)),
    ],
)
def test_a_date_in_one_of_kanboards_forms_is_an_instant(text: str, moment: datetime) -> None:
    assert card_instant(text, _NOW, UTC) == moment


@pytest.mark.parametrize("text", ["", "0", "1900000000", "2026-12-24T18:30", "24/12/2026", "2026-02-30", "tomorrow"])
def test_any_other_form_is_none(text: str) -> None:
    assert card_instant(text, _NOW, UTC) is None


def test_a_date_is_read_in_the_zone() -> None:
    found = card_instant("2026-07-01 12:00", _NOW, ZoneInfo("Europe/Berlin"))
    assert found == datetime(2026, 7, 1, 10, 0, tzinfo=UTC)


def test_the_same_field_twice_is_one_condition_with_two_values() -> None:
    query = CardQuery.parse('Tag:a tag:"b c" ref:X-1 status:open some words')
    assert query.terms == {
        "tag": ("a", "b c"),
        "reference": ("X-1",),
        "status": ("open",),
        "title": ("some words",),
    }


def test_a_field_without_a_value_asks_for_nothing() -> None:
    assert CardQuery.parse("status: open").terms == {"title": ("open",)}
    assert CardQuery.parse("  ").terms == {}


@given(st.text(max_size=200))
def test_reading_a_query_never_fails_and_ends(text: str) -> None:
    for value in CardQuery.parse(text).terms.values():
        assert all(isinstance(one, str) for one in value)


@pytest.mark.parametrize(
    ("value", "begin", "days"),
    [("today", 0, 1), ("tomorrow", 1, 1), ("yesterday", -1, 1), ("-3 days", -3, 1), ("2 weeks ago", -14, 1)],
)
def test_a_day_by_its_name_spans_that_day(value: str, begin: int, days: int) -> None:
    midnight = datetime(2026, 11, 30, tzinfo=UTC) + timedelta(days=begin)
    assert day_span(value, _NOW, UTC) == (midnight, midnight + timedelta(days=days))


def test_comparisons_include_or_exclude_the_day() -> None:
    day, after = datetime(2026, 12, 24, tzinfo=UTC), datetime(2026, 12, 25, tzinfo=UTC)
    assert day_span("<2026-12-24", _NOW, UTC) == (None, day)
    assert day_span("<=2026-12-24", _NOW, UTC) == (None, after)
    assert day_span(">2026-12-24", _NOW, UTC) == (after, None)
    assert day_span(">=2026-12-24", _NOW, UTC) == (day, None)
    assert day_span("never", _NOW, UTC) is None
    assert range_span("2026-12-24..2026-12-24", UTC) == (day, after)
    assert range_span("2026-12-24", UTC) is None


@given(st.text(max_size=30))
def test_any_text_is_a_day_or_none(text: str) -> None:
    day_span(text, _NOW, UTC)
    range_span(text, UTC)
    card_instant(text, _NOW, UTC)
