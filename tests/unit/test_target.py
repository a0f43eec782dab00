"""Whom a task is for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Trust
from taskfabric.domain.target import Target, TargetKind, checked_name, checked_need, checked_tier, checked_trust


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("kimi", Target(kind=TargetKind.NAME, name="kimi")),
        (" sam.b-2_x ", Target(kind=TargetKind.NAME, name="sam.b-2_x")),
        ("auto", Target(kind=TargetKind.AUTO)),
        ("pool", Target(kind=TargetKind.ANY)),
        ("any", Target(kind=TargetKind.ANY)),
        ("any:tier=large", Target(kind=TargetKind.ANY, tier="large")),
        (
            "any:tier=large,needs=tools,trust=trusted",
            Target(kind=TargetKind.ANY, tier="large", needs=("tools",), trust=Trust.TRUSTED),
        ),
        ("any: needs=vision+tools , needs=tools,", Target(kind=TargetKind.ANY, needs=("tools", "vision"))),
        ("any:queue=nightly", Target(kind=TargetKind.ANY, name="nightly")),
    ],
)
def test_a_target_is_a_name_the_pool_constraints_or_auto(text: str, target: Target) -> None:
    assert Target.parse(text) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Kimi",
        "-kimi",
        "k" * 64,
        "a b",
        "any:",
        "any: , ",
        "any:tier",
        "any:tier=",
        "any:tier=huge",
        "any:trust=god",
        "any:=x",
        "any:needs=Tools",
        "any:needs=a++b",
        "any:queue=A",
        "kimi\x00",
        "\ud800",
        "🤖",
        "x" * 10_000,
        "any:" + "x" * 9999,
    ],
)
def test_what_is_not_a_target_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        Target.parse(text)
    assert caught.value.next
    assert len(caught.value.message) < 300


def test_a_misspelt_constraint_is_an_error_that_knows_what_was_meant() -> None:
    with pytest.raises(BadInput, match="did you mean 'needs'"):
        Target.parse("any:need=tools")


pieces = st.sampled_from(["any", ":", "tier", "needs", "trust", "queue", "=", ",", "+", "large", "tools", "human", " "])


@given(text=st.text() | st.lists(pieces, max_size=9).map("".join))
def test_any_text_is_a_target_or_bad_input(text: str) -> None:
    try:
        target = Target.parse(text)
    except BadInput:
        return
    assert (target.kind is TargetKind.NAME) <= bool(target.name)
    assert target.needs == tuple(sorted(set(target.needs)))


@pytest.mark.parametrize("word", ["auto", "any", "pool", "me", "", "Sam", "a:b", "s" * 64, "sam\n"])
def test_a_name_that_could_not_be_addressed_cannot_be_given(word: str) -> None:
    with pytest.raises(BadInput):
        checked_name(word, "user")


@given(word=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True))
def test_every_name_that_can_be_given_can_be_addressed(word: str) -> None:
    try:
        name = checked_name(word, "user")
    except BadInput:
        return
    assert Target.parse(name) == Target(kind=TargetKind.NAME, name=name)


def test_single_constraints_are_checked_alike() -> None:
    assert checked_tier("small") == "small"
    assert checked_need("c++") == "c++"
    assert checked_trust("sandboxed") is Trust.SANDBOXED
    for check, word in ((checked_tier, "tiny"), (checked_need, "Tools"), (checked_trust, "friend")):
        with pytest.raises(BadInput):
            check(word)
