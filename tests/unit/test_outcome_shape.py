"""Outcomes as JSON and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import Declined, Done, Failed, Outcome, Parked, Released, Waiting, WaitingOnChildren
from taskfabric.domain.outcome_shape import outcome_of, shape_of
from tests.unit.making import instants

outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Done, note=st.text(), verdict=st.sampled_from(["pass", "fail"])),
    st.builds(Parked, until=instants, reason=st.text(), head=st.booleans()),
    st.builds(Waiting, question=st.text(), of_id=st.none() | st.integers(), auth=st.booleans()),
    st.builds(WaitingOnChildren),
    st.builds(Failed, error=st.text(), retry=st.booleans()),
    st.builds(Released, reason=st.text(), drained=st.booleans()),
    st.builds(Declined, reason=st.text()),
)


@given(outcomes)
def test_what_was_written_is_read_back_as_the_same_value(outcome: Outcome) -> None:
    assert outcome_of(json.loads(json.dumps(shape_of(outcome)))) == outcome


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"kind": "won"},
        {"kind": "done"},
        {"kind": "done", "note": "x", "more": 1},
        {"kind": "parked", "until": "soon"},
    ],
)
def test_anything_else_is_refused(shape: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        outcome_of(shape)
