"""Between callers, this fabric and agents elsewhere: a call goes through, and whose it is stays known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.principal import ProjectRole
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from taskfabric.wiring import SYSTEM
from tests.integration.a2a_agent import Agent, agent_served
from tests.integration.calling import Exchange, Gate, exchange
from tests.integration.hiring import employ, hired, until
from tests.integration.serving import serving

TOKEN = "t0ken-for-the-far-one"


@pytest.fixture
def far() -> Iterator[Agent]:
    with agent_served(token=TOKEN) as agent:
        yield agent


@pytest.fixture
def through(database: TestDatabase, tmp_path: Path, far: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Exchange]:
    """Our server, in which the agent ``helper`` is that agent elsewhere."""
    monkeypatch.setenv("FAR_TOKEN", TOKEN)
    with serving(database.dsn, tmp_path) as served:
        spec: dict[str, Any] = {"kind": "remote", "url": far.url, "remote": {"key_env": "FAR_TOKEN"}, "queues": []}
        employ(served, tmp_path, "helper", "echo", **spec)
        yield Exchange(served=served, gate=Gate(), home=tmp_path)


def parts(task: Any) -> str:
    return "".join(part.get("text", "") for artifact in task["artifacts"] for part in artifact["parts"])


def test_a_call_to_a_remote_agent_goes_through_and_stands_on_our_board(through: Exchange, far: Agent) -> None:
    task = through.send("mend it")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert parts(task) == "It is fixed."
    assert far.asked == ["mend it"]
    row = through.served.house.board.get(through.row(task["id"]), None)
    assert (row.producer, row.note) == ("helper", "It is fixed.")


def test_its_direct_word_is_our_direct_word(through: Exchange) -> None:
    assert through.send("direct")["parts"] == [{"text": "a word"}]


def test_its_question_is_ours_and_the_answer_goes_back_to_it(through: Exchange, far: Agent) -> None:
    task = through.send("question")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert task["status"]["message"]["parts"] == [{"text": "Which of the two?"}]
    assert through.send("the red one", taskId=task["id"])["status"]["state"] == "TASK_STATE_COMPLETED"
    assert far.asked == ["question", "the red one"]


@pytest.mark.parametrize(
    ("word", "state"), [("refuse", "REJECTED"), ("fail", "FAILED"), ("needs-auth", "AUTH_REQUIRED")]
)
def test_its_states_are_ours(through: Exchange, word: str, state: str) -> None:
    assert through.send(word)["status"]["state"] == f"TASK_STATE_{state}"


def test_a_cancel_here_is_a_cancel_there(through: Exchange, far: Agent) -> None:
    task = through.send("hold", at_once=True)
    assert far.begun.wait(20)
    assert through.call("CancelTask", {"id": task["id"]})["status"]["state"] == "TASK_STATE_CANCELED"
    until(lambda: far.cancelled, what="it is cancelled there")


def test_no_credential_of_ours_reaches_a_caller_or_the_board(through: Exchange) -> None:
    task = through.send("mend it")
    with through.served.house.database.connection() as conn:
        for table in ("tasks", "comments", "journal", "a2a_events", "chunks"):
            assert TOKEN not in str(conn.execute(f"SELECT x::text FROM {table} x").fetchall())
    assert TOKEN not in str(task)


def test_a_run_that_calls_an_agent_makes_a_child_of_its_task(database: TestDatabase, tmp_path: Path) -> None:
    """Invariants 1 and 6: who made it is known from the credential, over A2A as well."""
    with exchange(database.dsn, tmp_path) as agents:
        house = agents.served.house
        helper, kimi = house.projects.queue("helper"), house.credentials.principal("kimi")
        assert helper is not None
        assert kimi is not None
        house.projects.set_member(helper.project_id, kimi.id, ProjectRole.MEMBER, SYSTEM)
        with agents.served.fabric("alice") as alice, agents.served.fabric("kimi") as worker:
            parent = alice.call(verbs.Submit(title="the whole", to="kimi")).task
            (claimed,) = worker.call(verbs.Claim())
            token = worker.call(verbs.RunToken(fence=verbs.FenceArg.of(claimed.fence)))["token"]
        agents.served.tokens["run"] = str(token)
        task = agents.send("a part of it", name="run")
        row = house.board.get(agents.row(task["id"]), None)
        assert (row.parent, row.depth, row.submitter) == (parent.id, 1, "kimi")
        assert row.trust == min(parent.trust, kimi.trust)


def test_a_failed_try_is_sent_anew_and_not_answered_from_memory(
    through: Exchange, far: Agent, database: TestDatabase, tmp_path: Path
) -> None:
    """The record of what was sent counts only until the try has ended."""
    with through.served.fabric("alice") as alice:
        number = alice.call(verbs.Submit(title="fail, please", to="helper")).task.id
    board = through.served.house.board
    with hired(through.served, "helper", tmp_path, poll=0.3):
        until(lambda: board.get(number, None).attempts == 1 and board.get(number, None).holder is None)
        assert len(far.asked) == 1
        database.clock.advance(timedelta(minutes=2))
        until(lambda: len(far.asked) == 2, what="the second try is sent")
    assert [key.partition("-")[0] for key in far.keys] == [f"{number}@1", f"{number}@2"]
