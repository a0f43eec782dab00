"""The whole fleet at work: real workers, a keeper, kills, parks; and a machine that slept. Real time passes here."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from taskfabric.domain.status import Status
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from tests.chaos.arena import pause
from tests.chaos.checker import check
from tests.chaos.crew import Crew, crew_of
from tests.chaos.history import read_board
from tests.integration.hiring import employ, until
from tests.integration.serving import Served, serving
from tests.integration.test_worker import submit, task

pytestmark = pytest.mark.chaos

_MIX: Final = ("echo", "slow", "stumble", "park", "echo", "family", "ask", "fail", "echo", "slow")
_PLACES: Final = ("pool", "ada", "pool", "eve", "pool")


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    """More attempts than the kills of a test can spend, and short rests after a failure."""
    patient: dict[str, Any] = {"board__max_attempts": 6}
    patient |= {"board__retry_backoff__base": "50ms", "board__retry_backoff__max": "1s"}
    with serving(database.dsn, tmp_path, **patient) as made:
        yield made


@pytest.fixture
def crew(served: Served, tmp_path: Path) -> Iterator[Crew]:
    with crew_of(served, tmp_path) as made:
        yield made


def state(served: Served, numbers: list[int]) -> Counter[str]:
    return Counter(task(served, number).status.value for number in numbers)


def test_two_hundred_mixed_tasks_all_end_in_their_right_state(
    served: Served, crew: Crew, tmp_path: Path, database: TestDatabase
) -> None:
    """Five workers of three cards, two queues and a pool, with kills, parks and a keeper restart. G1 to G6, G9."""
    dice = random.Random(11)
    for name in ("ada", "eve", "bea"):
        employ(served, tmp_path, name, "mixed", lease="5s", concurrency=2, tools=["submit"])
    kinds: dict[int, str] = {}
    for n in range(185):
        kind = _MIX[n % len(_MIX)]
        kinds[submit(served, f"task {n}", dice.choice(_PLACES), description=kind)] = kind
    first = next(number for number, kind in kinds.items() if kind == "slow")
    for n in range(5):
        kinds[submit(served, f"dependent {n}", "pool", after=(first,))] = "echo"
        kinds[submit(served, f"for a person {n}", "alice")] = "human"
        later = served.house.board.now() + timedelta(hours=2)
        kinds[submit(served, f"later {n}", "pool", not_before=later)] = "later"
    assert len(kinds) == 200

    names = ("ada", "eve", "bea", "ada", "bea")
    workers, keeper = [crew.worker(name) for name in names], crew.keeper()
    begun, asked = time.monotonic(), [n for n, kind in kinds.items() if kind == "ask"]
    answered = set(asked[::2])
    while time.monotonic() - begun < 20:
        pause(dice.uniform(0.8, 1.6))
        chosen = dice.randrange(len(workers))
        crew.kill(workers[chosen])
        workers[chosen] = crew.worker(names[chosen])
        if time.monotonic() - begun > 8 and keeper.returncode is None:
            crew.kill(keeper)
    keeper = crew.keeper()

    wanted = {"human": Status.READY, "later": Status.READY, "fail": Status.DEAD, "ask": Status.WAITING}

    def over() -> bool:
        with served.fabric("alice") as alice:
            for number in answered:
                if task(served, number).status is Status.WAITING:
                    alice.call(verbs.Answer(task=number, note="The left one."))
        return all(
            task(served, number).status is (Status.DONE if number in answered else wanted.get(kind, Status.DONE))
            for number, kind in kinds.items()
        )

    try:
        until(over, within=240, what="every task is where it belongs")
    except AssertionError:
        wrong = {n: (k, task(served, n).status.value, task(served, n).error) for n, k in kinds.items()}
        raise AssertionError(f"{state(served, list(kinds))}: {wrong}") from None
    assert keeper.poll() is None
    assert check((), read_board(database.dsn)) == []
    children = [n for n, kind in kinds.items() if kind == "family" and task(served, n).children != 2]
    assert len(children) <= 3, "a parent that was killed between its two children has one"


def test_a_whole_machine_that_slept_buries_nothing(
    served: Served, crew: Crew, tmp_path: Path, database: TestDatabase
) -> None:
    """Situation 8: all processes of the fabric stopped for longer than two leases; no mass dead-lettering. G9."""
    for name in ("ada", "eve"):
        employ(served, tmp_path, name, "hold", lease="5s", concurrency=5)
    gate = tmp_path / "gate"
    numbers = [submit(served, f"work {n}", ("ada", "eve")[n % 2], description=str(gate)) for n in range(10)]
    processes = [crew.worker("ada"), crew.worker("eve"), crew.keeper()]
    until(lambda: state(served, numbers)["working"] == 10, what="all are claimed")
    for round_ in range(3):  # as many nights as a task has attempts, and more would bury them
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        database.clock.advance(timedelta(minutes=10))
        pause(0.2)
        # The machine wakes in whatever order: the keeper, which could sweep them all, first.
        for process in reversed(processes):
            process.send_signal(signal.SIGCONT)
        until(lambda: state(served, numbers)["working"] == 10, what=f"all go on after night {round_}")
    gate.touch()
    until(lambda: state(served, numbers)["done"] == 10, within=60, what="all end")
    assert max(task(served, number).attempts for number in numbers) <= 3
    assert check((), read_board(database.dsn)) == []


def test_a_low_task_starts_within_its_aging_bound_under_a_flood(
    served: Served, crew: Crew, tmp_path: Path, database: TestDatabase
) -> None:
    """Situation 14, through real workers: high tasks never end, and the low one starts all the same."""
    employ(served, tmp_path, "ada", "mixed", lease="5s", concurrency=1)
    low = submit(served, "low", "pool", priority=0, description="echo")
    flood = [submit(served, f"high {n}", "pool", priority=3, description="echo") for n in range(15)]
    crew.worker("ada")
    until(lambda: state(served, flood)["done"] >= 3, what="the flood is being worked on")
    assert task(served, low).status is Status.READY
    database.clock.advance(timedelta(hours=4, minutes=1))
    fresh = [submit(served, f"new {n}", "pool", priority=3, description="slow") for n in range(40)]
    until(lambda: task(served, low).status is Status.DONE, within=60, what="the low one")
    assert state(served, fresh)["ready"] > 20, "it did not wait for the end of the flood"
