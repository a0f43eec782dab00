"""Settings are read from files and the environment, each value checked, each unknown name refused."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar, get_type_hints

from taskfabric import assets
from taskfabric.domain.errors import BadInput
from taskfabric.logs import LogFormat, LogLevel, redact
from taskfabric.settings.rules import contradictions
from taskfabric.settings.shape import Bytes, Dsn, Place, Secret, Settings
from taskfabric.units import duration, size


def _string(raw: object) -> str:
    if not isinstance(raw, str) or "\0" in raw:
        raise ValueError("a string")
    return raw


def _boolean(raw: object) -> bool:
    known: dict[object, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(raw, bool):
        return raw
    if not isinstance(raw, str) or raw.lower() not in known:
        raise ValueError("true or false")
    return known[raw.lower()]


def _integer(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str) or not re.fullmatch(r"\d{1,9}", str(raw)):
        raise ValueError("a whole number from 0 to 999999999")
    return int(raw)


def _number(raw: object) -> float:
    if (
        isinstance(raw, bool)
        or not isinstance(raw, int | float | str)
        or not re.fullmatch(r"\d{1,9}(\.\d+)?", str(raw))
    ):
        raise ValueError("a number that is not negative")
    return float(raw)


def _integers(raw: object) -> tuple[int, ...]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list):
        raise ValueError("a list of whole numbers")  # noqa: TRY004 (what somebody wrote is wrong, not our call)
    return tuple(_integer(item.strip() if isinstance(item, str) else item) for item in items)


def _strings(raw: object) -> tuple[str, ...]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list):
        raise ValueError("a list of strings")  # noqa: TRY004 (what somebody wrote is wrong, not our call)
    return tuple(word for item in items if (word := _string(item).strip()))


def _dsn(raw: object) -> Dsn:
    text = _string(raw)
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise ValueError('"" or a URL that begins with postgresql://')
    return Dsn(text)


def _place(raw: object) -> Place:
    text = _string(raw)
    if text and not text.startswith(("postgresql://", "postgres://", "http://", "https://")):
        raise ValueError('"", a URL that begins with postgresql://, or the http:// address of a Kanboard')
    return Place(text)


_READERS: Final[Mapping[object, Callable[[object], object]]] = {
    str: _string,
    bool: _boolean,
    int: _integer,
    float: _number,
    timedelta: lambda raw: raw if isinstance(raw, timedelta) else duration(_string(raw)),
    Bytes: lambda raw: size(_string(raw)),
    Dsn: _dsn,
    Place: _place,
    Secret: lambda raw: Secret(_string(raw)),
    tuple[int, ...]: _integers,
    tuple[str, ...]: _strings,
    LogLevel: lambda raw: _one_of(LogLevel, raw),
    LogFormat: lambda raw: _one_of(LogFormat, raw),
}

_Word = TypeVar("_Word", LogLevel, LogFormat)


def _one_of(words: type[_Word], raw: object) -> _Word:
    text = _string(raw).lower()
    if text not in set(words):
        raise ValueError("one of " + ", ".join(words))
    return words(text)


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raw:
    """A value as it was written, and where."""

    value: object
    source: str


def _types(section: type, prefix: str = "") -> Iterator[tuple[str, object]]:
    """(path, type) of every setting below a section."""
    for name, kind in get_type_hints(section).items():
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _types(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", kind


TYPES: Final[Mapping[str, object]] = dict(_types(Settings))
VARIABLES: Final[Mapping[str, str]] = {
    **{"FABRIC_" + path.upper().replace(".", "_"): path for path in TYPES},
    "FABRIC_BOARD": "board.url",
    "DATABASE_URL": "board.database",
    "KANBOARD_TOKEN": "board.kanboard_token",
}


def _unknown(name: str, known: Mapping[str, object], source: str) -> BadInput:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "`fabric config show` lists every setting"
    return BadInput(f"{source}: there is no setting {name}", next=hint, setting=name, source=source)


def _from_file(file: Path, *, may_be_missing: bool = False) -> dict[str, _Raw]:
    """The settings in a TOML file. Raises BadInput when it cannot be read or holds a name that is not known."""
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        if may_be_missing and isinstance(error, FileNotFoundError | NotADirectoryError):
            return {}
        reason = error.strerror or str(error)
        raise BadInput(f"the settings file {file} cannot be read: {reason}", source=str(file)) from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise BadInput(f"the settings file {file} is not valid TOML: {error}", source=str(file)) from error
    return {path: _Raw(value=value, source=str(file)) for path, value in _leaves(tree, str(file))}


def _leaves(tree: Mapping[str, object], source: str, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        path = prefix + key
        is_section = any(known.startswith(f"{path}.") for known in TYPES)
        if path in TYPES:
            yield path, value
        elif is_section and isinstance(value, dict):
            yield from _leaves(value, source, f"{path}.")
        elif is_section:
            raise BadInput(f"{source}: {path} is a section, not a value", next=f"write it as [{path}]", setting=path)
        else:
            raise _unknown(path, TYPES, source)


def _from_environment(env: Mapping[str, str]) -> dict[str, _Raw]:
    """The settings among the variables; an empty variable is not set.

    A variable of a section that exists (``FABRIC_SERVER_…``), or that nearly is a setting, and is none, is an error;
    other names that begin with FABRIC_ belong to the programs that read them.
    """
    found: dict[str, _Raw] = {}
    sections = tuple(f"FABRIC_{field.name.upper()}_" for field in fields(Settings))
    for name, value in env.items():
        path = VARIABLES.get(name)
        if path is None:
            near = name.startswith("FABRIC_") and difflib.get_close_matches(name, VARIABLES, n=1, cutoff=0.9)
            if name.startswith(sections) or near:
                raise _unknown(name, VARIABLES, "environment")
        elif value:
            # The long name says more than the short one.
            if path in found and name in ("FABRIC_BOARD", "DATABASE_URL", "KANBOARD_TOKEN"):
                continue
            found[path] = _Raw(value=value, source=name)
    return found


def load(
    *,
    env: Mapping[str, str],
    home: Path,
    config: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of a fabric whose home is ``home``.

    ``config`` is the file named on the command line (else ``FABRIC_CONFIG``); ``overrides`` are settings given there
    (``{"server.port": 9000}``). Raises BadInput that names the setting, where it was written, and what would be valid.
    """
    named = config or (Path(env["FABRIC_CONFIG"]).expanduser() if env.get("FABRIC_CONFIG") else None)
    raw = _from_file(assets.path("config/default.toml"))
    raw |= _from_file(home / "config.toml", may_be_missing=True)
    if named is not None:
        raw |= _from_file(named)
    raw |= _from_environment(env)
    for path, value in (overrides or {}).items():
        if path not in TYPES:
            raise _unknown(path, TYPES, "command line")
        raw[path] = _Raw(value=value, source="command line")
    if raw["board.renew_every"].value == "auto":
        third = _read("board.lease", timedelta, raw["board.lease"]) / 3
        raw["board.renew_every"] = _Raw(value=third, source=raw["board.lease"].source)
    settings = _build(Settings, raw)
    for broken in contradictions(settings):
        raise BadInput(broken, next="`fabric config show` prints what is in force", setting=broken.split()[0])
    return settings


_Value = TypeVar("_Value")


def _read(path: str, kind: type[_Value], raw: _Raw) -> _Value:
    try:
        value = _READERS[kind](raw.value)
    except ValueError as error:
        given = "what was given" if kind is Secret else redact(repr(raw.value))[:80]
        raise BadInput(f"{raw.source}: {path} must be {error}, not {given}", setting=path, source=raw.source) from error
    return value  # type: ignore[return-value]  # the reader in the table under a type returns that type


def _build(section: Callable[..., _Value], raw: Mapping[str, _Raw], prefix: str = "") -> _Value:
    values: dict[str, object] = {}
    for name, kind in get_type_hints(section).items():
        path = prefix + name
        is_section = isinstance(kind, type) and is_dataclass(kind)
        values[name] = _build(kind, raw, f"{path}.") if is_section else _read(path, kind, raw[path])
    return section(**values)
