"""Arguments as Kanboard's clients send them: by place or by name, loosely typed; a handler gets what it declares.

The declaration is the handler's own signature. What PHP would convert without loss is converted; what it could not
is Invalid params, before anything was looked at.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, Union

from taskfabric.surfaces.kanboard_api.errors import WrongParams

Convert = Callable[[str, Any], Any]

_INT4: Final = 2**31 - 1
_INT8: Final = 2**63 - 1
_DIGITS: Final = 20  # of a number written as text
_TRUE: Final = ("1", "true", "on", "yes")


class _Big:
    """Marks an integer that may have eight bytes."""


BigId = Annotated[int, _Big()]  # the number of a task, a comment, a file of a task

_T = TypeVar("_T")


class _Missing:
    """No default: the argument must be given."""


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of a procedure."""

    name: str
    default: object
    convert: Convert

    @property
    def required(self) -> bool:
        return self.default is MISSING


def params_of(run: Callable[..., object]) -> tuple[Param, ...]:
    """The parameters behind the first, which is the call itself. Raises TypeError for a type that no client sends."""
    hints = typing.get_type_hints(run, include_extras=True)
    declared = list(inspect.signature(run).parameters.values())[1:]
    return tuple(
        Param(
            name=p.name,
            default=MISSING if p.default is inspect.Parameter.empty else p.default,
            convert=_converter(hints[p.name]),
        )
        for p in declared
    )


def bound(params: Sequence[Param], given: Mapping[str, Any] | Sequence[Any] | None) -> list[Any]:
    """The handler's arguments. Raises WrongParams."""
    given = () if given is None else given
    if len(given) > len(params):
        raise WrongParams("Too many arguments")
    if len(given) < sum(p.required for p in params):
        raise WrongParams("Wrong number of arguments")
    if isinstance(given, Mapping):
        return [_one(p, given[p.name]) if p.name in given else _default(p) for p in params]
    values = [_one(p, value) for p, value in zip(params, given, strict=False)]
    return values + [_default(p) for p in params[len(given) :]]


def _one(param: Param, value: Any) -> Any:
    if value is None and not param.required:
        return param.default
    return param.convert(param.name, value)


def _default(param: Param) -> Any:
    if param.required:
        raise WrongParams(f"Missing argument: {param.name}")
    return param.default


# ---------------------------------------------------------------- types


def _converter(hint: Any) -> Convert:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _big
    if origin in (Union, types.UnionType):
        inner = [_converter(kind) for kind in typing.get_args(hint) if kind is not type(None)]
        if len(inner) == 1:
            return _or_none(inner[0])
    simple: Mapping[Any, Convert] = {
        int: _integer,
        str: _text,
        bool: _boolean,
        float: _number,
        object: _raw,
        list: _list,
        dict: _object,
    }
    found = simple.get(origin or hint)
    if found is None:
        raise TypeError(f"no client sends a {hint!r}")
    return found


def _or_none(convert: Convert) -> Convert:
    return lambda name, value: None if value is None else convert(name, value)


def _integer(name: str, value: Any) -> int:
    return _whole(name, value, _INT4)


def _big(name: str, value: Any) -> int:
    return _whole(name, value, _INT8)


def _whole(name: str, value: Any, most: int) -> int:
    found: int | None = None
    if isinstance(value, bool | int) or (isinstance(value, float) and value.is_integer() and abs(value) <= most):
        found = int(value)
    elif isinstance(value, str) and len(value) <= _DIGITS:
        text = value.strip()
        if text.isascii() and text.removeprefix("-").isdigit():
            found = int(text)
    if found is None or abs(found) > most:
        raise WrongParams(f"{name}: a whole number is wanted")
    return found


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | int | float) and abs(value) <= _INT4:
        return float(value)
    if isinstance(value, str) and len(value) <= _DIGITS:
        try:
            found = float(value)
        except ValueError:
            pass
        else:
            if abs(found) <= _INT4:  # neither NaN nor infinite
                return found
    raise WrongParams(f"{name}: a number is wanted")


def _text(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "1"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return _clean(name, value)
    raise WrongParams(f"{name}: a text is wanted")


def _clean(name: str, value: str) -> str:
    if "\0" in value:
        raise WrongParams(f"{name}: the text has a character with the number 0")
    return value


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _TRUE
    if isinstance(value, bool | int | float) or value is None:
        return bool(value)
    raise WrongParams(f"{name}: true or false is wanted")


def _raw(name: str, value: Any) -> object:
    _look_through(name, value)
    return value


def _list(name: str, value: Any) -> list[object]:
    _look_through(name, value)
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value.values())
    raise WrongParams(f"{name}: an array is wanted")


def _object(name: str, value: Any) -> dict[str, object]:
    _look_through(name, value)
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return {str(n): item for n, item in enumerate(value)}
    raise WrongParams(f"{name}: an object is wanted")


def _look_through(name: str, value: Any) -> None:
    """Raises WrongParams for a text with a NUL anywhere inside; the body's depth is bounded before."""
    if isinstance(value, str):
        _clean(name, value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _clean(name, key)
            _look_through(name, inner)
    elif isinstance(value, list):
        for inner in value:
            _look_through(name, inner)
