"""What is refused over A2A, with the protocol's own codes, and nothing of it on the board."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.testing import TestServer
from tests.integration.calling import Exchange, exchange, message, shape


@pytest.fixture(scope="module")
def one_server(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with server.database() as database, exchange(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Iterator[Exchange]:
    """Whatever is refused here leaves nothing behind."""
    one_server.clean()
    yield one_server
    assert one_server.rows() == 0


def _send(**changes: Any) -> bytes:
    return json.dumps(shape("SendMessage", {"message": {**message("hello"), **changes}})).encode()


def _raw(text: str) -> bytes:
    return ('{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":' + text + "}}").encode()


WHOLE = '"messageId":"m","role":"ROLE_USER"'
BODIES: dict[str, tuple[bytes, int]] = {
    "not a number (D3)": (_raw("{" + WHOLE + ',"parts":[{"data":{"a":NaN}}]}'), -32700),
    "an infinite number": (_raw("{" + WHOLE + ',"parts":[{"data":{"a":1e999}}]}'), -32602),
    "a number without end": (_raw("{" + WHOLE + ',"parts":[{"data":' + "9" * 5000 + "}]}"), -32700),
    "100,000 brackets (D7)": (b"[" * 100_000, -32700),
    "half of UTF-16 (D7)": ('{"jsonrpc":"2.0"}'.encode("utf-16")[:-1], -32700),
    "no JSON": (b"{", -32700),
    "nothing": (b"", -32700),
    "compressed": (gzip.compress(_send()), -32700),
    "nested too deeply": (_raw("{" + WHOLE + ',"parts":[{"data":' + "[" * 60 + "]" * 60 + "}]}"), -32602),
    "a part without content (D10)": (_send(parts=[{}]), -32602),
    "bytes that are none (D10)": (_send(parts=[{"raw": "%%%"}]), -32602),
    "a name twice (D10)": (_raw("{" + WHOLE + ',"messageId":"n","parts":[{"text":"a"}]}'), -32602),
    "a list for params (D10)": (json.dumps(shape("SendMessage", [])).encode(), -32602),
    "no message": (json.dumps(shape("SendMessage", {})).encode(), -32602),
    "no parts": (_send(parts=[]), -32602),
    "two contents in a part": (_send(parts=[{"text": "a", "url": "https://example.com"}]), -32602),
    "an unknown role": (_send(role="ROLE_NOPE"), -32602),
    "the role of an agent": (_send(role="ROLE_AGENT"), -32602),
    "no id of its own": (_send(messageId=""), -32602),
    "an endless context": (_send(contextId="c" * 5000), -32602),
    "a long context": (_send(contextId="c" * 129), -32602),
    "NUL": (_send(parts=[{"text": "a\0b"}]), -32602),
    "half a surrogate pair": (_raw("{" + WHOLE + ',"parts":[{"text":"\\ud800"}]}'), -32602),
    "too many parts": (_send(parts=[{"text": "a"}] * 101), -32602),
    "a kind that is not taken": (_send(parts=[{"text": "a", "mediaType": "video/mp4"}]), -32005),
    "another tenant": (
        json.dumps(shape("SendMessage", {"tenant": "other", "message": message("hello")})).encode(),
        -32602,
    ),
    "a reference to a task that is not known": (_send(referenceTaskIds=["none"]), -32602),
    "a task that is not known": (_send(taskId="none"), -32001),
    "an unknown state (D11)": (json.dumps(shape("ListTasks", {"status": "TASK_STATE_NOPE"})).encode(), -32602),
    "a number for a state that is none": (json.dumps(shape("ListTasks", {"status": -1})).encode(), -32602),
    "no state at all": (json.dumps(shape("ListTasks", {"status": "TASK_STATE_UNSPECIFIED"})).encode(), -32602),
    "a page of nothing": (json.dumps(shape("ListTasks", {"pageSize": 0})).encode(), -32602),
    "a page of 101": (json.dumps(shape("ListTasks", {"pageSize": 101})).encode(), -32602),
    "a made-up page": (json.dumps(shape("ListTasks", {"pageToken": "made-up"})).encode(), -32602),
    "a negative history": (json.dumps(shape("GetTask", {"id": "x", "historyLength": -1})).encode(), -32602),
    "a method of before": (json.dumps(shape("message/send", {})).encode(), -32601),
    "an unknown method": (json.dumps(shape("Nope", {})).encode(), -32601),
    "a batch": (json.dumps([shape("ListTasks", {})]).encode(), -32600),
    "a boolean id": (b'{"jsonrpc":"2.0","id":true,"method":"ListTasks"}', -32600),
    "an id beyond 64 bits": (b'{"jsonrpc":"2.0","id":9999999999999999999999,"method":"ListTasks"}', -32600),
    "another protocol": (b'{"jsonrpc":"1.0","id":1,"method":"ListTasks"}', -32600),
    "no method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "a push address on this machine": (
        json.dumps(
            shape(
                "SendMessage",
                {
                    "message": message("hello"),
                    "configuration": {"taskPushNotificationConfig": {"url": "http://169.254.169.254/"}},
                },
            )
        ).encode(),
        -32602,
    ),
}


@pytest.mark.parametrize("what", BODIES)
def test_what_makes_no_sense_is_refused_before_anything_is_done(agents: Exchange, what: str) -> None:
    body, code = BODIES[what]
    answer = agents.post(body)
    assert answer.status == 200
    assert answer.json["error"]["code"] == code
    for word in (b"Traceback", b"Error:", b"line ", b"recursion"):
        assert word not in answer.body


@pytest.mark.parametrize(
    ("version", "code"),
    [
        *[("1.0", 0), ("1.0.7", 0)],
        *[(word, -32009) for word in ("1", "1.1", "0.3", "", None, "2.0", "99.0", "banana", "1.0,0.3")],
    ],
)
def test_only_version_1_0_is_spoken(agents: Exchange, version: str | None, code: int) -> None:
    answer = agents.post(shape("ListTasks", {}), headers={"A2A-Version": version}).json
    assert answer.get("error", {}).get("code", 0) == code
    if code:
        assert answer["error"]["data"][0]["metadata"] == {"supportedVersions": "1.0"}


def test_the_version_may_stand_in_the_query(agents: Exchange) -> None:
    answer = agents.post(shape("ListTasks", {}), headers={"A2A-Version": None}, path="/agents/helper?A2A-Version=1.0")
    assert "result" in answer.json


def test_a_query_of_many_fields_is_read_as_none(agents: Exchange) -> None:
    path = "/agents/helper?" + "&".join(f"f{n}=1" for n in range(40))
    assert agents.post(shape("ListTasks", {}), headers={"A2A-Version": None}, path=path).json["error"]["code"] == -32009


def test_a_slash_at_the_end_is_the_same_agent(agents: Exchange) -> None:
    assert "result" in agents.post(shape("ListTasks", {}), path="/agents/helper/").json


def test_another_content_type_is_refused(agents: Exchange) -> None:
    answer = agents.post(shape("ListTasks", {}), headers={"Content-Type": "text/plain"})
    assert (answer.status, answer.json["error"]["code"]) == (415, -32005)


def test_a_body_beyond_the_limit_is_refused_while_it_is_read(agents: Exchange) -> None:
    """D8: a large text is not worked on for seconds."""
    answer = agents.post(_send(parts=[{"text": "x" * (1 << 20)}]))
    assert (answer.status, answer.json["error"]["code"]) == (413, -32600)


def test_a_notification_is_not_carried_out_and_gets_no_body(agents: Exchange) -> None:
    """D9"""
    body = {key: value for key, value in shape("SendMessage", {"message": message("hello")}).items() if key != "id"}
    answer = agents.post(body)
    assert (answer.status, answer.body) == (204, b"")


def test_the_error_names_its_reason(agents: Exchange) -> None:
    error = agents.post(shape("GetTask", {"id": "none"})).json["error"]
    assert error["data"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (error["data"][0]["reason"], error["data"][0]["domain"]) == ("TASK_NOT_FOUND", "a2a-protocol.org")
    assert agents.post(b"{").json["error"]["data"][0]["reason"] == "PARSE_ERROR"


def test_only_post_calls(agents: Exchange) -> None:
    answer = agents.served.request("GET", "/agents/helper")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
