"""Races of submissions, families, hints and the journal's order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from taskfabric.boards.native import submit as submitting
from taskfabric.boards.native.board import FABRIC, NativeBoard
from taskfabric.boards.native.journal import NativeJournal
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import KeyConflict
from taskfabric.domain.journal import Cursor
from taskfabric.domain.outcome import Done, Released
from taskfabric.domain.status import Status
from taskfabric.domain.task import NewTask, Task
from taskfabric.ports.signal import Change
from taskfabric.stores.signal import CHANNEL
from taskfabric.testing import Relay
from tests.chaos.checker import check
from tests.chaos.history import read_board
from tests.integration.conftest import LEASE, Rig
from tests.integration.racing import at_once, beside, row_of, transaction, until_waiting

MINUTE = timedelta(minutes=1)


def keyed(rig: Rig, title: str = "once", body: bytes = b"body") -> NewTask:
    return NewTask(project_id=rig.pool.project_id, title=title, key="k", body_hash=body)


# ---------------------------------------------------------------- keys


def test_one_key_submitted_by_many_at_once_makes_one_task(rig: Rig) -> None:
    """G11."""
    alice = rig.people["alice"]
    got = at_once([lambda: rig.board.submit([keyed(rig)], alice, Limits())[0]] * 6)
    answers = [one for one in got if not isinstance(one, Exception)]
    assert len({one.task.id for one in answers}) == 1
    assert sorted(one.created for one in answers) == [False] * 5 + [True]


def test_a_submit_whose_key_is_being_used_makes_the_task_if_the_first_one_fails(rig: Rig) -> None:
    """G11."""
    alice = rig.people["alice"]
    with transaction(rig) as first:
        submitting.submit(first, rig.board.names, [keyed(rig)], alice, Limits(), [])
        with beside(lambda: rig.board.submit([keyed(rig)], alice, Limits())[0]) as second:
            until_waiting(rig)
            first.rollback()
            assert second.result().created
    assert rig.claimed().task.id == second.result().task.id


def test_a_submit_whose_key_is_being_used_gets_the_first_ones_task(rig: Rig) -> None:
    """G11."""
    alice = rig.people["alice"]
    with transaction(rig) as first:
        made = submitting.submit(first, rig.board.names, [keyed(rig)], alice, Limits(), [])[0]
        with beside(lambda: rig.board.submit([keyed(rig)], alice, Limits())[0]) as second:
            until_waiting(rig)
            first.commit()
            assert not second.result().created
    assert second.result().task.id == made.task.id


def test_the_same_key_with_another_body_is_an_error_and_makes_nothing(rig: Rig) -> None:
    """G11."""
    rig.board.submit([keyed(rig)], rig.people["alice"], Limits())
    with pytest.raises(KeyConflict):
        rig.board.submit([keyed(rig, body=b"another")], rig.people["alice"], Limits())
    rig.claimed()
    assert rig.claim() is None


def test_a_key_twice_in_one_submission_makes_one_task(rig: Rig) -> None:
    """G11."""
    first, second = rig.board.submit([keyed(rig), keyed(rig)], rig.people["alice"], Limits())
    assert (first.created, second.created) == (True, False)
    assert first.task.id == second.task.id
    with pytest.raises(KeyConflict):
        rig.board.submit(
            [NewTask(project_id=rig.pool.project_id, title="a", key="n", body_hash=body) for body in (b"1", b"2")],
            rig.people["alice"],
            Limits(),
        )


def test_a_key_for_open_tasks_used_by_two_at_once_makes_one_new_task(rig: Rig) -> None:
    """G11, scope open: the task of before is finished, and both come to renew it."""
    item = NewTask(project_id=rig.pool.project_id, title="alert", key="k", key_open=True, body_hash=b"x")
    alice = rig.people["alice"]
    old = rig.board.submit([item], alice, Limits())[0].task
    rig.board.settle(rig.claimed().fence, Done(note="x"), rig.people["kimi"])
    with transaction(rig) as first:
        made = submitting.submit(first, rig.board.names, [item], alice, Limits(), [])[0]
        with beside(lambda: rig.board.submit([item], alice, Limits())[0]) as second:
            until_waiting(rig)
            first.commit()
            assert (made.created, second.result().created) == (True, False)
    assert second.result().task.id == made.task.id != old.id


# ---------------------------------------------------------------- families


def test_children_of_two_parents_finished_in_batches_at_once_do_not_fail(rig: Rig) -> None:
    """Each batch wants both parents' rows, in its own order; the database breaks the tie, the board repeats."""
    one, two = rig.submit("one"), rig.submit("two")
    a, b, c, d = [rig.submit("child", parent=parent.id) for parent in (one, two, two, one)]
    leases = {got.task.id: got.fence for got in rig.board.claim(rig.want(), 6, rig.people["kimi"])}
    kimi = rig.people["kimi"]
    with transaction(rig) as holder:
        holder.execute("SELECT 1 FROM tasks WHERE id IN (%s, %s) FOR UPDATE", (one.id, two.id))
        batches = [[(leases[t.id], Done(note="x")) for t in pair] for pair in ((a, b), (c, d))]
        with (
            beside(lambda: rig.board.settle_many(batches[0], kimi)) as first,
            beside(lambda: rig.board.settle_many(batches[1], kimi)) as second,
        ):
            until_waiting(rig, 2)
            holder.commit()
            ended = [*first.result(), *second.result()]
    assert [end.status for end in ended if isinstance(end, Task)] == [Status.DONE] * 4
    assert row_of(rig, one.id, "open_children") == row_of(rig, two.id, "open_children") == (0,)


def test_blockers_finished_at_once_release_their_dependent_once(rig: Rig) -> None:
    blockers = [rig.submit() for _ in range(4)]
    dependent = rig.submit("dependent", after=tuple(task.id for task in blockers))
    kimi = rig.people["kimi"]
    fences = [got.fence for got in rig.board.claim(rig.want(), 4, kimi)]
    ended = at_once([lambda f=f: rig.board.settle(f, Done(note="x"), kimi) for f in fences])  # type: ignore[misc]
    assert all(isinstance(end, Task) for end in ended)
    assert row_of(rig, dependent.id, "open_blockers") == (0,)
    assert rig.claimed().task.id == dependent.id
    assert check((), read_board(rig.test_database.dsn)) == []


def test_readers_see_the_events_of_a_task_in_its_order_also_when_an_earlier_transaction_comes_later(rig: Rig) -> None:
    """Two blockers end at once: the one that began first is held up and tells the dependent last."""
    parent = rig.submit("parent")
    slow, quick = rig.submit("slow", parent=parent.id), rig.submit("quick")
    dependent = rig.submit("dependent", after=(slow.id, quick.id))
    kimi = rig.people["kimi"]
    fences = {got.task.id: got.fence for got in rig.board.claim(rig.want(), 3, kimi)}
    with transaction(rig) as holder:
        holder.execute("SELECT 1 FROM tasks WHERE id = %s FOR UPDATE", (parent.id,))
        with beside(lambda: rig.board.settle(fences[slow.id], Done(note="x"), kimi)) as held_up:
            until_waiting(rig)
            rig.board.settle(fences[quick.id], Done(note="y"), kimi)
            holder.commit()
            held_up.result()
    seen = rig.test_database.connect().execute(
        "SELECT seq FROM journal WHERE task_id = %s ORDER BY xid, id", (dependent.id,)
    )
    assert [row[0] for row in seen] == [1, 2, 3]


def test_tasks_of_new_lanes_submitted_at_once_are_all_found(rig: Rig) -> None:
    """G6: what a process remembers of the lanes has no hole where another transaction was slower."""
    rig.board.has_work(rig.want(), rig.people["kimi"])
    with transaction(rig) as slow:
        late = NewTask(project_id=rig.pool.project_id, title="late", priority=2)
        submitting.submit(slow, rig.board.names, [late], rig.people["alice"], Limits(), [])
        with beside(lambda: rig.submit("quick", priority=3)) as quick:
            until_waiting(rig)
            assert rig.claim() is None
            slow.commit()
            quick.result()
    rig.test_database.clock.advance(timedelta(seconds=5))
    assert [rig.claimed().task.title for _ in range(2)] == ["quick", "late"]


# ---------------------------------------------------------------- restores


def test_a_restore_is_an_event_of_each_task_whose_lease_it_ended(rig: Rig) -> None:
    """G2: the lift is on record, and no sequence has a gap."""
    rig.submit()
    idle = rig.submit()
    got = rig.claimed()
    rig.test_database.connect().execute("SELECT fabric_lift_epochs()")
    assert check((), read_board(rig.test_database.dsn)) == []
    again = rig.claimed("qwen")
    assert (again.task.id, again.fence.epoch) == (got.task.id, 1_000_002)
    assert rig.claimed("qwen").task.id == idle.id
    assert rig.board.renew([got.fence], None, rig.people["kimi"])[0].until is None
    assert check((), read_board(rig.test_database.dsn)) == []


def test_the_journal_of_another_server_can_be_read_after_the_restore(rig: Rig) -> None:
    """Its transactions have numbers that this server has yet to reach."""
    rig.submit()
    rig.claimed()
    conn = rig.test_database.connect()
    conn.execute("UPDATE journal SET xid = '888888888888'")
    conn.execute("SELECT fabric_lift_epochs()")
    rig.claimed()
    events, _ = NativeJournal(rig.database).read(Cursor(), 100, rig.viewer("kimi"))
    assert [event.kind for event in events if event.task_id] == ["submitted", "claimed", "restored", "claimed"]


# ---------------------------------------------------------------- hints


def test_a_notification_carries_the_queues_id_whatever_the_task_is_like(rig: Rig) -> None:
    listener = rig.test_database.connect()
    listener.execute(f"LISTEN {CHANNEL}")
    rig.submit("x" * 100_000, description="long" * 500_000)
    heard = [note.payload for note in listener.notifies(timeout=5, stop_after=1)]
    assert heard == [f"q:{rig.pool.project_id}"]


def test_a_flood_of_submissions_is_a_few_notifications(rig: Rig) -> None:
    listener = rig.test_database.connect()
    listener.execute(f"LISTEN {CHANNEL}")
    bucket, began = 20, time.monotonic()
    for _ in range(100):
        rig.submit()
    seconds = time.monotonic() - began
    listener.execute("SELECT 1")
    heard = list(listener.notifies(timeout=0))
    assert 1 <= len(heard) <= bucket + 20 * seconds + 1  # what a bucket holds, and what each second refills


class LateCut:
    """A signal whose database goes away right after the commit, before anybody could be notified."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def may_notify(self, project_id: int) -> bool:
        self._relay.close()
        return True

    def publish(self, change: Change) -> None:
        pass

    def subscribe(self, hear: Callable[[Change], None]) -> Callable[[], None]:
        raise AssertionError("nobody listens here")


def test_a_hint_that_cannot_be_sent_does_not_make_a_committed_end_look_failed(rig: Rig) -> None:
    rig.submit()
    got = rig.claimed()
    with Relay.to_database(rig.test_database.dsn) as relay:
        database = Database(relay.dsn(rig.test_database.dsn), size=1, name="late", patience=0.3)
        board = NativeBoard(database, LateCut(relay))
        ended = board.settle(got.fence, Released(reason="later"), rig.people["kimi"])
        database.close()
    assert ended.status is Status.READY


# ---------------------------------------------------------------- all at once


def test_everything_at_once_leaves_a_history_without_a_violation(rig: Rig) -> None:
    """G1, G2, G3, G9: claims, ends, sweeps, cancels and keyed submits by six hands; the clock jumps meanwhile."""
    kimi, alice = rig.people["kimi"], rig.people["alice"]
    for number in range(40):
        rig.submit(f"task {number}", key=str(number), body_hash=b"x")
    stop = threading.Event()

    def work() -> int:
        ended = 0
        while not stop.is_set() and (got := rig.board.claim(rig.want(), 1 + ended % 3, kimi)):
            ended += len([one for one in rig.board.settle_many([(g.fence, Done(note="x")) for g in got], kimi)])
        return ended

    def keep() -> int:
        for _ in range(5):
            rig.test_database.clock.advance(LEASE + MINUTE)
            rig.board.sweep(50, FABRIC)
        return 0

    def meddle() -> int:
        for number in range(40):
            again = rig.submit(f"task {number}", key=str(number), body_hash=b"x")
            if number % 4 == 0:
                rig.board.comment(again.id, "how is it going?", alice)
        return 0

    outcomes = at_once([work, work, work, keep, meddle])
    stop.set()
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    assert check((), read_board(rig.test_database.dsn)) == []
