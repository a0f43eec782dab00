"""The signal: heard here at once, elsewhere by NOTIFY, and never often enough to cost the database its commits."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from taskfabric.domain.outcome import Done, WaitingOnChildren
from taskfabric.domain.queue import QueueKind
from taskfabric.ports.signal import Change
from taskfabric.stores.signal import CHANNEL, Buckets, Bus, payload
from taskfabric.testing import TestDatabase
from tests.integration.conftest import Rig


@pytest.fixture
def bus(database: TestDatabase) -> Iterator[Bus]:
    made = Bus(database.dsn)
    yield made
    made.close()


def listened(bus: Bus) -> queue.SimpleQueue[Change]:
    """What a subscriber hears, once the bus listens: its first word is that anything may have changed."""
    heard: queue.SimpleQueue[Change] = queue.SimpleQueue()
    bus.subscribe(heard.put)
    assert heard.get(timeout=10) == Change()
    return heard


def test_a_subscriber_of_this_process_hears_a_change_before_publish_returns(bus: Bus) -> None:
    heard: list[Change] = []
    bus.subscribe(heard.append)
    bus.publish(Change(task_id=12))
    assert Change(task_id=12) in heard


def test_a_process_that_begins_to_listen_is_told_that_anything_may_have_changed(bus: Bus) -> None:
    listened(bus)
    assert bus.listening


def test_ready_work_of_another_process_is_heard(bus: Bus, database: TestDatabase) -> None:
    heard = listened(bus)
    database.connect().execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload(7)))
    assert heard.get(timeout=10) == Change(project_id=7)


def test_a_foreign_payload_is_no_change(bus: Bus, database: TestDatabase) -> None:
    heard = listened(bus)
    conn = database.connect()
    for text in ("", "q:", "q:-1", "q:99999999999", "t:5", "x" * 7000):
        conn.execute("SELECT pg_notify(%s, %s)", (CHANNEL, text))
    conn.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload(1)))
    assert heard.get(timeout=10) == Change(project_id=1)


def test_a_lost_connection_is_made_again_and_anything_may_have_changed(bus: Bus, database: TestDatabase) -> None:
    heard = listened(bus)
    database.connect().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fabric listener'"
        " AND datname = current_database()"
    )
    assert heard.get(timeout=10) == Change()


def test_one_deaf_subscriber_costs_the_others_nothing(bus: Bus) -> None:
    heard: list[Change] = []

    def deaf(change: Change) -> None:
        raise RuntimeError("deaf")

    bus.subscribe(deaf)
    bus.subscribe(heard.append)
    bus.publish(Change(project_id=1))
    assert Change(project_id=1) in heard


def test_nobody_hears_after_unsubscribing(bus: Bus) -> None:
    heard: list[Change] = []
    bus.subscribe(heard.append)()
    bus.publish(Change(project_id=1))
    assert Change(project_id=1) not in heard


def test_a_flood_notifies_twenty_times_and_then_twenty_times_a_second() -> None:
    now = [100.0]
    buckets = Buckets(per_second=20, clock=lambda: now[0])
    assert sum(buckets.take(1) for _ in range(1000)) == 20
    now[0] += 0.5
    assert sum(buckets.take(1) for _ in range(1000)) == 10


def test_an_idle_queue_may_always_notify_whatever_others_do() -> None:
    buckets = Buckets(per_second=20, clock=lambda: 100.0)
    assert sum(buckets.take(1) for _ in range(1000)) == 20
    assert buckets.take(2)


def test_the_buckets_of_many_queues_take_a_bounded_memory() -> None:
    buckets = Buckets(per_second=2, clock=lambda: 100.0)
    for key in range(25_000):
        assert buckets.take(key)
    assert len(buckets._left) <= 10_000


def test_an_end_that_frees_a_task_of_another_queue_wakes_those_who_wait_there(rig: Rig) -> None:
    """G6: in another process as well, and not only at the next poll."""
    errands, _ = rig.projects.make_queue("errands", QueueKind.POOL, rig.people["alice"])
    blocker = rig.submit("first")
    rig.submit("then", project_id=errands.project_id, after=(blocker.id,))
    parent = rig.submit("a parent", project_id=errands.project_id)
    child = rig.submit("its child", parent=parent.id)
    rig.board.settle(rig.claimed(want=rig.want(errands)).fence, WaitingOnChildren(), rig.people["kimi"])
    other = Bus(rig.test_database.dsn)
    try:
        heard = listened(other)
        for _ in (blocker, child):
            rig.board.settle(rig.claimed().fence, Done(note="did it"), rig.people["kimi"])
            assert heard.get(timeout=10) == Change(project_id=errands.project_id)
    finally:
        other.close()
