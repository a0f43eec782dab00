"""Measure 8: what a claim touches after 50,000 finishes while another session pins an old snapshot.

Then no dead row can be removed, and every queue in PostgreSQL walks over its dead index entries: the question is only
how much more than the plainest one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from tests.bench.context import Bench
from tests.bench.host import make
from tests.bench.report import Line
from tests.bench.rig import rig
from tests.bench.sys_raw import Raw
from tests.bench.system import System

_CLAIMS = 20
_COUNTERS = """
SELECT (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes),
       (SELECT coalesce(sum(heap_blks_hit + heap_blks_read), 0) FROM pg_statio_user_tables),
       (SELECT coalesce(sum(idx_blks_hit + idx_blks_read), 0) FROM pg_statio_user_tables)
"""
Touched = tuple[float, float, float]  # index entries, heap pages, index pages


def measure(bench: Bench) -> list[Line]:
    """Both boards through the same life; counted by PostgreSQL's own statistics."""
    finishes = 50_000 if bench.full else 10_000
    raw = make("raw_tens", bench.admin)
    assert isinstance(raw, Raw)
    raw.name = "raw_horizon"
    raw.setup()
    raw.fill(finishes + 1_000)
    raw.settle_down()
    try:
        with _pinned(raw.dsn):
            raw.work_off(finishes)
            theirs = _touched(raw, raw.claim_one)
    finally:
        raw.drop()
    with rig(bench, "horizon") as board:
        system = board.system
        system.fill(finishes + 1_000)
        system.settle_down()
        with _pinned(system.dsn):
            done = 0
            while done < finishes:
                batch = board.claims(100)
                board.finish(batch)
                done += len(batch)
            system.close_client()

            def claim() -> None:
                if not system.client.claim(system.want(), 1, board.agent):
                    raise RuntimeError("nothing was left to claim")

            ours = _touched(system, claim)
            system.open_client()
    lines = []
    for i, what in enumerate(("index entries", "heap pages", "index pages")):
        lines.append(
            Line(
                number="8",
                what=f"{what} touched a claim, {finishes:,} finishes behind a pinned snapshot",
                ours=ours[i],
                baseline=theirs[i],
                unit=what,
                value=ours[i] / max(1.0, theirs[i]),
                must=3 if i < 2 else None,
                aim=1.5 if i < 2 else None,
                better="less",
            )
        )
    return lines


class _pinned:
    """A session that holds an old snapshot of this database."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def __enter__(self) -> None:
        self._conn = psycopg.connect(self._dsn)
        self._conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._conn.execute("SELECT count(*) FROM pg_class")

    def __exit__(self, *_: object) -> None:
        self._conn.close()


def _touched(system: System, claim: Callable[[], None]) -> Touched:
    """What one claim touches on average, without what a session touches for its first ones."""
    few, many = _session(system, claim, 5), _session(system, claim, 5 + _CLAIMS)
    entries, heap, index = ((b - a) / _CLAIMS for a, b in zip(few, many, strict=True))
    return entries, heap, index


def _session(system: System, claim: Callable[[], None], n: int) -> Touched:
    """What a session with ``n`` claims touches. It reports when it ends, so it is a session of its own."""
    before = _counters(system.dsn)
    system.open_client()
    for _ in range(n):
        claim()
    system.close_client()
    end = time.monotonic() + 10
    while True:
        after = _counters(system.dsn)
        entries, heap, index = (b - a for a, b in zip(before, after, strict=True))
        if entries >= n:
            return entries, heap, index
        if time.monotonic() > end:
            raise TimeoutError("the session's statistics did not come")
        time.sleep(0.1)


def _counters(dsn: str) -> Touched:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(_COUNTERS).fetchone()
    assert row is not None
    return float(row[0]), float(row[1]), float(row[2])
