"""Agent cards are read strictly, all that is wrong is told at once, and a card travels in the form of its file."""

from __future__ import annotations

import contextlib
import tomllib
from datetime import time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.card import AgentCard, CardKind, CommandSpec, Cost, Hours, ModelSpec, Window
from taskfabric.domain.card_file import lint, lint_together, read_card, shape_of
from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Trust

ECHO: dict[str, Any] = {"kind": "command", "command": {"argv": ["cat"]}}
CHAT: dict[str, Any] = {"kind": "model", "model": {"model": "openai/x"}}


def refused(shape: dict[str, Any], name: str = "x") -> str:
    with pytest.raises(BadInput) as caught:
        read_card(shape, name=name)
    return caught.value.message


def test_a_card_needs_little_and_has_careful_defaults() -> None:
    card = read_card(ECHO, name="echo")
    assert (card.name, card.kind, card.trust, card.cost) == ("echo", CardKind.COMMAND, Trust.SANDBOXED, Cost.LOCAL)
    assert card.queues == ("pool",)
    assert not card.allow_metered
    assert card.account_name == "echo"


def test_every_key_of_a_whole_card_is_read() -> None:
    card = read_card(
        tomllib.loads(
            """
            name = "night"
            kind = "model"
            description = "works at night"
            tiers = ["small", "large"]
            capabilities = ["text", "gpu/8"]
            cost = "metered"
            allow_metered = true
            trust = "trusted"
            lease = "1m"
            concurrency = 3
            max_runtime = "1h30m"
            watchdog = "5m"
            account = "shared"
            zone = "Europe/Berlin"
            probe = "http://node:1/"
            wake = ["wol", "node"]
            sleep = ["ssh", "node", "poweroff"]
            idle_stop = "20m"
            [model]
            model = "openai/q"
            endpoint = "http://node:1/v1"
            temperature = 0
            [[windows]]
            name = "day"
            calendar = "day"
            limit = 100
            unit = "cents"
            [hours]
            begin = 22:00:00
            end = "06:30"
            days = ["sat", "sun"]
            [residency]
            gpu_mb = 8000
            keep_loaded = true
            beside = ["whisper"]
            [extra]
            colour = "green"
            """
        ),
        name="night",
    )
    assert card.model == ModelSpec(model="openai/q", endpoint="http://node:1/v1", temperature=0.0)
    assert card.windows == (Window(name="day", length=timedelta(days=1), limit=100, calendar="day", unit="cents"),)
    assert card.hours == Hours(begin=time(22), end=time(6, 30), days=frozenset({5, 6}))
    assert (card.gpu_mb, card.keep_loaded, card.beside) == (8000, True, ("whisper",))
    assert (card.max_runtime, card.idle_stop, card.lease) == (
        timedelta(minutes=90),
        timedelta(minutes=20),
        timedelta(minutes=1),
    )
    assert card.extra == {"colour": "green"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capabilites": ["x"]}, "capabilites is not a key; did you mean 'capabilities'?"),
        ({"command": {"argv": ["cat"], "promt": "stdin"}}, "command.promt is not a key; did you mean 'prompt'?"),
        ({"kind": "comand"}, "kind is 'comand', not one of model, command, python, remote, human; did you mean"),
        ({"trust": "human"}, "trust is human for humans"),
        ({"tiers": ["huge"]}, "tiers is wrong: 'huge' is not a tier"),
        ({"zone": "Europe/Berln"}, "did you mean Europe/Berlin?"),
        ({"lease": "ten minutes"}, "lease is wrong"),
        ({"lease": "1s"}, "lease is 1s; it lies between 5s and 7d"),
        ({"concurrency": 0}, "concurrency is 0; it lies between 1 and 1000"),
        ({"concurrency": True}, "concurrency is not a whole number"),
        ({"enabled": "yes"}, "enabled is not true or false"),
        ({"queues": "pool"}, "queues is not a list of texts"),
        ({"model": {"model": "x"}}, "model does not belong to a card of kind 'command'"),
        ({"command": {"argv": []}}, "command.argv is empty"),
        ({"command": {"argv": ["{prompt}"], "prompt": "argument"}}, "begins with the program"),
        ({"command": {"argv": ["x"], "prompt": "argument"}}, "no word of argv holds {prompt}"),
        ({"command": {"argv": ["x", "{prompt}"]}}, 'say prompt = "argument"'),
        ({"command": {"argv": ["x"], "env": ["FABRIC_TOKEN"]}}, "FABRIC_TOKEN is the fabric's own"),
        ({"watchdog": "2h"}, "watchdog is longer than max_runtime"),
        ({"idle_stop": "5m"}, "idle_stop needs `sleep`"),
        ({"wake": ["x"]}, "need `probe`"),
        ({"persona": "../other"}, "persona is the name of a folder"),
        ({"windows": [{"name": "a", "limit": 1}]}, "windows[1].length is missing"),
        ({"windows": [{"name": "a", "limit": 1, "calendar": "day", "length": "5h"}]}, "the calendar's own"),
        ({"windows": [{"name": "a", "limit": 1, "length": "1h"}] * 2}, "two of them have the same name"),
        ({"hours": {"begin": "25:00", "end": "06:00"}}, "hours.begin is '25:00', not a time"),
        ({"hours": {"begin": "08:00", "end": "08:00"}}, "leave [hours] out"),
        ({"hours": {"begin": "08:00", "end": "09:00", "days": ["monday"]}}, "'monday' is not one of mon"),
        ({"name": "other"}, "the file is called x.toml"),
        ({"windows": [3]}, "windows is a list of tables"),
        ({"extra": {"a": 1}}, "extra is a table of texts"),
    ],
)
def test_what_is_wrong_is_told_with_what_may_be_written(change: dict[str, Any], said: str) -> None:
    assert said in refused({**ECHO, **change})


def test_everything_that_is_wrong_is_told_at_once() -> None:
    told = refused({"kind": "python", "lease": 3, "colour": "red"})
    assert told.count(";") >= 2
    assert "entry is missing" in told
    assert "colour is not a key" in told


@pytest.mark.parametrize("name", ["auto", "Kimi", "a b", "", "x" * 64])
def test_a_name_that_cannot_be_a_target_is_refused(name: str) -> None:
    assert "name" in refused(ECHO, name=name)


def test_each_kind_needs_its_own_table() -> None:
    for kind, key in (("model", "model"), ("command", "command"), ("python", "entry"), ("remote", "url")):
        assert f"{key} is missing" in refused({"kind": kind})
    assert read_card({"kind": "human"}, name="sam").trust is Trust.HUMAN


def test_lint_says_what_a_careful_owner_would_like_to_hear() -> None:
    dear = read_card({**CHAT, "description": "d", "tiers": ["large"], "cost": "metered"}, name="dear")
    assert lint(dear) == ["is metered and stays off until the card says allow_metered = true"]
    flat = read_card({**CHAT, "description": "d", "tiers": ["large"], "cost": "flat"}, name="flat")
    assert "names no account" in lint(flat)[0]
    open_end = read_card(
        {**CHAT, "description": "d", "tiers": ["large"], "cost": "metered", "allow_metered": True}, name="x"
    )
    assert "without a budget" in lint(open_end)[0]


def test_two_cards_on_one_account_agree_about_its_windows() -> None:
    window = {"name": "five_hour", "length": "5h"}
    one = read_card({**CHAT, "account": "a", "windows": [{**window, "limit": 60}]}, name="one")
    two = read_card({**CHAT, "account": "a", "windows": [{**window, "limit": 50}]}, name="two")
    assert [name for name, _ in lint_together({"one": one, "two": two})] == ["two"]


_length = st.integers(5, 86400).map(lambda s: timedelta(seconds=s))
_word = st.sampled_from(["a", "kimi", "x-1", "five_hour", "gpu8", "z" * 40])
_text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=20)
_window = st.builds(
    Window,
    name=_word,
    length=_length,
    limit=st.integers(1, 10**6),
    reserve=st.floats(0, 1),
    unit=st.sampled_from(["runs", "tokens", "cents"]),
) | st.builds(lambda n, m: Window(name=n, length=timedelta(days=7), limit=m, calendar="week"), _word, st.integers(1, 9))


@given(
    st.builds(
        AgentCard,
        name=_word,
        kind=st.just(CardKind.COMMAND),
        description=_text,
        enabled=st.booleans(),
        tiers=st.lists(st.sampled_from(["small", "medium", "large"]), unique=True).map(tuple),
        capabilities=st.lists(_word, max_size=3).map(tuple),
        cost=st.sampled_from(Cost),
        trust=st.sampled_from([Trust.UNTRUSTED, Trust.SANDBOXED, Trust.TRUSTED]),
        lease=_length,
        max_runtime=st.just(timedelta(days=1)),
        watchdog=_length,
        concurrency=st.integers(1, 50),
        account=_word,
        command=st.builds(CommandSpec, argv=st.lists(_word, min_size=1, max_size=3).map(tuple), env=st.just(("KEY",))),
        windows=st.lists(_window, max_size=3, unique_by=lambda w: w.name).map(tuple),
        hours=st.none()
        | st.builds(
            Hours, begin=st.just(time(8, 15)), end=st.just(time(3)), days=st.frozensets(st.integers(0, 6), min_size=1)
        ),
        gpu_mb=st.integers(0, 99),
        beside=st.lists(_word, max_size=2).map(tuple),
        extra=st.dictionaries(_word, _text, max_size=2),
    )
)
def test_a_card_comes_back_from_its_shape_as_it_was(card: AgentCard) -> None:
    assert read_card(shape_of(card), name=card.name) == card


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
_KEYS = [
    "name",
    "kind",
    "model",
    "command",
    "windows",
    "hours",
    "residency",
    "extra",
    "lease",
    "tiers",
    "trust",
    "zone",
]


@given(st.dictionaries(st.sampled_from(_KEYS) | _text, _json, max_size=6))
def test_garbage_is_a_card_or_bad_input_and_nothing_else(shape: dict[str, Any]) -> None:
    with contextlib.suppress(BadInput):
        assert read_card(shape, name="x").name == "x"
