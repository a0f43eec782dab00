"""Whatever sequence of verbs meets the board, each move is one of the table, and the counters follow it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskfabric.domain.errors import FabricError
from taskfabric.domain.lease import Fence
from taskfabric.domain.moves import BY_VERB, is_legal
from taskfabric.domain.outcome import Declined, Done, Failed, Outcome, Parked, Released, Waiting, WaitingOnChildren
from taskfabric.domain.status import Status
from tests.integration.conftest import Rig

VERBS = (
    *("claim", "take", "done", "park", "ask", "wait", "answer", "fail", "fail-final", "release", "refuse"),
    *("verify", "reject", "cancel", "redrive", "sweep", "renew", "child"),
)


def _outcome(rig: Rig, verb: str) -> Outcome:
    ends: dict[str, Outcome] = {
        "done": Done(note="done"),
        "park": Parked(until=rig.board.now() - timedelta(seconds=1), reason="r"),
        "ask": Waiting(question="q"),
        "wait": WaitingOnChildren(),
        "fail": Failed(error="e"),
        "fail-final": Failed(error="e", retry=False),
        "release": Released(),
        "refuse": Declined(reason="r"),
    }
    return ends[verb]


class _Life:
    """One task and the fence of its last lease, driven by verbs."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.id = rig.submit("life").id
        self.fence: Fence | None = None

    def do(self, verb: str) -> None:
        board, kimi, alice = self.rig.board, self.rig.people["kimi"], self.rig.people["alice"]
        match verb:
            case "claim" | "take":
                got = board.take(self.id, self.rig.want(), kimi)
                self.fence = got.fence
            case "renew":
                assert self.fence is not None
                board.renew([self.fence], None, kimi)
            case "sweep":
                self.rig.test_database.clock.advance(timedelta(minutes=11))
                board.sweep(100, alice)
            case "child":
                self.rig.submit("child", parent=self.id)
            case "answer":
                board.answer(self.id, "a", alice)
            case "verify":
                board.verify(self.id, "", alice)
            case "reject":
                board.reject(self.id, "n", alice)
            case "cancel":
                board.cancel(self.id, "n", alice)
            case "redrive":
                board.redrive(self.id, "n", alice)
            case _:
                assert self.fence is not None
                board.settle(self.fence, _outcome(self.rig, verb), kimi)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(verbs=st.lists(st.sampled_from(VERBS), min_size=3, max_size=14))
def test_every_move_is_in_the_table_and_epochs_only_rise(rig: Rig, verbs: list[str]) -> None:
    """G2, G9."""
    rig.test_database.clock.set(rig.board.now())
    rig.clear()
    life = _Life(rig)
    for verb in verbs:
        before = rig.task(life.id)
        if verb not in ("claim", "take", "sweep", "child") and life.fence is None:
            continue
        rig.test_database.clock.advance(timedelta(hours=2) if verb in ("claim", "take") else timedelta(0))
        try:
            life.do(verb)
        except FabricError:
            after = rig.task(life.id)
            swept = before.status is Status.WORKING and verb in ("claim", "take")
            assert swept or (after.status, after.epoch, after.attempts) == (
                before.status,
                before.epoch,
                before.attempts,
            )
            continue
        after = rig.task(life.id)
        if after.status is not before.status:
            name = "fail" if verb == "fail-final" else verb
            swept_first = before.status is Status.WORKING and verb in ("claim", "take")
            assert is_legal(name, before.status, after.status) or swept_first, (verb, before.status, after.status)
        _counters(before, after, verb)


def _counters(before: Any, after: Any, verb: str) -> None:
    assert after.epoch - before.epoch == (1 if verb in ("claim", "take") else 0)
    name = "fail" if verb == "fail-final" else verb
    move = BY_VERB.get(name)
    if move is None or verb in ("claim", "take"):
        return
    if move.attempts is None:
        assert after.attempts == 0
    elif after.status is not before.status:
        assert after.attempts == before.attempts + move.attempts


def test_a_journal_tells_the_whole_life_without_a_gap(rig: Rig) -> None:
    task = rig.submit("told")
    got = rig.claimed()
    rig.board.settle(got.fence, Done(note="n"), rig.people["kimi"])
    rig.board.verify(task.id, "good", rig.people["alice"])
    with rig.database.connection() as conn:
        rows = conn.execute("SELECT seq, kind FROM journal WHERE task_id = %s ORDER BY seq", (task.id,)).fetchall()
    assert rows == [(1, "submitted"), (2, "claimed"), (3, "done"), (4, "verified")]
