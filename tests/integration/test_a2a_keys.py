"""Idempotency keys over A2A (G11): one message, sent twice, is one task and one answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.testing import TestDatabase, TestServer
from tests.integration.calling import Exchange, exchange, idle_but_gone, message, shape
from tests.integration.hiring import employ, hired, until

KEY = {"Idempotency-Key": "k-1"}


@pytest.fixture(scope="module")
def one_server(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with server.database() as database, exchange(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Exchange:
    one_server.clean()
    return one_server


def test_a_key_makes_one_task_and_a_later_call_attaches_to_it(agents: Exchange) -> None:
    """G11: the connection may be cut before the reply; the same key and message lead to the same task."""
    params = {"message": message("hello"), "configuration": {}}
    headers = {"Idempotency-Key": "k-1"}
    first = agents.post(shape("SendMessage", params), headers=headers).json["result"]["task"]
    params["message"]["messageId"] = "m-2"
    again = agents.post(shape("SendMessage", params), headers=headers).json["result"]["task"]
    assert again == first
    other = agents.post(shape("SendMessage", {"message": message("something else")}), headers=headers).json
    assert other["error"]["code"] == -32602
    bob = agents.post(shape("SendMessage", params), headers=headers, name="bob").json["result"]["task"]
    assert bob["id"] != first["id"]
    assert agents.rows() == 2


def test_a_message_id_alone_never_makes_two_calls_one(agents: Exchange) -> None:
    assert agents.send("hello")["id"] != agents.send("hello")["id"]


def test_two_calls_at_once_with_one_key_start_one_run(agents: Exchange) -> None:
    got: list[Any] = []
    said = message("wait", metadata={"idempotencyKey": "k-2"})
    threads = [
        threading.Thread(target=lambda: got.append(agents.call("SendMessage", {"message": said})["task"]))
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    agents.gate.begins()
    agents.gate.open.set()
    for one in threads:
        one.join(20)
    assert len({task["id"] for task in got}) == 1
    assert {task["status"]["state"] for task in got} == {"TASK_STATE_COMPLETED"}
    assert len(agents.gate.begun) == 1


def test_an_answer_sent_twice_under_one_key_is_not_the_answer_to_the_next_question(agents: Exchange) -> None:
    task = agents.send("ask which colour?")
    said = {"message": message("ask and which size?", taskId=task["id"])}
    first = agents.post(shape("SendMessage", said), headers=KEY).json["result"]["task"]
    assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    again = agents.post(shape("SendMessage", said), headers=KEY).json["result"]["task"]
    assert again == first
    assert len(agents.gate.begun) == 2
    agents.send("the large one", taskId=task["id"])
    over = agents.post(shape("SendMessage", said), headers=KEY).json["result"]["task"]
    assert over["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(agents.gate.begun) == 3


def test_an_answer_under_a_key_is_taken_once_by_calls_at_once(agents: Exchange) -> None:
    task = agents.send("ask which colour?")
    said = {"message": message("ask and which size?", taskId=task["id"], metadata={"idempotencyKey": "k-3"})}
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(agents.call("SendMessage", said)["task"])) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    assert [answer["id"] for answer in got] == [task["id"]] * 4
    assert len(agents.gate.begun) == 2


@pytest.mark.parametrize(
    ("said", "headers"),
    [
        ({"taskId": "TASK", "metadata": {"idempotencyKey": "k-2"}}, {}),
        ({"taskId": "TASK"}, {"Idempotency-Key": "k-2"}),
        ({"metadata": {"idempotencyKey": "k-9"}}, {"Idempotency-Key": "k-8"}),
    ],
    ids=["of another answer", "of another answer, in the header", "two at once"],
)
def test_a_key_that_does_not_fit_is_refused_and_nothing_is_told(
    agents: Exchange, said: dict[str, Any], headers: dict[str, str]
) -> None:
    first = agents.send("hello", metadata={"idempotencyKey": "k-2"})
    task = agents.send("ask which colour?")
    more = {name: task["id"] if value == "TASK" else value for name, value in said.items()}
    answer = agents.post(shape("SendMessage", {"message": message("green", **more)}), headers=headers).json["error"]
    assert answer["code"] == -32602
    assert "a2a/" not in answer["message"]
    assert str(agents.row(first["id"])) not in answer["message"]
    assert agents.state(task["id"]) == "INPUT_REQUIRED"
    assert agents.rows() == 2


def test_a_key_is_free_again_when_its_message_found_no_place(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path, a2a__pickup="100ms") as agents:
        employ(agents.served, tmp_path, "coder", "echo")
        idle_but_gone(agents, tmp_path)
        send = shape("SendMessage", {"message": message("hello")})
        assert agents.post(send, agent="coder", headers=KEY).status == 503
        with hired(agents.served, "coder", tmp_path):
            until(
                lambda: agents.post(send, agent="coder", headers=KEY).status == 200,
                what="the message is taken when there is a place",
            )
        states = [task["status"]["state"] for task in agents.call("ListTasks", {}, agent="coder")["tasks"]]
        assert states.count("TASK_STATE_COMPLETED") == 1
