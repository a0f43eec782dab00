"""Requests and answers as ASGI messages: reading a bounded body, sending JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from taskfabric.domain.errors import (
    BadInput,
    FabricError,
    HeldBy,
    IllegalMove,
    KeyConflict,
    NeedsHuman,
    NotAuthenticated,
    NotFound,
    NotYours,
    Refused,
    Unavailable,
    WaitedOut,
)

Header = tuple[bytes, bytes]

_ALWAYS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_JSON: Final[Header] = (b"content-type", b"application/json")
_DRAINED: Final = 4  # times the limit that is read and thrown away, so that the client reads why

# Subclasses before their base.
_STATUSES: Final[tuple[tuple[type[FabricError], int], ...]] = (
    (NotAuthenticated, 401),
    (BadInput, 400),
    (NotFound, 404),
    (IllegalMove, 409),
    (KeyConflict, 409),
    (HeldBy, 409),
    (NotYours, 409),
    (Refused, 403),
    (NeedsHuman, 403),
    (Unavailable, 503),
    (WaitedOut, 408),
    (FabricError, 500),
)


class TooLarge(Exception):
    """The body is larger than it may be. What was announced of it has been read, so that an answer arrives."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body. Raises TooLarge, as soon as it is known; ConnectionError when the client goes away."""
    announced = content_length(scope)
    size = announced or 0
    kept: list[bytes] = []
    total = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client went away")
        more = message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        total += len(piece)
        if total <= limit and size <= limit:
            kept.append(piece)
        else:
            kept.clear()
            if max(total, size) > limit * _DRAINED:
                raise TooLarge
    if max(total, size) > limit:
        raise TooLarge
    return kept[0] if len(kept) == 1 else b"".join(kept)


def content_length(scope: Scope) -> int | None:
    """What the request announces; None when it announces nothing."""
    text = header(scope, b"content-length")
    return int(text) if text is not None and text.isdigit() and len(text) < 19 else None


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header of this (lower-case) name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


async def until_gone(receive: Receive) -> None:
    """Returns when the client has gone away; for after its body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_bytes(send: Send, status: int, body: bytes, headers: Sequence[Header] = ()) -> None:
    """One complete answer of JSON text, or an empty one."""
    kind = [_JSON] if body else []
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await send(
        {"type": "http.response.start", "status": status, "headers": [*kind, *length, *_ALWAYS, *headers]},
    )
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: FabricError, *, status: int | None = None) -> None:
    """``{"error": {code, name, message, facts, next}}`` with the HTTP status of its kind."""
    status = status or status_of(error)
    body: dict[str, Any] = {"error": error.to_json()}
    await send_bytes(send, status, orjson.dumps(body), error_headers(error, status))


def status_of(error: FabricError) -> int:
    """The HTTP status for an error that is the whole answer."""
    return next(status for kind, status in _STATUSES if isinstance(error, kind))


def error_headers(error: FabricError | None, status: int) -> list[Header]:
    """What belongs to a status: how to sign in, which methods there are (the fact ``allow``), when to come again, that
    the connection ends."""
    match status:
        case 401:
            retry = error.facts.get("retry_after") if error is not None else None
            wait: Iterable[Header] = [(b"retry-after", b"%d" % retry)] if isinstance(retry, int) else []
            return [(b"www-authenticate", b'Bearer realm="fabric", Basic realm="fabric"'), *wait]
        case 405 if error is not None and "allow" in error.facts:
            return [(b"allow", str(error.facts["allow"]).encode())]
        case 503:
            return [(b"retry-after", b"1")]
        case 408 | 413:
            return [(b"connection", b"close")]
        case _:
            return []
