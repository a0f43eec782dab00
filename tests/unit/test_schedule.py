"""Schedules: what a file may say, and which instants a line names where the clocks change."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric import assets
from taskfabric.domain.errors import BadInput
from taskfabric.domain.schedule import Missed, Overlap, Schedule, SlotState, decide
from taskfabric.services.schedules import MOST, next_slot, read, slots

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
GOOD = '[s]\ncron = "0 9 * * *"\ntitle = "t"\nto = "pool"\n'


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(cron: str = "0 * * * *", **more: object) -> Schedule:
    return Schedule(name="s", cron=cron, title="t", to="pool", **more)  # type: ignore[arg-type]


def problem(text: str) -> str:
    (found,) = read(text, "schedules.toml").values()
    assert isinstance(found, BadInput)
    return f"{found.message} | {found.next}"


def test_the_file_that_ships_runs_nothing() -> None:
    assert read(assets.read_text("config/schedules.toml"), "x") == {}


def test_the_example_in_it_is_valid() -> None:
    lines = assets.read_text("config/schedules.toml").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("# ["))
    example = "\n".join(line.removeprefix("# ") for line in lines[start:] if not line.startswith("#      "))
    (found,) = read(example, "x").values()
    assert isinstance(found, Schedule)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('crom = "* * * * *"', "did you mean cron?"),
        ('zone = "Europe/Berln"', "did you mean Europe/Berlin?"),
        ("priority = 4", "a whole number from 0 to 3"),
        ("priority = true", "a whole number from 0 to 3"),
        ('grace = "soon"', "10m"),
        ('missed = "run-all"', "record, latest-once"),
        ('overlap = "queue"', "skip, queue-one, parallel"),
        ('needs = "tools"', "a list of texts"),
        ('enabled = "yes"', "true or false"),
        ('tier = "huge"', "huge"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(line: str, said: str) -> None:
    assert said in problem(GOOD + line + "\n")


@pytest.mark.parametrize("cron", ["61 * * * *", "* * *", "", "0 0 31 2 *", "@daily maybe", "* * * * * * *"])
def test_a_line_that_is_none_is_refused(cron: str) -> None:
    assert "cron" in problem(f'[s]\ncron = "{cron}"\ntitle = "t"\nto = "pool"\n')


@pytest.mark.parametrize("missing", ["cron", "title", "to"])
def test_what_must_be_there_is_asked_for(missing: str) -> None:
    lines = [line for line in GOOD.splitlines() if not line.startswith(missing)]
    assert f"needs {missing}" in problem("\n".join(lines))


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        read(text, "x")


@pytest.mark.parametrize(
    ("cron", "after", "until", "expected"),
    [
        # the hour that is skipped: the next valid minute, once
        ("30 2 * * *", "2026-03-28T12:00", "2026-03-29T12:00", ["2026-03-29T01:00"]),
        # the hour that is repeated: its first occurrence
        ("30 2 * * *", "2026-10-24T12:00", "2026-10-25T12:00", ["2026-10-25T00:30"]),
        # the same, asked in the middle of it
        ("30 2 * * *", "2026-10-25T00:40", "2026-10-25T12:00", []),
        ("30 2 * * *", "2026-10-25T01:20", "2026-10-25T12:00", []),
        # each real hour, where no hour is named
        ("0 * * * *", "2026-10-24T23:30", "2026-10-25T01:30", ["2026-10-25T00:00", "2026-10-25T01:00"]),
        # Sunday is 0
        ("0 9 * * 0", "2026-11-27T00:00", "2026-11-30T23:00", ["2026-11-29T08:00"]),
        # day of month and day of week: either
        ("0 0 13 * 5", "2026-11-01T00:00", "2026-11-13T12:00", ["2026-11-05T23:00", "2026-11-12T23:00"]),
    ],
)  # fmt: skip
def test_instants_of_a_line_in_madrid(cron: str, after: str, until: str, expected: list[str]) -> None:
    """G12"""
    found = slots(schedule(cron, zone="Europe/Madrid"), at(after), at(until))
    assert found == [at(text) for text in expected]


@given(
    st.integers(0, 366 * 24 * 60), st.integers(1, 3000), st.sampled_from(["30 2 * * *", "*/20 * * * *", "15 1-3 * * *"])
)
def test_it_does_not_matter_in_how_many_looks_slots_are_found(start: int, minutes: int, cron: str) -> None:
    """G12: results near a change of clocks must not depend on the second of asking."""
    line = schedule(cron, zone="Europe/Madrid")
    begin = at("2026-01-01T00:00") + timedelta(minutes=start)
    middle, end = begin + timedelta(minutes=minutes // 3), begin + timedelta(minutes=minutes)
    assert slots(line, begin, middle) + slots(line, middle, end) == slots(line, begin, end)


def test_a_look_finds_so_many_slots_and_no_more() -> None:
    assert len(slots(schedule("* * * * *"), NOON - timedelta(days=30), NOON)) == MOST


def test_the_next_slot_lies_ahead() -> None:
    assert next_slot(schedule("0 9 * * *", zone="Europe/Madrid"), NOON) == at("2026-12-01T08:00")


# -- what becomes of a slot --------------------------------------------------------------------------------


def states(line: Schedule, *, ago: list[int], running: bool = False, waiting: bool = False) -> list[SlotState]:
    when = [NOON - timedelta(minutes=minutes) for minutes in ago]
    return [slot.state for slot in decide(line, when, NOON, running=running, waiting=waiting)]


def test_within_its_grace_a_slot_is_due_and_after_it_missed() -> None:
    assert states(schedule(), ago=[11, 10]) == [SlotState.MISSED, SlotState.DUE]


def test_latest_once_is_for_slots_of_which_none_is_fresh() -> None:
    line = schedule(missed=Missed.LATEST_ONCE)
    assert states(line, ago=[180, 120, 60]) == [SlotState.MISSED, SlotState.MISSED, SlotState.DUE]
    assert states(line, ago=[120, 60, 0]) == [SlotState.MISSED, SlotState.MISSED, SlotState.DUE]


def test_overlaps_go_by_the_schedules_policy() -> None:
    assert states(schedule(), ago=[1], running=True) == [SlotState.SKIPPED]
    assert states(schedule(overlap=Overlap.PARALLEL), ago=[1, 0], running=True) == [SlotState.DUE] * 2
    line = schedule(overlap=Overlap.QUEUE_ONE)
    assert states(line, ago=[2, 1, 0]) == [SlotState.DUE, SlotState.WAITING, SlotState.SKIPPED]
    assert states(line, ago=[0], running=True, waiting=True) == [SlotState.SKIPPED]
