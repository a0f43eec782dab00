"""The board away while callers over A2A are there: little is answered, nothing is lost (G14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskfabric.testing import TestDatabase
from tests.integration.calling import Exchange, exchange, hire, message, shape
from tests.integration.hiring import until


def _post(agents: Exchange, agent: str, text: str = "hello", *, name: str = "alice", **headers: str) -> Any:
    return agents.post(shape("SendMessage", {"message": message(text)}), agent=agent, name=name, headers=headers)


def test_only_what_is_marked_answers_whom_it_knows_and_the_board_hears_of_it_later(
    database: TestDatabase, tmp_path: Path
) -> None:
    """G14: known callers, cards marked degraded, no keys, no tools; all else is 503, and the answer says so itself."""
    with exchange(database.dsn, tmp_path) as agents:
        hire(agents.served, tmp_path, "local", degraded=True)
        hire(agents.served, tmp_path, "handy", degraded=True, tools=["submit"])
        for agent in ("helper", "local", "handy"):
            agents.send("before", agent=agent)
        agents.served.house.database.close()
        answer = _post(agents, "local", "while it is away")
        assert answer.status == 200, answer.json
        task = answer.json["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["metadata"]["fabric/degraded"] is True
        for refused in (
            _post(agents, "helper"),
            _post(agents, "handy"),
            _post(agents, "local", name="bob"),
            _post(agents, "local", **{"Idempotency-Key": "k"}),
            agents.post(shape("GetTask", {"id": task["id"]}), agent="local"),
            agents.post(shape("SendMessage", {"message": message("x", taskId=task["id"])}), agent="local"),
        ):
            assert (refused.status, "retry-after" in refused.headers) == (503, True)
    token = agents.served.tokens["alice"]
    with exchange(database.dsn, tmp_path, fresh=False) as agents:
        agents.served.tokens["alice"] = token
        spool = agents.served.app.state.gateway.runs.spool
        until(lambda: not len(spool), what="the board is told")
        later = agents.get(task["id"], agent="local")
        assert later["artifacts"] == task["artifacts"]
        assert later["contextId"] == task["contextId"]
        assert later["metadata"] == {"fabric/status": "done", "fabric/verification": "pending"}


def test_the_end_of_a_run_waits_for_the_board(database: TestDatabase, tmp_path: Path) -> None:
    """G3, G14: it is offered with its fence when the board is back, and taken."""
    with exchange(database.dsn, tmp_path) as agents:
        task = agents.send("wait", at_once=True)
        agents.gate.begins()
        agents.served.house.database.close()
        agents.gate.open.set()
        spool = agents.served.app.state.gateway.runs.spool
        until(lambda: len(spool) == 1, what="the end is kept")
    token = agents.served.tokens["alice"]
    with exchange(database.dsn, tmp_path, fresh=False) as agents:
        agents.served.tokens["alice"] = token
        agents.becomes(task["id"], "COMPLETED")
