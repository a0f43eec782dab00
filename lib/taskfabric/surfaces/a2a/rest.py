"""A2A over HTTP+JSON: a method and a path stand for a call of JSON-RPC; the rest is one and the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from a2a.utils import errors as sdk

from taskfabric.surfaces.a2a import wire

_ROUTES: Final = [
    (verb, re.compile(pattern), method)
    for verb, pattern, method in (
        ("POST", r"message:send", "SendMessage"),
        ("POST", r"message:stream", "SendStreamingMessage"),
        ("GET", r"tasks", "ListTasks"),
        ("GET", r"tasks/(?P<id>[^/:]+)", "GetTask"),
        ("POST", r"tasks/(?P<id>[^/:]+):cancel", "CancelTask"),
        ("GET", r"tasks/(?P<id>[^/:]+):subscribe", "SubscribeToTask"),
        ("POST", r"tasks/(?P<id>[^/:]+):subscribe", "SubscribeToTask"),
        ("POST", r"tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs", "CreateTaskPushNotificationConfig"),
        ("GET", r"tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs", "ListTaskPushNotificationConfigs"),
        ("GET", r"tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs/(?P<id>[^/]+)", "GetTaskPushNotificationConfig"),
        (
            "DELETE",
            r"tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs/(?P<id>[^/]+)",
            "DeleteTaskPushNotificationConfig",
        ),
        ("GET", r"extendedAgentCard", "GetExtendedAgentCard"),
    )
]
_WORDS: Final = {"true": True, "false": False}


def verbs(path: str) -> list[str]:
    """The HTTP methods that are answered at this path below the agent's address; none for no path of A2A's."""
    return [verb for verb, pattern, _ in _ROUTES if pattern.fullmatch(path)]


def read(verb: str, path: str, query: bytes, raw: bytes, version: str | None, agent: str, *, depth: int) -> wire.Call:
    """The call that this request, one of the above, stands for. Raises WireError."""
    found = next((match, method) for v, p, method in _ROUTES if v == verb and (match := p.fullmatch(path)))
    match, method = found
    try:
        params = _of_body(raw) if verb == "POST" else _of_query(query)
    except wire.WireError as error:
        raise wire.WireError(error.error, wire.PLAIN, status=error.status) from None
    params |= match.groupdict()
    return wire.checked(wire.PLAIN, method, params, raw, version, agent, depth=depth)


def _of_body(raw: bytes) -> dict[str, Any]:
    body = wire.json_of(raw) if raw else {}
    if not isinstance(body, dict):
        raise wire.WireError(sdk.InvalidRequestError("The body is an object"))
    return body


def _of_query(query: bytes) -> dict[str, Any]:
    """The parameters by name; what none of the methods knows is passed over, the protocol's version among it."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise wire.WireError(sdk.InvalidRequestError("The query cannot be read")) from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise wire.WireError(sdk.InvalidParamsError("A name stands twice in the query"))
    known: Mapping[str, Any] = dict(pairs)
    return {name: _WORDS.get(value, value) if name == "includeArtifacts" else value for name, value in known.items()}
