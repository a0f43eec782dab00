"""While the database is away: whoever waits is told so, and does not wait for his time to run out (G14)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from taskfabric.domain.errors import Unavailable
from taskfabric.domain.principal import Caller
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from tests.integration.serving import Served, serving


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    often = timedelta(milliseconds=100)
    with serving(database.dsn, tmp_path, board__poll_interval=often, board__idle_backoff=often) as running:
        yield running


def until(condition: Callable[[], bool]) -> None:
    """Returns when it is so; it is within moments."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiter(served: Served) -> socket.socket:
    """A client that has asked to wait for fifty seconds, and the server knows it."""
    sock = socket.create_connection(("127.0.0.1", served.port), timeout=20)
    body = b'{"jsonrpc":"2.0","id":1,"method":"fabric.wait","params":{"timeout":50}}'
    head = f"POST /jsonrpc.php HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.tokens['kimi']}\r\n"
    sock.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    until(lambda: len(served.app.state.edge.room) == 1)
    return sock


def test_who_waits_already_is_told_that_the_board_went_away(served: Served) -> None:
    """G14"""
    with closing(waiter(served)) as sock:
        begun = time.monotonic()
        served.house.database.close()
        answer = sock.recv(65536)
    assert time.monotonic() - begun < 20
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in answer.lower()
    assert b'"name":"unavailable"' in answer


def test_who_begins_to_wait_is_told_at_once(served: Served) -> None:
    """G14"""
    served.call("fabric.hello", name="kimi")
    served.house.database.close()
    call = {"jsonrpc": "2.0", "id": 1, "method": "fabric.wait", "params": {"timeout": 50}}
    assert served.rpc(call, name="kimi").status == 503


def test_one_broken_look_ends_no_wait(served: Served) -> None:
    """A connection that breaks is not yet a board that is away."""
    room = served.app.state.edge.room
    look, failed = room.look, []

    def breaks(caller: Caller, verb: verbs.Wait) -> verbs.Awaited | None:
        room.look = look
        failed.append(verb)
        raise Unavailable("the database went away", sent=True)

    with closing(waiter(served)) as sock:
        room.look = breaks
        until(lambda: bool(failed))
        served.fabric("alice").call(verbs.Submit(title="x"))
        answer = sock.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"happened":true' in answer
