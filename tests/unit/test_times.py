"""Instants and durations as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.times import abbreviation, ago, duration, iso, parse_when, show, zone_of

MADRID = ZoneInfo("Europe/Madrid")
# A Monday, 17:00 in UTC and 18:00 in Madrid.
NOW = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)


def when(text: str, now: datetime = NOW, zone: ZoneInfo = MADRID) -> str:
    return iso(parse_when(text, now=now, zone=zone))


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2026-12-01T09:00:00+01:00", "2026-12-01T08:00:00Z"),
        ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z"),
        ("2026-12-01t09:00z", "2026-12-01T09:00:00Z"),
        ("2026-12-01 09:00Z", "2026-12-01T09:00:00Z"),
        ("2026-12-01 09:00 UTC", "2026-12-01T09:00:00Z"),
        ("2026-12-01T09:00:00.5-0530", "2026-12-01T14:30:00.500000Z"),
        ("2026-12-01T09:00+01", "2026-12-01T08:00:00Z"),
        ("  2026-12-01 09:00:00+01:00\n", "2026-12-01T08:00:00Z"),
    ],
)
def test_iso_8601_with_a_zone_is_that_instant(text: str, means: str) -> None:
    assert when(text) == means


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2026-12-01T09:00:00", "2026-12-01T08:00:00Z"),
        ("2026-07-01 09:00", "2026-07-01T07:00:00Z"),
        ("2026-12-01", "2026-11-30T23:00:00Z"),
    ],
)
def test_iso_8601_without_a_zone_is_local_and_a_date_alone_its_first_instant(text: str, means: str) -> None:
    assert when(text) == means


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("now", timedelta(0)),
        ("+90s", timedelta(seconds=90)),
        ("+2h", timedelta(hours=2)),
        ("+3d", timedelta(days=3)),
        ("+1w", timedelta(weeks=1)),
        ("+1h30m", timedelta(minutes=90)),
        ("+1W2D3H4M5S", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)),
    ],
)
def test_a_span_counts_elapsed_time_from_now(text: str, ahead: timedelta) -> None:
    assert parse_when(text, now=NOW, zone=MADRID) == NOW + ahead


def test_three_days_are_72_hours_also_over_a_change_of_the_clocks() -> None:
    before = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
    assert parse_when("+3d", now=before, zone=MADRID) - before == timedelta(hours=72)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("today 18:30", "2026-11-30T17:30:00Z"),
        ("today 09:00", "2026-11-30T08:00:00Z"),
        ("today", "2026-11-29T23:00:00Z"),
        ("tomorrow", "2026-11-30T23:00:00Z"),
        ("Tomorrow 09:00", "2026-12-01T08:00:00Z"),
        ("tomorrow at 9:00", "2026-12-01T08:00:00Z"),
        ("tomorrow 09:00:30", "2026-12-01T08:00:30Z"),
        ("18:01", "2026-11-30T17:01:00Z"),
        ("monday 18:01", "2026-11-30T17:01:00Z"),
        ("tuesday", "2026-11-30T23:00:00Z"),
        ("sun 09:00", "2026-12-06T08:00:00Z"),
    ],
)
def test_words_are_read_in_the_callers_zone(text: str, means: str) -> None:
    assert when(text) == means


@pytest.mark.parametrize(
    ("text", "means"),
    [("18:00", "2026-12-01T17:00:00Z"), ("monday 18:00", "2026-12-07T17:00:00Z"), ("monday", "2026-12-06T23:00:00Z")],
)
def test_a_time_or_a_day_that_is_this_very_instant_means_the_next_one(text: str, means: str) -> None:
    assert when(text) == means


def test_the_callers_day_counts_not_that_of_utc() -> None:
    late = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)  # already Tuesday in Madrid
    assert when("tomorrow", now=late) == "2026-12-01T23:00:00Z"


def test_a_local_time_that_the_clocks_skip_means_the_later_reading() -> None:
    assert when("2026-03-29 02:30") == "2026-03-29T01:30:00Z"  # 03:30 on the new clock


def test_a_local_time_that_comes_twice_means_the_later_one() -> None:
    assert when("2026-10-25 02:30") == "2026-10-25T01:30:00Z"  # the second 02:30


def test_the_next_occurrence_of_a_doubled_time_is_still_ahead_during_the_first() -> None:
    during_the_first = datetime(2026, 10, 25, 0, 40, tzinfo=UTC)  # 02:40 summer time
    assert when("02:30", now=during_the_first) == "2026-10-25T01:30:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "+",
        "+2",
        "2h",
        "-2h",
        "+30m1h",
        "+2 h",
        "+99999999999w",
        "+999999999w",
        "+200000w+2h",
        "25:00",
        "09:60",
        "9",
        "tomorrow 25:00",
        "tomorrow evening",
        "mond 09:00",
        "m 09:00",
        "2026-02-30",
        "2026-12-01T09:00:60Z",
        "2026-12-01T09:00:00+24:00",
        "2026-12-01T09:00:00+99:99",
        "2026-12-01T09:00:00 CET",
        "2026-W49-1",
        "2026-335",
        "20261201T090000Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:30:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+14:00",
        "10000-01-01T00:00:00Z",
        "1796025600",
        "2026-12-01T09:00:00Z\x00",
        "\x00",
        "🕘",
        "\u0660\u0669:\u0660\u0660",
        "\ud800",
        "9" * 10_000,
        "+" + "1h" * 5_000,
    ],
)
def test_what_is_not_a_time_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_when(text, now=NOW, zone=MADRID)
    assert "tomorrow 09:00" in caught.value.next
    assert len(caught.value.message) < 300
    assert caught.value.message.encode()  # a lone surrogate is escaped: the sentence can be sent


def test_the_refusal_quotes_at_most_forty_characters() -> None:
    with pytest.raises(BadInput) as caught:
        parse_when("x" * 10_000, now=NOW, zone=MADRID)
    assert caught.value.message == f"'{'x' * 40}'… is not a time"


PIECES = (
    "now today tomorrow monday sun at 09:00 24:00 + 1w 9d 2h 5m 7s T 2026-12-01 9999-12-31 1970-01-01 0001-01-01 "
    "Z +14:00 -12:00 23:59:59 .5"
)
words = st.sampled_from([" ", *PIECES.split()])
zones = st.sampled_from(["UTC", "Europe/Madrid", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Australia/Lord_Howe"])
moments = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis takes naive bounds and adds the zone
    datetime(9999, 12, 31, 23, 59),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@given(text=st.text() | st.lists(words, max_size=7).map("".join), now=moments, zone=zones)
@example(text="monday", now=datetime(9999, 12, 31, 23, 59, tzinfo=UTC), zone="Pacific/Kiritimati")
def test_any_text_is_an_instant_in_bounds_or_bad_input(text: str, now: datetime, zone: str) -> None:
    try:
        moment = parse_when(text, now=now, zone=ZoneInfo(zone))
    except BadInput:
        return
    assert moment.tzinfo is UTC
    assert moment.year >= 1970


@given(moment=moments, now=moments, zone=zones)
def test_what_iso_writes_is_read_back_in_every_zone(moment: datetime, now: datetime, zone: str) -> None:
    assert parse_when(iso(moment), now=now, zone=ZoneInfo(zone)) == moment


@given(
    now=moments.filter(lambda m: m.year < 9998),
    zone=zones,
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    day=st.sampled_from(["", "monday ", "thu ", "sunday "]),
)
def test_a_time_or_a_named_day_is_always_ahead_and_within_its_period(
    now: datetime, zone: str, hour: int, minute: int, day: str
) -> None:
    moment = parse_when(f"{day}{hour:02}:{minute:02}", now=now, zone=ZoneInfo(zone))
    # A day that an island skipped, or a change of the clocks, may add to the period.
    assert now < moment <= now + timedelta(days=7 if day else 1) + timedelta(days=1, hours=2)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10m", timedelta(minutes=10)),
        ("1h30m", timedelta(minutes=90)),
        ("45s", timedelta(seconds=45)),
        (" 2D ", timedelta(days=2)),
        ("1w", timedelta(weeks=1)),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_written_with_its_units(text: str, length: timedelta) -> None:
    assert duration(text) == length


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "+5m", "5m1h", "1.5h", "5 m", "999999999w", "\u0663m", "\x00"])
def test_another_duration_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(BadInput, match="is not a duration") as caught:
        duration(text)
    assert "1h30m" in caught.value.next


def test_iso_is_utc_with_a_z_and_a_fraction_only_if_there_is_one() -> None:
    there = datetime(2026, 11, 30, 18, 0, tzinfo=timezone(timedelta(hours=1)))
    assert iso(there) == "2026-11-30T17:00:00Z"
    assert iso(there + timedelta(milliseconds=250)) == "2026-11-30T17:00:00.250000Z"


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("2026-11-30T16:10:00Z", "today 17:10"),
        ("2026-11-30T23:30:00Z", "tomorrow 00:30"),
        ("2026-12-01T08:00:00Z", "tomorrow 09:00"),
        ("2026-11-29T08:00:00Z", "yesterday 09:00"),
        ("2026-12-07T08:00:00Z", "Mon 7 Dec 09:00"),
        ("2027-03-03T08:05:00Z", "Wed 3 Mar 2027 09:05"),
        ("9999-12-31T23:59:00Z", "9999-12-31T23:59:00Z"),
    ],
)
def test_an_instant_is_said_as_a_person_would_in_his_zone(moment: str, said: str) -> None:
    assert show(datetime.fromisoformat(moment), MADRID, NOW) == said


@given(moment=moments, now=moments, zone=zones)
def test_every_instant_can_be_said(moment: datetime, now: datetime, zone: str) -> None:
    assert show(moment, ZoneInfo(zone), now)
    assert abbreviation(moment, ZoneInfo(zone))
    assert ago(moment, now)


def test_the_zones_name_is_that_of_the_season() -> None:
    assert abbreviation(NOW, MADRID) == "CET"
    assert abbreviation(datetime(2026, 7, 1, tzinfo=UTC), MADRID) == "CEST"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "now"),
        (0.9, "now"),
        (5, "in 5 s"),
        (-59, "59 s ago"),
        (-185, "3 min ago"),
        (8 * 60 + 59, "in 8 min"),
        (3 * 3600, "in 3 h"),
        (-47 * 3600, "47 h ago"),
        (3 * 86400, "in 3 days"),
    ],
)
def test_a_distance_is_said_in_its_largest_whole_unit(seconds: float, said: str) -> None:
    assert ago(NOW + timedelta(seconds=seconds), NOW) == said


def test_a_zone_is_known_by_its_iana_name() -> None:
    assert zone_of("Europe/Madrid").key == "Europe/Madrid"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Madrid", "Europe/Madrid"),
        ("New York", "America/New_York"),
    ],
)
def test_a_misspelt_zone_is_answered_with_the_one_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(BadInput, match="not a known time zone") as caught:
        zone_of(name)
    assert caught.value.next == f"did you mean {meant}?"


@pytest.mark.parametrize(
    "name", ["", "Europe", "../etc/passwd", "/etc/passwd", "UTC\x00", "\ud800", "🕘", "x" * 10_000]
)
def test_no_name_of_a_zone_breaks_anything(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        zone_of(name)
    assert len(caught.value.message) < 300
