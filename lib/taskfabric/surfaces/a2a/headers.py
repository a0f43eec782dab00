"""What a caller over A2A says in the headers of a request."""

from __future__ import annotations

from urllib.parse import parse_qs

from a2a.utils import errors as sdk
from starlette.types import Scope

from taskfabric.surfaces.answers import header


def version(scope: Scope) -> str | None:
    """The protocol's version that the caller speaks: a header, or, as the protocol allows, in the query."""
    found = header(scope, b"a2a-version")
    if found is not None:
        return str(found.decode("latin-1").strip())
    if not scope["query_string"]:
        return None
    try:
        named = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20).get("A2A-Version")
    except ValueError:  # more fields than anybody needs
        return None
    return str(named[0]) if named else None


def key(scope: Scope) -> str | None:
    """The caller's own key for this call. Raises InvalidParamsError."""
    found = header(scope, b"idempotency-key")
    if found is None:
        return None
    word = found.decode("latin-1").strip()
    if not word or len(word) > 128 or not word.isprintable() or not word.isascii():
        raise sdk.InvalidParamsError("Idempotency-Key is 1 to 128 characters of ASCII")
    return word


def last_event(scope: Scope) -> int | None:
    """The number of the last event that a reader has, if he resumes. Raises InvalidParamsError."""
    found = header(scope, b"last-event-id")
    if found is None:
        return None
    if not found.isdigit() or len(found) > 9:
        raise sdk.InvalidParamsError("Last-Event-ID is not one of ours")
    return int(found)
