"""Bad input over A2A: whatever is sent, the answer is one of the protocol's, with no word of the server's inside, and
what was refused has left nothing on the board. FABRIC_FUZZ sets how many bodies; 500 unless told otherwise."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskfabric.testing import TestServer
from tests.integration.calling import HEADERS, Exchange, exchange

MANY: Final = int(os.environ.get("FABRIC_FUZZ", "500"))
CODES: Final = {-32700, -32600, -32601, -32602, -32603, *range(-32009, -32000), -32000}
WORDS: Final = (b"Traceback", b"psycopg", b"Error(", b"object at 0x", b"line 1 column", b".py")
METHODS: Final = (
    *("SendMessage", "GetTask", "ListTasks", "CancelTask", "SendMessage", "CreateTaskPushNotificationConfig"),
    *("GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"),
    *("GetExtendedAgentCard", "message/send", "", "fabric.submit"),
)
TEXTS: Final = (
    "",
    " ",
    "\x00",
    "🦊",
    "\u202e",
    "a" * 300,
    "x",
    "%s",
    "'; DROP TABLE tasks; --",
    "helper",
    "null",
    "\u2028",
)
texts = st.sampled_from(TEXTS) | st.text(max_size=30)
numbers = st.integers(-3, 120) | st.sampled_from([2**31, 2**53, 2**63, 2**64, 10**40, -(2**70), 1e308, 0.5])
plain = st.none() | st.booleans() | numbers | texts
anything = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
some_part = st.fixed_dictionaries(
    {},
    optional={
        "text": texts | anything,
        "raw": st.sampled_from(["aGk=", "%%%", "", "aGk"]) | anything,
        "url": texts,
        "data": anything,
        "filename": texts,
        "mediaType": st.sampled_from(["text/plain", "video/mp4", "", "x/y/z"]),
        "metadata": st.dictionaries(texts, anything, max_size=2) | anything,
    },
)
good_part = st.fixed_dictionaries({"text": texts})
some_message = st.fixed_dictionaries(
    {
        "messageId": st.just("m") | texts,
        "role": st.sampled_from(["ROLE_USER", "ROLE_USER", "ROLE_AGENT", "ROLE_NOPE", 1, 7]),
        "parts": st.lists(good_part | some_part, max_size=3) | anything,
    },
    optional={
        "contextId": texts | anything,
        "taskId": texts,
        "metadata": st.dictionaries(st.sampled_from(["idempotencyKey", "fabric/queue", "a"]), anything, max_size=2),
        "extensions": st.lists(texts, max_size=2),
        "referenceTaskIds": st.lists(texts, max_size=2),
    },
)
some_params = st.fixed_dictionaries(
    {},
    optional={
        "message": some_message | anything,
        "configuration": st.fixed_dictionaries(
            {},
            optional={
                "returnImmediately": st.booleans() | anything,
                "historyLength": numbers,
                "acceptedOutputModes": st.lists(texts, max_size=2) | anything,
                "taskPushNotificationConfig": st.dictionaries(
                    st.sampled_from(["url", "token", "id"]), texts, max_size=2
                ),
            },
        ),
        "id": texts | anything,
        "taskId": texts,
        "tenant": st.sampled_from(["", "helper", "x"]),
        "contextId": texts,
        "status": st.sampled_from(["TASK_STATE_WORKING", "TASK_STATE_NOPE", 3, -1, None]),
        "pageSize": numbers,
        "pageToken": texts,
        "historyLength": numbers | anything,
        "statusTimestampAfter": st.sampled_from(["2026-11-30T00:00:00Z", "nope", "9999-12-31T23:59:59Z", 5]),
        "includeArtifacts": st.booleans() | anything,
        "url": st.sampled_from(["http://127.1/", "https://192.0.2.1/", "", "\r\n"]) | texts,
        "token": texts,
        "authentication": anything,
        "metadata": anything,
    },
)
whole = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0") | texts,
        "id": st.integers(0, 9) | anything,
        "method": st.sampled_from(METHODS) | texts,
        "params": some_params | anything,
    }
)
bodies = st.one_of(
    whole.map(lambda body: json.dumps(body).encode()),
    whole.map(lambda body: json.dumps(body).encode()[:-3]),
    anything.map(lambda body: json.dumps(body).encode()),
    st.binary(max_size=60),
)


words = st.sampled_from(["a", "x:y", "%2F", "%00", "%ff", "..", "tasks", "a" * 300])
paths = st.one_of(
    st.sampled_from(["message:send", "tasks", "extendedAgentCard", "message:stream", "tasks/", "nope", "tasks/a/b"]),
    words.map(lambda word: f"tasks/{word}"),
    words.map(lambda word: f"tasks/{word}:cancel"),
    words.map(lambda word: f"tasks/{word}/pushNotificationConfigs"),
    st.tuples(words, words).map(lambda two: f"tasks/{two[0]}/pushNotificationConfigs/{two[1]}"),
)
queries = st.lists(
    st.tuples(st.sampled_from(["pageSize", "status", "historyLength", "tenant", "a", "pageToken", "%zz"]), words),
    max_size=3,
).map(lambda pairs: "&".join("=".join(pair) for pair in pairs))
json_bodies = st.one_of(
    some_params.map(lambda body: json.dumps(body).encode()),
    anything.map(lambda body: json.dumps(body).encode()),
    bodies,
)


@pytest.fixture(scope="module")
def agents(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with server.database() as database, exchange(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


def test_no_body_brings_the_server_to_say_more_than_the_protocol(agents: Exchange) -> None:
    agents.clean()
    made = 0
    given_headers = {**HEADERS, "Authorization": f"Bearer {agents.served.tokens['alice']}"}
    with closing(http.client.HTTPConnection("127.0.0.1", agents.served.port, timeout=30)) as line:

        def ask(body: bytes) -> tuple[int, bytes]:
            line.request("POST", "/agents/helper", body, given_headers)
            answer = line.getresponse()
            return answer.status, answer.read()

        @settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(body=bodies)
        def fuzz(body: bytes) -> None:
            nonlocal made
            status, said = ask(body)
            assert status in (200, 204)
            if status == 204:
                return
            answer: Any = json.loads(said)
            if "result" in answer:
                result = answer["result"] or {}
                made += "task" in result or "message" in result
                return
            assert answer["error"]["code"] in CODES - {-32603}, answer
            assert not any(word in said for word in WORDS), said

        fuzz()
    assert agents.rows() <= made  # a key may lead two calls to one task
    assert "result" in agents.post({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}).json


def test_no_path_query_or_body_over_http_and_json_does_either(agents: Exchange) -> None:
    agents.clean()
    made = 0
    given_headers = {**HEADERS, "Authorization": f"Bearer {agents.served.tokens['alice']}"}
    with closing(http.client.HTTPConnection("127.0.0.1", agents.served.port, timeout=30)) as line:

        @settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(verb=st.sampled_from(["POST", "GET", "DELETE", "PUT"]), path=paths, query=queries, body=json_bodies)
        def fuzz(verb: str, path: str, query: str, body: bytes) -> None:
            nonlocal made
            line.request(verb, f"/agents/helper/{path}?{query}", body, given_headers)
            answer = line.getresponse()
            status, said = answer.status, answer.read()
            assert status in (200, 400, 404, 405, 503), (status, said)
            assert not any(word in said for word in WORDS), said
            if status != 200:
                json.loads(said)
            elif path.startswith("message:"):
                made += 1

        fuzz()
    assert agents.rows() <= made
    assert agents.speak("HTTP+JSON", "ListTasks", {"pageSize": 100}).status == 200
