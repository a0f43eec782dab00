"""What an approval is bound to, who may decide it, and what a standing grant covers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.approval import (
    Approval,
    Decider,
    Grant,
    How,
    Level,
    State,
    binding,
    canonical,
    matches,
)
from taskfabric.domain.errors import BadInput
from taskfabric.services.approval_words import face, said

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text('ab"\\é`\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.text("abcto", max_size=4), VALUES, max_size=4)


def make(**more: Any) -> Approval:
    plain: dict[str, Any] = {
        "id": 7,
        "state": State.PENDING,
        "action": "mail.send",
        "args": {"to": "x"},
        "hash": "0" * 64,
        "level": Level.CONFIRM,
        "requester": "kimi",
        "requester_id": 3,
        "created": NOW,
        "expires": NOW + 48 * HOUR,
    }
    return Approval(**(plain | more))


@given(ARGS)
def test_the_hash_survives_the_way_through_json(args: dict[str, Any]) -> None:
    assert binding("a", json.loads(canonical(args)), Level.CONFIRM) == binding("a", args, Level.CONFIRM)


@given(ARGS, ARGS)
def test_other_arguments_have_another_hash(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = canonical(one) == canonical(other)
    assert (binding("a", one, Level.CONFIRM) == binding("a", other, Level.CONFIRM)) == same


def test_the_hash_is_of_action_and_level_too() -> None:
    hashes = {binding(a, {}, level) for a in ("a", "b") for level in (Level.CONFIRM, Level.SECURE)}
    assert len(hashes) == 4


@pytest.mark.parametrize(
    "args",
    [
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": "\ud800"},
        {"a": "x\x00"},
        {"a\x00": 1},
        {"a": "x" * 70_000},
        {"a": object()},
    ],
)
def test_what_is_no_readable_json_is_not_asked(args: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        canonical(args)


def test_arguments_too_deep_to_read_are_refused() -> None:
    deep: Any = 1
    for _ in range(25):
        deep = [deep]
    with pytest.raises(BadInput):
        canonical({"a": deep})


def test_a_family_means_all_below_it_and_nothing_beside_it() -> None:
    assert matches("mail.*", "mail.send")
    assert not matches("mail.*", "mail")
    assert not matches("mail.*", "mailing.send")
    assert not matches("mail.send", "mail.send.all")
    assert matches("*", "anything")


def test_a_delegation_counts_until_its_end_and_never_for_what_is_secure() -> None:
    bob = Decider(principal_id=2, name="bob", how=How.DELEGATED, since=NOW, for_whom="alice", until=NOW + HOUR)
    approval = make(deciders=(bob,))
    assert approval.decider(2, NOW) == bob
    assert approval.decider(2, NOW + HOUR) is None
    assert make(deciders=(bob,), level=Level.SECURE).decider(2, NOW) is None


def test_a_yes_is_usable_once_and_until_its_end() -> None:
    assert make(state=State.APPROVED, use_until=NOW + HOUR).unusable(NOW) == ""
    assert make(state=State.APPROVED, use_until=NOW).unusable(NOW) != ""
    assert make(state=State.APPROVED, consumed_at=NOW).unusable(NOW) != ""
    assert all(make(state=s).unusable(NOW) for s in State if s not in (State.APPROVED, State.EDITED))


def test_a_grant_is_for_one_agent_a_family_of_actions_and_perhaps_one_recipient() -> None:
    plain: dict[str, Any] = {
        "id": 1, "grantor": "alice", "grantor_id": 1, "agent": "kimi", "agent_id": 3, "action": "mail.*",
        "created": NOW, "until": NOW + HOUR,
    }  # fmt: skip
    anybody, bank = Grant(**plain), Grant(**plain, recipient="Bank@Example.org")
    assert anybody.covers(3, "mail.send", None, NOW)
    assert not anybody.covers(4, "mail.send", None, NOW)
    assert not anybody.covers(3, "mail.send", None, NOW + HOUR)
    assert bank.covers(3, "mail.send", "bank@example.org", NOW)
    assert not bank.covers(3, "mail.send", None, NOW)
    assert not bank.covers(3, "mail.send", "bank@example.org, thief@example.org", NOW)
    assert not Grant(**plain, revoked=NOW).covers(3, "mail.send", None, NOW)


@given(st.text("`\n a"), st.text("`\n>"))
def test_arguments_never_end_the_fence_that_shows_them(text: str, why: str) -> None:
    lines = face(make(args={"text": text}, why=why)).splitlines()
    fence = next(line for line in lines if line.startswith("```")).removesuffix("json")
    begin = lines.index(f"{fence}json")
    end = lines.index(fence, begin + 1)
    assert json.loads("\n".join(lines[begin + 1 : end])) == {"text": text}


@pytest.mark.parametrize("state", State)
def test_every_end_is_said_in_words_of_its_own(state: State) -> None:
    words = said(make(state=state, decided_by="alice", note="because"))
    assert words.startswith("approval 7 of mail.send")
    assert ("yes" in words) == (state in (State.APPROVED, State.EDITED))
    assert (": no, by alice" in words) == (state is State.DENIED)
