"""The journal's cursor and events."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.journal import Cursor, Event

cursors = st.builds(Cursor, xid=st.integers(0, 2**64 - 1), id=st.integers(0, 2**63 - 1))


@given(cursor=cursors)
def test_a_cursor_is_read_back_as_it_was_written(cursor: Cursor) -> None:
    assert Cursor.parse(str(cursor)) == cursor


@given(one=cursors, other=cursors)
def test_cursors_are_ordered_by_transaction_and_then_by_event(one: Cursor, other: Cursor) -> None:
    assert (one < other) == ((one.xid, one.id) < (other.xid, other.id))


@pytest.mark.parametrize(
    "text",
    ["", "-", "1", "1-", "-1", "1-2-3", "a-b", " 1-2", "1-2\n", "\u0661-\u0662", f"{2**64}-1", f"1-{2**63}", "9" * 500],
)
def test_what_is_no_place_in_the_journal_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a journal cursor"):
        Cursor.parse(text)


@given(text=st.text() | st.from_regex(r"[0-9]{1,25}-[0-9]{1,25}", fullmatch=True))
def test_any_text_is_a_cursor_that_the_database_takes_or_bad_input(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except BadInput:
        return
    assert cursor.xid < 2**64
    assert cursor.id < 2**63


json_values = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(), max_size=3)


@given(
    event=st.builds(
        Event,
        cursor=cursors,
        kind=st.sampled_from(["submitted", "claimed", "done", "refused"]),
        at=st.datetimes(
            datetime(1970, 1, 1),  # noqa: DTZ001 - hypothesis takes naive bounds and adds the zone
            datetime(9999, 1, 1),  # noqa: DTZ001
            timezones=st.just(UTC),
        ),
        task_id=st.none() | st.integers(1),
        seq=st.none() | st.integers(1),
        project_id=st.none() | st.integers(1),
        actor=st.text(),
        via=st.text(),
        epoch=st.none() | st.integers(0),
        data=st.dictionaries(st.text(), json_values, max_size=3),
    )
)
def test_an_event_is_the_same_after_a_trip_over_the_wire(event: Event) -> None:
    assert Event.from_json(json.loads(json.dumps(event.to_json()))) == event
