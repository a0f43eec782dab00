"""A board with a million ready tasks, and one whose old row versions cannot be removed: claims stay as quick."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import psycopg
import pytest

from taskfabric.domain.outcome import Done
from tests.chaos.arena import Arena

pytestmark = pytest.mark.chaos

_MANY: Final = 1_000_000
# Copies of one task that the product made, so that every column is as the product writes it.
_MULTIPLY: Final = """
INSERT INTO tasks (project_id, column_id, swimlane_id, lane_id, creator_id, role, status, title, ready_since)
SELECT project_id, column_id, swimlane_id, lane_id, creator_id, role, status, title || n, ready_since
  FROM tasks, generate_series(1, %s) AS n WHERE id = %s
"""


def _pairs_per_second(chaos: Arena, pairs: int) -> float:
    """Claims with their finishes, one after the other."""
    kimi, want = chaos.agents["kimi"], chaos.want(lease=timedelta(minutes=10))
    begun = time.perf_counter()
    for _ in range(pairs):
        (got,) = chaos.board.claim(want, 1, kimi)
        chaos.board.settle(got.fence, Done(note="x"), kimi)
    return pairs / (time.perf_counter() - begun)


def _median(work: Callable[[], float], times: int) -> float:
    return statistics.median(work() for _ in range(times))


def test_a_million_ready_tasks_cost_a_claim_no_more_than_a_fifth(chaos: Arena) -> None:
    """Situation 13."""
    first = chaos.submit("copied ")
    with psycopg.connect(chaos.dsn, autocommit=True) as conn:
        conn.execute(_MULTIPLY, (4000, first.id))
        conn.execute("VACUUM ANALYZE tasks")
        _pairs_per_second(chaos, 300)
        few = _median(lambda: _pairs_per_second(chaos, 300), 5)
        conn.execute(_MULTIPLY, (_MANY, first.id))
        conn.execute("VACUUM ANALYZE tasks")
        _pairs_per_second(chaos, 300)
        many = _median(lambda: _pairs_per_second(chaos, 300), 5)
    print(f"claim and done: {few:.0f}/s with 4,000 ready, {many:.0f}/s with {_MANY:,}: ratio {many / few:.2f}")
    assert many > 0.8 * few


def test_a_transaction_held_open_under_load_costs_no_more_than_half(chaos: Arena) -> None:
    """Situation 13: nothing that is finished meanwhile can be cleaned up."""
    chaos.submit_many(1000)
    first = chaos.submit("copied ")
    with psycopg.connect(chaos.dsn, autocommit=True) as conn:
        conn.execute(_MULTIPLY, (200_000, first.id))  # more than 90 seconds can use up
        conn.execute("VACUUM ANALYZE tasks")
        _pairs_per_second(chaos, 300)
        free = _median(lambda: _pairs_per_second(chaos, 300), 5)
        with psycopg.connect(chaos.dsn) as old:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM tasks")
            begun = time.monotonic()
            rates = []
            while time.monotonic() - begun < 90:
                rates.append(_pairs_per_second(chaos, 300))
            pinned = statistics.median(rates[-5:])
    print(f"claim and done: {free:.0f}/s free, {pinned:.0f}/s after {len(rates) * 300} behind an old snapshot")
    assert pinned > 0.5 * free
