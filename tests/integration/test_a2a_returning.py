"""Tasks of agents in the server that become ready again: with no worker beside it, the server works them off itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from taskfabric.domain.principal import Caller, Via
from taskfabric.ports.signal import Change
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase, TestServer
from tests.integration.calling import Exchange, exchange
from tests.integration.hiring import until


@pytest.fixture(scope="module")
def one_server(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with server.database() as database, exchange(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Exchange:
    one_server.clean()
    return one_server


def look(agents: Exchange) -> None:
    """What the server does at the latest some seconds after a signal was lost."""
    agents.served.app.state.gateway.forget()
    agents.served.app.state.gateway.returning.look()


def words(task: Any) -> str:
    return "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"])


def test_a_persons_answer_on_the_board_goes_on_at_once(agents: Exchange) -> None:
    task = agents.send("ask one?")
    agents.served.fabric("alice").call(verbs.Answer(task=agents.row(task["id"]), note="the blue one"))
    assert words(agents.becomes(task["id"], "COMPLETED")) == "the blue one"
    assert [job.fence.epoch for job in agents.gate.begun] == [1, 2]


def test_who_was_queued_has_the_place_as_soon_as_it_is_free(database: TestDatabase, tmp_path: Path) -> None:
    """By push: nothing is asked for again meanwhile, and never more run than the card says (G1)."""
    with exchange(database.dsn, tmp_path, concurrency=1) as agents:
        agents.send("wait", at_once=True)
        queued = [agents.send(f"number {n}", at_once=True, metadata={"fabric/queue": True}) for n in range(3)]
        agents.gate.begins()
        look(agents)
        assert {agents.state(task["id"]) for task in queued} == {"SUBMITTED"}
        agents.gate.open.set()
        for n, task in enumerate(queued):
            assert words(agents.becomes(task["id"], "COMPLETED")) == f"number {n}"
        held = [job.fence.task_id for job in agents.gate.begun]
        assert len(held) == len(set(held)) == 4


def test_a_parked_task_goes_on_when_its_time_has_come(agents: Exchange) -> None:
    task = agents.send("park", at_once=True)
    parked = until(lambda: agents.get(task["id"])["metadata"]["fabric/status"] == "ready", what="it is parked")
    assert parked
    assert agents.state(task["id"]) == "WORKING"
    look(agents)
    assert len(agents.gate.begun) == 1
    with agents.served.house.database.connection() as conn:
        conn.execute("UPDATE tasks SET date_started = fabric_now() WHERE id = %s", (agents.row(task["id"]),))
    agents.served.house.signal.publish(Change())
    until(lambda: len(agents.gate.begun) == 2, what="it is begun again")


def test_what_a_person_rejects_is_done_again_under_its_new_id(agents: Exchange) -> None:
    """His note is in the thread, which is what the run works from: no message of the caller says it."""
    task = agents.send("hello")
    row = agents.row(task["id"])
    agents.served.fabric("alice").call(verbs.Reject(task=row, note="in verse, please"))
    until(lambda: len(agents.gate.begun) == 2, what="it is begun again")
    again = agents.gate.begun[1]
    assert again.message is None
    assert "in verse, please" in [entry.text.partition(": ")[2] for entry in again.thread]
    ids = [one["id"] for one in agents.call("ListTasks", {"contextId": task["contextId"]})["tasks"]]
    assert len(ids) == 2


def test_a_closed_agent_begins_nothing_until_it_is_open(agents: Exchange) -> None:
    alice = agents.served.fabric("alice")
    alice.call(verbs.Pause(name="helper"))
    agents.served.app.state.gateway.forget()
    task = agents.send("hello", at_once=True, metadata={"fabric/queue": True})
    look(agents)
    assert agents.state(task["id"]) == "SUBMITTED"
    alice.call(verbs.Resume(name="helper"))
    look(agents)
    agents.becomes(task["id"], "COMPLETED")


def test_where_a_worker_runs_the_tasks_are_the_workers(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path) as agents:
        _is_manned(agents)
        task = agents.send("ask one?")
        agents.served.fabric("alice").call(verbs.Answer(task=agents.row(task["id"]), note="mine"))
        look(agents)
        assert len(agents.gate.begun) == 1
        (claimed,) = agents.served.fabric("helper").call(verbs.Claim())
        assert claimed.task.id == agents.row(task["id"])


def test_what_a_lost_run_had_told_is_no_part_of_the_next_ones_result(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path) as agents:
        _is_manned(agents)
        task = agents.send("drip half |rest", at_once=True)
        until(lambda: "artifacts" in agents.get(task["id"]), what="the first piece is told")
        row = agents.row(task["id"])
        agents.served.fabric("alice").call(verbs.Move(task=row, column="Ready"))
        (claimed,) = agents.served.fabric("helper").call(verbs.Claim())
        agents.served.fabric("helper").call(verbs.Done(fence=verbs.FenceArg.of(claimed.fence), note="all of it"))
        agents.gate.open.set()
        done = agents.becomes(task["id"], "COMPLETED")
        assert [artifact["parts"] for artifact in done["artifacts"]] == [[{"text": "all of it"}]]


def test_what_a_worker_gave_back_as_it_stopped_is_not_begun_by_a_server_that_may_stop_next(
    database: TestDatabase, tmp_path: Path
) -> None:
    """`fabric down` stops the workers first: a run begun then is a model called for nothing."""
    with exchange(database.dsn, tmp_path) as agents:
        _is_manned(agents)
        task = agents.send("ask one?")
        agents.served.fabric("alice").call(verbs.Answer(task=agents.row(task["id"]), note="mine"))
        (claimed,) = agents.served.fabric("helper").call(verbs.Claim())
        _is_manned(agents, "draining")
        fence = verbs.FenceArg.of(claimed.fence)
        agents.served.fabric("helper").call(verbs.Release(fence=fence, note="the worker stops", drained=True))
        _is_manned(agents, "gone")
        look(agents)
        database.clock.advance(timedelta(seconds=29))
        look(agents)
        assert len(agents.gate.begun) == 1
        database.clock.advance(timedelta(seconds=2))
        look(agents)
        agents.becomes(task["id"], "COMPLETED")


def _is_manned(agents: Exchange, state: Literal["idle", "draining", "gone"] = "idle") -> None:
    """A worker of ``helper`` has said how it is."""
    house = agents.served.house
    helper = house.credentials.principal("helper")
    assert helper is not None
    worker = Caller(principal=helper, via=Via.TOKEN, instance="helper@box")
    house.hallway.call(worker, verbs.Report(instance="helper@box", state=state, reason=""))
    agents.served.app.state.gateway.forget()


def test_what_a_server_gave_back_the_next_one_goes_on_with(database: TestDatabase, tmp_path: Path) -> None:
    """G4: no double run, and the same task for its caller."""
    with exchange(database.dsn, tmp_path) as agents:
        task = agents.send("wait", at_once=True)
        agents.gate.begins()
        tokens = agents.served.tokens
    with exchange(database.dsn, tmp_path, fresh=False) as agents:
        agents.served.tokens.update(tokens)
        agents.gate.open.set()
        done = agents.becomes(task["id"], "COMPLETED")
        assert [job.fence.epoch for job in agents.gate.begun] == [2]
        assert len(done["history"]) == 1


def test_a_task_that_is_no_callers_waits_for_a_worker(agents: Exchange) -> None:
    """What was submitted to the agent's queue is pulled by its worker, as everywhere."""
    task = agents.served.fabric("alice").call(verbs.Submit(title="by itself", to="helper")).task
    look(agents)
    assert agents.served.house.board.get(task.id, None).status == "ready"


def test_a_lease_that_ran_out_with_its_server_is_begun_again_after_the_sweep(agents: Exchange) -> None:
    task = agents.send("wait", at_once=True)
    agents.gate.begins()
    row = agents.row(task["id"])
    with agents.served.house.database.connection() as conn:
        conn.execute("UPDATE tasks SET lease_until = fabric_now() - interval '1 second' WHERE id = %s", (row,))
    alice = agents.served.house.credentials.principal("alice")
    assert alice is not None
    assert agents.served.house.board.sweep(10, Caller(principal=alice, via=Via.TOKEN).stamp()).ready == (row,)
    agents.gate.begins(2)
    agents.gate.open.set()
    agents.becomes(task["id"], "COMPLETED")
    assert agents.served.house.board.get(row, None).epoch == 2
