"""Agents in the server, called over A2A: what a message becomes, and what is told of it."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.principal import Caller, Via
from taskfabric.domain.status import Flag, Status, a2a_state
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase, TestServer
from tests.integration.calling import Exchange, exchange, hire, message, shape
from tests.integration.hiring import until


@pytest.fixture(scope="module")
def one_server(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with server.database() as database, exchange(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Exchange:
    one_server.clean()
    return one_server


# -- sending ---------------------------------------------------------------------------------------------


def test_a_blocking_send_answers_with_the_finished_task(agents: Exchange) -> None:
    task = agents.send("hello there")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hello there"}]
    assert task["history"][0]["parts"] == [{"text": "hello there"}]
    assert task["metadata"] == {"fabric/status": "done", "fabric/verification": "pending"}
    assert agents.get(task["id"]) == task


def test_the_row_of_a_send_is_a_task_of_the_board_with_its_whole_story(agents: Exchange) -> None:
    """G4, G9: one claim, one attempt, one accepted finish; held by the agent."""
    task = agents.send("hello there")
    thread = agents.served.fabric("alice").call(verbs.Show(task=agents.row(task["id"])))
    assert (thread.task.queue, thread.task.status, thread.task.producer) == ("helper", "done", "helper")
    assert (thread.task.epoch, thread.task.attempts, thread.task.submitter) == (1, 1, "alice")
    assert [entry.kind for entry in thread.entries] == ["claimed", "note"]
    agents.served.caught_up()
    events = agents.served.fabric("alice").call(verbs.Events(task=thread.task.id)).events
    assert [(event.kind, event.actor, event.seq) for event in events] == [
        ("submitted", "alice", 1),
        ("claimed", "helper", 2),
        ("done", "helper", 3),
    ]


def test_each_sender_of_plain_messages_is_the_origin_of_his_own(agents: Exchange) -> None:
    """What a message becomes is remembered for its sender and its queue, and lent to nobody else."""
    board = agents.served.house.board
    for name in ("alice", "bob", "alice", "bob"):
        task = board.get(agents.row(agents.send("hello there", name=name)["id"]), None)
        assert (task.submitter, task.on_behalf, task.title) == (name, name, "hello there")


def test_a_plain_message_follows_the_rules_that_its_queue_has_now(agents: Exchange) -> None:
    """What a message became before counts only for as long as the queue's rules are the same."""
    assert agents.send("hello there")["status"]["state"] == "TASK_STATE_COMPLETED"
    house = agents.served.house
    queue, alice = house.projects.queue("helper"), house.credentials.principal("alice")
    assert queue is not None
    assert alice is not None
    stamp = Caller(principal=alice, via=Via.TOKEN).stamp()
    for check, state in ((True, "TASK_STATE_SUBMITTED"), (False, "TASK_STATE_COMPLETED")):
        house.projects.set_rules(queue.project_id, stamp, score_check=check, needs_verified=None, human_verify=None)
        agents.served.app.state.gateway.forget()
        answer = agents.call(
            "SendMessage", {"message": message("hello"), "configuration": {"returnImmediately": check}}
        )
        assert answer["task"]["status"]["state"] == state


def test_no_worker_can_take_what_the_server_runs(agents: Exchange) -> None:
    """G1: the row stands under a lease before the runtime starts."""
    task = agents.send("wait", at_once=True)
    agents.gate.begins()
    assert agents.served.fabric("helper").call(verbs.Claim()) == []
    agents.gate.open.set()
    agents.becomes(task["id"], "COMPLETED")


def test_a_send_that_returns_at_once_does_not_wait_for_the_agent(agents: Exchange) -> None:
    """The reply is there although the run has not said a word; 20 of them take less than a run would."""
    began = time.monotonic()
    tasks = [agents.send("wait", at_once=True) for _ in range(10)]
    assert time.monotonic() - began < 5
    assert {task["status"]["state"] for task in tasks} == {"TASK_STATE_WORKING"}
    agents.gate.open.set()
    for task in tasks:
        agents.becomes(task["id"], "COMPLETED")


def test_a_wait_ends_at_its_cap_and_the_work_goes_on(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path, a2a__wait_cap="1s") as agents:
        task = agents.send("wait")
        assert task["status"]["state"] == "TASK_STATE_WORKING"
        agents.gate.open.set()
        agents.becomes(task["id"], "COMPLETED")


def test_whoever_hangs_up_does_not_stop_the_work(agents: Exchange) -> None:
    """A connection that is cut after the start: the result is on the board."""
    import socket

    import orjson

    body = orjson.dumps(shape("SendMessage", {"message": message("wait")}))
    head = (
        f"POST /agents/helper HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {agents.served.tokens['alice']}\r\n"
        f"A2A-Version: 1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", agents.served.port)) as conn:
        conn.sendall(head.encode() + body)
        agents.gate.begins()
    agents.gate.open.set()
    until(lambda: agents.call("ListTasks", {"status": "TASK_STATE_COMPLETED"})["totalSize"] == 1)


def test_a_full_agent_says_503_and_leaves_nothing_on_the_board(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path, concurrency=1) as agents:
        agents.send("wait", at_once=True)
        agents.gate.begins()
        answer = agents.post(shape("SendMessage", {"message": message("hello")}))
        assert (answer.status, answer.json["error"]["code"]) == (503, -32000)
        assert int(answer.headers["retry-after"]) >= 1
        assert agents.rows() == 1


def test_who_would_rather_wait_is_queued_and_says_submitted(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path, concurrency=1) as agents:
        agents.send("wait", at_once=True)
        agents.gate.begins()
        task = agents.send("hello", at_once=True, metadata={"fabric/queue": True})
        assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
        assert task["metadata"]["fabric/status"] == "ready"


def test_a_result_that_is_longer_than_a_note_says_so_and_is_attached_whole(agents: Exchange) -> None:
    task = agents.send("long 300000")
    text, whole = (artifact["parts"][0] for artifact in task["artifacts"])
    assert text["text"].endswith("[… cut here; all 300000 bytes are in result.md …]")
    assert whole["filename"] == "result.md"
    assert base64.b64decode(whole["raw"]) == b"x" * 300_000


def test_a_paused_agent_says_so_and_not_why(agents: Exchange) -> None:
    """G13: a reason is somebody's words, perhaps what a provider said of another caller's task."""
    agents.served.fabric("alice").call(verbs.Pause(name="helper", note="secret plans"))
    answer = until(
        lambda: (
            got if (got := agents.post(shape("SendMessage", {"message": message("hello")}))).status == 503 else None
        ),
        what="the agent is closed",
    )
    assert answer.json["error"]["data"][0]["reason"] == "AGENT_UNAVAILABLE"
    assert "closed is pause" in answer.json["error"]["message"]
    assert b"secret plans" not in answer.body


def test_an_agent_whose_workers_all_say_that_it_cannot_run_here_is_closed(
    database: TestDatabase, tmp_path: Path
) -> None:
    with exchange(database.dsn, tmp_path) as agents:
        house = agents.served.house
        helper = house.credentials.principal("helper")
        assert helper is not None
        report = verbs.Report(instance="helper@box", state="closed", reason="a package is missing")
        house.hallway.call(Caller(principal=helper, via=Via.TOKEN, instance="helper@box"), report)
        answer = until(
            lambda: (
                got if (got := agents.post(shape("SendMessage", {"message": message("hello")}))).status == 503 else None
            ),
            what="the agent is closed",
        )
        assert "closed is worker" in answer.json["error"]["message"]


def test_a_direct_message_leaves_a_closed_record_and_no_task(agents: Exchange) -> None:
    answer = agents.send("message good morning")
    assert (answer["role"], answer["parts"]) == ("ROLE_AGENT", [{"text": "good morning"}])
    assert agents.call("ListTasks", {})["totalSize"] == 0
    with agents.served.house.database.connection() as conn:
        rows = conn.execute("SELECT status, flags, is_active FROM tasks").fetchall()
        ids = conn.execute("SELECT id FROM a2a_tasks").fetchall()
    assert rows == [("record", 256, False)]
    assert agents.code("GetTask", {"id": ids[0][0]}) == -32001


def test_files_come_in_as_attachments_and_go_out_as_artifacts(agents: Exchange) -> None:
    raw = base64.b64encode(b"some bytes").decode()
    parts = [{"text": "file hello"}, {"raw": raw, "filename": "in.txt", "mediaType": "text/plain"}]
    task = agents.send("", parts=parts)
    thread = agents.served.fabric("alice").call(verbs.Show(task=agents.row(task["id"])))
    assert {file.name for file in thread.attachments} == {"in.txt", "result.txt"}
    out = next(
        part for artifact in task["artifacts"] for part in artifact["parts"] if part.get("filename") == "result.txt"
    )
    assert base64.b64decode(out["raw"]) == b"hello"


def carrying(*names: str, data: bytes = b"some bytes", **more: Any) -> dict[str, Any]:
    """A message with these files."""
    raw = base64.b64encode(data).decode()
    return message("", parts=[{"text": "hello"}, *({"raw": raw, "filename": name} for name in names)], **more)


def attached(agents: Exchange, task_id: str) -> list[str]:
    thread = agents.served.fabric("alice").call(verbs.Show(task=agents.row(task_id)))
    return [file.name for file in thread.attachments]


@pytest.mark.parametrize("queued", [False, True])
def test_a_message_whose_files_cannot_be_kept_is_no_task(agents: Exchange, queued: bool) -> None:
    """The row and all its files, or nothing: neither a full disk nor a fault of the database leaves a half."""
    if queued:
        agents.served.fabric("alice").call(verbs.Pause(name="helper"))
        agents.served.app.state.gateway.forget()
    patient: dict[str, Any] = {"metadata": {"fabric/queue": queued}}
    agents.call(
        "SendMessage", {"message": carrying("one.txt", **patient), "configuration": {"returnImmediately": True}}
    )
    before, files = agents.rows(), agents.home / "files"
    files.rename(agents.home / "elsewhere")
    files.write_text("no folder")
    try:
        assert agents.post(shape("SendMessage", {"message": carrying("two.txt", data=b"2", **patient)})).status == 503
    finally:
        files.unlink()
        (agents.home / "elsewhere").rename(files)
    with agents.served.house.database.connection() as conn:
        conn.execute("ALTER TABLE task_has_files ADD CONSTRAINT broken CHECK (name <> 'three.txt')")
    try:
        broken = carrying("good.txt", "three.txt", **patient)
        assert agents.code("SendMessage", {"message": broken}) == -32603
    finally:
        with agents.served.house.database.connection() as conn:
            conn.execute("ALTER TABLE task_has_files DROP CONSTRAINT broken")
    assert agents.rows() == before


def test_a_first_message_that_is_rolled_back_leaves_no_lane_behind_for_the_next(
    database: TestDatabase, tmp_path: Path
) -> None:
    with exchange(database.dsn, tmp_path) as agents:
        with agents.served.house.database.connection() as conn:
            conn.execute("ALTER TABLE task_has_files ADD CONSTRAINT broken CHECK (name <> 'bad.txt')")
        assert agents.code("SendMessage", {"message": carrying("bad.txt")}) == -32603
        task = agents.send("hello there")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert agents.served.fabric("alice").call(verbs.Show(task=agents.row(task["id"]))).task.status == "done"


def test_files_of_an_answer_are_attached_as_well(agents: Exchange) -> None:
    task = agents.send("ask which one?")
    agents.call("SendMessage", {"message": carrying("this.txt", taskId=task["id"])})
    assert attached(agents, task["id"]) == ["this.txt"]


def test_a_file_beyond_the_limit_is_refused_before_anything_is_done(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path, limits__attachment="10KiB") as agents:
        asking = agents.send("ask which one?")["id"]
        for more in ({}, {"taskId": asking}):
            large = carrying("small.txt", **more)
            large["parts"] += carrying("large.txt", data=b"x" * 10_241)["parts"][1:]
            assert agents.code("SendMessage", {"message": large}) == -32602
        assert (agents.rows(), agents.state(asking), attached(agents, asking)) == (1, "INPUT_REQUIRED", [])
        task = agents.call("SendMessage", {"message": carrying("fits.txt", data=b"x" * 10_240)})["task"]
        assert attached(agents, task["id"]) == ["fits.txt"]


# -- how it ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "state", "status"),
    [
        ("hello", "COMPLETED", "done"),
        ("refuse this", "REJECTED", "rejected"),
        ("fail now", "FAILED", "dead"),
        ("nothing", "FAILED", "dead"),
        ("ask why?", "INPUT_REQUIRED", "waiting"),
        ("login", "AUTH_REQUIRED", "waiting"),
    ],
)
def test_every_end_of_a_run_has_its_state(agents: Exchange, text: str, state: str, status: str) -> None:
    """D12 among them: a run that ends without an outcome ends its task."""
    task = agents.send(text)
    assert task["status"]["state"] == f"TASK_STATE_{state}"
    assert task["metadata"]["fabric/status"] == status


def test_what_an_agent_raises_stays_in_the_log(agents: Exchange) -> None:
    """D4: no word of the exception gets out, only a number to look for."""
    answer = agents.post(shape("SendMessage", {"message": message("raise password=swordfish")}))
    task = answer.json["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "incident" in task["status"]["message"]["parts"][0]["text"]
    assert b"swordfish" not in answer.body.replace(b"raise password=swordfish", b"")


def test_a_question_is_answered_by_a_message_and_the_context_is_known(agents: Exchange) -> None:
    """D1: follow-ups that name only the task, twice."""
    task = agents.send("ask one?")
    again = agents.send("ask two?", taskId=task["id"])
    done = agents.send("fine", taskId=task["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert {task["contextId"], again["contextId"], done["contextId"]} == {task["contextId"]}
    assert [m["parts"][0]["text"] for m in done["history"]] == ["ask one?", "ask two?", "fine"]
    assert {m["contextId"] for m in done["history"]} == {task["contextId"]}
    assert [job.fence.epoch for job in agents.gate.begun] == [1, 2, 3]


def test_a_persons_answer_on_the_board_reaches_the_agent_and_the_history(agents: Exchange) -> None:
    task = agents.send("ask one?")
    fabric = agents.served.fabric("alice")
    fabric.call(verbs.Answer(task=agents.row(task["id"]), note="wait for me"))
    seen = agents.becomes(task["id"], "WORKING")
    assert seen["history"][-1]["parts"] == [{"text": "wait for me"}]
    assert seen["history"][-1]["metadata"] == {"author": "alice"}
    assert agents.code("SendMessage", {"message": message("too late", taskId=task["id"])}) == -32004


def test_a_message_to_a_task_that_has_not_begun_is_refused_as_that(agents: Exchange) -> None:
    agents.served.fabric("alice").call(verbs.Pause(name="helper"))
    agents.served.app.state.gateway.forget()
    task = agents.send("hello", at_once=True, metadata={"fabric/queue": True})
    error = agents.post(shape("SendMessage", {"message": message("more", taskId=task["id"])})).json["error"]
    assert (error["code"], error["message"]) == (-32004, "that task has not begun yet")
    agents.served.fabric("alice").call(verbs.Resume(name="helper"))
    agents.served.app.state.gateway.forget()


def test_a_message_to_a_working_task_is_refused_and_changes_nothing(agents: Exchange) -> None:
    """D2: never lost silently, never after the end."""
    task = agents.send("wait", at_once=True)
    agents.gate.begins()
    for _ in range(3):
        assert agents.code("SendMessage", {"message": message("more", taskId=task["id"])}) == -32004
    agents.gate.open.set()
    done = agents.becomes(task["id"], "COMPLETED")
    assert len(done["history"]) == 1


def test_nothing_is_said_to_a_task_that_has_ended(agents: Exchange) -> None:
    """Many sends to a completed task: all refused, no residue, and a new task right after works."""
    task = agents.send("hello")
    threads: list[threading.Thread] = []
    codes: list[int] = []
    for _ in range(20):
        one = threading.Thread(
            target=lambda: codes.append(agents.code("SendMessage", {"message": message("more", taskId=task["id"])}))
        )
        one.start()
        threads.append(one)
    for one in threads:
        one.join(30)
    assert codes == [-32004] * 20
    assert agents.get(task["id"]) == task
    assert agents.send("next", contextId=task["contextId"])["contextId"] == task["contextId"]
    assert agents.rows() == 2


def test_a_message_of_another_context_is_refused(agents: Exchange) -> None:
    task = agents.send("ask one?")
    assert agents.code("SendMessage", {"message": message("x", taskId=task["id"], contextId="other")}) == -32602
    assert agents.state(task["id"]) == "INPUT_REQUIRED"


# -- cancelling ------------------------------------------------------------------------------------------


def test_a_cancel_ends_the_run_and_whoever_waits_for_it(agents: Exchange) -> None:
    got: list[Any] = []
    sender = threading.Thread(target=lambda: got.append(agents.send("wait")))
    sender.start()
    agents.gate.begins()
    listed = agents.call("ListTasks", {"status": "TASK_STATE_WORKING"})["tasks"]
    cancelled = agents.call("CancelTask", {"id": listed[0]["id"]})
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    sender.join(20)
    assert got[0]["status"]["state"] == "TASK_STATE_CANCELED"
    until(lambda: agents.gate.stopped == ["cancelled"], what="the run is told")
    assert agents.code("CancelTask", {"id": listed[0]["id"]}) == -32002


def test_a_cancel_on_the_board_ends_the_run_too(agents: Exchange) -> None:
    """G8: the loss of the lease is told to the run."""
    task = agents.send("wait", at_once=True)
    agents.gate.begins()
    agents.served.fabric("alice").call(verbs.Cancel(task=agents.row(task["id"]), note="no"))
    assert agents.state(task["id"]) == "CANCELED"
    until(lambda: agents.gate.stopped, what="the run is told")


# -- reopening -------------------------------------------------------------------------------------------


def test_a_verified_result_is_shown_and_changes_no_state(agents: Exchange) -> None:
    task = agents.send("hello")
    agents.served.fabric("alice").call(verbs.Verify(task=agents.row(task["id"]), note="good"))
    seen = agents.get(task["id"])
    assert seen["metadata"]["fabric/verification"] == "passed"
    assert seen["status"] == task["status"]


def test_a_reopened_row_is_a_new_task_in_the_same_context(agents: Exchange) -> None:
    """A terminal state is final: the old id keeps it."""
    task = agents.send("hello")
    agents.served.fabric("alice").call(verbs.Pause(name="helper"))
    agents.served.app.state.gateway.forget()
    agents.served.fabric("alice").call(verbs.Reject(task=agents.row(task["id"]), note="do it again"))
    old = agents.get(task["id"])
    assert (old["status"], old["artifacts"]) == (task["status"], task["artifacts"])
    assert old["metadata"] == {"fabric/status": "reopened", "fabric/verification": "failed"}
    new = next(t for t in agents.call("ListTasks", {"contextId": task["contextId"]})["tasks"] if t["id"] != task["id"])
    assert new["metadata"]["fabric/follows"] == task["id"]
    assert new["status"]["state"] == "TASK_STATE_WORKING"
    assert agents.code("CancelTask", {"id": task["id"]}) == -32002


# -- leases and the end of the server ------------------------------------------------------------------------


def test_a_late_end_of_a_run_changes_nothing(agents: Exchange) -> None:
    """G3: the lease was taken back while the run went on; its finish is refused and kept."""
    task = agents.send("wait", at_once=True)
    job = agents.gate.begins()
    agents.served.fabric("alice").call(verbs.Cancel(task=job.task.id, note="no"))
    until(lambda: agents.gate.stopped, what="the run is told")
    assert agents.state(task["id"]) == "CANCELED"


def test_a_server_that_stops_gives_back_what_it_was_working_on(database: TestDatabase, tmp_path: Path) -> None:
    """G9: the attempt is refunded, and the task is there for the agent's worker."""
    with exchange(database.dsn, tmp_path) as agents:
        task = agents.send("wait", at_once=True)
        agents.gate.begins()
        row = agents.row(task["id"])
    with database.connect() as conn:
        found = conn.execute("SELECT status, attempts, epoch FROM tasks WHERE id = %s", (row,)).fetchone()
    assert found == ("ready", 0, 1)


def test_an_agent_that_is_not_there_is_like_one_that_may_not_be_called(agents: Exchange) -> None:
    """G13: same status, same bytes."""
    hire(agents.served, agents.home, "other")
    body = shape("SendMessage", {"message": message("hello")})
    missing = agents.post(body, agent="nobody", name="qwen")
    forbidden = agents.post(body, agent="other", name="qwen")
    assert (missing.status, missing.body) == (forbidden.status, forbidden.body)
    assert missing.status == 404


# -- the mapping -------------------------------------------------------------------------------------------


def test_the_database_names_every_state_as_the_domain_does(agents: Exchange) -> None:
    """One total function, twice: over every status, every mix of flags that it looks at, begun or not."""
    asked = [(status, flags, epoch) for status in Status for flags in range(8) for epoch in (0, 3)]
    with agents.served.house.database.connection() as conn:
        for status, flags, epoch in asked:
            row = conn.execute("SELECT fabric_a2a_state(%s, %s, %s)", (status.value, flags, epoch)).fetchone()
            assert row is not None
            assert row[0] == a2a_state(status, Flag(flags), claimed_before=epoch > 0), (status, flags, epoch)
