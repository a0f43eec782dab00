"""An agent card as it is written: a table of TOML read strictly into an ``AgentCard``, and back.

    card = read_card(tomllib.loads(text), name="kimi")

Every key that is not known is an error with the nearest known one; all that is wrong with a file is told at once.
``shape_of`` gives the table back, so that a card travels in the same form: ``read_card(shape_of(card)) == card``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import time, timedelta
from typing import Any, Final, TypeVar

from taskfabric.domain.card import AgentCard, CardKind, CommandSpec, Cost, Hours, ModelSpec, RemoteSpec, Window
from taskfabric.domain.card_values import Table, show_length
from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Trust
from taskfabric.domain.target import checked_name, checked_need, checked_tier
from taskfabric.domain.times import zone_of

T = TypeVar("T")

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PROMPTS: Final = ("stdin", "argument")
_SHAPES: Final = ("text", "claude-json", "kimi-json")
_CALENDARS: Final = ("", "day", "week", "month")
_UNITS: Final = ("runs", "tokens", "cents")
_OURS: Final = ("FABRIC_", "PG", "DATABASE_", "KANBOARD_")  # variables that no agent is granted
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_MARKS: Final = ("{prompt}", "{workspace}", "{result}")


def read_card(shape: Mapping[str, Any], *, name: str) -> AgentCard:
    """The card of the file ``name``.toml. Raises BadInput with everything that is wrong, one point a line."""
    top = Table(shape, "")
    given = top.text("name", name)
    if given != name:
        top.wrong("name", f"is {given!r}, but the file is called {name}.toml")
    top.checked("name", lambda: checked_name(name, "agent"))
    kind = top.one_of("kind", [k.value for k in CardKind], required=True)
    sections = {
        "model": _model(top.table("model")),
        "command": _command(top.table("command")),
        "remote": _remote(top.table("remote")),
        "windows": tuple(_window(part) for part in top.tables("windows")),
        "hours": _hours(top.table("hours")),
        **_residency(top.table("residency")),
    }
    plain = AgentCard(name=name, kind=CardKind.MODEL)
    values: dict[str, Any] = {
        "description": top.text("description", ""),
        "enabled": top.flag("enabled", plain.enabled),
        "persona": top.text("persona", ""),
        "tiers": top.words("tiers", (), checked_tier),
        "capabilities": top.words("capabilities", (), checked_need),
        "cost": Cost(top.one_of("cost", [c.value for c in Cost], default=plain.cost.value)),
        "allow_metered": top.flag("allow_metered", False),
        "trust": Trust.of(top.one_of("trust", [t.word for t in Trust], default=_trust_of(kind).word)),
        "tools": top.words("tools", ()),
        "queues": top.words("queues", plain.queues),
        "lease": top.length("lease", plain.lease, least=timedelta(seconds=5), most=timedelta(days=7)),
        "concurrency": top.whole("concurrency", 1, least=1, most=1000),
        "max_runtime": top.length("max_runtime", plain.max_runtime),
        "watchdog": top.length("watchdog", plain.watchdog),
        "account": top.text("account", ""),
        "degraded": top.flag("degraded", False),
        "zone": top.checked("zone", lambda: zone_of(top.text("zone", "UTC")).key) or "UTC",
        "entry": top.text("entry", ""),
        "url": top.text("url", ""),
        "probe": top.text("probe", ""),
        "wake": top.words("wake", ()),
        "idle_stop": top.length("idle_stop", None),
        "sleep": top.words("sleep", ()),
        "extra": top.strings("extra"),
        **sections,
    }
    top.unknown()
    if kind:
        _rules(top, CardKind(kind), values)
    if top.problems:
        raise BadInput(
            f"{name}.toml: " + "; ".join(top.problems),
            next="cards/README.md explains every key",
            card=name,
            problems=list(top.problems),
        )
    return AgentCard(name=name, kind=CardKind(kind), **values)


def _trust_of(kind: str) -> Trust:
    return Trust.HUMAN if kind == CardKind.HUMAN.value else Trust.SANDBOXED


def _rules(top: Table, kind: CardKind, values: Mapping[str, Any]) -> None:
    """What no single key can say: what belongs to which kind, and what contradicts what."""
    needed = {
        CardKind.MODEL: "model",
        CardKind.COMMAND: "command",
        CardKind.PYTHON: "entry",
        CardKind.REMOTE: "url",
        CardKind.HUMAN: "",
    }
    for key in ("model", "command", "entry", "url"):
        if needed[kind] == key and not values[key]:
            top.wrong(key, f"is missing: a card of kind {kind.value!r} says it")
        elif needed[kind] != key and values[key]:
            top.wrong(key, f"does not belong to a card of kind {kind.value!r}")
    if values["remote"] and kind is not CardKind.REMOTE:
        top.wrong("remote", f"does not belong to a card of kind {kind.value!r}")
    if (values["trust"] is Trust.HUMAN) != (kind is CardKind.HUMAN):
        top.wrong("trust", "is human for humans, and only for them")
    if kind is CardKind.HUMAN and (values["windows"] or values["account"]):
        top.wrong("windows", "and account are about quotas; a human has hours")
    if values["entry"] and not _is_entry(values["entry"]):
        top.wrong("entry", f"{values['entry'][:60]!r} is not MODULE:FUNCTION")
    for key in ("url",):
        if values[key] and not values[key].startswith(("http://", "https://")):
            top.wrong(key, f"{values[key][:60]!r} is not an http or https address")
    names = [window.name for window in values["windows"]]
    if len(set(names)) != len(names):
        top.wrong("windows", "two of them have the same name")
    if values["idle_stop"] is not None and not values["sleep"]:
        top.wrong("idle_stop", "needs `sleep`, the command that it runs")
    if (values["wake"] or values["sleep"]) and not values["probe"]:
        top.wrong("wake", "and sleep need `probe`, which tells whether the node is up")
    if values["watchdog"] > values["max_runtime"]:
        top.wrong("watchdog", "is longer than max_runtime, so it would never bite")
    if values["persona"] and ("/" in values["persona"] or values["persona"].startswith(".")):
        top.wrong("persona", "is the name of a folder below cards/personas")


def _is_entry(text: str) -> bool:
    module, colon, function = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), function))


def _model(part: Table | None) -> ModelSpec | None:
    if part is None:
        return None
    spec = ModelSpec(
        model=part.text("model", "", required=True),
        endpoint=part.text("endpoint", ""),
        key_env=part.text("key_env", ""),
        context_chars=part.whole("context_chars", 60_000, least=500, most=10**8),
        max_tokens=part.whole("max_tokens", 4096, least=1, most=10**7),
        temperature=part.number("temperature", least=0.0, most=2.0),
    )
    if spec.endpoint and not spec.endpoint.startswith(("http://", "https://")):
        part.wrong("endpoint", f"{spec.endpoint[:60]!r} is not an http or https address")
    part.unknown()
    return spec


def _command(part: Table | None) -> CommandSpec | None:
    if part is None:
        return None
    spec = CommandSpec(
        argv=part.words("argv", (), required=True),
        prompt=part.one_of("prompt", _PROMPTS, default="stdin"),
        env=part.words("env", ()),
        paths=part.words("paths", ()),
        output_cap=part.whole("output_cap", 1 << 20, least=1024, most=1 << 30),
        shape=part.one_of("shape", _SHAPES, default="text"),
        provider=part.text("provider", ""),
    )
    has_prompt = any("{prompt}" in word for word in spec.argv)
    if spec.prompt == "argument" and spec.argv and not has_prompt:
        part.wrong("prompt", "is an argument, but no word of argv holds {prompt}")
    if spec.prompt == "stdin" and has_prompt:
        part.wrong("argv", 'holds {prompt}, but the prompt goes to standard input; say prompt = "argument"')
    if spec.argv and (not spec.argv[0] or any(mark in spec.argv[0] for mark in _MARKS)):
        part.wrong("argv", "begins with the program, which is not a placeholder")
    for name in spec.env:
        if not name.isidentifier():
            part.wrong("env", f"{name[:40]!r} is not the name of an environment variable")
        elif name.startswith(_OURS):
            part.wrong("env", f"{name} is the fabric's own and is never granted")
    part.unknown()
    return spec


def _remote(part: Table | None) -> RemoteSpec | None:
    if part is None:
        return None
    spec = RemoteSpec(key_env=part.text("key_env", ""), header=part.text("header", ""))
    if spec.key_env and (not spec.key_env.isidentifier() or spec.key_env.startswith(_OURS)):
        part.wrong("key_env", "is not the name of an environment variable, or it is one of the fabric's own")
    if spec.header and _HEADER.fullmatch(spec.header) is None:
        part.wrong("header", f"{spec.header[:40]!r} is not the name of a header")
    part.unknown()
    return spec


def _window(part: Table) -> Window:
    calendar = part.one_of("calendar", _CALENDARS, default="")
    usual = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=31)}
    if not calendar and not part.has("length"):
        part.wrong("length", 'is missing; or say calendar = "day", "week" or "month"')
    if calendar and part.has("length") and part.length("length", None) != usual[calendar]:
        part.wrong("length", "is the calendar's own; leave it out")
    window = Window(
        name=part.text("name", "", required=True),
        length=part.length("length", usual.get(calendar, timedelta(hours=5)), most=timedelta(days=92)),
        limit=part.whole("limit", 1, least=1, most=10**12, required=True),
        calendar=calendar,
        reserve=part.number("reserve", least=0.0, most=1.0, default=0.2),
        unit=part.one_of("unit", _UNITS, default="runs"),
    )
    part.unknown()
    return window


def _hours(part: Table | None) -> Hours | None:
    if part is None:
        return None
    days = part.words("days", _DAYS)
    for day in days:
        if day not in _DAYS:
            part.wrong("days", f"{day[:20]!r} is not one of {', '.join(_DAYS)}")
    hours = Hours(
        begin=part.clock("begin"),
        end=part.clock("end"),
        days=frozenset(_DAYS.index(day) for day in days if day in _DAYS),
    )
    if hours.begin == hours.end and not part.problems:
        part.wrong("end", "is the same as begin; leave [hours] out for round the clock")
    if not days:
        part.wrong("days", "names no day")
    part.unknown()
    return hours


def _residency(part: Table | None) -> dict[str, Any]:
    if part is None:
        return {}
    values = {
        "gpu_mb": part.whole("gpu_mb", 0, least=0, most=10**7),
        "ram_mb": part.whole("ram_mb", 0, least=0, most=10**8),
        "keep_loaded": part.flag("keep_loaded", False),
        "beside": part.words("beside", ()),
    }
    part.unknown()
    return values


# -- what is allowed and still looks wrong -------------------------------------------------------------------


def lint(card: AgentCard) -> list[str]:
    """Sentences about a valid card that a careful owner would like to hear."""
    return [text for holds, text in _warnings(card) if holds]


def _warnings(card: AgentCard) -> list[tuple[bool, str]]:
    metered = card.cost is Cost.METERED
    is_human = card.kind is CardKind.HUMAN
    return [
        (not card.description, "has no description: nobody knows what it is good for"),
        (metered and not card.allow_metered, "is metered and stays off until the card says allow_metered = true"),
        (
            metered and card.allow_metered and not any(w.unit == "cents" for w in card.windows),
            'is metered without a budget: add a window with unit = "cents"',
        ),
        (card.allow_metered and not metered, "allows metered use although its cost is not metered"),
        (
            card.cost is Cost.FLAT and not card.account,
            "is on a subscription but names no account: another card on it would not see its quota",
        ),
        (card.trust is Trust.TRUSTED, "is trusted: its programs may reach more than a sandboxed card's"),
        (not is_human and not card.tiers, "names no tier, so it takes work of every tier from its pools"),
        (
            card.lease > card.max_runtime,
            "has a lease longer than max_runtime: after a crash its task waits longer than any run takes",
        ),
        (card.kind is CardKind.COMMAND and card.concurrency > 4, "runs more than four programs at once"),
        (card.keep_loaded and not (card.gpu_mb or card.ram_mb), "is never evicted but says no size"),
    ]


def lint_together(cards: Mapping[str, AgentCard]) -> list[tuple[str, str]]:
    """(card, sentence) for what is wrong only among several cards."""
    found: list[tuple[str, str]] = []
    windows: dict[tuple[str, str], tuple[str, Window]] = {}
    for card in cards.values():
        for other in card.beside:
            if other not in cards:
                found.append((card.name, f"may stand beside {other!r}, of which there is no card"))
        for window in card.windows:
            first, known = windows.setdefault((card.account_name, window.name), (card.name, window))
            if known != window:
                found.append(
                    (card.name, f"says otherwise than {first!r} about window {window.name!r} of {card.account_name!r}")
                )
    return found


# -- and back ------------------------------------------------------------------------------------------------


def shape_of(card: AgentCard) -> dict[str, Any]:
    """The card as plain JSON, in the form of its file; what has its default is left out."""
    plain = AgentCard(name=card.name, kind=card.kind)
    shape: dict[str, Any] = {"name": card.name, "kind": card.kind.value, "trust": card.trust.word}
    tables: dict[str, Callable[[Any], Any]] = {
        "model": _spec_shape,
        "command": _spec_shape,
        "remote": _spec_shape,
        "windows": lambda windows: [_window_shape(w) for w in windows],
        "hours": _hours_shape,
    }
    residency = ("gpu_mb", "ram_mb", "keep_loaded", "beside")
    for part in fields(AgentCard):
        value = getattr(card, part.name)
        if part.name in shape or value == getattr(plain, part.name):
            continue
        if part.name in tables:
            shape[part.name] = tables[part.name](value)
        elif part.name in residency:
            shape.setdefault("residency", {})[part.name] = _plain(value)
        else:
            shape[part.name] = _plain(value)
    return shape


def _spec_shape(spec: ModelSpec | CommandSpec | RemoteSpec) -> dict[str, Any]:
    values = {part.name: getattr(spec, part.name) for part in fields(spec)}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _window_shape(window: Window) -> dict[str, Any]:
    shape = {"name": window.name, "limit": window.limit, "reserve": window.reserve, "unit": window.unit}
    kind = {"calendar": window.calendar} if window.calendar else {"length": show_length(window.length)}
    return {**shape, **kind}


def _hours_shape(hours: Hours) -> dict[str, Any]:
    days = [_DAYS[day] for day in sorted(hours.days)]
    return {"begin": _clock_text(hours.begin), "end": _clock_text(hours.end), "days": days}


def _clock_text(at: time) -> str:
    return f"{at.hour:02}:{at.minute:02}"


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return show_length(value)
        case tuple():
            return list(value)
        case dict():
            return dict(value)
        case Cost():
            return value.value
        case _:
            return value
