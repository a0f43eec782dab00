"""The policy file, and the level that the host computes from what an action says of itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric import assets
from taskfabric.domain.approval import Level
from taskfabric.domain.errors import BadInput
from taskfabric.domain.levels import (
    LEAST,
    MOST,
    ActionKind,
    ActionPolicy,
    Judged,
    Rule,
    checked_action,
    checked_pattern,
    facts_of,
    read_policy,
)

SHIPPED = assets.read_text("config/policy.toml")
REST = '[actions."*"]\nkind = "send"\nlevel = "confirm"\n'


@pytest.fixture
def policy() -> ActionPolicy:
    return read_policy(SHIPPED, "policy.toml")


def level(policy: ActionPolicy | Judged, action: str, **more: Any) -> Level:
    plain: dict[str, Any] = {"recipient": None, "amount": None, "label": "household"}
    return policy.level_of(action, **(plain | more))


def test_the_policy_that_ships_is_sound_and_asks_a_human_for_what_it_does_not_know(policy: ActionPolicy) -> None:
    assert level(policy, "read.mail") is Level.AUTO
    assert level(policy, "note.add") is Level.LOGGED
    assert level(policy, "something.else") is Level.CONFIRM
    assert level(policy, "pay.invoice") is Level.SECURE
    assert (policy.confirm_expires, policy.grant_lasts) == (timedelta(days=2), timedelta(days=30))


def test_the_most_specific_rule_counts() -> None:
    text = (
        REST + '[actions."mail.*"]\nkind = "send"\nlevel = "secure"\n[actions."mail.draft"]\nkind="write"\nlevel="auto"'
    )
    made = read_policy(text, "x")
    assert level(made, "mail.draft") is Level.AUTO
    assert level(made, "mail.send") is Level.SECURE


def test_amounts_and_private_tasks_raise_the_level_and_reads_stay(policy: ActionPolicy) -> None:
    assert level(policy, "note.add", amount=51.0) is Level.SECURE
    assert level(policy, "mail.send", recipient="x", label="private") is Level.SECURE
    assert level(policy, "read.mail", recipient="x", label="private", amount=1000.0) is Level.AUTO


@pytest.mark.parametrize("kind", ActionKind)
@pytest.mark.parametrize("word", [lv.word for lv in Level])
def test_no_file_leaves_the_bounds_of_a_kind(kind: ActionKind, word: str) -> None:
    text = REST + f'[actions."a.b"]\nkind = "{kind.value}"\nlevel = "{word}"\n'
    if LEAST[kind] <= Level.of(word) <= MOST[kind]:
        assert read_policy(text, "x").rule_for("a.b").level is Level.of(word)
    else:
        with pytest.raises(BadInput, match=f"kind {kind.value} has"):
            read_policy(text, "x")


def test_what_is_secure_is_confirm_at_least_and_what_reads_is_auto_at_most() -> None:
    assert LEAST[ActionKind.SECURE] is Level.CONFIRM
    assert MOST[ActionKind.READ] is Level.AUTO


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("household = 3\n" + REST, "household"),
        ("houshold = []\n" + REST, "did you mean 'household'"),
        ('[actions."*"]\nkind = "send"\nlevel = "confrim"\n', "did you mean 'confirm'"),
        ('[actions."*"]\nkind = "send"\nlevel = "confirm"\nlevle = 1\n', "did you mean 'level'"),
        ('[actions."mail"]\nkind = "send"\nlevel = "confirm"\n', "no rule"),
        ('[actions."M*"]\nkind = "send"\nlevel = "confirm"\n' + REST, "is no pattern"),
        ("[actions", "not valid TOML"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read_policy(text, "policy.toml")


@given(st.sampled_from(list(Level)), st.sampled_from(list(Level)))
def test_of_two_policies_the_stricter_counts(one: Level, other: Level) -> None:
    now, accepted = (ActionPolicy(rules=(Rule(pattern="*", kind=ActionKind.WRITE, level=lv),)) for lv in (one, other))
    assert level(Judged(now=now, accepted=accepted), "a.b") is max(one, other)


def test_a_human_whom_a_file_adds_is_nobody_until_it_is_accepted() -> None:
    rest = (Rule(pattern="*", kind=ActionKind.SEND, level=Level.CONFIRM),)
    now, accepted = (ActionPolicy(rules=rest, household=names) for names in (("alice", "bob"), ("alice",)))
    assert Judged(now=now, accepted=accepted).household == ("alice",)


@pytest.mark.parametrize(
    ("args", "recipient", "amount"),
    [
        ({}, None, None),
        ({"to": "x", "amount": 3}, "x", 3.0),
        ({"recipient": ["b", "a"], "price": "4.50"}, "a, b", 4.5),
        ({"amount": -60}, None, 60.0),
        ({"amount": "sixty"}, None, float("inf")),
        ({"amount": True}, None, float("inf")),
        ({"amount": [1, None]}, None, 1.0),
        ({"amount": 1, "total": 99}, None, 99.0),
        ({"to": " "}, None, None),
        ({"to": "bank", "cc": "eve"}, "bank, eve", None),
        ({"to": "bank", "Bcc": ["eve", "bank"]}, "bank, eve", None),
    ],
)
def test_the_host_reads_recipient_and_amount_by_itself(
    args: dict[str, Any], recipient: str | None, amount: float | None
) -> None:
    found = facts_of(args)
    assert (found.recipient, found.amount) == (recipient, amount)


@pytest.mark.parametrize("word", ["", "Mail.send", "mail.", ".mail", "mail..send", "mail send", "mail.*", "a" * 101])
def test_an_action_is_words_with_dots(word: str) -> None:
    with pytest.raises(BadInput):
        checked_action(word)


def test_a_pattern_is_an_action_or_a_family() -> None:
    assert [checked_pattern(word) for word in ("mail.send", "mail.*", "*")] == ["mail.send", "mail.*", "*"]
    with pytest.raises(BadInput):
        checked_pattern("*.send")


@pytest.mark.parametrize(
    ("args", "amount"),
    [
        ({"Amount": 51}, 51),
        ({"order": {"lines": [{"price": 30}, {"PRICE": "30"}]}}, 60),
        ({"amount": {"value": 70, "currency": "EUR"}}, 70),
        ({"amount": float("nan")}, float("inf")),
        ({"amount": "nan"}, float("inf")),
        ({"amount": "-inf"}, float("inf")),
        ({"amount": "about 3"}, float("inf")),
        ({"amount": "many"}, float("inf")),
        ({"amount": True}, float("inf")),
        ({"total": 20, "price": [5, 5]}, 20),
        ({"amount": None}, None),
        ({"text": "amount"}, None),
    ],
)
def test_an_amount_is_found_at_any_depth_and_what_is_no_number_is_beyond_any_bound(
    args: dict[str, Any], amount: float | None
) -> None:
    assert facts_of(args).amount == amount


@pytest.mark.parametrize(
    ("args", "recipient"),
    [
        ({"message": {"To": "bob"}}, "bob"),
        ({"to": "bob", "more": [{"CC": {"name": "Eve", "address": "eve"}}]}, "Eve, bob, eve"),
        ({"to": []}, None),
    ],
)
def test_recipients_are_found_at_any_depth(args: dict[str, Any], recipient: str | None) -> None:
    assert facts_of(args).recipient == recipient
