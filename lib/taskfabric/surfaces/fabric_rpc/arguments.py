"""From the arguments of a call to its verb; what is wrong with them is said in a sentence, with the place."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.ports.fabric import Verb
from taskfabric.surfaces.fabric_rpc.protocol import INVALID_PARAMS, Params, ProtocolError

V = TypeVar("V", bound=Verb[Any])

_SHOWN: Final = 40  # characters of a wrong value
_SECRET: Final = frozenset({"pin", "old", "token", "data", "password", "address", "code"})
_SENTENCES: Final = {
    "missing": "is missing",
    "string_type": "is a text",
    "int_type": "is a whole number",
    "int_parsing": "is a whole number",
    "int_from_float": "is a whole number",
    "int_parsing_size": "is too large a number",
    "float_type": "is a number",
    "float_parsing": "is a number",
    "finite_number": "is a finite number",
    "bool_type": "is true or false",
    "bool_parsing": "is true or false",
    "tuple_type": "is a list",
    "list_type": "is a list",
    "dict_type": "is an object",
    "model_type": "is an object",
    "timezone_aware": "is an instant with a zone, such as 2026-12-01T09:00:00+01:00",
}
_INSTANT: Final = "is an instant such as 2026-12-01T09:00:00+01:00"


def verb_of(kind: type[V], params: Params | None) -> V:
    """The verb with these arguments. Raises BadInput for wrong ones, ProtocolError for arguments without names."""
    if isinstance(params, list) and params:
        raise ProtocolError(
            INVALID_PARAMS,
            BadInput(
                f"{kind.method} takes its arguments by name",
                next='send "params" as an object: {"name": value, …}',
                method=kind.method,
            ),
        )
    try:
        return kind.model_validate(params or {})
    except ValidationError as error:
        raise _sentence(kind, error) from None
    except FabricError:
        raise
    except (RecursionError, OverflowError) as error:  # a value that no argument can have
        raise BadInput(f"the arguments of {kind.method} cannot be read: {type(error).__name__}") from None


def _sentence(kind: type[Verb[Any]], error: ValidationError) -> BadInput:
    details = error.errors(include_url=False, include_context=True, include_input=True)
    first = details[0]
    place = _place(first)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        known = [*_model_at(kind, first["loc"][:-1]).model_fields]
        near = get_close_matches(name[:_SHOWN], known, n=1, cutoff=0.5)
        return BadInput(
            f"{kind.method} has no argument {_shown(name)}{more}",
            next=f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known) or 'none'}",
            field=place,
        )
    given = "" if first["type"] == "missing" or _is_secret(first) else f", not {_shown(first['input'])}"
    return BadInput(f"{place} {_what(first)}{given}{more}", next=f"see the arguments of {kind.method}", field=place)


def _what(detail: ErrorDetails) -> str:
    kind, facts = detail["type"], detail.get("ctx", {})
    if kind in _SENTENCES:
        return _SENTENCES[kind]
    match kind:
        case "value_error":
            return f"is wrong: {facts.get('error', 'it is not valid')}"
        case "greater_than_equal" | "greater_than":
            return f"is at least {facts.get('ge', facts.get('gt'))}"
        case "less_than_equal":
            return f"is at most {facts['le']}"
        case "less_than":
            return f"is less than {facts['lt']}"
        case "string_too_long" | "too_long":
            return f"has at most {facts['max_length']} {_unit(detail)}"
        case "string_too_short" | "too_short":
            return f"has at least {facts['min_length']} {_unit(detail)}"
        case "literal_error" | "enum":
            return f"is one of {facts['expected']}"
        case "string_pattern_mismatch":
            return "has another form"
        case _ if kind.startswith(("datetime", "timezone")):
            return _INSTANT
        case _:
            return "is not valid"


def _unit(detail: ErrorDetails) -> str:
    return "characters" if isinstance(detail["input"], str) else "elements"


def _place(detail: ErrorDetails) -> str:
    """``tasks[2].title``, without the names of our own types, which stand for the branches of a union."""
    place = ""
    for part in detail["loc"]:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part.replace("_", "").replace(".", "").isalnum() and len(part) <= _SHOWN and not _is_branch(part):
            place += f".{part}" if place else part
    return place or "the call"


def _is_branch(part: str) -> bool:
    return part in ("str", "int", "float", "bool", "datetime") or part.startswith(
        ("literal", "constrained", "function")
    )


def _is_secret(detail: ErrorDetails) -> bool:
    return any(part in _SECRET for part in detail["loc"])


def _shown(value: object) -> str:
    """At most 40 characters of what was given, with everything unprintable escaped."""
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    text = value if isinstance(value, str) else str(value) if not isinstance(value, int) else _number(value)
    return ascii(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "") if isinstance(value, str) else text[:_SHOWN]


def _number(value: int) -> str:
    return str(value) if abs(value) < 10**_SHOWN else "a very large number"


def _model_at(kind: type[Verb[Any]], place: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that an unknown argument was given to: the verb, or what stands at a place inside it."""
    found: type[BaseModel] = kind
    for part in place:
        if isinstance(part, str) and part in found.model_fields:
            found = next(_models_in(found.model_fields[part].annotation), found)
    return found


def _models_in(annotation: object) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)
