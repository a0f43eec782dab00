"""The kinds behind the recorded messages: other wordings, zones and days of the year come out right too."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskfabric.domain.limit import Confidence, Limit, LimitClass
from taskfabric.runtimes.limits import Channel, Signal, classify

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MADRID = ZoneInfo("Europe/Madrid")
ZONES = ("Europe/Madrid", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Etc/GMT+5", "Pacific/Auckland")

instants = st.datetimes(
    datetime(2026, 1, 1),  # noqa: DTZ001 - hypothesis takes naive bounds and adds the zone
    datetime(2027, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
).map(lambda moment: moment.replace(microsecond=0))


def said(text: str, *, failed: bool = True, channel: Channel = Channel.STDOUT, now: datetime = NOW) -> Limit:
    signal = Signal(provider="claude-cli", channel=channel, text=text, failed=failed)
    return classify(signal, now=now, host=MADRID)


def refused(text: str = "", *, status: int = 429, **headers: str) -> Limit:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return classify(Signal(provider="x", status=status, headers=named, text=text), now=NOW, host=MADRID)


def twelve_hours(at: time) -> str:
    half = "am" if at.hour < 12 else "pm"
    return f"{(at.hour - 1) % 12 + 1}:{at.minute:02}{half}" if at.minute else f"{(at.hour - 1) % 12 + 1}{half}"


@given(now=instants, zone=st.sampled_from(ZONES), minute=st.integers(0, 1439))
def test_a_clock_time_is_its_next_occurrence_in_the_zone_it_names(now: datetime, zone: str, minute: int) -> None:
    at = time(minute // 60, minute % 60)
    limit = said(f"5-hour limit reached ∙ resets {twelve_hours(at)} ({zone})", now=now)
    assert limit.cls is LimitClass.EXHAUSTED
    assert limit.reset is not None
    assert now < limit.reset <= now + timedelta(hours=26)  # a day of 25 hours, and an hour that is repeated
    local = limit.reset.astimezone(ZoneInfo(zone))
    skipped = limit.confidence is Confidence.AMBIGUOUS and (local.hour, local.minute) != (at.hour, at.minute)
    assert skipped or (local.hour, local.minute) == (at.hour, at.minute)


@given(now=instants, zone=st.sampled_from(ZONES), ahead=st.integers(1, 150), minute=st.integers(0, 1439))
@example(now=datetime(2027, 12, 10, tzinfo=UTC), zone="Europe/Madrid", ahead=81, minute=0)  # 29 February 2028
def test_a_date_without_a_year_is_the_coming_one(now: datetime, zone: str, ahead: int, minute: int) -> None:
    at = time(minute // 60, minute % 60)
    day = now.astimezone(ZoneInfo(zone)).date() + timedelta(days=ahead)
    limit = said(f"Weekly limit reached ∙ resets {day:%b} {day.day} at {twelve_hours(at)} ({zone})", now=now)
    assert limit.reset == max(
        datetime.combine(day, at.replace(fold=fold), ZoneInfo(zone)).astimezone(UTC) for fold in (0, 1)
    )


@given(now=instants, minutes=st.integers(1, 300))
def test_an_epoch_after_a_bar_is_exact(now: datetime, minutes: int) -> None:
    reset = now + timedelta(minutes=minutes)
    limit = said(f"Claude AI usage limit reached|{int(reset.timestamp())}", now=now)
    assert limit == Limit(
        cls=LimitClass.EXHAUSTED,
        window="five_hour",
        reset=reset,
        confidence=Confidence.EXACT,
        evidence=limit.evidence,
    )


@pytest.mark.parametrize(
    ("now", "text", "reset", "confidence"),
    [
        # The clocks of Madrid go back at 03:00 summer time on 25 October: 02:30 comes twice, and the later one is safe.
        ("2026-10-24T23:00:00Z", "resets 2:30am (Europe/Madrid)", "2026-10-25T01:30:00Z", "ambiguous"),
        ("2026-10-25T00:45:00Z", "resets 2:30am (Europe/Madrid)", "2026-10-25T01:30:00Z", "ambiguous"),
        # They go forward at 02:00 on 29 March: 02:30 does not come at all.
        ("2026-03-28T23:00:00Z", "resets 2:30am (Europe/Madrid)", "2026-03-29T01:30:00Z", "ambiguous"),
        ("2026-03-28T22:00:00Z", "resets 3:30am (Europe/Madrid)", "2026-03-29T01:30:00Z", "ambiguous"),
        ("2026-03-29T00:00:00Z", "resets 4am (Europe/Madrid)", "2026-03-29T02:00:00Z", "exact"),
        # At the very instant it is the next day's.
        ("2026-11-30T02:00:00Z", "resets 3am (Europe/Madrid)", "2026-12-01T02:00:00Z", "ambiguous"),
    ],
)
def test_a_change_of_the_clocks_never_reopens_too_early(now: str, text: str, reset: str, confidence: str) -> None:
    limit = said(f"5-hour limit reached · {text}", now=datetime.fromisoformat(now))
    assert limit.reset == datetime.fromisoformat(reset)
    if "3:30am" not in text:  # that one is doubtful for being farther away than its window is long
        assert limit.confidence.value == confidence


@pytest.mark.parametrize(
    ("zone", "reset", "confidence"),
    [
        ("Etc/GMT+5", "2026-11-30T20:00:00Z", "exact"),  # five hours behind: the sign is the other way round
        ("UTC+5", "2026-12-01T10:00:00Z", "exact"),
        ("UTC", "2026-11-30T15:00:00Z", "exact"),
        ("GMT-03:30", "2026-11-30T18:30:00Z", "exact"),
        ("CET", "2026-11-30T14:00:00Z", "ambiguous"),  # programs print the winter's name in summer
        ("Etc/Unknown", "2026-11-30T14:00:00Z", "host-zone"),
        ("Local time", "2026-11-30T14:00:00Z", "host-zone"),
    ],
)
def test_zones_are_read_as_their_database_has_them(zone: str, reset: str, confidence: str) -> None:
    limit = said(f"You've hit your limit · resets 3pm ({zone})")
    assert limit.reset == datetime.fromisoformat(reset)
    assert limit.confidence.value == confidence


def test_a_guessed_zone_reopens_five_minutes_later() -> None:
    limit = said("Limit reached · resets 3pm")
    assert limit.reset == datetime(2026, 11, 30, 14, 0, tzinfo=UTC)
    assert limit.reopens == datetime(2026, 11, 30, 14, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "cls", "window", "reset"),
    [
        ("Weekly limit reached ∙ resets Dec 5 at 9am (UTC)", "exhausted", "weekly", date(2026, 12, 5)),
        ("You've reached your hourly usage limit, upgrade for higher limits", "exhausted", "hourly", None),
        ("You have hit your monthly limit.", "exhausted", "monthly", None),
        ("You've reached your usage limit for this billing cycle.", "exhausted", "monthly", None),
        ("Error: credit balance is too low", "exhausted", "", None),
        ("You've hit your usage limit, try again at 10. Dez. 2026, 11:52", "exhausted", "weekly", date(2026, 12, 10)),
        ("You've hit your usage limit, try again at 10 déc. 2026, 11:52", "exhausted", "weekly", date(2026, 12, 10)),
        ("You've hit your usage limit. Try again on December 10th, 2026 11:52 AM", "exhausted", "weekly",
         date(2026, 12, 10)),
        ("Your limit resets at 2026-12-02T08:00:00Z: usage limit reached", "exhausted", "weekly", date(2026, 12, 2)),
        ("Approaching your weekly limit", "warning", "weekly", None),
        ("You've used 90% of your weekly limit", "warning", "weekly", None),
        ("API Error: 529 overloaded", "overload", "", None),
        ("Error code: 429 - {'error': {'message': 'The engine is currently overloaded', 'type': "
         "'engine_overloaded_error'}}", "overload", "", None),
        ("Rate limit reached on requests per min (RPM): Limit 3. Please try again in 20s.", "throttle", "minute",
         date(2026, 11, 30)),
        ("openai.RateLimitError: Error code: 429 - {'error': {'code': 'insufficient_quota', 'message': 'no quota'}}",
         "exhausted", "", None),
    ],
)  # fmt: skip
def test_other_wordings_of_the_same_kinds_are_understood(text: str, cls: str, window: str, reset: date | None) -> None:
    limit = said(f"working on it\n{text}\n")
    assert limit.cls.value == cls
    assert limit.window == window
    assert (limit.reset.date() if limit.reset else None) == reset


MENTIONED = (
    '{"role": "assistant", "content": "Claude AI usage limit reached|1749924000"}',
    'The log said "5-hour limit reached ∙ resets 3am" yesterday',
    "I wrote a test for the message `You've hit your usage limit`",
    "The parser now understands usage limit reached messages",
    "> 5-hour limit reached, they say in the documentation, means that you wait",
    "AssertionError: You've hit your usage limit. Try again in 2 days",
    "12:00:01 INFO relay: upstream answered: you have reached your session usage limit",
    '+    assert classify("Claude AI usage limit reached|1749924000")',
)


@pytest.mark.parametrize("text", MENTIONED)
@pytest.mark.parametrize("channel", [Channel.STDOUT, Channel.STDERR])
def test_words_that_are_only_mentioned_mean_nothing(text: str, channel: Channel) -> None:
    assert said(text, channel=channel).cls is LimitClass.UNKNOWN


@given(text=st.sampled_from(("Claude AI usage limit reached|1749924000", "5-hour limit reached · resets 3am")))
def test_output_of_a_program_that_did_not_fail_means_nothing(text: str) -> None:
    assert said(text, failed=False).cls is LimitClass.OK


def test_words_far_above_the_end_of_a_failed_output_mean_nothing() -> None:
    assert said("5-hour limit reached · resets 3am\n" + "and then it crashed\n" * 50).cls is LimitClass.UNKNOWN


def test_the_body_of_an_answer_that_is_no_refusal_means_nothing() -> None:
    quoted = json.dumps({"error": {"type": "usage_limit_reached", "resets_in_seconds": 60}})
    assert refused(quoted, status=200).cls is LimitClass.OK


@pytest.mark.parametrize("status", [502, 503, 529])
def test_a_provider_in_trouble_is_not_the_accounts_fault(status: int) -> None:
    assert refused(status=status).cls is LimitClass.OVERLOAD


def test_a_spent_plan_under_a_status_of_forbidden_is_a_spent_plan() -> None:
    body = json.dumps({"error": {"type": "access_terminated_error", "message": "You've reached your quota"}})
    assert refused(body, status=403).cls is LimitClass.EXHAUSTED


def test_a_refused_key_is_no_limit() -> None:
    body = json.dumps({"error": {"type": "invalid_authentication_error", "message": "Invalid Authentication"}})
    assert refused(body, status=401).cls is LimitClass.UNKNOWN


def test_a_burst_while_the_plan_is_allowed_is_a_burst() -> None:
    limit = refused(anthropic_ratelimit_unified_status="allowed", retry_after="30")
    assert limit.cls is LimitClass.THROTTLE
    assert limit.reset == NOW + timedelta(seconds=30)


def test_an_opus_week_that_is_spent_names_its_window() -> None:
    limit = refused(
        anthropic_ratelimit_unified_status="rejected",
        anthropic_ratelimit_unified_representative_claim="seven_day_opus",
        anthropic_ratelimit_unified_reset=str(int((NOW + timedelta(days=3)).timestamp())),
    )
    assert (limit.cls, limit.window, limit.reset) == (LimitClass.EXHAUSTED, "weekly", NOW + timedelta(days=3))


def test_the_weekly_window_in_the_primary_slot_is_the_weekly_window() -> None:
    limit = refused(
        x_codex_primary_used_percent="100",
        x_codex_primary_window_minutes="10080",
        x_codex_primary_reset_after_seconds="86400",
    )
    assert (limit.cls, limit.window, limit.reset) == (LimitClass.EXHAUSTED, "weekly", NOW + timedelta(days=1))


def test_two_full_windows_reopen_with_the_later() -> None:
    limit = refused(
        x_codex_primary_used_percent="100",
        x_codex_primary_window_minutes="300",
        x_codex_primary_reset_after_seconds="600",
        x_codex_secondary_used_percent="100",
        x_codex_secondary_window_minutes="10080",
        x_codex_secondary_reset_after_seconds="86400",
    )
    assert limit.reset == NOW + timedelta(days=1)


@given(
    hours=st.integers(0, 23),
    minutes=st.integers(0, 59),
    seconds=st.integers(1, 59),
)
def test_spelled_out_delays_become_instants_once(hours: int, minutes: int, seconds: int) -> None:
    words = " ".join(
        f"{n} {unit}{'s' if n != 1 else ''}"
        for n, unit in ((hours, "hour"), (minutes, "minute"), (seconds, "second"))
        if n
    )
    limit = said(f"You've hit your usage limit. Please try again in {words}.")
    assert limit.reset == NOW + timedelta(hours=hours, minutes=minutes, seconds=seconds)


@given(st.text(max_size=400), st.sampled_from(Channel), st.sampled_from([None, 200, 400, 429, 503]), st.booleans())
def test_no_text_whatsoever_makes_it_fall(text: str, channel: Channel, status: int | None, failed: bool) -> None:
    limit = classify(Signal(channel=channel, text=text, status=status, failed=failed), now=NOW, host=MADRID)
    assert len(limit.evidence) <= 200


@given(
    st.dictionaries(
        st.sampled_from(
            ["retry-after", "retry-after-ms", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens",
             "anthropic-ratelimit-unified-status", "anthropic-ratelimit-unified-reset",
             "x-codex-primary-used-percent", "x-codex-primary-window-minutes", "x-codex-primary-reset-at"]
        ),
        st.one_of(st.text(max_size=20), st.sampled_from(["0", "-1", "100", "rejected", "nan", "inf", "1e300", "6m0s"])),
    )
)  # fmt: skip
def test_no_header_whatsoever_makes_it_fall(headers: dict[str, str]) -> None:
    limit = classify(Signal(status=429, headers=headers), now=NOW, host=MADRID)
    assert limit.reset is None or limit.reset.tzinfo is not None


# ---------------------------------------------------------------- how full the windows are


def full(headers: dict[str, str]) -> dict[str, tuple[float, int | None, datetime | None]]:
    found = classify(Signal(status=200, headers=headers), now=NOW, host=UTC).learned
    return {one.window: (round(one.used, 3), one.amount, one.reset) for one in found}


def test_a_plans_windows_are_learned_from_an_answer_that_met_no_limit() -> None:
    reset = NOW + timedelta(hours=2)
    assert full(
        {
            "anthropic-ratelimit-unified-status": "allowed",
            "anthropic-ratelimit-unified-5h-utilization": "0.42",
            "anthropic-ratelimit-unified-5h-reset": str(int(reset.timestamp())),
            "anthropic-ratelimit-unified-7d-utilization": "0.737",
        }
    ) == {"five_hour": (0.42, None, reset), "weekly": (0.737, None, None)}


def test_percentages_and_axes_are_learned_and_no_data_is_not() -> None:
    assert full(
        {
            "X-Codex-Primary-Used-Percent": "12",
            "X-Codex-Primary-Window-Minutes": "10080",
            "x-ratelimit-limit-tokens": "1000",
            "x-ratelimit-remaining-tokens": "250",
            "x-ratelimit-reset-tokens": "6m0s",
            "x-ratelimit-limit-requests": "-1",
            "x-ratelimit-remaining-requests": "0",
        }
    ) == {"weekly": (0.12, None, None), "tokens": (0.75, 1000, NOW + timedelta(minutes=6))}


def test_headers_that_are_nonsense_teach_nothing() -> None:
    assert full({"x-ratelimit-limit-tokens": "many", "x-ratelimit-remaining-tokens": "nan"}) == {}
