"""What others reported of their A2A servers and what was found in the SDK's engine, each replayed here or elsewhere.

=============================================  ===================================================================
report                                         replayed by
=============================================  ===================================================================
a2a-python #1206, PR #1208; D1                 test_a2a::test_a_question_is_answered_by_a_message_and_…
a2a-python #1232; D4                           here; test_a2a::test_what_an_agent_raises_stays_in_the_log;
                                               test_a2a_refusals "a long context"
a2a-python #1136, #1137                        here; at full size in ``tests/bench`` (crowd)
a2a-python #786, PR #1164; a2a-go #373;        unit/test_egress; test_push::test_an_address_is_judged_again_…;
a2a-js #584                                    test_a2a_push::test_an_address_that_must_not_be_called_…
a2a-rs #124                                    test_a2a_push::test_a_secret_with_a_line_break_is_refused,
                                               test_ten_configs_and_no_more
a2a-python #1237, PR #1236; a2a-js PR #543     test_a2a_push::test_two_configs_without_an_id_are_two,
                                               test_secrets_come_back_masked_in_every_answer
a2a-python PR #1179                            here; test_a2a::test_nothing_is_said_to_a_task_that_has_ended
a2a-python #1159, #1172; a2a-java PR #1005     test_a2a_auth::test_a_foreign_task_is_like_one_that_does_not_exist,
                                               test_a_foreign_task_cannot_be_referred_to; test_a2a_push
A2A #928, #1893, #1987, PR #939                test_a2a::test_a_key_makes_one_task_and_a_later_call_attaches_to_it,
                                               test_a_message_id_alone_never_makes_two_calls_one
A2A #1992, #1027, #1022; D2                    test_a2a::test_a_message_to_a_working_task_is_refused_and_…
a2a-python #296, #464, PR #472                 here; test_a2a::test_whoever_hangs_up_does_not_stop_the_work
a2a-python PR #952                             test_a2a::test_a_send_that_returns_at_once_does_not_wait_…
a2a-python #856, #865; a2a-rs #281             test_a2a_refusals::test_only_version_1_0_is_spoken
D3, D7, D10, D11                               test_a2a_refusals (each body names its defect)
D5                                             test_a2a_push::test_a_receiver_that_hangs_stalls_no_send
D6                                             ``tests/bench`` (crowd): memory for each parked task
D8, D9                                         test_a2a_refusals::test_a_body_beyond_the_limit_…,
                                               test_a_notification_is_not_carried_out_and_gets_no_body
D12                                            test_a2a::test_every_end_of_a_run_has_its_state ("nothing")
=============================================  ===================================================================
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from taskfabric.surfaces import app
from taskfabric.surfaces.a2a import streams
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


@contextlib.contextmanager
def unread(agents: Exchange, method: str, params: object, **headers: str) -> Iterator[socket.socket]:
    """A stream whose reader takes nothing but its first bytes."""
    body = orjson.dumps(shape(method, params))
    lines = [
        "POST /agents/helper HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {agents.served.tokens['alice']}",
        "A2A-Version: 1.0",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    with socket.socket() as conn:
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        conn.settimeout(20)
        conn.connect(("127.0.0.1", agents.served.port))
        conn.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        assert conn.recv(15) == b"HTTP/1.1 200 OK"
        yield conn


@pytest.mark.parametrize("length", [36, 45, 128])
def test_a_context_of_any_length_that_is_allowed_is_kept_as_it_was_said(agents: Exchange, length: int) -> None:
    context = "c" * length
    task = agents.send("hello", contextId=context)
    assert agents.get(task["id"])["contextId"] == context


def test_a_stream_that_is_cut_after_its_first_event_does_not_end_the_run(agents: Exchange) -> None:
    with agents.stream("SendStreamingMessage", {"message": message("wait")}) as events:
        task = next(events)[1]["task"]
    agents.gate.open.set()
    done = agents.becomes(task["id"], "COMPLETED")
    assert agents.served.house.board.get(agents.row(task["id"]), None).note == "waited"
    assert done["artifacts"][0]["parts"] == [{"text": "waited"}]


def test_readers_that_never_read_are_dropped_and_nobody_else(
    database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their place is free again, their task untouched, and whoever reads the same one gets all of it."""
    monkeypatch.setattr(streams, "_SLOW", 0.5)
    with exchange(database.dsn, tmp_path, a2a__streams=3) as agents, contextlib.ExitStack() as open_ones:
        task = agents.send(f"large {4 << 20}", at_once=True)
        agents.becomes(task["id"], "COMPLETED")
        resume = {"Last-Event-ID": "2"}
        for _ in range(3):
            open_ones.enter_context(unread(agents, "SubscribeToTask", {"id": task["id"]}, **resume))
        place = until(
            lambda: (
                got
                if (got := agents.post(shape("SubscribeToTask", {"id": task["id"]}), headers=resume)).status == 200
                else None
            ),
            what="there is a place again",
        )
        assert len(place.body) > 4 << 20
        assert agents.state(task["id"]) == "COMPLETED"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's list of connections")
def test_what_nobody_reads_is_not_kept_for_ever(
    database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is still there and takes nothing: the system lets go of the connection, and of what was to be sent."""
    monkeypatch.setattr(app, "_UNREAD", 500)
    monkeypatch.setattr(streams, "_SLOW", 0.5)
    with exchange(database.dsn, tmp_path) as agents:
        task = agents.send(f"large {4 << 20}", at_once=True)
        agents.becomes(task["id"], "COMPLETED")
        with unread(agents, "SubscribeToTask", {"id": task["id"]}, **{"Last-Event-ID": "2"}):
            until(lambda: unsent(agents.served.port), what="something is left")
            until(lambda: not unsent(agents.served.port), what="nothing is left to be sent")


def unsent(port: int) -> list[str]:
    """The connections of this server with bytes that nobody has taken."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [
        to for _, at, to, _, queues, *_ in lines if at.endswith(f":{port:04X}") and not queues.startswith("00000000:")
    ]


def test_200_sends_at_once_leave_the_card_quick(agents: Exchange) -> None:
    """The bound is on the middle of many, for the machine may be busy: the card never waits for the senders."""
    tasks: list[str] = []

    def sends() -> None:
        for _ in range(25):
            with contextlib.suppress(AssertionError):  # 503 beyond the agent's places is an answer, too
                tasks.append(agents.send("hello", at_once=True)["id"])

    threads = [threading.Thread(target=sends) for _ in range(8)]
    for one in threads:
        one.start()
    took: list[float] = []
    while any(one.is_alive() for one in threads):
        began = time.perf_counter()
        assert agents.served.request("GET", "/agents/helper/.well-known/agent-card.json", name=None).status == 200
        took.append(time.perf_counter() - began)
    assert sorted(took)[len(took) // 2] < 0.25
    until(lambda: not agents.served.app.state.gateway.runs.crew.busy, what="runs end")
    assert len(tasks) == len(set(tasks)) > 0
    assert {agents.state(one) for one in tasks[:: max(1, len(tasks) // 10)]} == {"COMPLETED"}


def test_many_sends_to_a_task_that_has_ended_leave_nothing_behind(agents: Exchange) -> None:
    task = agents.send("hello")
    codes: list[int] = []

    def sends() -> None:
        for _ in range(25):
            codes.append(agents.code("SendMessage", {"message": message("more", taskId=task["id"])}))

    threads = [threading.Thread(target=sends) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert codes == [-32004] * 100
    assert (agents.rows(), agents.get(task["id"])) == (1, task)
    assert agents.send("next")["status"]["state"] == "TASK_STATE_COMPLETED"
