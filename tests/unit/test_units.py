"""Durations and sizes: what is shown reads back as the same."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.units import duration, show_duration, show_size, size


@given(st.integers(min_value=1, max_value=3650 * 86_400_000))
def test_a_shown_duration_reads_back_as_the_same(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert duration(show_duration(length)) == length


@given(st.integers(min_value=1, max_value=2**40 - 1))
def test_a_shown_size_reads_back_as_the_same(count: int) -> None:
    assert size(show_size(count)) == count


@given(st.text(max_size=20))
def test_any_other_text_is_a_value_error_and_nothing_else(text: str) -> None:
    for read in (duration, size):
        with contextlib.suppress(ValueError):
            assert read(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("55s", 55), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("14d", 1_209_600)],
)
def test_durations_are_numbers_with_units(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "10", "10 m", "m", "1m!", "0s", "-1s", "9" * 40 + "d", "4000d", "\u0661m", "1e3s"]
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        duration(text)


@pytest.mark.parametrize("text", ["", "4", "4MB", "0B", "-1B", "4mib", "1024GiB", "9" * 40 + "B"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size such as"):
        size(text)


def test_units_of_a_duration_are_shown_only_where_they_count() -> None:
    assert show_duration(timedelta(seconds=200)) == "3m20s"
    assert show_duration(timedelta()) == "0ms"
    assert (show_size(1536), show_size(2**20), show_size(7)) == ("1536B", "1MiB", "7B")
