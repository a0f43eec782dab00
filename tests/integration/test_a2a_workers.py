"""Agents that need their own machine, called over A2A: reserved in their queue, and picked up by a worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskfabric.domain.principal import Via
from taskfabric.remote import RemoteFabric
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from taskfabric.wiring import SYSTEM
from tests.integration.calling import Exchange, exchange, idle_but_gone, message, shape
from tests.integration.hiring import employ, hired, until


@pytest.fixture
def agents(database: TestDatabase, tmp_path: Path) -> Iterator[Exchange]:
    with exchange(database.dsn, tmp_path) as made:
        employ(made.served, tmp_path, "coder", "echo")
        yield made


def test_an_idle_worker_is_woken_and_its_result_is_the_answer(agents: Exchange, tmp_path: Path) -> None:
    """The worker looks by itself only every 20 s: what comes at once was pushed (G6)."""
    with hired(agents.served, "coder", tmp_path, poll=20.0):
        until(lambda: _seen(agents), what="the worker is known")
        task = agents.send("write something", agent="coder")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"]
        shown = agents.served.fabric("alice").call(verbs.Show(task=agents.row(task["id"]))).task
        assert (shown.queue, shown.producer, shown.priority) == ("coder", "coder", 3)


def test_without_a_worker_there_is_503_and_nothing_waits(agents: Exchange) -> None:
    answer = agents.post(shape("SendMessage", {"message": message("hello")}), agent="coder")
    assert answer.status == 503
    assert agents.rows() == 0


def test_a_worker_that_does_not_come_in_time_is_503_and_the_row_is_closed(agents: Exchange, tmp_path: Path) -> None:
    idle_but_gone(agents, tmp_path)
    answer = agents.post(shape("SendMessage", {"message": message("hello")}), agent="coder")
    assert answer.status == 503
    listed = agents.call("ListTasks", {}, agent="coder")["tasks"]
    assert [task["status"]["state"] for task in listed] == ["TASK_STATE_REJECTED"]


def test_who_has_patience_is_queued_for_the_worker(agents: Exchange, tmp_path: Path) -> None:
    task = agents.send("hello", agent="coder", at_once=True, metadata={"fabric/queue": True})
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    with hired(agents.served, "coder", tmp_path):
        agents.becomes(task["id"], "COMPLETED", agent="coder")


def test_a_message_to_a_task_that_waits_for_a_decision_decides_nothing_and_does_not_wake_it(agents: Exchange) -> None:
    """G10"""
    sent = agents.send("pay it", agent="coder", at_once=True, metadata={"fabric/queue": True})
    house, row = agents.served.house, agents.row(sent["id"])
    coder = house.credentials.principal("coder")
    assert coder is not None
    token, _ = house.credentials.create_token(coder.id, name="test", via=Via.TOKEN, stamp=SYSTEM)
    with contextlib.closing(RemoteFabric(agents.served.url, token)) as fabric:
        got = fabric.call(verbs.Take(task=row))
        ask = verbs.RequestApproval(action="mail.send", args={"to": "b"}, fence=verbs.FenceArg.of(got.fence))
        approval = fabric.call(ask)
        assert agents.state(sent["id"], agent="coder") == "AUTH_REQUIRED"
        said = message("yes, do it", taskId=sent["id"])
        assert agents.code("SendMessage", {"message": said}, agent="coder") < 0
        assert agents.state(sent["id"], agent="coder") == "AUTH_REQUIRED"
        assert fabric.call(verbs.ShowApproval(approval=approval["id"]))["state"] == "pending"


def test_the_sdks_own_client_talks_to_an_agent(agents: Exchange) -> None:
    """Interoperation: card, send, stream and get by the official client."""
    import httpx
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.types import a2a_pb2 as pb

    async def talk() -> tuple[list[str], str]:
        headers = {"Authorization": f"Bearer {agents.served.tokens['alice']}"}
        async with httpx.AsyncClient(headers=headers, timeout=20) as line:
            card = await A2ACardResolver(line, f"{agents.served.url}/agents/helper").get_agent_card()
            client = ClientFactory(ClientConfig(streaming=True, httpx_client=line)).create(card)
            said = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="chunks a|b")])
            kinds, task_id = [], ""
            async for event in client.send_message(pb.SendMessageRequest(message=said)):
                kinds.append(str(event.WhichOneof("payload")))
                task_id = task_id or event.task.id
            task = await client.get_task(pb.GetTaskRequest(id=task_id))
            await client.close()
            return kinds, pb.TaskState.Name(task.status.state)

    kinds, state = asyncio.run(talk())
    assert kinds[0] == "task"
    assert kinds[-1] == "status_update"
    assert state == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("streams", [False, True])
def test_what_nobody_waits_for_is_rejected_all_the_same_if_no_worker_comes(
    database: TestDatabase, tmp_path: Path, streams: bool
) -> None:
    with exchange(database.dsn, tmp_path, a2a__pickup="100ms") as agents:
        employ(agents.served, tmp_path, "coder", "echo")
        idle_but_gone(agents, tmp_path)
        if streams:
            with agents.stream("SendStreamingMessage", {"message": message("hello")}, agent="coder") as events:
                assert [b["statusUpdate"]["status"]["state"] for _, b in events if "statusUpdate" in b] == [
                    "TASK_STATE_REJECTED"
                ]
        else:
            task = agents.send("hello", agent="coder", at_once=True)
            assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
            agents.becomes(task["id"], "REJECTED", agent="coder")


@pytest.mark.parametrize("at_once", [False, True])
def test_where_all_places_are_taken_nothing_is_begun(agents: Exchange, tmp_path: Path, at_once: bool) -> None:
    idle_but_gone(agents, tmp_path)
    employ(agents.served, tmp_path, "coder", "echo", concurrency=1)
    agents.send("first", agent="coder", at_once=True, metadata={"fabric/queue": True})
    assert agents.served.fabric("coder").call(verbs.Claim())
    params = {"message": message("hello"), "configuration": {"returnImmediately": at_once}}
    answer = agents.post(shape("SendMessage", params), agent="coder")
    assert answer.status == 503
    assert "retry-after" in answer.headers
    assert agents.rows() == 1


def _seen(agents: Exchange) -> bool:
    agents.served.app.state.gateway.forget()
    with agents.served.house.database.connection() as conn:
        return conn.execute("SELECT 1 FROM worker_reports WHERE state = 'idle'").fetchone() is not None
