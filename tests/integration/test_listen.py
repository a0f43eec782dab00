"""Listening: what is announced arrives, what may have been missed is said, and it always comes back."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from taskfabric.db.embedded import Cluster
from taskfabric.db.listen import Listener
from taskfabric.testing import Relay, TestDatabase

MakeCluster = Callable[..., Cluster]
PATIENCE = 20.0  # seconds before a test gives up; nothing here takes that long


class Heard:
    """What a listener called, in order: a payload, or None for a gap."""

    def __init__(self) -> None:
        self.calls: queue.Queue[str | None] = queue.Queue()

    def on_notify(self, payload: str) -> None:
        self.calls.put(payload)

    def on_gap(self) -> None:
        self.calls.put(None)

    def next(self) -> str | None:
        return self.calls.get(timeout=PATIENCE)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def listening(database: TestDatabase, heard: Heard) -> Iterator[Listener]:
    listener = Listener(database.dsn, "work", heard.on_notify, heard.on_gap)
    listener.start()
    assert heard.next() is None
    yield listener
    listener.stop()


def test_it_says_that_something_may_be_missing_as_soon_as_it_listens(listening: Listener) -> None:
    state = listening.state()
    assert state.listening
    assert state.connections == 1
    assert state.error is None


def test_what_is_announced_arrives_in_order(listening: Listener, heard: Heard, database: TestDatabase) -> None:
    conn = database.connect()
    for number in range(50):
        conn.execute("SELECT pg_notify('work', %s)", (str(number),))
    assert [heard.next() for _ in range(50)] == [str(number) for number in range(50)]


def test_other_channels_are_not_heard(listening: Listener, heard: Heard, database: TestDatabase) -> None:
    database.connect().execute("NOTIFY other; NOTIFY work, 'mine'")
    assert heard.next() == "mine"


def test_a_channel_may_have_any_name(database: TestDatabase, heard: Heard) -> None:
    listener = Listener(database.dsn, 'Odd "name"', heard.on_notify, heard.on_gap)
    listener.start()
    assert heard.next() is None
    database.connect().execute("SELECT pg_notify(%s, 'x')", ('Odd "name"',))
    assert heard.next() == "x"
    listener.stop()


def test_a_terminated_connection_comes_back_and_says_so(
    listening: Listener, heard: Heard, database: TestDatabase
) -> None:
    conn = database.connect()
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fabric listener'"
        " AND datname = current_database()"
    )
    assert heard.next() is None
    conn.execute("NOTIFY work, 'again'")
    assert heard.next() == "again"
    assert listening.state().connections == 2


def test_a_callback_that_fails_does_not_make_it_deaf(
    database: TestDatabase, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_once(payload: str) -> None:
        heard.on_notify(payload)
        if payload == "bad":
            raise KeyError(payload)

    listener = Listener(database.dsn, "work", fail_once, heard.on_gap)
    listener.start()
    assert heard.next() is None
    database.connect().execute("NOTIFY work, 'bad'; NOTIFY work, 'good'")
    assert [heard.next(), heard.next()] == ["bad", "good"]
    listener.stop()
    assert "listener callback failed" in caplog.text


def test_stopping_is_prompt_while_it_listens_and_while_nobody_is_there(database: TestDatabase, heard: Heard) -> None:
    nobody = Listener("host=127.0.0.1 port=1 dbname=none user=nobody", "work", heard.on_notify, heard.on_gap)
    somebody = Listener(database.dsn, "work", heard.on_notify, heard.on_gap)
    for listener in (nobody, somebody):
        listener.start()
    assert heard.next() is None
    began = time.monotonic()
    for listener in (nobody, somebody):
        listener.stop()
        assert not listener.state().listening
    assert time.monotonic() - began < 2


def test_stopping_is_prompt_while_a_connection_hangs(database: TestDatabase, heard: Heard) -> None:
    with Relay.to_database(database.dsn) as relay:
        relay.stall()
        listener = Listener(relay.dsn(database.dsn), "work", heard.on_notify, heard.on_gap, patience=PATIENCE)
        listener.start()
        began = time.monotonic()
        listener.stop()
        assert time.monotonic() - began < 2


def test_a_half_open_connection_is_noticed_and_replaced(database: TestDatabase, heard: Heard) -> None:
    """A network that forwards nothing and closes nothing is noticed by asking."""
    with Relay.to_database(database.dsn) as relay:
        listener = Listener(
            relay.dsn(database.dsn), "work", heard.on_notify, heard.on_gap, probe_every=0.1, patience=0.2
        )
        listener.start()
        assert heard.next() is None
        relay.stall()
        deadline = time.monotonic() + PATIENCE
        while listener.state().listening:
            assert time.monotonic() < deadline
        relay.forward()
        assert heard.next() is None
        database.connect().execute("NOTIFY work, 'here'")
        assert heard.next() == "here"
        listener.stop()


def test_a_cut_connection_comes_back(database: TestDatabase, heard: Heard) -> None:
    with Relay.to_database(database.dsn) as relay:
        listener = Listener(relay.dsn(database.dsn), "work", heard.on_notify, heard.on_gap)
        listener.start()
        assert heard.next() is None
        relay.cut()
        assert heard.next() is None
        listener.stop()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarted_database_is_heard_again(own_cluster: MakeCluster, heard: Heard, mode: str) -> None:
    cluster = own_cluster()
    dsn = cluster.start()
    listener = Listener(dsn, "work", heard.on_notify, heard.on_gap)
    listener.start()
    assert heard.next() is None
    cluster.restart("immediate" if mode == "immediate" else "fast")
    assert heard.next() is None
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("NOTIFY work, 'back'")
    assert heard.next() == "back"
    listener.stop()
