"""When the next one of a recurring card is due: as PHP counts days, months and years. The answers are a Kanboard's."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from taskfabric.domain.recurrence import Recurrence, Trigger, passed

_DUE = datetime(2024, 1, 31, 10, 30, tzinfo=UTC)
_NOW = datetime(2026, 12, 1, 6, 0, 51, tzinfo=UTC)


@pytest.mark.parametrize(
    ("factor", "timeframe", "then"),
    [
        (1, 1, datetime(2024, 3, 2, 10, 30, tzinfo=UTC)),
        (-1, 1, datetime(2023, 12, 31, 10, 30, tzinfo=UTC)),
        (13, 1, datetime(2025, 3, 3, 10, 30, tzinfo=UTC)),
        (1, 2, datetime(2025, 1, 31, 10, 30, tzinfo=UTC)),
        (5, 0, datetime(2024, 2, 5, 10, 30, tzinfo=UTC)),
        (3, 7, datetime(2024, 2, 3, 10, 30, tzinfo=UTC)),
        (0, 0, _DUE),
    ],
)
def test_a_day_that_a_month_has_not_is_so_many_days_into_the_next_one(
    factor: int, timeframe: int, then: datetime
) -> None:
    assert Recurrence(factor=factor, timeframe=timeframe).next_due(_DUE, _NOW) == then


def test_it_may_be_counted_from_the_day_on_which_it_came_again() -> None:
    assert Recurrence(factor=2, basedate=1).next_due(_DUE, _NOW) == datetime(2026, 12, 3, 6, 0, 51, tzinfo=UTC)


@pytest.mark.parametrize("timeframe", [0, 1, 2])
@pytest.mark.parametrize("factor", [2**31 - 1, -(2**31)])
def test_what_lies_beyond_the_calendar_is_not_due(factor: int, timeframe: int) -> None:
    assert Recurrence(factor=factor, timeframe=timeframe).next_due(_DUE, _NOW) is None


def test_what_is_not_due_comes_again_without_being_due() -> None:
    assert Recurrence(factor=1).next_due(None, _NOW) is None


def test_a_move_leaves_the_first_column_or_enters_the_last_or_both() -> None:
    assert passed(1, 2, 1, 3) == {Trigger.LEAVES_FIRST_COLUMN}
    assert passed(2, 3, 1, 3) == {Trigger.ENTERS_LAST_COLUMN}
    assert passed(1, 3, 1, 3) == set(Trigger) - {Trigger.CLOSED}
    assert passed(3, 1, 1, 3) == set()
