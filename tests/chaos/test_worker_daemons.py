"""Real worker processes that are killed, stopped, starved of the interpreter, and cut off; real time passes here."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskfabric.domain.status import Status
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from tests.chaos.arena import pause
from tests.chaos.checker import check
from tests.chaos.history import read_board
from tests.integration.hiring import ROOT, employ, surroundings, until
from tests.integration.serving import Served, serving
from tests.integration.test_worker import ended, submit, task

pytestmark = pytest.mark.chaos

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    with serving(database.dsn, tmp_path) as made:
        yield made


@pytest.fixture
def start(served: Served, tmp_path: Path) -> Iterator[Start]:
    """Starts worker processes; all are gone afterwards."""
    made: list[subprocess.Popen[bytes]] = []

    def one(name: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "workers.log").open("ab") as log:
            command = [sys.executable, "-m", "workers.main", name, "--poll", "0.5", "--grace", "10"]
            made.append(
                subprocess.Popen(command, cwd=ROOT, env=surroundings(served, name, tmp_path), stdout=log, stderr=log)
            )
        return made[-1]

    yield one
    for process in made:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def sweep(served: Served) -> None:
    with served.fabric("alice") as alice:
        alice.call(verbs.Sweep())


def test_a_run_that_holds_the_interpreter_for_three_leases_keeps_its_lease(
    served: Served, start: Start, tmp_path: Path
) -> None:
    """Situation 3. G8."""
    employ(served, tmp_path, "ada", "hog", lease="5s", watchdog="1m")
    number = submit(served, "hog", "ada", description="16")
    start("ada")
    done = ended_within(served, number, 60)
    assert (done, task(served, number).attempts, task(served, number).epoch) == (Status.DONE, 1, 1)


def ended_within(served: Served, number: int, seconds: float) -> Status:
    def over() -> bool:
        sweep(served)
        return task(served, number).status not in (Status.READY, Status.WORKING)

    until(over, within=seconds, what=f"#{number} has ended")
    return task(served, number).status


def test_a_worker_stopped_for_longer_than_its_lease_overwrites_nothing(
    served: Served, start: Start, tmp_path: Path, database: TestDatabase
) -> None:
    """Situation 2: the stale finish and the stale renewal are refused. G3."""
    employ(served, tmp_path, "ada", "hold", lease="5s")
    gate = tmp_path / "gate"
    number = submit(served, "work", "pool", description=str(gate))
    sleeper = start("ada")
    until(lambda: task(served, number).status is Status.WORKING, what="the claim")
    sleeper.send_signal(signal.SIGSTOP)
    employ(served, tmp_path, "eve", "echo", lease="5s")
    start("eve")
    ended(served, number)
    gate.touch()
    sleeper.send_signal(signal.SIGCONT)
    another = submit(served, "next", "ada", description=str(gate))
    ended_within(served, another, 30)
    assert (task(served, number).producer, task(served, number).note) == ("eve", "work")
    assert check((), read_board(database.dsn)) == []


def test_a_machine_that_slept_goes_on_where_it_was(
    served: Served, start: Start, tmp_path: Path, database: TestDatabase
) -> None:
    """Situation 8, for a worker: stopped for two leases while nobody takes its task, it is still its own."""
    employ(served, tmp_path, "ada", "hold", lease="5s", concurrency=5)
    gate = tmp_path / "gate"
    numbers = [submit(served, f"work {n}", "ada", description=str(gate)) for n in range(5)]
    worker = start("ada")
    until(lambda: all(task(served, n).status is Status.WORKING for n in numbers), what="the claims")
    worker.send_signal(signal.SIGSTOP)
    pause(11)
    worker.send_signal(signal.SIGCONT)
    pause(1)
    gate.touch()
    for number in numbers:
        ended(served, number)
        assert (task(served, number).attempts, task(served, number).epoch) == (1, 1)
    assert check((), read_board(database.dsn)) == []


def test_workers_killed_at_random_lose_nothing_and_double_nothing(
    served: Served, start: Start, tmp_path: Path, database: TestDatabase
) -> None:
    """Situation 1 with the daemons themselves, for fifteen seconds. G1 to G6."""
    dice = random.Random(3)
    for name in ("ada", "eve"):
        employ(served, tmp_path, name, "echo", lease="5s", concurrency=2)
    numbers = [submit(served, f"task {n}", ("pool", "ada", "eve")[n % 3]) for n in range(150)]
    crew = [start(name) for name in ("ada", "eve", "ada")]
    begun = time.monotonic()
    while time.monotonic() - begun < 15:
        pause(dice.uniform(0.5, 1.5))
        chosen = dice.randrange(len(crew))
        crew[chosen].kill()
        crew[chosen].wait()
        crew[chosen] = start(("ada", "eve", "ada")[chosen])

    def over() -> bool:
        sweep(served)
        return all(task(served, n).status in (Status.DONE, Status.DEAD) for n in numbers)

    until(over, within=120, what="every task ended")
    assert sum(task(served, n).status is Status.DONE for n in numbers) >= 148
    assert check((), read_board(database.dsn)) == []


def test_a_term_gives_back_what_runs_after_its_grace_and_a_second_one_at_once(
    served: Served, start: Start, tmp_path: Path
) -> None:
    """SIGTERM drains. G9: no attempt is spent."""
    employ(served, tmp_path, "ada", "hold", lease="20s")
    number = submit(served, "work", "ada", description=str(tmp_path / "never"))
    worker = start("ada")
    until(lambda: task(served, number).status is Status.WORKING, what="the claim")
    worker.terminate()
    pause(1)
    assert worker.poll() is None
    worker.terminate()
    assert worker.wait(15) == 0
    assert (task(served, number).status, task(served, number).attempts) == (Status.READY, 0)
