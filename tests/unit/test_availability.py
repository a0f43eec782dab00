"""a(t) is a composition of parts that must all be open, and it says when it will open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.availability import Part, compose, opening, paused, residency, switched_on, waking
from taskfabric.domain.card import AgentCard, CardKind, Cost, Hours

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def shut(hours: float | None, reason: str = "", *, background: bool = False) -> Part:
    until = None if hours is None else NOON + timedelta(hours=hours)
    return Part(name="x", open=False, until=until, reason=reason, background=background)


def test_all_parts_must_be_open() -> None:
    assert compose([Part(name="a"), Part(name="b")]).open
    found = compose([Part(name="a"), shut(1, "later"), shut(2, "much later")])
    assert (found.open, found.until, found.reason) == (False, NOON + 2 * HOUR, "much later")


def test_it_opens_at_no_known_time_while_one_part_waits_for_somebody() -> None:
    found = compose([shut(1, "an hour"), shut(None, "paused")])
    assert (found.until, found.reason) == (None, "paused")


def test_a_part_that_keeps_the_rest_for_urgent_work_closes_only_background_work() -> None:
    found = compose([Part(name="a"), shut(1, "kept", background=True)])
    assert (found.open, found.background, found.until, found.reason) == (True, False, NOON + HOUR, "kept")


def test_when_one_reason_ends_and_another_begins_it_opens_after_both() -> None:
    night = Hours(begin=time(22), end=time(6))

    def parts(at: datetime) -> list[Part]:
        quota = shut(20, "quota") if at < NOON + 20 * HOUR else Part(name="quota")
        return [quota, waking(night, "UTC", at)]

    # The quota is back at 8 in the morning; it wakes at 22.
    assert opening(parts, NOON) == datetime(2026, 12, 2, 22, tzinfo=UTC)
    assert opening(lambda at: [shut(None)], NOON) is None


def test_waking_hours_past_midnight_belong_to_the_day_on_which_they_begin() -> None:
    friday_night = Hours(begin=time(22), end=time(6), days=frozenset({4}))
    saturday_at_five = datetime(2026, 12, 5, 5, tzinfo=UTC)
    assert waking(friday_night, "UTC", saturday_at_five).open
    assert waking(friday_night, "UTC", saturday_at_five + HOUR).until == datetime(2026, 12, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        # Berlin: 7 o'clock is 06:00 UTC in winter, 05:00 UTC in summer; the clocks change on 29 March 2026.
        (datetime(2026, 3, 28, 22, tzinfo=UTC), datetime(2026, 3, 29, 5, tzinfo=UTC)),
        (datetime(2026, 3, 27, 22, tzinfo=UTC), datetime(2026, 3, 28, 6, tzinfo=UTC)),
        (datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 25, 6, tzinfo=UTC)),
    ],
)
def test_waking_hours_follow_the_clock_on_the_wall(now: datetime, opens: datetime) -> None:
    day = Hours(begin=time(7), end=time(22))
    assert waking(day, "Europe/Berlin", now).until == opens


def test_an_hour_that_the_clocks_skip_begins_at_the_later_reading() -> None:
    skipped = Hours(begin=time(2, 30), end=time(9))
    part = waking(skipped, "Europe/Berlin", datetime(2026, 3, 29, 0, 0, tzinfo=UTC))
    assert part.until == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


@given(
    st.integers(1_767_225_600, 1_798_761_600).map(lambda at: datetime.fromtimestamp(at, UTC)),
    st.times().map(lambda t: t.replace(second=0, microsecond=0, tzinfo=None)),
    st.times().map(lambda t: t.replace(second=0, microsecond=0, tzinfo=None)),
    st.frozensets(st.integers(0, 6), min_size=1),
)
def test_it_is_open_at_the_instant_that_it_names(now: datetime, begin: time, end: time, days: frozenset[int]) -> None:
    if begin == end:
        return
    part = waking(Hours(begin=begin, end=end, days=days), "Europe/Berlin", now)
    if part.open:
        return
    assert part.until is not None
    assert part.until > now
    again = waking(Hours(begin=begin, end=end, days=days), "Europe/Berlin", part.until)
    # A day whose only hours fall into the gap of a clock change has none.
    assert again.open or begin < end


def test_a_card_that_is_off_or_costs_money_unasked_is_closed() -> None:
    card = AgentCard(name="x", kind=CardKind.MODEL)
    assert switched_on(card).open
    assert not switched_on(replace(card, enabled=False)).open
    dear = replace(card, cost=Cost.METERED)
    assert "metered" in switched_on(dear).reason
    assert switched_on(replace(dear, allow_metered=True)).open


def test_a_humans_pause_is_his_vacation() -> None:
    assert paused(None, "alice", "", human=True).name == "vacation"
    assert paused(NOON, "alice", "key is renewed").reason == "paused by alice: key is renewed"


# -- residency ---------------------------------------------------------------------------------------------


def model(name: str, gpu: int, *, keep: bool = False, beside: tuple[str, ...] = ()) -> AgentCard:
    return AgentCard(name=name, kind=CardKind.MODEL, gpu_mb=gpu, keep_loaded=keep, beside=beside)


def decided(card: AgentCard, *loaded: AgentCard, gpu_mb: int | None = 10_000) -> tuple[bool, tuple[str, ...]]:
    cards = {c.name: c for c in (card, *loaded)}
    part, evicted = residency(card, [c.name for c in loaded], cards, gpu_mb=gpu_mb, ram_mb=None)
    return part.open, evicted


def test_a_model_that_fits_alone_takes_the_place_of_another() -> None:
    assert decided(model("big", 8000), model("old", 6000)) == (True, ("old",))
    assert decided(model("big", 8000)) == (True, ())


def test_what_is_never_evicted_keeps_others_out() -> None:
    open_, evicted = decided(model("big", 8000), model("ear", 1000, keep=True))
    assert (open_, evicted) == (False, ())


def test_cards_of_one_group_stand_beside_each_other_while_there_is_room() -> None:
    ear = model("ear", 1000, keep=True, beside=("big",))
    assert decided(model("big", 8000), ear) == (True, ())
    assert decided(model("big", 9500), ear) == (False, ())
    assert decided(model("big", 8000), ear, model("mid", 4000, beside=("big",))) == (True, ("mid",))


def test_a_model_larger_than_the_machine_never_opens_and_an_unknown_size_holds_nothing_against_it() -> None:
    assert decided(model("big", 80_000)) == (False, ())
    assert decided(model("big", 80_000), gpu_mb=None) == (True, ())
