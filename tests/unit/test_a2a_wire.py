"""The wire against the SDK's own: the same methods, the same codes."""

from __future__ import annotations

import json

import pytest
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils import errors as sdk
from hypothesis import given, settings
from hypothesis import strategies as st

from taskfabric.surfaces.a2a import wire

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


def test_the_methods_are_those_of_the_sdks_dispatcher() -> None:
    assert dict(wire.METHODS) == JsonRpcDispatcher.METHOD_TO_MODEL


@pytest.mark.parametrize("kind", list(sdk.JSON_RPC_ERROR_CODE_MAP))
def test_every_error_has_the_sdks_code(kind: type[sdk.A2AError]) -> None:
    answer = json.loads(wire.refusal(1, kind()))
    assert answer["error"]["code"] == sdk.JSON_RPC_ERROR_CODE_MAP[kind]


@settings(deadline=None)
@given(body=JSON | st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": JSON, "method": JSON, "params": JSON}))
def test_whatever_is_sent_is_read_or_refused(body: object) -> None:
    raw = json.dumps(body).encode()
    answer = _read(raw)
    assert answer["error"]["code"] < 0 if isinstance(answer, dict) else answer in wire.METHODS


def _read(raw: bytes) -> object:
    """The method, or the refusal as it is sent."""
    try:
        return wire.read(raw, "1.0", "helper", depth=32).method
    except wire.WireError as refused:
        return json.loads(wire.refusal(refused.id, refused.error))


def _refused(params: object, method: str = "SendMessage") -> str:
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with pytest.raises(wire.WireError) as refused:
        wire.read(raw, "1.0", "helper", depth=32)
    assert isinstance(refused.value.error, sdk.InvalidParamsError)
    return refused.value.error.message


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"message": {"parts": [None]}}, "message.parts[0]"),
        ({"message": {"parts": "x at hunter2"}}, "message"),
        ({"message": {"parts": [{"text": 3}]}}, "message.parts.text"),
        ({"message": {"parts": [{"metadata": "hunter2"}]}}, "message.parts[0].metadata"),
        ({"message": {"messageId": {}}}, "message.messageId"),
        ({"message": {"referenceTaskIds": [None]}}, "message.referenceTaskIds[0]"),
        ({"message": 3}, "message"),
        ({"configuration": {"historyLength": "hunter2"}}, "configuration.historyLength"),
        ({"configuration": {"returnImmediately": "yes"}}, "configuration.returnImmediately"),
        ({"tenant": {}}, "tenant"),
    ],
)
def test_what_has_the_wrong_type_is_named_by_its_field_and_not_by_what_it_is(params: object, field: str) -> None:
    assert _refused(params) == f"The params do not fit the method at {field}"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("SendMessage", {"message": {"messageId": "1", "message_id": "2"}}),
        ("SendMessage", {"message": {"parts": [{"text": "a", "mediaType": "a/b", "media_type": "c/d"}]}}),
        ("SendMessage", {"configuration": {"historyLength": 1, "history_length": 1}}),
        ("CreateTaskPushNotificationConfig", {"taskId": "1", "task_id": "2", "url": "https://a.example"}),
        ("ListTasks", {"pageSize": 1, "page_size": 2}),
    ],
)
def test_a_field_in_both_of_its_spellings_is_refused(method: str, params: object) -> None:
    """D10: like a name that stands twice."""
    assert "in two spellings" in _refused(params, method)


def test_names_in_data_and_metadata_are_the_callers_own() -> None:
    both = {"messageId": 1, "message_id": 2}
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"data": both}], "metadata": both}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message, "metadata": both}}
    assert wire.read(json.dumps(body).encode(), "1.0", "helper", depth=32).method == "SendMessage"


@settings(deadline=None)
@given(raw=st.binary(max_size=200))
def test_whatever_bytes_come_are_read_or_refused(raw: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.read(raw, "1.0", "helper", depth=32)


_ODD: st.SearchStrategy[object] = st.sampled_from(["", "a", "x" * 256, "x" * 257, "\0", "\ud800", "ä", 7, None, [], {}])
_TEXTS = st.lists(st.fixed_dictionaries({"text": _ODD}, optional={"filename": _ODD}), max_size=3)
_MESSAGE = st.fixed_dictionaries(
    {"messageId": _ODD, "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT", 1]), "parts": _TEXTS},
    optional={"contextId": _ODD, "taskId": _ODD, "metadata": st.just({}), "other": _ODD},
)


@settings(max_examples=400, deadline=None)
@given(_MESSAGE, st.booleans(), st.sampled_from(["1.0", "1.0.3", "1.1", None]))
def test_a_plain_send_is_read_as_the_general_way_reads_it(message: dict[str, object], raw: bool, version: str) -> None:
    def told(params: dict[str, object]) -> object:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        sent = json.dumps(body, ensure_ascii=not raw).encode("utf-8", "surrogatepass")
        try:
            call = wire.read(sent, version, "a", depth=32)
        except wire.WireError as refused:
            return type(refused.error), refused.error.message, refused.id
        said = wire.said(call)
        return {k: v for k, v in said.items() if v}, call.params.configuration.return_immediately

    assert told({"message": message}) == told({"message": message, "configuration": {}})
