"""JSON-RPC 2.0 as it travels: what a body asks for, and the shape of an answer.

Errors of the protocol have its own numbers. An error of ours travels as ``-32000 - code``, with its whole JSON form as
``data``, so that a client can raise the same class again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from taskfabric.domain.errors import BadInput, FabricError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MOST_CALLS: Final = 100  # of one batch
DEEPEST: Final = 64  # levels of arrays and objects
_LONGEST_ID: Final = 200  # characters

Id = str | int | float | None
Params = Mapping[str, Any] | Sequence[Any]


class ProtocolError(Exception):
    """The call as such is wrong; ``code`` is JSON-RPC's number, ``error`` the same for our own clients."""

    def __init__(self, code: int, error: FabricError) -> None:
        super().__init__(error.message)
        self.code = code
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. ``wrong`` is set instead of a method when it is no valid one; it is answered all the same."""

    id: Id = None
    method: str = ""
    params: Params | None = None
    answered: bool = True  # False = a notification
    wrong: ProtocolError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """All the calls of one HTTP request."""

    requests: tuple[Request, ...]
    batch: bool


def parse(raw: bytes) -> Body:
    """The calls of a body. Raises ProtocolError when it is none at all."""
    try:
        shape = orjson.loads(raw)
    except orjson.JSONDecodeError as cause:
        raise _error(PARSE_ERROR, f"the body is not JSON: {cause.msg}") from None
    # Only a body with that many brackets can be that deep.
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _depth(shape) > DEEPEST:
        raise _error(PARSE_ERROR, f"the body is nested deeper than {DEEPEST} levels")
    if not isinstance(shape, list):
        return Body(requests=(_request(shape),), batch=False)
    if not shape:
        raise _error(INVALID_REQUEST, "the batch is empty")
    if len(shape) > MOST_CALLS:
        raise _error(INVALID_REQUEST, f"a batch holds at most {MOST_CALLS} calls, not {len(shape)}")
    return Body(requests=tuple(_request(entry) for entry in shape), batch=True)


def _request(shape: object) -> Request:
    if not isinstance(shape, dict):
        return Request(wrong=_error(INVALID_REQUEST, "a call is a JSON object"))
    id = shape.get("id")
    valid_id = id is None or (
        not isinstance(id, bool)
        and (
            isinstance(id, int)
            or (isinstance(id, float) and math.isfinite(id))
            or (isinstance(id, str) and len(id) <= _LONGEST_ID)
        )
    )
    if not valid_id:
        what = f"an id is a number, or a text of at most {_LONGEST_ID} characters"
        return Request(wrong=_error(INVALID_REQUEST, what))
    if shape.get("jsonrpc") != "2.0":
        return Request(id=id, wrong=_error(INVALID_REQUEST, 'a call says "jsonrpc": "2.0"'))
    method = shape.get("method")
    if not isinstance(method, str):
        return Request(id=id, wrong=_error(INVALID_REQUEST, 'a call names its "method"'))
    params = shape.get("params")
    if params is not None and not isinstance(params, dict | list):
        wrong = _error(INVALID_PARAMS, '"params" is an object with named arguments')
        return Request(id=id, method=method, answered="id" in shape, wrong=wrong)
    return Request(id=id, method=method, params=params, answered="id" in shape)


def _error(code: int, message: str, next: str = "") -> ProtocolError:
    return ProtocolError(code, BadInput(message, next=next))


def _depth(shape: object) -> int:
    deepest, level = 0, [shape]
    while level:
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if any(isinstance(value, dict | list) for value in level):
            deepest += 1
        level = inner
    return deepest


# ---------------------------------------------------------------- answers


def result(id: Id, value: object) -> dict[str, object]:
    """The answer of a call that succeeded."""
    return {"jsonrpc": "2.0", "id": id, "result": value}


def refusal(id: Id, error: FabricError | ProtocolError) -> dict[str, object]:
    """The answer of a call that did not."""
    inner = error.error if isinstance(error, ProtocolError) else error
    code = error.code if isinstance(error, ProtocolError) else -32000 - error.code
    return {
        "jsonrpc": "2.0",
        "id": id,
        "error": {"code": code, "message": inner.message, "data": inner.to_json()},
    }


def encoded(answer: object) -> bytes:
    """An answer, or a list of them, as JSON."""
    return orjson.dumps(answer)
