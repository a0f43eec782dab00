"""Worker processes that are killed, stopped, poisoned, or wrong about the time."""

from __future__ import annotations

import random
import signal
import time

import pytest

from taskfabric.domain.errors import LeaseLost
from tests.chaos.arena import Arena, pause, until
from tests.chaos.history import read_board

pytestmark = pytest.mark.chaos


def test_workers_killed_at_random_lose_nothing_and_double_nothing(chaos: Arena) -> None:
    """Situation 1: kill -9 at random moments, 10 a second, 2,000 tasks, a minute. G1 to G6, G9."""
    dice = random.Random(1)
    chaos.submit_many(2000, max_attempts=50)
    crew = 6
    orders = {"lease": 1.0, "work": 0.1, "poll": 0.1, "mixed": True}
    hands = [chaos.hire("kimi" if number % 2 else "qwen", **orders) for number in range(crew)]
    begun, kills = time.monotonic(), 0
    while time.monotonic() - begun < 60:
        pause(max(0.0, begun + kills / 10 - time.monotonic()))
        chosen = dice.randrange(crew)
        hands[chosen].send(signal.SIGKILL)
        assert hands[chosen].gone_within(5)
        hands[chosen] = chaos.hire("kimi" if chosen % 2 else "qwen", **orders)
        kills += 1
    until(lambda: chaos.left("ready", "working") == 0, within=60, what="every task ended")
    chaos.dismiss()
    assert kills > 300  # a machine that is busy otherwise does not manage six hundred
    assert sum(event.kind == "expired" for event in read_board(chaos.dsn).journal) > 100
    assert chaos.left("done") == 2000
    assert chaos.verdict() == []


def test_a_worker_stopped_for_longer_than_its_lease_is_refused_when_it_wakes(chaos: Arena) -> None:
    """Situation 2: SIGSTOP, expiry, SIGCONT. G3, and with a late result that is kept."""
    sleeper = chaos.hire("kimi", lease=1.0, work=0.5, poll=0.05)
    task = chaos.submit("a task")
    until(lambda: chaos.left("working") == 1, within=10, what="the claim")
    sleeper.send(signal.SIGSTOP)
    chaos.hire("qwen", lease=5.0, work=0.0, poll=0.05)
    until(lambda: chaos.left("done") == 1, within=10, what="another worker finished it")
    sleeper.send(signal.SIGCONT)
    until(lambda: any(c.error == LeaseLost.name for c in chaos.history()), within=10, what="the refusal")
    chaos.dismiss()
    refused = [call for call in chaos.history() if call.error == LeaseLost.name]
    assert {call.actor for call in refused} == {chaos.agents["kimi"].principal_id}
    assert chaos.board.get(task.id, None).producer == "qwen"
    assert chaos.verdict() == []


def test_many_workers_stopped_and_woken_at_random_never_overwrite_each_other(chaos: Arena) -> None:
    """Situation 2, at random for twenty seconds. G1, G3."""
    dice = random.Random(2)
    chaos.submit_many(600, max_attempts=50)
    hands = [
        chaos.hire("kimi" if number % 2 else "qwen", lease=0.6, work=0.25, poll=0.1, mixed=True) for number in range(6)
    ]
    begun = time.monotonic()
    while time.monotonic() - begun < 20:
        chosen = dice.sample(hands, 2)
        for hand in chosen:
            hand.send(signal.SIGSTOP)
        pause(0.8)
        for hand in chosen:
            hand.send(signal.SIGCONT)
        pause(0.2)
    chaos.dismiss()
    calls = chaos.history()
    assert any(call.verb == "renew" and call.state == "ok" for call in calls)
    assert any(call.verb == "renew" and call.error == LeaseLost.name for call in calls)
    assert any(call.verb == "done" and call.error == LeaseLost.name for call in calls)
    assert chaos.verdict() == []


@pytest.mark.parametrize("shift", [3600.0, -3600.0])
def test_a_worker_whose_clock_is_an_hour_off_and_jumps_works_as_any_other(chaos: Arena, shift: float) -> None:
    """Situation 7: nothing of its clock reaches the board. G7."""
    chaos.submit_many(20)
    chaos.hire("kimi", lease=1.0, work=0.2, poll=0.1, shift=shift, jump=-2 * shift)
    chaos.hire("qwen", lease=1.0, work=0.2, poll=0.1)
    until(lambda: chaos.left("done") == 20, within=30, what="every task was done")
    chaos.dismiss()
    with chaos.database.connection() as conn:
        off = conn.execute(
            "SELECT count(*) FROM comments WHERE abs(extract(epoch FROM date_creation - now())) > 300"
            " OR kind = 'claimed' AND abs(extract(epoch FROM until - date_creation) - 1) > 0.5"
        ).fetchone()
    assert off == (0,)
    assert all(row.attempts == 1 for row in read_board(chaos.dsn).rows)
    assert chaos.verdict() == []


def test_a_task_that_kills_its_worker_dies_after_three_and_the_others_are_done(chaos: Arena) -> None:
    """Situation 11. G9."""
    poison = chaos.submit("poison", priority=3)
    chaos.submit_many(100)
    orders = {"lease": 0.5, "work": 0.0, "poll": 0.1}
    hand, died = chaos.hire("kimi", **orders), 0

    def settled() -> bool:
        nonlocal died, hand
        if not hand.alive:
            died += 1
            hand = chaos.hire("kimi", **orders)
        return chaos.left("ready", "working") == 0

    until(settled, within=60, what="nothing is left")
    chaos.dismiss()
    dead = chaos.board.get(poison.id, None)
    assert (dead.status.value, dead.attempts, died) == ("dead", 3, 3)
    assert chaos.left("done") == 100
    assert chaos.verdict() == []
