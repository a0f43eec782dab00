"""A2A where the board is a stock Kanboard: a call is a card there, and its lease a tag, as with every other verb."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.principal import Caller, Via
from taskfabric.services import verbs
from taskfabric.testing import TestServer
from tests.integration.board_api import APP_TOKEN, BoardApi, board_api
from tests.integration.calling import Exchange, exchange
from tests.integration.hiring import until


@pytest.fixture(scope="module")
def kanboard(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardApi]:
    with server.database() as database, board_api(database.dsn, tmp_path_factory.mktemp("kanboard")) as api:
        yield api


@pytest.fixture(scope="module")
def one_server(kanboard: BoardApi, server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    home: Path = tmp_path_factory.mktemp("home")
    there: dict[str, Any] = {"board__url": f"{kanboard.served.url}/jsonrpc.php", "board__kanboard_token": APP_TOKEN}
    with server.database() as database, exchange(database.dsn, home, concurrency=2, **there) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Iterator[Exchange]:
    one_server.gate.close()
    yield one_server
    one_server.gate.open.set()
    until(lambda: not one_server.served.app.state.gateway.runs.crew.busy, what="runs end")


def card(kanboard: BoardApi, agents: Exchange, task: Any) -> dict[str, Any]:
    """The card of the task, with its column's title and what was said on it."""
    number = agents.row(task["id"])
    found = kanboard.call("getTask", task_id=number, by="jsonrpc")
    columns = kanboard.call("getColumns", project_id=found["project_id"], by="jsonrpc")
    column = next(one["title"] for one in columns if int(one["id"]) == int(found["column_id"]))
    said = [c["comment"] for c in kanboard.call("getAllComments", task_id=number, by="jsonrpc")]
    return {"title": found["title"], "column": column, "said": said}


def shows(kanboard: BoardApi, agents: Exchange, task: Any, column: str, last: str) -> dict[str, Any]:
    """The card, once it stands there and says this last: it is brought in line after the commit."""

    def looks() -> dict[str, Any] | None:
        seen = card(kanboard, agents, task)
        return seen if seen["column"] == column and seen["said"] and seen["said"][-1].startswith(last) else None

    found: dict[str, Any] = until(looks, what=f"the card is in {column} and says {last}")
    return found


def test_a_call_is_a_card_and_its_end_is_on_it(kanboard: BoardApi, agents: Exchange) -> None:
    """G1, G2: the card's own number, a lease that is a tag, and the result as a comment."""
    task = agents.send("hello there")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    shown = shows(kanboard, agents, task, "Done", "✅ hello there")
    assert shown["title"] == "hello there"
    assert shown["said"][0].startswith("🔒 claimed by `helper`")
    lock = agents.served.house.board.locks.highest()[agents.row(task["id"])]  # type: ignore[attr-defined]
    assert (lock.epoch, lock.over is not None) == (1, True)


def test_while_it_runs_the_card_is_work_in_progress_and_nobodys_to_take(kanboard: BoardApi, agents: Exchange) -> None:
    task = agents.send("wait", at_once=True)
    agents.gate.begins()
    shows(kanboard, agents, task, "Work in progress", "🔒")
    assert agents.served.fabric("helper").call(verbs.Claim()) == []
    agents.gate.open.set()
    agents.becomes(task["id"], "COMPLETED")


def test_a_question_and_its_answer_are_on_the_card(kanboard: BoardApi, agents: Exchange) -> None:
    task = agents.send("ask which one?")
    shows(kanboard, agents, task, "Work in progress", "❓")
    done = agents.send("the red one", taskId=task["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    shows(kanboard, agents, task, "Done", "✅ the red one")


def test_a_message_that_waits_for_a_place_waits_as_a_card(kanboard: BoardApi, agents: Exchange) -> None:
    running = [agents.send("wait", at_once=True) for _ in range(2)]
    agents.gate.begins(2)
    queued = agents.send("later", at_once=True, metadata={"fabric/queue": True})
    until(lambda: card(kanboard, agents, queued)["column"] == "Ready", what="its card is there")
    agents.gate.open.set()
    for task in (*running, queued):
        agents.becomes(task["id"], "COMPLETED")


def test_a_full_agent_leaves_no_card_behind(kanboard: BoardApi, agents: Exchange) -> None:
    running = [agents.send("wait", at_once=True) for _ in range(2)]
    agents.gate.begins(2)
    queue = agents.served.house.projects.queue("helper")
    assert queue is not None
    before = len(kanboard.call("getAllTasks", project_id=queue.project_id, status_id=1, by="jsonrpc"))
    answer = agents.speak(
        "JSONRPC", "SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    )
    assert answer.status == 503
    assert len(kanboard.call("getAllTasks", project_id=queue.project_id, status_id=1, by="jsonrpc")) == before
    agents.gate.open.set()
    for task in running:
        agents.becomes(task["id"], "COMPLETED")


def test_a_direct_message_closes_its_card(kanboard: BoardApi, agents: Exchange) -> None:
    assert agents.send("message good morning")["parts"] == [{"text": "good morning"}]
    with agents.served.house.database.connection() as conn:
        row = conn.execute("SELECT max(id) FROM tasks WHERE status = 'record'").fetchone()
    assert row is not None
    until(lambda: int(kanboard.call("getTask", task_id=row[0], by="jsonrpc")["is_active"]) == 0, what="it is closed")


def test_a_key_makes_one_card(agents: Exchange) -> None:
    first = agents.send("hello", metadata={"idempotencyKey": "k-1"})
    assert agents.send("hello", metadata={"idempotencyKey": "k-1"})["id"] == first["id"]


def test_what_is_given_back_is_begun_again(agents: Exchange) -> None:
    task = agents.send("ask one?")
    alice = agents.served.house.credentials.principal("alice")
    assert alice is not None
    agents.served.house.hallway.call(
        Caller(principal=alice, via=Via.TOKEN), verbs.Answer(task=agents.row(task["id"]), note="the blue one")
    )
    agents.becomes(task["id"], "COMPLETED")


def test_what_a_run_says_on_its_way_is_on_the_card(kanboard: BoardApi, agents: Exchange) -> None:
    task = agents.send("drip First the drafts, |then the rest.", at_once=True)
    agents.gate.begins()
    with agents.served.house.database.connection() as conn:
        earlier = "UPDATE tasks SET date_started = date_started - interval '10 seconds' WHERE id = %s"
        conn.execute(earlier, (agents.row(task["id"]),))
    agents.gate.open.set()
    agents.becomes(task["id"], "COMPLETED")
    begin = "💭 First the drafts"
    until(lambda: any(s.startswith(begin) for s in card(kanboard, agents, task)["said"]), what="it is on the card")
