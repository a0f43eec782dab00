"""The endpoint: JSON-RPC 2.0 to the letter, limits while reading, and errors that a reader can act on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from taskfabric.services.verbs import BY_METHOD
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving

LIMIT = 14 * 2**20


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    with server.database() as database, serving(database.dsn, home, server__body_limit="14MiB") as running:
        yield running


def call(method: str = "fabric.hello", params: object = None, **more: object) -> dict[str, object]:
    shape: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
    return shape if params is None else {**shape, "params": params}


def code(answer: Any) -> int:
    number: int = answer["error"]["code"]
    return number


def test_a_call_is_answered_under_its_id(served: Served) -> None:
    for id in (1, "x", 0, -5, 1.5, 2**53, "ü" * 200):
        answer = served.rpc(call(id=id)).json
        assert answer["id"] == id
        assert answer["result"]["name"] == "alice"


@pytest.mark.parametrize("id", [True, [], {}, "x" * 201])
def test_an_id_of_another_kind_is_an_invalid_request(served: Served, id: object) -> None:
    answer = served.rpc(call(id=id)).json
    assert code(answer) == -32600
    assert answer["id"] is None


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"nope", b"\xff\xfe", b'"\\ud800"', b'{"id": NaN}', b"[1e999]", b"\xef\xbb\xbf{}"),
        *(b"[" * 65 + b"]" * 65, b'{"a":' * 400 + b"1" + b"}" * 400, b"[" * 100_000),
    ],
)
def test_what_is_not_json_or_too_deep_is_a_parse_error(served: Served, raw: bytes) -> None:
    reply = served.rpc(raw)
    assert reply.status == 200
    assert code(reply.json) == -32700
    assert reply.json["id"] is None


def test_sixty_four_levels_are_read(served: Served) -> None:
    answer = served.rpc(b"[" * 64 + b"]" * 64).json
    assert [code(one) for one in answer] == [-32600]


@pytest.mark.parametrize(
    "shape", [1, "x", None, True, {}, {"jsonrpc": "2.0"}, {"jsonrpc": "1.0", "method": "x", "id": 1}]
)
def test_what_is_no_call_is_an_invalid_request(served: Served, shape: object) -> None:
    assert code(served.rpc(shape).json) == -32600


def test_a_batch_is_answered_in_its_order_and_one_wrong_call_hurts_no_other(served: Served) -> None:
    answers = served.rpc([call(id=1), 5, call("fabric.nope", id=2), call(id=3)]).json
    assert [one["id"] for one in answers] == [1, None, 2, 3]
    assert ["result" in one for one in answers] == [True, False, False, True]


def test_an_empty_batch_is_an_invalid_request(served: Served) -> None:
    assert code(served.rpc([]).json) == -32600


def test_a_batch_has_a_limit(served: Served) -> None:
    assert len(served.rpc([call("fabric.nope")] * 100).json) == 100
    assert code(served.rpc([call("fabric.nope")] * 101).json) == -32600


def test_a_notification_runs_and_has_no_answer(served: Served) -> None:
    note = call("fabric.submit", {"title": "from a notification", "key": "note-1"})
    del note["id"]
    reply = served.rpc(note)
    assert (reply.status, reply.body) == (204, b"")
    assert served.rpc([note, note]).body == b""
    again = served.call("fabric.submit", {"title": "from a notification", "key": "note-1"})
    assert again["result"]["created_now"] is False


def test_a_batch_answers_only_what_has_an_id(served: Served) -> None:
    note = call()
    del note["id"]
    assert [one["id"] for one in served.rpc([note, call(id=9), note]).json] == [9]


def test_positional_arguments_are_refused_with_what_to_do(served: Served) -> None:
    answer = served.call("fabric.submit", ["a title"])
    assert code(answer) == -32602
    assert "by name" in answer["error"]["message"]


@pytest.mark.parametrize("params", ["x", 1, True])
def test_arguments_are_an_object(served: Served, params: object) -> None:
    assert code(served.call("fabric.hello", params)) == -32602


def test_an_unknown_method_gets_the_nearest_one(served: Served) -> None:
    answer = served.call("fabric.sumbit")
    assert code(answer) == -32601
    assert answer["error"]["data"]["next"] == "did you mean fabric.submit?"


def test_an_unknown_argument_gets_the_nearest_one(served: Served) -> None:
    answer = served.call("fabric.submit", {"title": "x", "prioriti": 1})
    assert code(answer) == -32002
    assert answer["error"]["data"]["next"] == "did you mean 'priority'?"


def test_an_unknown_argument_inside_a_list_is_found_at_its_place(served: Served) -> None:
    answer = served.call("fabric.submit_many", {"tasks": [{"title": "x"}, {"title": "y", "prioriti": 1}]})
    assert answer["error"]["data"]["facts"]["field"] == "tasks[1].prioriti"
    assert answer["error"]["data"]["next"] == "did you mean 'priority'?"


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({}, "title is missing"),
        ({"title": 5}, "title is a text, not 5"),
        ({"title": "x", "priority": 9}, "priority is at most 3, not 9"),
        ({"title": "x", "priority": "1"}, "priority is a whole number, not '1'"),
        ({"title": "x", "due": "tomorrow"}, "due is an instant such as 2026-12-01T09:00:00+01:00, not 'tomorrow'"),
        ({"title": "x", "due": "2026-12-01T09:00:00"}, "due is an instant with a zone"),
        ({"title": "x", "tags": "a"}, "tags is a list, not 'a'"),
        ({"title": "a\x00b"}, "title is wrong: a text may not contain NUL, not 'a\\x00b'"),
        ({"title": "x", "reference": "r" * 500}, "reference has at most 191 characters, not '" + "r" * 40 + "'…"),
        ({"title": "x", "key_scope": "ever"}, "key_scope is one of 'life' or 'open', not 'ever'"),
    ],
)
def test_a_wrong_argument_is_a_sentence_with_its_place(served: Served, params: object, sentence: str) -> None:
    answer = served.call("fabric.submit", params)
    assert code(answer) == -32002
    assert sentence in answer["error"]["message"]
    assert "pydantic" not in str(answer)


def test_a_secret_is_never_repeated(served: Served) -> None:
    for params in ({"pin": ["9876123"]}, {"pin": "9876123\x00"}, {"pin": "9876123", "old": 5551234}):
        assert "9876123" not in str(served.call("fabric.pin.set", params))
        assert "5551234" not in str(served.call("fabric.pin.set", params))


def test_an_error_of_the_hallway_keeps_its_class_and_number(served: Served) -> None:
    answer = served.call("fabric.show", {"task": 999_999})
    assert code(answer) == -32003
    assert answer["error"]["data"]["name"] == "not-found"


def test_a_body_over_the_limit_is_refused_whether_it_is_announced_or_not(served: Served) -> None:
    reply = served.rpc(b"x" * (LIMIT + 1))
    assert reply.status == 413
    assert reply.json["error"]["data"]["name"] == "bad-input"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as sock:
        head = f"POST /jsonrpc.php HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.tokens['alice']}\r\n"
        sock.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(15):
            sock.sendall(b"100000\r\n" + b"x" * 2**20 + b"\r\n")
        sock.sendall(b"0\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 413")


def test_a_large_body_of_a_stranger_is_not_read(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as sock:
        head = "POST /jsonrpc.php HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer fab_stranger\r\n"
        sock.sendall(head.encode() + b"Content-Length: 10000000\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "nonsense"])
def test_the_content_type_does_not_matter(served: Served, kind: str) -> None:
    assert served.rpc(call(), headers={"Content-Type": kind}).json["result"]["name"] == "alice"


def test_other_methods_are_refused(served: Served) -> None:
    for method, path, allowed in (
        ("GET", "/jsonrpc.php", "POST"),
        ("POST", "/events", "GET"),
        ("POST", "/metrics", "GET, HEAD"),
    ):
        answer = served.request(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)


def test_an_unknown_page_is_not_found_in_json(served: Served) -> None:
    reply = served.request("GET", "/nowhere")
    assert reply.status == 404
    assert reply.json["error"]["name"] == "not-found"


def test_every_verb_of_the_services_is_a_procedure(served: Served) -> None:
    for method in BY_METHOD:
        answer = served.call(method, {"surely_no_argument": 1})
        assert code(answer) == -32002, method


def test_a_fault_of_ours_gives_a_number_and_no_detail(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with served.house.database.transaction() as conn:
        conn.execute("ALTER TABLE task_texts RENAME TO task_texts_away")
    try:
        answer = served.call("fabric.submit", {"title": "x", "description": "y"})
    finally:
        with served.house.database.transaction() as conn:
            conn.execute("ALTER TABLE task_texts_away RENAME TO task_texts")
    assert code(answer) == -32603
    assert "task_texts" not in str(answer)
    incident = answer["error"]["data"]["facts"]["incident"]
    assert any(incident in record.getMessage() and record.exc_info for record in caplog.records)


def test_answers_are_json_for_any_accepted_text(served: Served) -> None:
    title = "🦊 \u202eRTL\u202c <b>bold</b> '; DROP TABLE tasks; -- \\ \"."
    text = f"{title}\n\u2028\ufeff\x7f\r\n"
    made = served.call("fabric.submit", {"title": title, "description": text})["result"]
    shown = orjson.loads(served.rpc(call("fabric.show", {"task": made["id"]})).body)["result"]
    assert (shown["title"], shown["description"]) == (title, text)
