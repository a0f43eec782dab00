"""Following over A2A what an agent in the server does: lists, and streams that go on where a reader was cut off."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase, TestServer
from tests.integration.calling import Exchange, exchange, message, shape
from tests.integration.hiring import until


@pytest.fixture(scope="module")
def one_server(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with server.database() as database, exchange(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Exchange:
    one_server.clean()
    return one_server


# -- lists -----------------------------------------------------------------------------------------------


def test_a_list_shows_the_newest_first_page_by_page(agents: Exchange) -> None:
    ids = [agents.send(f"number {n}")["id"] for n in range(5)]
    found: list[str] = []
    token = ""
    while True:
        page = agents.call("ListTasks", {"pageSize": 2, "pageToken": token})
        assert (page["pageSize"], page["totalSize"]) == (2, 5)
        found += [task["id"] for task in page["tasks"]]
        assert all("artifacts" not in task for task in page["tasks"])
        token = page["nextPageToken"]
        if not token:
            break
    assert found == ids[::-1]


def test_an_answer_carries_so_many_bytes_of_files_and_a_stream_all_of_them_one_by_one(agents: Exchange) -> None:
    """However many tasks and files somebody has, asking for all of them at once does not fill the server's memory."""
    large = [agents.send(f"large {4 << 20} 3", at_once=True) for _ in range(2)]
    for task in large:
        agents.becomes(task["id"], "COMPLETED")

    def files(task: Any) -> list[bool]:
        parts = [part for artifact in task["artifacts"] for part in artifact["parts"] if "filename" in part]
        assert all(part["metadata"]["fabric/size"] == 4 << 20 for part in parts)
        return ["raw" in part for part in parts]

    assert files(agents.get(large[0]["id"])) == [True] * 3
    page = agents.call("ListTasks", {"includeArtifacts": True})["tasks"]
    assert sorted(filled for task in page for filled in files(task)) == [False] * 3 + [True] * 3
    with agents.stream("SubscribeToTask", {"id": large[0]["id"]}, **{"Last-Event-ID": "2"}) as events:
        told = [body["artifactUpdate"]["artifact"]["parts"][0] for _, body in events if "artifactUpdate" in body]
    assert ["raw" in part for part in told] == [False, True, True, True]


def test_a_list_can_be_narrowed(agents: Exchange) -> None:
    one = agents.send("hello")
    agents.send("ask why?")
    assert agents.call("ListTasks", {"status": "TASK_STATE_INPUT_REQUIRED"})["totalSize"] == 1
    assert agents.call("ListTasks", {"contextId": one["contextId"]})["totalSize"] == 1
    assert agents.call("ListTasks", {"statusTimestampAfter": "2099-01-01T00:00:00Z"})["totalSize"] == 0
    whole = agents.call("ListTasks", {"includeArtifacts": True, "historyLength": 0, "contextId": one["contextId"]})
    assert whole["tasks"][0]["artifacts"] == one["artifacts"]
    assert "history" not in whole["tasks"][0]


# -- streams ---------------------------------------------------------------------------------------------


def test_a_stream_tells_the_task_then_what_happens_and_ends_with_it(agents: Exchange) -> None:
    with agents.stream("SendStreamingMessage", {"message": message("chunks one |two |three")}) as events:
        got = list(events)
    assert "task" in got[0][1]
    updates = [body["artifactUpdate"] for _, body in got[1:] if "artifactUpdate" in body]
    text = "".join(u["artifact"]["parts"][0]["text"] for u in updates if u.get("append") or u is updates[0])
    assert text == "one two three"
    assert got[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    numbers = [number for number, _ in got]
    assert numbers == sorted(numbers)
    task_id = got[0][1]["task"]["id"]
    assert agents.get(task_id)["artifacts"][0]["parts"] == [{"text": "one two three"}]


def test_what_is_streamed_is_output_that_people_see_and_a_comment_in_five_seconds(
    database: TestDatabase, tmp_path: Path
) -> None:
    """The same as of a worker's run: pieces in the journal, on the card one line of them; none for a short run."""
    with exchange(database.dsn, tmp_path) as agents:
        alice = agents.served.fabric("alice")

        def said(task: Any) -> list[str]:
            entries = alice.call(verbs.Show(task=agents.row(task["id"]))).entries
            return [entry.text for entry in entries if entry.kind == "said"]

        short = agents.send("chunks one |two")
        assert said(short) == []
        task = agents.send("drip Ready, |steady.", at_once=True)
        until(lambda: _output(alice, agents.row(task["id"])) == "Ready, ", what="the first piece is there")
        database.clock.advance(timedelta(seconds=6))
        agents.gate.open.set()
        agents.becomes(task["id"], "COMPLETED")
        assert _output(alice, agents.row(task["id"])) == "Ready, steady."
        assert said(task) == ["💭 Ready, steady."]


def _output(fabric: Fabric, number: int) -> str:
    return "".join(chunk["text"] for chunk in fabric.call(verbs.ReadChunks(task=number))["chunks"])


def test_a_reader_goes_on_where_it_was_cut_off(agents: Exchange) -> None:
    with agents.stream("SendStreamingMessage", {"message": message("wait")}) as events:
        number, first = next(events)
        task_id = first["task"]["id"]
    agents.gate.open.set()
    agents.becomes(task_id, "COMPLETED")
    with agents.stream("SubscribeToTask", {"id": task_id}, **{"Last-Event-ID": str(number)}) as events:
        got = list(events)
    assert [body.keys() for _, body in got] == [{"artifactUpdate"}, {"statusUpdate"}]
    assert got[0][0] == number + 1


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (1, 1), (9, 2)])
def test_a_stream_begins_with_as_much_history_as_its_sender_wants(agents: Exchange, length: int, kept: int) -> None:
    asks = agents.send("ask why?")
    answer = {"message": message("because", taskId=asks["id"]), "configuration": {"historyLength": length}}
    with agents.stream("SendStreamingMessage", answer) as events:
        _, first = next(events)
    assert len(first["task"].get("history", [])) == kept
    assert len(agents.get(asks["id"])["history"]) == 2


def test_a_subscriber_sees_the_task_and_its_end(agents: Exchange) -> None:
    task = agents.send("wait", at_once=True)
    with agents.stream("SubscribeToTask", {"id": task["id"]}) as events:
        assert next(events)[1]["task"]["id"] == task["id"]
        agents.call("CancelTask", {"id": task["id"]})
        assert [body["statusUpdate"]["status"]["state"] for _, body in events] == ["TASK_STATE_CANCELED"]
    assert agents.code("SubscribeToTask", {"id": task["id"]}) == -32004


def test_a_stream_ends_when_its_agent_asks_but_a_subscriber_waits_on(agents: Exchange) -> None:
    with agents.stream("SendStreamingMessage", {"message": message("ask why?")}) as events:
        got = list(events)
    task_id = got[0][1]["task"]["id"]
    with agents.stream("SubscribeToTask", {"id": task_id}) as events:
        next(events)
        agents.send("because", taskId=task_id)
        states = [b["statusUpdate"]["status"]["state"] for _, b in events if "statusUpdate" in b]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


@pytest.mark.parametrize(("order", "state"), [("hello", "COMPLETED"), ("ask why?", "INPUT_REQUIRED")])
def test_a_send_that_is_repeated_when_all_is_told_ends_its_stream(agents: Exchange, order: str, state: str) -> None:
    said = {"message": message(order, metadata={"idempotencyKey": "k-1"})}
    with agents.stream("SendStreamingMessage", said) as events:
        list(events)
    with agents.stream("SendStreamingMessage", said) as events:
        [(_, only)] = events
    assert only["task"]["status"]["state"] == f"TASK_STATE_{state}"


def test_a_message_that_was_answered_is_streamed_again_under_its_key(agents: Exchange) -> None:
    said = {"message": message("message hello", metadata={"idempotencyKey": "k-1"})}
    heard = []
    for _ in range(2):
        with agents.stream("SendStreamingMessage", said) as events:
            heard.append([body["message"]["parts"] for _, body in events if "message" in body])
    assert heard == [[[{"text": "hello"}]]] * 2


def test_a_page_token_that_is_made_up_is_refused(agents: Exchange) -> None:
    places: list[object] = [["2026-12-01T06:35:56+00:00", "x\0y"], ["2026-12-01", "x"], [1, 2], {}]
    for place in places:
        token = base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
        assert agents.code("ListTasks", {"pageToken": token}) == -32602


def test_streams_of_one_principal_are_bounded(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path, a2a__streams=1) as agents:
        task = agents.send("wait", at_once=True)
        with agents.stream("SubscribeToTask", {"id": task["id"]}) as events:
            next(events)
            answer = agents.post(shape("SubscribeToTask", {"id": task["id"]}))
            assert answer.status == 503
            answer = agents.post(shape("SendStreamingMessage", {"message": message("hello")}))
            assert (answer.status, agents.rows()) == (503, 1)  # and its message has begun nothing
        with_room = until(
            lambda: agents.post(shape("GetTask", {"id": task["id"]})).status == 200, what="other calls go on"
        )
        assert with_room
