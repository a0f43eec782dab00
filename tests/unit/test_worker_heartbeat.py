"""The heartbeat by a clock that the test sets: when a lease is trusted, and when not any more."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.lease import Fence, Renewal
from workers.heartbeat import Heartbeat

LEASE = timedelta(seconds=60)
FENCE = Fence(task_id=12, epoch=3, token=7)


@dataclass
class Board:
    """Answers renewals, each of which takes some time by the test's clock."""

    now: float = 1000.0
    takes: float = 0.0
    answer: Renewal | FabricError | None = None
    asked: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def renew(self, fences: Sequence[Fence]) -> Sequence[Renewal]:
        self.asked.append(self.now)
        self.now += self.takes
        if isinstance(self.answer, FabricError):
            raise self.answer
        if self.answer is not None:
            return [self.answer]
        until = datetime.now(UTC) + timedelta(days=365)  # what another clock says means nothing here
        return [Renewal(task_id=f.task_id, epoch=f.epoch, until=until) for f in fences]


def make() -> tuple[Board, Heartbeat]:
    board = Board()
    return board, Heartbeat(board.renew, now=board.clock)


def test_trust_ends_a_margin_before_the_lease_does() -> None:
    """G7: lease minus margin, by the worker's own clock."""
    board, heart = make()
    held = heart.hold(FENCE, LEASE, sent=board.now)
    board.answer = Unavailable("away")
    board.now += 53.9
    assert heart.is_held(held)
    board.now += 0.2
    heart.beat()
    assert not heart.is_held(held)
    assert held.lost
    assert not held.taken


def test_a_renewal_that_comes_back_late_counts_from_when_it_was_sent() -> None:
    """G8: a renewal that succeeds late does not prolong the lease beyond send time + lease."""
    board, heart = make()
    held = heart.hold(FENCE, LEASE, sent=board.now)
    board.now, board.takes = 1020.0, 30.0
    heart.beat()
    assert held.trusted_until == 1020.0 + 60.0 - 6.0
    board.now = 1074.1
    board.answer = Unavailable("away")
    heart.beat()
    assert not heart.is_held(held)


def test_a_claim_that_comes_back_late_counts_from_when_it_was_sent() -> None:
    """G7."""
    board, heart = make()
    held = heart.hold(FENCE, LEASE, sent=board.now - 50.0)
    assert held.trusted_until == 1004.0


def test_it_renews_at_a_third_of_the_lease_and_soon_again_when_that_failed() -> None:
    board, heart = make()
    held = heart.hold(FENCE, LEASE, sent=board.now)
    assert held.due == 1020.0
    board.now, board.answer = 1020.0, Unavailable("away")
    heart.beat()
    assert 1020.0 < held.due <= 1025.0
    board.answer = None
    heart.beat()
    assert held.due == 1040.0


def test_a_lease_that_another_has_is_lost_at_once_with_his_name() -> None:
    board, heart = make()
    held = heart.hold(FENCE, LEASE, sent=board.now)
    board.answer = Renewal(task_id=12, epoch=3, until=None, holder="qwen")
    heart.beat()
    assert not heart.is_held(held)
    assert (held.taken, held.lost) == (True, "qwen has it now")


def test_after_a_stop_of_everything_the_board_is_asked_before_a_lease_is_given_up() -> None:
    """Situation 8: the machine slept for ten minutes; nobody took the task, so it is still ours."""
    board, heart = make()
    held = heart.hold(FENCE, LEASE, sent=board.now)
    heart.start()
    board.now += 600.0
    assert heart.is_held(held)
    assert board.asked
    heart.end()


def test_when_nobody_answers_after_a_stop_the_lease_is_given_up() -> None:
    board, heart = make()
    held = heart.hold(FENCE, LEASE, sent=board.now)
    board.answer = Unavailable("away")
    heart.start()
    board.now += 600.0
    assert not heart.is_held(held)
    heart.end()


def test_it_beats_while_a_run_does_not_let_anybody_else_speak() -> None:
    """G8: a thread of its own."""
    board, heart = make()
    beaten = threading.Event()

    def renew(fences: Sequence[Fence]) -> Sequence[Renewal]:
        beaten.set()
        return board.renew(fences)

    heart = Heartbeat(renew, now=board.clock)
    heart.hold(FENCE, LEASE, sent=board.now - 21.0)
    heart.start()
    assert beaten.wait(5)
    heart.end()


def test_what_was_let_go_is_not_renewed() -> None:
    board, heart = make()
    heart.let_go(heart.hold(FENCE, LEASE, sent=board.now))
    heart.beat()
    assert board.asked == []
