"""The test kit itself: what other tests rely on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from taskfabric.domain.errors import BadInput
from taskfabric.testing import Relay, TestDatabase, TestServer

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_a_set_clock_stands_still_for_every_session(database: TestDatabase) -> None:
    database.clock.set(NOON)
    with database.connect() as other:
        assert other.execute("SELECT fabric_now()").fetchone() == (NOON,)
    assert database.clock.now() == NOON


def test_an_advanced_clock_has_moved_by_exactly_that_much(database: TestDatabase) -> None:
    database.clock.set(NOON)
    assert database.clock.advance(timedelta(minutes=11)) == NOON + timedelta(minutes=11)


def test_an_unset_clock_shows_the_real_time(database: TestDatabase) -> None:
    row = database.connect().execute("SELECT fabric_now() = statement_timestamp()").fetchone()
    assert row == (True,)


def test_a_clock_that_runs_again_shows_the_real_time(database: TestDatabase) -> None:
    database.clock.set(NOON)
    database.clock.run()
    assert database.connect().execute("SELECT fabric_now() = statement_timestamp()").fetchone() == (True,)


def test_a_naive_instant_is_refused(database: TestDatabase) -> None:
    with pytest.raises(BadInput):
        database.clock.set(datetime(2026, 11, 30, 12, 0))  # noqa: DTZ001 - the point of the test


def test_two_databases_share_nothing(server: TestServer) -> None:
    with server.database() as one, server.database() as two:
        one.clock.set(NOON)
        assert two.clock.now() != NOON
        assert one.dsn != two.dsn


def test_a_database_is_gone_after_its_test(server: TestServer) -> None:
    with server.database() as database:
        name = database.connect().info.dbname
    with server.database() as other:
        assert other.connect().execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None


def test_the_role_of_the_product_has_no_power_over_the_server(database: TestDatabase) -> None:
    row = (
        database.connect()
        .execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication FROM pg_roles WHERE rolname = current_user"
        )
        .fetchone()
    )
    assert row == (False, False, False, False)


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    door = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while data := client.recv(4096):
                client.sendall(data)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(door.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    yield door.getsockname()
    door.shutdown(socket.SHUT_RDWR)
    door.close()
    thread.join()


def client_of(relay: Relay) -> socket.socket:
    client = socket.create_connection((relay.host, relay.port))
    client.settimeout(10)
    return client


def test_a_relay_passes_bytes_both_ways(echo: tuple[str, int]) -> None:
    with Relay(echo) as relay, client_of(relay) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_a_stalled_relay_closes_nothing_and_delivers_later(echo: tuple[str, int]) -> None:
    with Relay(echo) as relay, client_of(relay) as client:
        client.sendall(b"before")
        assert client.recv(100) == b"before"
        relay.stall()
        client.sendall(b"after")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(100)
        relay.forward()
        client.settimeout(10)
        assert client.recv(100) == b"after"


def test_a_relay_that_lost_answers_cuts_that_connection_when_it_forwards_again(echo: tuple[str, int]) -> None:
    with Relay(echo) as relay, client_of(relay) as client:
        relay.drop_replies()
        client.sendall(b"lost")
        while relay.swallowed < len(b"lost"):
            pass
        relay.forward()
        assert client.recv(100) == b""


def test_a_cut_relay_welcomes_the_next_connection(echo: tuple[str, int]) -> None:
    with Relay(echo) as relay, client_of(relay) as client:
        client.sendall(b"x")
        assert client.recv(100) == b"x"
        relay.cut()
        assert client.recv(100) == b""
        with client_of(relay) as again:
            again.sendall(b"y")
            assert again.recv(100) == b"y"
