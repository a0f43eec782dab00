"""Many at once: claimers of one task, keepers, processes that start and migrate together."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from taskfabric.boards.native.board import FABRIC, NativeBoard
from taskfabric.db.pool import Database
from taskfabric.domain.errors import HeldBy
from taskfabric.domain.outcome import Done
from taskfabric.domain.task import Claimed
from tests.chaos.arena import Arena, until
from tests.chaos.nursery import SURROUNDINGS

pytestmark = pytest.mark.chaos

CLAIMERS = 64
ROUNDS = 200


def test_of_64_claimers_of_one_task_exactly_one_gets_it_two_hundred_times(chaos: Arena) -> None:
    """Situation 10. G1: the others learn by whom it is held, and until when."""
    database = Database(chaos.dsn, size=CLAIMERS, name="crowd", patience=30.0)
    board = NativeBoard(database, chaos.bus)
    agents = list(chaos.agents.values())
    want = chaos.want(lease=timedelta(minutes=10))
    files = [chaos.recorder(agents[n % 2].principal_id, f"claimer-{n}") for n in range(CLAIMERS)]
    gate = threading.Barrier(CLAIMERS)

    def take(number: int, task: int) -> Claimed | HeldBy:
        gate.wait(30)
        try:
            return files[number].call(
                "claim",
                lambda: board.take(task, want, agents[number % 2]),
                lambda got: {"grants": [[got.fence.task_id, got.fence.epoch, got.fence.token]]},
            )
        except HeldBy as held:
            return held

    with ThreadPoolExecutor(CLAIMERS) as threads:
        for _ in range(ROUNDS):
            task = chaos.submit("wanted").id
            answers = list(threads.map(take, range(CLAIMERS), [task] * CLAIMERS))
            got = [one for one in answers if isinstance(one, Claimed)]
            assert len(got) == 1
            assert all(one.facts["holder"] and one.facts["until"] for one in answers if isinstance(one, HeldBy))
            holder = next(agent for agent in agents if agent.principal_id == got[0].task.holder_id)
            board.settle(got[0].fence, Done(note="x"), holder)
    database.close()
    assert chaos.verdict_of_claims() == []


def test_64_who_claim_what_comes_next_share_the_tasks_without_an_overlap(chaos: Arena) -> None:
    """Situation 10. G1: none is granted twice, none is left over."""
    database = Database(chaos.dsn, size=32, name="crowd", patience=30.0)
    board = NativeBoard(database, chaos.bus)
    kimi = chaos.agents["kimi"]
    made = {one.task.id for one in chaos.submit_many(1000)}

    def drain(_: int) -> list[int]:
        mine = []
        while got := board.claim(chaos.want(lease=timedelta(minutes=10)), 1, kimi):
            mine.append(got[0].task.id)
        return mine

    with ThreadPoolExecutor(CLAIMERS) as threads:
        taken = [task for mine in threads.map(drain, range(CLAIMERS)) for task in mine]
    # SKIP LOCKED may show an empty lane to one who looks while others hold its last heads; a poll later they are there.
    taken += drain(0)
    database.close()
    assert sorted(taken) == sorted(made)
    assert chaos.verdict_of_board() == []


def test_two_keepers_and_the_claims_take_each_expired_lease_back_once(chaos: Arena) -> None:
    """Situations 9 and 10: they sweep while holders finish late, claim again, and sweep again, for ten seconds."""
    chaos.submit_many(200, max_attempts=1000)
    for number in range(3):
        chaos.hire("kimi" if number % 2 else "qwen", lease=0.15, work=0.0, poll=0.05, batch=10, mixed=True)
    stop = threading.Event()

    def keep() -> int:
        swept = 0
        while not stop.is_set():
            swept += len(chaos.board.sweep(100, FABRIC).ready)
        return swept

    def hoard() -> int:
        """Claims and lets the leases go, or finishes after they are over."""
        late = 0
        told = chaos.recorder(chaos.agents["kimi"].principal_id, "hoarder")
        while not stop.is_set():
            got = told.call(
                "claim",
                lambda: chaos.board.claim(chaos.want(lease=timedelta(milliseconds=20)), 5, chaos.agents["kimi"]),
                lambda all_: {"grants": [[g.fence.task_id, g.fence.epoch, g.fence.token] for g in all_]},
            )
            stop.wait(0.02)
            for one in got[::2]:
                grants = [[one.fence.task_id, one.fence.epoch, one.fence.token]]
                try:
                    told.call(
                        "done",
                        lambda one=one: chaos.board.settle(one.fence, Done(note="late"), chaos.agents["kimi"]),  # type: ignore[misc]
                        lambda _: {},
                        grants=grants,
                    )
                except Exception:
                    late += 1
        return late

    with ThreadPoolExecutor(4) as threads:
        keepers = [threads.submit(keep), threads.submit(keep)]
        hoarder = threads.submit(hoard)
        begun = time.monotonic()
        until(lambda: time.monotonic() - begun > 10 or chaos.left("ready", "working") == 0, within=20, what="the end")
        stop.set()
        swept, late = sum(one.result() for one in keepers), hoarder.result()
    chaos.dismiss()
    assert swept > 0
    assert late >= 0
    assert chaos.verdict() == []


def test_eight_processes_that_start_and_migrate_at_once_make_one_schema(empty_database: str) -> None:
    """Situation 10."""
    code = (
        "import sys; from taskfabric.db.migrate import migrate; from taskfabric.db.pool import Database\n"
        "made = len(migrate(sys.argv[1])); database = Database(sys.argv[1], size=2, name='starter')\n"
        "from taskfabric.boards.native.board import NativeBoard; from taskfabric.stores.signal import Bus\n"
        "print(made, NativeBoard(database, Bus(sys.argv[1])).hello().facts['schema']); database.close()"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", code, empty_database], env=SURROUNDINGS, stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    said = [starter.communicate(timeout=60)[0].split() for starter in starters]
    with psycopg.connect(empty_database) as conn:
        (number,) = conn.execute("SELECT count(*) FROM schema_migration").fetchone() or (0,)
    assert Counter(int(made) for made, _ in said) == {0: 7, number: 1}
    assert {int(schema) for _, schema in said} == {number}
