"""``routes.toml``, read strictly: the kinds of tasks that ``auto`` knows, and what its sureness is learned from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.routing import Route
from taskfabric.domain.target import NAME, checked_need, checked_tier

NONE: Final = "none"  # texts of no route
_KEYS: Final = ("tier", "needs", "words", "examples")


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The kinds of tasks, and texts of which the kind is known: (text, route or None)."""

    routes: tuple[Route, ...]
    known: tuple[tuple[str, str | None], ...]


def read(text: str, source: str) -> Routes:
    """Raises BadInput, with what is wrong and where."""
    try:
        tree = tomllib.loads(text)
    except ValueError as cause:
        raise BadInput(f"{source} is not valid TOML: {cause}", source=source) from cause
    _no_other(tree, ("routes", "calibration"), source)
    tables = tree.get("routes")
    if not isinstance(tables, dict) or not tables:
        raise BadInput(f"{source} has no [routes.NAME]", source=source)
    routes = tuple(_route(name, table, source) for name, table in tables.items())
    given = tree.get("calibration", {})
    if not isinstance(given, dict):
        raise BadInput(f"{source}: calibration is a table of lists", source=source)
    _no_other(given, (*(route.name for route in routes), NONE), f"{source}: [calibration]")
    known = tuple(
        (line, None if name == NONE else name)
        for name, lines in given.items()
        for line in _texts(lines, f"{source}: calibration.{name}")
    )
    return Routes(routes=routes, known=known)


def _route(name: str, table: object, source: str) -> Route:
    where = f"{source}: [routes.{name[:40]}]"
    if not isinstance(table, dict):
        raise BadInput(f"{where} is a table", source=source)
    if not NAME.fullmatch(name) or name == NONE:
        raise BadInput(f"{where}: {name[:40]!r} cannot be a route's name", source=source)
    _no_other(table, _KEYS, where)
    if not isinstance(table.get("tier"), str):
        raise BadInput(f"{where} needs a tier", next="one of small, medium, large", source=source)
    examples = _texts(table.get("examples", []), f"{where}: examples")
    if not examples:
        raise BadInput(f"{where} needs examples", next="a dozen short tasks of this kind", source=source)
    return Route(
        name=name,
        tier=checked_tier(table["tier"]),
        needs=tuple(checked_need(need) for need in _texts(table.get("needs", []), f"{where}: needs")),
        examples=examples,
        words=tuple(word.casefold() for word in _texts(table.get("words", []), f"{where}: words")),
    )


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(line, str) and line.strip() for line in value):
        raise BadInput(f"{where} is a list of texts")
    return tuple(value)


def _no_other(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise BadInput(f"{where} has no {key[:40]!r}", next=hint)
