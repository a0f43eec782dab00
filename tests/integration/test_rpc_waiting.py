"""Waiting holds no thread: hundreds may wait, renewals go on, and a stop of the server ends every wait and stream."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.errors import NotAuthenticated
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from taskfabric.testing import TestDatabase
from taskfabric.wiring import SYSTEM
from tests.integration.serving import Served, serving

# So long that only the signal can have brought an answer.
NEVER = timedelta(minutes=10)


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    with serving(database.dsn, tmp_path, board__poll_interval=NEVER, board__idle_backoff=NEVER) as running:
        yield running


@pytest.fixture
def polling(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    half = timedelta(milliseconds=100)
    with serving(database.dsn, tmp_path, board__poll_interval=half, board__idle_backoff=half) as running:
        yield running


class Aside:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._result = self._call()

    def result(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self._result


def until(condition: Callable[[], bool]) -> None:
    """Returns when it is so; it is within moments."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def waiting(served: Served, number: int = 1) -> None:
    until(lambda: len(served.app.state.edge.room) == number)


def test_a_waiter_for_work_is_woken_by_a_submission(served: Served) -> None:
    waiter = Aside(lambda: served.fabric("kimi").call(verbs.Wait(timeout=30)))
    waiting(served)
    served.fabric("alice").call(verbs.Submit(title="x"))
    assert waiter.result().happened


def test_a_waiter_for_a_task_is_woken_by_its_end_and_gets_the_task(served: Served) -> None:
    alice, kimi = served.fabric("alice"), served.fabric("kimi")
    task = alice.call(verbs.Submit(title="x", to="kimi")).task
    waiter = Aside(lambda: served.fabric("alice").call(verbs.Wait(task=task.id, timeout=30)))
    waiting(served)
    [claimed] = kimi.call(verbs.Claim())
    kimi.call(verbs.Done(fence=FenceArg.of(claimed.fence), note="ready"))
    assert waiter.result().task.note == "ready"


def test_work_that_is_there_is_told_at_once_and_nobody_waits(served: Served) -> None:
    served.fabric("alice").call(verbs.Submit(title="x"))
    assert served.fabric("kimi").call(verbs.Wait(timeout=30)).happened


def test_a_wait_runs_out_and_says_so(served: Served) -> None:
    assert not served.fabric("kimi").call(verbs.Wait(timeout=0.05)).happened
    assert not served.fabric("kimi").call(verbs.Wait(timeout=0)).happened
    assert len(served.app.state.edge.room) == 0


def test_work_that_nobody_announced_is_found_within_the_interval(polling: Served, database: TestDatabase) -> None:
    """G6: a notification that is lost costs a poll."""
    later = database.clock.now() + timedelta(hours=1)
    polling.fabric("alice").call(verbs.Submit(title="x", to="kimi", not_before=later))
    waiter = Aside(lambda: polling.fabric("kimi").call(verbs.Wait(timeout=30)))
    waiting(polling)
    database.clock.set(later)
    assert waiter.result().happened


def test_work_that_one_may_not_see_wakes_nobody(served: Served) -> None:
    """G13: not even the waking tells of another's inbox."""
    answer = served.call("fabric.wait", {"queue": "alice", "timeout": 0.05}, name="kimi")
    missing = served.call("fabric.wait", {"queue": "nowhere", "timeout": 0.05}, name="kimi")
    assert answer == missing
    assert answer["error"]["data"]["name"] == "not-found"


def test_a_client_that_goes_away_waits_no_longer(served: Served) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"fabric.wait","params":{"timeout":50}}'
    with socket.create_connection(("127.0.0.1", served.port)) as sock:
        head = f"POST /jsonrpc.php HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.tokens['kimi']}\r\n"
        sock.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        waiting(served)
    waiting(served, 0)


def test_a_wait_in_a_batch_keeps_its_place(served: Served) -> None:
    wait = verbs.Wait(timeout=0.05)
    first, second, third = served.fabric("kimi").call_many([verbs.ListQueues(), wait, verbs.Doctor()])
    assert second == verbs.Awaited(happened=False)
    assert isinstance(first, list)
    assert isinstance(third, list)


def test_equal_waits_are_one_look(served: Served) -> None:
    waiters = [Aside(lambda: served.fabric("kimi").call(verbs.Wait(timeout=30))) for _ in range(5)]
    waiting(served, 5)
    assert len(served.app.state.edge.room._groups) == 1
    served.fabric("alice").call(verbs.Submit(title="x"))
    assert all(waiter.result().happened for waiter in waiters)


def test_hundreds_of_waiters_cost_no_renewal_its_time(polling: Served) -> None:
    """Guarantee of the edge: no thread waits, and renewals have threads of their own."""
    alice, kimi = polling.fabric("alice"), polling.fabric("kimi")
    alice.call(verbs.Submit(title="x", to="kimi"))
    [claimed] = kimi.call(verbs.Claim())
    own = [alice.call(verbs.Submit(title=f"task {n}", to="alice")).task.id for n in range(200)]
    body = '{"jsonrpc":"2.0","id":1,"method":"fabric.wait","params":{"timeout":50,"task":%d}}'
    sockets = []
    try:
        for task in own:
            sock = socket.create_connection(("127.0.0.1", polling.port))
            sockets.append(sock)
            text = body % task
            head = (
                f"POST /jsonrpc.php HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {polling.tokens['alice']}\r\n"
            )
            sock.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        waiting(polling, len(own))
        took = []
        for _ in range(50):
            begun = time.perf_counter()
            kimi.call(verbs.Renew(fences=(FenceArg.of(claimed.fence),)))
            took.append(time.perf_counter() - begun)
    finally:
        for sock in sockets:
            sock.close()
    assert statistics.median(took) < 1.0


def test_a_stop_ends_every_wait_and_stream_within_moments(database: TestDatabase, tmp_path: Path) -> None:
    begun = time.monotonic()
    with serving(database.dsn, tmp_path) as served:
        waiter = Aside(lambda: served.call("fabric.wait", {"timeout": 50}, name="kimi"))
        stream = served.fabric("alice").events("", follow=True)
        next(stream)
        waiting(served)
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    assert waiter.result()["result"]["happened"] is False
    with closing(stream):
        pass


def test_a_revoked_credential_ends_its_streams(served: Served) -> None:
    house = served.house
    principal = house.credentials.principal("qwen")
    assert principal is not None
    stream = served.fabric("qwen").events("", follow=True)
    next(stream)
    house.credentials.revoke_all(principal.id, SYSTEM)
    served.fabric("alice").call(verbs.Submit(title="x"))
    with pytest.raises(NotAuthenticated):
        list(stream)


def test_the_health_page_says_when_the_board_is_away(served: Served) -> None:
    served.house.database.close()
    until(lambda: served.request("GET", "/healthz", name=None).status == 503)
    assert served.request("GET", "/healthz", name=None).json["board"] == "away"


def test_while_the_board_is_away_calls_are_unavailable_and_told_when_to_come_again(served: Served) -> None:
    """G14: refused clearly, nothing is half-done."""
    served.call("fabric.hello")
    served.house.database.close()
    reply = served.rpc({"jsonrpc": "2.0", "id": 1, "method": "fabric.submit", "params": {"title": "x"}})
    assert reply.status == 503
    assert reply.headers["retry-after"] == "1"
    assert reply.json["error"]["data"]["name"] == "unavailable"
