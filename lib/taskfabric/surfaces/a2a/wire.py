"""The wire of A2A v1.0: the SDK's messages, required fields and error table, read strictly.

What would be stored and then break every reader (a number that is none, a key twice, a part without content, a
word that no enum knows) is refused before anything is done.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk
from a2a.utils.error_handlers import build_error_details
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from taskfabric.domain.errors import (
    BadInput,
    FabricError,
    IllegalMove,
    KeyConflict,
    NotFound,
)


class Plain:
    """Stands for the id of a call over HTTP+JSON: what is answered has no envelope."""


PLAIN: Final = Plain()
Id = str | int | None | Plain

METHODS: Final[Mapping[str, type[Message]]] = {
    "SendMessage": pb.SendMessageRequest,
    "SendStreamingMessage": pb.SendMessageRequest,
    "GetTask": pb.GetTaskRequest,
    "ListTasks": pb.ListTasksRequest,
    "CancelTask": pb.CancelTaskRequest,
    "SubscribeToTask": pb.SubscribeToTaskRequest,
    "CreateTaskPushNotificationConfig": pb.TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": pb.GetTaskPushNotificationConfigRequest,
    "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsRequest,
    "DeleteTaskPushNotificationConfig": pb.DeleteTaskPushNotificationConfigRequest,
    "GetExtendedAgentCard": pb.GetExtendedAgentCardRequest,
}
STREAMING: Final = frozenset({"SendStreamingMessage", "SubscribeToTask"})
SENDING: Final = frozenset({"SendMessage", "SendStreamingMessage"})
BUSY: Final = -32000  # of the codes that are left to servers: come again later

_VERSION: Final = re.compile(r"1\.0(\.[0-9]{1,9})?")
_LONGEST_ID: Final = 256  # characters
_STATES: Final = frozenset(pb.TaskState.values()) - {pb.TASK_STATE_UNSPECIFIED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that makes sense."""

    id: Id
    method: str
    params: Any  # the SDK's message of that method; empty for a plain send
    given: dict[str, Any]  # the message of a send as it came
    plain: bool = False  # a send of texts and nothing else, which no general parser has to look at
    answered: bool = True  # False: a notification, which is not carried out


class WireError(Exception):
    """A request that is refused on the wire; ``id`` is its own as far as it could be read."""

    def __init__(self, error: sdk.A2AError, id: Id = None, *, status: int = 200) -> None:
        super().__init__(error.message)
        self.error = error
        self.id = id
        self.status = status


def read(raw: bytes, version: str | None, agent: str, *, depth: int) -> Call:
    """The call. Raises WireError."""
    body = json_of(raw)
    if not isinstance(body, dict):
        what = "Batch requests are not supported" if isinstance(body, list) else "A request is an object"
        raise WireError(sdk.InvalidRequestError(what))
    id_ = body.get("id")
    if isinstance(id_, bool) or not isinstance(id_, str | int | None) or (isinstance(id_, int) and abs(id_) >= 2**63):
        raise WireError(sdk.InvalidRequestError("An id is a string, an integer of 64 bits or null"))
    if isinstance(id_, str) and not _is_sound(id_):
        raise WireError(sdk.InvalidRequestError("An id is a text without half of a surrogate pair"))
    if body.get("jsonrpc") != "2.0":
        raise WireError(sdk.InvalidRequestError("'jsonrpc' must be exactly '2.0'"), id_)
    method = body.get("method")
    if not isinstance(method, str) or not method:
        raise WireError(sdk.InvalidRequestError("Method is required"), id_)
    unknown = body.keys() - {"jsonrpc", "id", "method", "params"}
    if unknown:
        raise WireError(sdk.InvalidRequestError("A request has jsonrpc, id, method and params, and nothing else"), id_)
    if method not in METHODS:
        raise WireError(sdk.MethodNotFoundError(), id_)
    params = body.get("params", {})
    return checked(id_, method, params, raw, version, agent, depth=depth, answered="id" in body)


def checked(
    id_: Id,
    method: str,
    params: Any,
    raw: bytes,
    version: str | None,
    agent: str,
    *,
    depth: int,
    answered: bool = True,
) -> Call:
    """The call of this method with these params, which came in ``raw``. Raises WireError."""
    kind = METHODS[method]
    if kind is pb.SendMessageRequest and _is_plain(params, raw, depth) and version is not None and _is_v1(version):
        return Call(id=id_, method=method, params=_NOTHING, given=params["message"], plain=True, answered=answered)
    try:
        _check_tree(params, depth)
        message = _parsed(params, kind)
        _check_version(version)
        _check(message, params, agent)
    except sdk.A2AError as error:
        raise WireError(error, id_) from None
    given = params.get("message", {})
    return Call(id=id_, method=method, params=message, given=given, answered=answered)


def json_of(raw: bytes) -> Any:
    """What stands in it. Raises WireError."""
    try:
        return _DECODER.decode(raw.decode())
    except _Twice:
        raise WireError(sdk.InvalidParamsError("A name stands twice in one object")) from None
    except (ValueError, RecursionError):  # not UTF-8, not JSON, nested beyond reading
        raise WireError(sdk.JSONParseError()) from None


class _Twice(Exception):
    """A name stands twice in one object."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)


def _check_tree(value: Any, depth: int) -> None:
    if depth < 0:
        raise sdk.InvalidParamsError("The request is nested too deeply")
    if isinstance(value, dict):
        for name, item in value.items():
            _check_text(name)
            _check_tree(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            _check_tree(item, depth - 1)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise sdk.InvalidParamsError("A number is not finite")
    elif isinstance(value, int) and abs(value) >= 2**1000:
        raise sdk.InvalidParamsError("A number is too large")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise sdk.InvalidParamsError("A text has the character NUL")
    if not _is_sound(text):
        raise sdk.InvalidParamsError("A text has half of a surrogate pair")


def _is_sound(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parsed(params: Any, kind: type[Message]) -> Message:
    if not isinstance(params, dict):
        raise sdk.InvalidParamsError("params is an object")
    _check_names(params, kind.DESCRIPTOR)
    try:
        # Names that a later version may know are passed over.
        return ParseDict(params, kind(), ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise sdk.InvalidParamsError(f"The params do not fit the method{_where(str(error))}") from None


def _check_names(value: Mapping[str, Any], kind: Descriptor) -> None:
    """A field has two spellings, of which a request uses one: nobody has to guess which of them counts."""
    seen: set[int] = set()
    for name, item in value.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        if field is None:
            continue
        if field.number in seen:
            raise sdk.InvalidParamsError(f"{field.camelcase_name} stands twice in one object, in two spellings")
        seen.add(field.number)
        inner = field.message_type
        if inner is not None and not inner.full_name.startswith("google.protobuf."):
            for one in item if isinstance(item, list) else [item]:
                if isinstance(one, dict):
                    _check_names(one, inner)


def _where(error: str) -> str:
    """The field that a parser's error is about, as far as it names it; nothing of what stands there."""
    path = re.search(r" at [A-Za-z]+\.([A-Za-z_.0-9\[\]]{1,80}?)\.*$", error)
    names = [path[1]] if path else re.findall(r"Failed to parse ([A-Za-z_]{1,40}) field: ", error)[:6]
    return f" at {'.'.join(names)}" if names else ""


def _is_plain(params: Any, raw: bytes, depth: int) -> bool:
    """Whether these params are nothing but texts in which there is nothing to refuse. The general way, which is taken
    for all others, costs as much as the rest of reading."""
    # Without escapes of characters and with so few brackets no NUL, no half of a pair and no depth can be in it.
    if b"\\u" in raw or raw.count(b"{") + raw.count(b"[") > depth:
        return False
    if not isinstance(params, dict) or params.keys() != _ONLY_MESSAGE:
        return False
    given = params["message"]
    if not isinstance(given, dict) or not _PLAIN.issuperset(given) or given.get("role") != "ROLE_USER":
        return False
    parts, id_ = given.get("parts"), given.get("messageId")
    if not isinstance(parts, list) or not parts or not isinstance(id_, str) or not 0 < len(id_) <= _LONGEST_ID:
        return False
    for name in ("contextId", "taskId"):
        if name in given and (not isinstance(given[name], str) or len(given[name]) > _LONGEST_ID):
            return False
    return all(isinstance(p, dict) and len(p) == 1 and isinstance(p.get("text"), str) for p in parts)


_ONLY_MESSAGE: Final = frozenset({"message"})
_PLAIN: Final = frozenset({"messageId", "contextId", "taskId", "role", "parts"})
_NOTHING: Final = pb.SendMessageRequest()


def _is_v1(version: str) -> bool:
    return version == "1.0" or _VERSION.fullmatch(version) is not None


def _check_version(version: str | None) -> None:
    if version is None or not _is_v1(version):
        raise sdk.VersionNotSupportedError(
            "Version not supported: send the header A2A-Version: 1.0", data={"supportedVersions": "1.0"}
        )


def _check(message: Any, params: Mapping[str, Any], agent: str) -> None:
    """What the SDK's types let pass. Raises an A2AError."""
    if getattr(message, "tenant", "") not in ("", agent):
        raise sdk.InvalidParamsError("tenant names another agent")
    if isinstance(message, pb.SendMessageRequest):
        # Its own required fields are looked at here: walking over the descriptors costs as much as all the rest.
        if message.configuration.HasField("task_push_notification_config"):
            validate_proto_required_fields(message.configuration.task_push_notification_config)
        _check_message(message.message, params.get("message", {}))
        _check_length(message.configuration, "history_length")
        return
    validate_proto_required_fields(message)
    if isinstance(message, pb.ListTasksRequest):
        if message.status not in _STATES and "status" in params:
            raise sdk.InvalidParamsError("status is none of the task states")
        if message.HasField("page_size") and not 1 <= message.page_size <= 100:
            raise sdk.InvalidParamsError("pageSize lies between 1 and 100")
        _check_length(message, "history_length")
    elif isinstance(message, pb.GetTaskRequest):
        _check_length(message, "history_length")


def _check_length(message: Any, field: str) -> None:
    if message.HasField(field) and getattr(message, field) < 0:
        raise sdk.InvalidParamsError("historyLength is not negative")


def _check_message(message: pb.Message, given: Any) -> None:
    if not message.message_id or not message.parts:
        raise sdk.InvalidParamsError("A message has a messageId, a role and parts")
    for name in (message.message_id, message.context_id, message.task_id, *message.reference_task_ids):
        if len(name) > _LONGEST_ID:
            raise sdk.InvalidParamsError(f"An id has at most {_LONGEST_ID} characters")
    if message.role != pb.ROLE_USER:
        raise sdk.InvalidParamsError("What is sent has the role ROLE_USER")
    parts = given.get("parts", [])
    for part, raw in zip(message.parts, parts, strict=True):
        which = part.WhichOneof("content")
        if which is None:
            raise sdk.InvalidParamsError("A part has text, raw, url or data")
        if sum(name in raw for name in ("text", "raw", "url", "data")) > 1:
            raise sdk.InvalidParamsError("A part has one of text, raw, url and data")
        if which == "raw" and not _is_base64(raw["raw"]):
            raise sdk.InvalidParamsError("raw is not base64")


def _is_base64(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def said(call: Call) -> dict[str, Any]:
    """The message of a send, in ProtoJSON; the simplest kind as it came, for nothing in it can be written otherwise."""
    return call.given if call.plain else shape(call.params.message)


def shape(message: Message) -> dict[str, Any]:
    """A message in ProtoJSON."""
    found: dict[str, Any] = _bounded(MessageToDict(message))
    return found


def _bounded(value: Any) -> Any:
    """Whole numbers beyond 64 bits as what they were before: JSON's numbers are floats."""
    if isinstance(value, dict):
        return {name: _bounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


# ---------------------------------------------------------------- answers


def result(id: Id, value: Any) -> bytes:
    if isinstance(id, Plain):
        return orjson.dumps({} if value is None else value)
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": value})


def refusal(id: Id, error: sdk.A2AError) -> bytes:
    code = sdk.JSON_RPC_ERROR_CODE_MAP.get(type(error), -32603)
    details = build_error_details(error)
    if isinstance(error, sdk.JSONParseError):  # the SDK's table has no word for it
        details[0]["reason"] = "PARSE_ERROR"
    return _refusal(id, code, _status_of(error), error.message, details)


def status(id: Id, error: sdk.A2AError) -> int:
    """The HTTP status with which it is answered: JSON-RPC says everything in the body."""
    return _status_of(error)[0] if isinstance(id, Plain) else 200


def _status_of(error: sdk.A2AError) -> tuple[int, str]:
    if isinstance(error, sdk.JSONParseError):
        return 400, "INVALID_ARGUMENT"
    mapped = sdk.A2A_ERROR_MAPPING.get(type(error))
    return (500, "INTERNAL") if mapped is None else (mapped.http_code, mapped.grpc_status)


def _refusal(id: Id, code: int, status: tuple[int, str], message: str, details: list[dict[str, Any]]) -> bytes:
    if isinstance(id, Plain):
        body = {"code": status[0], "status": status[1], "message": message, "details": details}
        return orjson.dumps({"error": body})
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": details}})


def busy(id: Id, error: FabricError) -> bytes:
    """The refusal of a call that may be made again later; the instant is in it where it is known."""
    metadata = {name: str(value) for name, value in error.facts.items() if name == "until" and value is not None}
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "AGENT_UNAVAILABLE",
        "domain": "taskfabric",
        "metadata": metadata,
    }
    message = f"{error.message}: {error.next}" if error.next else error.message
    return _refusal(id, BUSY, (503, "UNAVAILABLE"), message, [info])


def translated(error: FabricError) -> sdk.A2AError | None:
    """The protocol's own error for one of ours; None for one that is a matter of HTTP (401, 403, 503)."""
    match error:
        case NotFound():
            return sdk.TaskNotFoundError()  # missing and foreign: the same bytes
        case BadInput() | KeyConflict():
            return sdk.InvalidParamsError(error.message)
        case IllegalMove():
            return sdk.UnsupportedOperationError(error.message)
        case _:
            return None
