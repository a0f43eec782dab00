"""Claims begin at a lane's floor; whatever makes a task claimable below it is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from taskfabric.domain.outcome import Done, Failed, Parked, Released, Waiting
from taskfabric.ports.board import Edit, Place
from taskfabric.testing import TestDatabase
from tests.integration.conftest import Rig


def raise_floors(rig: Rig) -> None:
    """Every floor is as high as it may be."""
    with rig.database.connection() as conn:
        conn.execute("SELECT fabric_raise_floors(array_agg(id)) FROM lanes")


def answered(rig: Rig) -> int:
    got = rig.claimed()
    rig.board.settle(got.fence, Waiting(question="q"), rig.people["kimi"])
    raise_floors(rig)
    rig.board.answer(got.task.id, "a", rig.people["alice"])
    return got.task.id


def released(rig: Rig) -> int:
    got = rig.claimed()
    raise_floors(rig)
    rig.board.settle(got.fence, Released(), rig.people["kimi"])
    return got.task.id


def parked(rig: Rig) -> int:
    got = rig.claimed()
    until = rig.board.now() + timedelta(minutes=1)
    rig.board.settle(got.fence, Parked(until=until, reason="r"), rig.people["kimi"])
    raise_floors(rig)
    rig.test_database.clock.set(until + timedelta(seconds=1))
    return got.task.id


def failed(rig: Rig) -> int:
    got = rig.claimed()
    rig.test_database.clock.set(rig.board.now())
    rig.board.settle(got.fence, Failed(error="e"), rig.people["kimi"])
    raise_floors(rig)
    rig.test_database.clock.advance(timedelta(minutes=5))
    return got.task.id


def expired(rig: Rig) -> int:
    got = rig.claimed()
    rig.test_database.clock.set(rig.board.now())
    raise_floors(rig)
    rig.test_database.clock.advance(timedelta(minutes=11))
    return got.task.id


def rejected(rig: Rig) -> int:
    got = rig.claimed()
    rig.board.settle(got.fence, Done(note="n"), rig.people["kimi"])
    raise_floors(rig)
    rig.board.reject(got.task.id, "no", rig.people["alice"])
    return got.task.id


def redriven(rig: Rig) -> int:
    got = rig.claimed()
    rig.board.settle(got.fence, Failed(error="e", retry=False), rig.people["kimi"])
    raise_floors(rig)
    rig.board.redrive(got.task.id, "again", rig.people["alice"])
    return got.task.id


def unblocked(rig: Rig) -> int:
    blocker = rig.claimed()
    with rig.database.connection() as conn:
        lowest = conn.execute("SELECT min(rank) FROM tasks").fetchone()
        waiting = rig.submit("waiting", after=(blocker.task.id,))
        assert lowest is not None
        conn.execute("UPDATE tasks SET rank = %s WHERE id = %s", (lowest[0] - 1, waiting.id))
    raise_floors(rig)
    rig.board.settle(blocker.fence, Done(note="n"), rig.people["kimi"])
    return waiting.id


def rated(rig: Rig) -> int:
    held = rig.submit("held", hold="no score")
    rig.board.move(held.id, Place(top=True), rig.people["alice"])
    raise_floors(rig)
    rig.board.edit(held.id, Edit(score=3), rig.people["alice"])
    return held.id


def moved_to_the_top(rig: Rig) -> int:
    last = rig.submit("last")
    raise_floors(rig)
    rig.board.move(last.id, Place(top=True), rig.people["alice"])
    return last.id


def moved_out_of_the_backlog(rig: Rig) -> int:
    wanted = rig.submit("wanted", backlog=True)
    raise_floors(rig)
    rig.board.move(wanted.id, Place(column="Ready", top=True), rig.people["alice"])
    return wanted.id


def moved_where_there_was_no_room(rig: Rig) -> int:
    """Halving one gap until it is used up moves every rank above it."""
    first = rig.submit("first in the next lane", priority=3)
    rig.board.move(first.id, Place(top=True), rig.people["alice"])
    raise_floors(rig)
    for n in range(25):
        later = rig.submit(f"later {n}")
        rig.board.move(later.id, Place(after=first.id), rig.people["alice"])
    return first.id


WAYS = [
    answered,
    released,
    parked,
    failed,
    expired,
    rejected,
    redriven,
    unblocked,
    rated,
    moved_to_the_top,
    moved_out_of_the_backlog,
    moved_where_there_was_no_room,
]


@pytest.mark.parametrize("happens", WAYS, ids=[way.__name__ for way in WAYS])
def test_a_task_that_becomes_claimable_below_the_floor_is_found(rig: Rig, happens: Callable[[Rig], int]) -> None:
    for n in range(4):
        rig.submit(f"before {n}")
    wanted = happens(rig)
    taken = set()
    while (got := rig.claim("qwen")) is not None:
        taken.add(got.task.id)
    assert wanted in taken


def test_a_floor_is_not_raised_past_a_submission_that_has_not_committed(rig: Rig, database: TestDatabase) -> None:
    early = rig.submit("early")
    with database.connect() as writer, writer.transaction():
        lane = writer.execute("SELECT lane_id FROM tasks WHERE id = %s", (early.id,)).fetchone()
        assert lane is not None
        writer.execute("SELECT pg_advisory_xact_lock_shared(7301, %s)", lane)
        raise_floors(rig)
        with rig.database.connection() as conn:
            assert conn.execute("SELECT count(*) FROM lane_floors").fetchone() == (0,)
    raise_floors(rig)
    with rig.database.connection() as conn:
        assert conn.execute("SELECT count(*) FROM lane_floors").fetchone() == (1,)


def test_a_floor_rises_to_the_head_and_claims_go_on_in_order(rig: Rig) -> None:
    made = [rig.submit(f"t{n}").id for n in range(6)]
    order = []
    for _ in range(3):
        order.append(rig.claimed().task.id)
        raise_floors(rig)
    order += [rig.claimed().task.id for _ in range(3)]
    assert order == made
