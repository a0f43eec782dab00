"""The tree of errors: drawn at the top of its file, and the same over the wire."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain import errors
from taskfabric.domain.errors import BY_NAME, FabricError, Fact, from_json, not_found

KINDS = list(BY_NAME.values())


def _drawn() -> list[tuple[str, str, int]]:
    """(class, parent, code) as the picture shows them, from the top; a code not drawn is the parent's."""
    rows: list[tuple[str, str, int]] = []
    above: list[tuple[int, str, int]] = []  # (indentation, class, code) on the way down to the present line
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        match = re.fullmatch(r"    ([│├└─ ]*)([A-Z][A-Za-z]+) +(?:([0-9]) +)?[a-z].*", line)
        if match is None:
            continue
        while above and above[-1][0] >= len(match[1]):
            above.pop()
        code = int(match[3]) if match[3] else above[-1][2]
        rows.append((match[2], above[-1][1] if above else "Exception", code))
        above.append((len(match[1]), match[2], code))
    return rows


def _written() -> list[tuple[str, str, int]]:
    return [(kind.__name__, kind.__mro__[1].__name__, kind.code) for kind in KINDS]


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    assert _drawn() == _written()


def test_every_class_of_the_file_is_in_the_tree() -> None:
    classes = {k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)}
    assert classes == set(KINDS)


def test_every_error_has_a_name_of_its_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert all("name" in vars(kind) for kind in KINDS)


def test_every_error_says_what_it_means() -> None:
    assert all(kind.__doc__ for kind in KINDS)


def test_every_error_says_what_to_do_even_if_nobody_wrote_it_down() -> None:
    assert [kind for kind in KINDS if not kind("it is so").next] == [FabricError]


facts = st.dictionaries(
    st.from_regex(r"[a-z_]{1,12}", fullmatch=True).filter(lambda k: k not in ("message", "next", "self")),
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()) | st.lists(st.text()),
    max_size=5,
)


@given(kind=st.sampled_from(KINDS), message=st.text(), next_step=st.text(), facts=facts)
def test_an_error_is_the_same_one_after_a_trip_over_the_wire(
    kind: type[FabricError], message: str, next_step: str, facts: dict[str, Fact]
) -> None:
    error = kind(message, next=next_step, **facts)
    again = from_json(json.loads(json.dumps(error.to_json())))
    assert type(again) is kind
    assert again.to_json() == error.to_json()
    assert str(again) == message


@pytest.mark.parametrize("shape", [{}, {"name": "from-a-newer-server"}, {"name": None, "facts": 3, "next": None}])
def test_an_error_of_a_newer_server_is_still_an_error(shape: dict[str, object]) -> None:
    error = from_json(shape)
    assert type(error) is FabricError
    assert error.message


def test_the_next_step_is_the_classes_own_unless_a_better_one_is_known() -> None:
    assert errors.NoFence("no fence").next == errors.NoFence.default_next
    assert errors.NoFence("no fence", next="look here").next == "look here"


def test_missing_and_forbidden_are_the_same_bytes() -> None:
    """Nobody learns from an answer what exists (G13)."""
    assert json.dumps(not_found("task").to_json()) == json.dumps(not_found("task").to_json())
    assert not_found("task").facts == {}


@pytest.mark.parametrize(
    ("what", "step"),
    [("task", "fabric list"), ("queue", "fabric queue list"), ("user", "fabric user list"), ("token", "token list")],
)
def test_what_is_not_found_comes_with_a_step_that_fits_it(what: str, step: str) -> None:
    assert step in not_found(what).next


def test_who_catches_not_yours_catches_every_loss_of_a_lease() -> None:
    for kind in (errors.NoFence, errors.LeaseLost, errors.HeldBy):
        assert issubclass(kind, errors.NotYours)
        assert kind.code == 4
