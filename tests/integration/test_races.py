"""Two acts at one moment: each fault that other boards and queues shipped, brought about on purpose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from taskfabric.boards.native import judge, sweep
from taskfabric.boards.native.board import FABRIC
from taskfabric.domain.errors import HeldBy, IllegalMove, LeaseLost
from taskfabric.domain.lease import Fence
from taskfabric.domain.outcome import (
    Declined,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    Waiting,
    WaitingOnChildren,
)
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.board import Place
from tests.integration.conftest import LEASE, Rig
from tests.integration.racing import at_once, beside, events_of, row_of, transaction, until_waiting

MINUTE = timedelta(minutes=1)
LEASE_FIELDS = "owner_id, token, lease_until, lease_seconds, holder_instance"


# ---------------------------------------------------------------- claims


def test_of_many_who_take_one_task_exactly_one_gets_it_and_the_others_learn_who(rig: Rig) -> None:
    """G1."""
    for _ in range(5):
        task = rig.submit()
        agents = [rig.people[name] for name in ("kimi", "qwen")] * 3
        got = at_once([lambda who=who: rig.board.take(task.id, rig.want(), who) for who in agents])  # type: ignore[misc]  # noqa: B023
        winners = [one for one in got if isinstance(one, Claimed)]
        losers = [one for one in got if isinstance(one, HeldBy)]
        assert (len(winners), len(losers)) == (1, 5)
        won = winners[0].task
        assert all(loser.facts["holder"] == won.holder and loser.facts["until"] for loser in losers)


def test_claims_at_once_never_get_the_same_task(rig: Rig) -> None:
    """G1."""
    tasks = {rig.submit().id for _ in range(12)}
    stamp = rig.people["kimi"]
    got = at_once([lambda: rig.board.claim(rig.want(), 1, stamp) + rig.board.claim(rig.want(), 1, stamp)] * 6)
    taken = [one.task.id for batch in got if isinstance(batch, list) for one in batch]
    assert sorted(taken) == sorted(tasks)


def test_batches_claimed_at_once_never_share_a_task(rig: Rig) -> None:
    """G1."""
    tasks = {rig.submit().id for _ in range(20)}
    got = at_once([lambda: rig.board.claim(rig.want(), 5, rig.people["kimi"])] * 5)
    fences = [one.fence for batch in got if isinstance(batch, list) for one in batch]
    assert {fence.task_id for fence in fences} <= tasks
    assert len({fence.task_id for fence in fences}) == len(fences)
    assert len({fence.token for fence in fences}) == len(fences)


def test_an_agent_limited_to_one_gets_one_even_when_it_claims_twice_at_once(rig: Rig) -> None:
    want = rig.want(concurrency=1)
    for _ in range(10):
        rig.clear()
        rig.submit()
        rig.submit()
        got = at_once([lambda: rig.claim(want=want)] * 2)
        assert sorted(type(one) is Claimed for one in got) == [False, True]


def test_a_worker_that_died_with_the_only_slot_does_not_block_it_for_ever(rig: Rig) -> None:
    want = rig.want(concurrency=1)
    lost = rig.submit("the one it dies with")
    rig.submit("the next")
    rig.claimed(want=want)
    assert rig.claim(want=want) is None
    rig.test_database.clock.advance(LEASE + MINUTE)
    assert rig.claimed(want=want).task.id == lost.id


def test_the_slot_of_an_expired_lease_is_free_also_while_nobody_can_sweep_it(rig: Rig) -> None:
    want = rig.want(concurrency=1)
    stuck = rig.submit()
    rig.claimed(want=want)
    other = rig.submit()
    rig.test_database.clock.advance(LEASE + MINUTE)
    with transaction(rig) as conn:
        conn.execute("SELECT 1 FROM tasks WHERE id = %s FOR UPDATE", (stuck.id,))
        assert rig.claimed(want=want).task.id == other.id


# ---------------------------------------------------------------- leases


def test_a_new_claim_has_a_heartbeat_of_its_own(rig: Rig) -> None:
    """The lease of the last run says nothing about the next one's."""
    rig.submit()
    first = rig.claimed("kimi")
    rig.test_database.clock.advance(LEASE + MINUTE)
    fresh = rig.claimed("qwen", rig.want(lease=timedelta(minutes=30)))
    assert rig.board.sweep(100, FABRIC).ready == ()
    assert fresh.task.lease_until == rig.board.now() + timedelta(minutes=30)
    rig.test_database.clock.advance(timedelta(minutes=29))
    assert rig.board.renew([first.fence], None, rig.people["kimi"])[0].until is None
    assert rig.board.sweep(100, FABRIC).ready == ()
    rig.test_database.clock.advance(2 * MINUTE)
    assert rig.board.sweep(100, FABRIC).ready == (fresh.task.id,)


def test_another_process_of_the_same_agent_is_not_the_holder(rig: Rig) -> None:
    """The name may be reused after a restart; the fence's token may not."""
    rig.submit()
    got = rig.claimed("kimi")
    guess = Fence(task_id=got.fence.task_id, epoch=got.fence.epoch, token=got.fence.token ^ 1)
    assert rig.board.renew([guess], None, rig.people["kimi"])[0].until is None
    with pytest.raises(LeaseLost):
        rig.board.settle(guess, Done(note="mine?"), rig.people["kimi"])
    assert rig.task(got.task.id).status is Status.WORKING


END = tuple[str, Callable[[Rig, Claimed], object]]


def _by(outcome: Callable[[Rig], Outcome]) -> Callable[[Rig, Claimed], object]:
    return lambda rig, got: rig.board.settle(got.fence, outcome(rig), rig.people["kimi"])


def _expire(rig: Rig, got: Claimed) -> object:
    rig.test_database.clock.advance(LEASE + MINUTE)
    return rig.board.sweep(10, FABRIC)


def _wait_on_child(rig: Rig, got: Claimed) -> object:
    rig.submit("child", parent=got.task.id)
    return rig.board.settle(got.fence, WaitingOnChildren(), rig.people["kimi"])


ENDS: list[END] = [
    ("done", _by(lambda rig: Done(note="there"))),
    ("parked", _by(lambda rig: Parked(until=rig.board.now() + MINUTE, reason="quota"))),
    ("asked", _by(lambda rig: Waiting(question="which?", of_id=rig.people["alice"].principal_id))),
    ("waiting on children", _wait_on_child),
    ("failed", _by(lambda rig: Failed(error="boom"))),
    ("failed for good", _by(lambda rig: Failed(error="boom", retry=False))),
    ("released", _by(lambda rig: Released())),
    ("declined", _by(lambda rig: Declined(reason="not for me"))),
    ("cancelled", lambda rig, got: rig.board.cancel(got.task.id, "no", rig.people["alice"])),
    ("moved by hand", lambda rig, got: rig.board.move(got.task.id, Place(column="Ready"), rig.people["alice"])),
    ("done by hand", lambda rig, got: rig.board.settle_by_hand(got.task.id, Done(note="x"), rig.people["alice"])),
    ("expired", _expire),
]


@pytest.mark.parametrize(("how", "end"), ENDS, ids=[how for how, _ in ENDS])
def test_however_a_run_ends_no_field_of_its_lease_stays(rig: Rig, how: str, end: Callable[..., object]) -> None:
    rig.submit()
    got = rig.claimed("kimi")
    end(rig, got)
    assert row_of(rig, got.task.id, LEASE_FIELDS) == (None,) * 5
    with pytest.raises(LeaseLost):
        rig.board.settle(got.fence, Done(note="late"), rig.people["kimi"])


def test_a_late_release_does_not_close_the_next_holders_run(rig: Rig) -> None:
    """G3."""
    rig.submit()
    late = rig.claimed("kimi")
    rig.test_database.clock.advance(LEASE + MINUTE)
    now_mine = rig.claimed("kimi")  # the same agent, another run
    with pytest.raises(LeaseLost):
        rig.board.settle(late.fence, Released(reason="I stop"), rig.people["kimi"])
    assert rig.task(now_mine.task.id).status is Status.WORKING
    assert rig.board.settle(now_mine.fence, Done(note="there"), rig.people["kimi"]).status is Status.DONE


def test_two_finishes_of_one_run_at_once_are_one(rig: Rig) -> None:
    """G3: at most one finish is accepted for each epoch."""
    for _ in range(10):
        rig.submit()
        got = rig.claimed()
        ends = at_once([lambda: rig.board.settle(got.fence, Done(note="there"), rig.people["kimi"])] * 3)  # noqa: B023
        assert sorted(type(end).__name__ for end in ends) == ["LeaseLost", "LeaseLost", "Task"]


# ---------------------------------------------------------------- sweeps


def test_a_sweep_that_looked_before_the_finish_changes_nothing_after_it(rig: Rig) -> None:
    """The condition stands again in the write."""
    rig.submit()
    got = rig.claimed()
    rig.test_database.clock.advance(LEASE + MINUTE)
    with transaction(rig) as keeper:
        seen = keeper.execute("SELECT id FROM tasks WHERE token IS NOT NULL AND lease_until < fabric_now()").fetchall()
        assert seen == [(got.task.id,)]
        rig.board.settle(got.fence, Done(note="just in time"), rig.people["kimi"])
        assert sweep._sweep_one(keeper, got.task.id, FABRIC) is None
    assert rig.task(got.task.id).status is Status.DONE
    assert events_of(rig, got.task.id) == ["submitted", "claimed", "done"]


def test_a_sweep_passes_by_a_task_that_is_being_finished(rig: Rig) -> None:
    parent = rig.submit("parent", backlog=True)
    child = rig.submit("child", parent=parent.id)
    got = rig.claimed()
    rig.test_database.clock.advance(LEASE + MINUTE)
    with transaction(rig) as holder:
        holder.execute("SELECT 1 FROM tasks WHERE id = %s FOR UPDATE", (parent.id,))
        with beside(lambda: rig.board.settle(got.fence, Done(note="x"), rig.people["kimi"])) as finish:
            until_waiting(rig)  # it has written its own row and wants to tell the parent
            assert rig.board.sweep(10, FABRIC).ready == ()
            holder.commit()
            finish.result()
    assert rig.task(child.id).status is Status.DONE
    assert events_of(rig, child.id) == ["submitted", "claimed", "done"]


def test_a_finish_during_the_sweep_of_its_lease_is_refused_and_kept(rig: Rig) -> None:
    """G3."""
    rig.submit()
    got = rig.claimed()
    rig.test_database.clock.advance(LEASE + MINUTE)
    with transaction(rig) as keeper:
        assert sweep.sweep(keeper, 10, FABRIC, None).ready == (got.task.id,)
        with beside(lambda: rig.board.settle(got.fence, Done(note="late"), rig.people["kimi"])) as finish:
            until_waiting(rig)
            keeper.commit()
            assert isinstance(finish.exception(), LeaseLost)
    assert rig.task(got.task.id).status is Status.READY
    assert [late.text for late in rig.board.thread(got.task.id, rig.viewer("alice")).late_results] == ["late"]


def test_a_renewal_before_the_sweeps_write_saves_the_lease(rig: Rig) -> None:
    rig.submit()
    got = rig.claimed()
    rig.test_database.clock.advance(LEASE + MINUTE)
    with transaction(rig) as keeper:
        keeper.execute("SELECT 1 FROM tasks WHERE lease_until < fabric_now()")
        assert rig.board.renew([got.fence], None, rig.people["kimi"])[0].until is not None
        assert sweep._sweep_one(keeper, got.task.id, FABRIC) is None
    assert rig.task(got.task.id).holder == "kimi"


def test_two_keepers_take_each_lease_back_once(rig: Rig) -> None:
    for _ in range(30):
        rig.submit()
    taken = {got.task.id for got in rig.board.claim(rig.want(), 30, rig.people["kimi"])}
    rig.test_database.clock.advance(LEASE + MINUTE)
    rounds = at_once([lambda: rig.board.sweep(30, FABRIC)] * 3)
    swept = [task for one in rounds if not isinstance(one, Exception) for task in one.ready]
    assert sorted(swept) == sorted(taken)


@pytest.mark.parametrize("state", ["check_violation", "raise_exception", "data_exception"])
def test_one_task_that_cannot_be_swept_stops_neither_the_sweep_nor_the_claims(rig: Rig, state: str) -> None:
    for title in ("bad", "good", "better"):
        rig.submit(title)
    bad, good, better = rig.board.claim(rig.want(), 3, rig.people["kimi"])
    rig.test_database.connect().execute(
        f"""CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'broken' USING ERRCODE = '{state}'; END $$;
            CREATE TRIGGER broken BEFORE UPDATE ON tasks FOR EACH ROW WHEN (OLD.id = {bad.task.id})
            EXECUTE FUNCTION broken()""".encode()
    )
    rig.test_database.clock.advance(LEASE + MINUTE)
    assert rig.claimed("qwen").task.id == good.task.id
    swept = rig.board.sweep(10, FABRIC)
    assert (swept.ready, swept.skipped) == ((), 1)
    assert rig.task(better.task.id).status is Status.READY


def test_a_task_that_kills_its_workers_is_dead_after_three_claims_and_others_go_on(rig: Rig) -> None:
    """G9."""
    poison = rig.submit("poison", priority=3)
    for attempt in (1, 2, 3):
        got = rig.claimed()
        assert (got.task.id, got.task.attempts) == (poison.id, attempt)
        rig.test_database.clock.advance(LEASE + MINUTE)
    other = rig.submit("other")
    assert rig.claimed("qwen").task.id == other.id
    dead = rig.task(poison.id)
    assert (dead.status, dead.attempts, dead.epoch) == (Status.DEAD, 3, 3)


# ---------------------------------------------------------------- cancel


def test_a_finish_after_a_cancel_does_not_overwrite_it(rig: Rig) -> None:
    rig.submit()
    got = rig.claimed()
    assert rig.board.cancel(got.task.id, "not needed", rig.people["alice"]).status is Status.CANCELLED
    with pytest.raises(LeaseLost) as lost:
        rig.board.settle(got.fence, Done(note="but I have it"), rig.people["kimi"])
    assert lost.value.facts["status"] == "cancelled"
    assert rig.task(got.task.id).status is Status.CANCELLED


def test_a_cancel_and_a_finish_at_once_both_say_how_it_ended(rig: Rig) -> None:
    for _ in range(10):
        rig.submit()
        got = rig.claimed()

        def finish(got: Claimed = got) -> Task:
            return rig.board.settle(got.fence, Done(note="there"), rig.people["kimi"])

        def cancel(got: Claimed = got) -> Task:
            return rig.board.cancel(got.task.id, "no", rig.people["alice"])

        finished, cancelled = at_once([finish, cancel])
        # A result that is not yet verified may be cancelled, so the cancel always succeeds, and it is the last word.
        assert isinstance(cancelled, Task)
        assert cancelled.status is rig.task(got.task.id).status is Status.CANCELLED
        assert isinstance(finished, LeaseLost) or finished.status is Status.DONE  # type: ignore[union-attr]
        assert ("done" in events_of(rig, got.task.id)) == isinstance(finished, Task)


def test_a_verification_and_a_cancel_at_once_have_one_winner(rig: Rig) -> None:
    for _ in range(10):
        rig.submit()
        got = rig.claimed()
        rig.board.settle(got.fence, Done(note="there"), rig.people["kimi"])
        verified, cancelled = at_once(
            [
                lambda: rig.board.verify(got.task.id, "", rig.people["bob"]),  # noqa: B023
                lambda: rig.board.cancel(got.task.id, "", rig.people["alice"]),  # noqa: B023
            ]
        )
        assert isinstance(verified, IllegalMove) != isinstance(cancelled, IllegalMove)
        won = verified if isinstance(verified, Task) else cancelled
        assert isinstance(won, Task)
        assert rig.task(got.task.id).status is won.status


def test_a_claim_in_the_middle_of_a_cancel_gets_another_task(rig: Rig) -> None:
    first, second = rig.submit(), rig.submit()
    with transaction(rig) as human:
        judge.cancel(human, rig.board.names, first.id, "not needed", rig.people["alice"])
        assert rig.claimed("kimi").task.id == second.id
    assert rig.claim("kimi") is None
    assert rig.task(first.id).status is Status.CANCELLED
