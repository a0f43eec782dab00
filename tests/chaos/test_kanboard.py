"""A real Kanboard as the board, under fire: workers that crash and sleep, several keepers, a sweep that is late.

The verdict is that of the checker over all that clients saw and the journal wrote; besides, the tags of the locks
project must tell the same story: each epoch granted once, ended once.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.keeping import KanboardKeeping
from taskfabric.boards.kanboard.projects import KanboardProjects
from taskfabric.boards.native.board import FABRIC
from taskfabric.domain.errors import HeldBy, LeaseLost, Unavailable
from taskfabric.domain.outcome import Done
from taskfabric.domain.task import Claimed
from taskfabric.testing import TestDatabase
from tests.chaos.arena import Arena, arena, pause, until
from tests.chaos.checker import Violation

_URL: Final = os.environ.get("KANBOARD_URL", "")
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not _URL, reason="no real Kanboard: set KANBOARD_URL and KANBOARD_TOKEN"),
]

_TASKS: Final = 120
_CREW: Final = 10


@pytest.fixture
def stock(database: TestDatabase, tmp_path: Path) -> Iterator[Arena]:
    """An arena on the Kanboard, whose project and locks are new."""
    folder = tmp_path / "history"
    folder.mkdir()
    kanboard = (_URL, os.environ["KANBOARD_TOKEN"])
    line = Kanboard(*kanboard)
    for project in line.call("getAllProjects"):
        if project["name"] == "chaos" or project["identifier"] == "FABRICLOCKS":
            line.call("removeProject", project_id=int(project["id"]))
    with arena(database.dsn, folder, kanboard=kanboard, pool="chaos") as made:
        yield made


def _board(made: Arena) -> KanboardBoard:
    assert isinstance(made.board, KanboardBoard)
    return made.board


def _keeping(made: Arena) -> KanboardKeeping:
    board, projects = _board(made), made.projects
    assert isinstance(projects, KanboardProjects)
    return KanboardKeeping(board._stock, made.bus, board, projects)


def _columns(made: Arena) -> Counter[str]:
    """How many open cards stand in each column there."""
    board = _board(made)
    titles = {
        int(column["id"]): column["title"]
        for column in board.kanboard.call("getColumns", project_id=made.pool.project_id)
    }
    cards = board.kanboard.call("getAllTasks", project_id=made.pool.project_id, status_id=1)
    return Counter(titles[int(card["column_id"])] for card in cards)


def _verdict(found: list[Violation]) -> list[Violation]:
    """Without the epochs that were used up by a claim which died between its tag and its commit: here an epoch rises by
    at least one, and what lies between was granted to nobody."""
    return [one for one in found if not (one.rule in ("epochs", "starts") and _rises(one.text))]


def _rises(text: str) -> bool:
    after, before = (int(number) for number in re.findall(r"\d+", text))
    return after > before


def _check_tags(made: Arena) -> None:
    """Each epoch has one L and at most one E, without a gap, and every task that is done has ended all of them."""
    taken: Counter[tuple[int, int]] = Counter()
    over: Counter[tuple[int, int]] = Counter()
    for tag in _board(made).locks.tags():
        found = re.fullmatch(r"([LE])/(\d+)/(\d+)", tag["name"])
        if found is not None:
            (taken if found[1] == "L" else over)[int(found[2]), int(found[3])] += 1
    assert set(taken.values()) == {1}
    assert set(over.values()) <= {1}
    assert set(over) <= set(taken)


def test_ten_workers_with_crashes_and_zombies_drain_every_task(stock: Arena) -> None:
    """Situations 1 and 2: killed and stopped at random while they drain; all is done, nothing twice. G1 to G6, G9."""
    dice = random.Random(3)
    stock.submit_many(_TASKS, max_attempts=50)
    orders = {"lease": 6.0, "work": 0.2, "poll": 0.5}
    hands = [stock.hire("kimi" if n % 2 else "qwen", **orders) for n in range(_CREW)]
    begun, kills, stops = time.monotonic(), 0, 0
    while stock.left("ready", "working") and time.monotonic() - begun < 420:
        pause(0.6)
        chosen = dice.randrange(_CREW)
        if dice.random() < 0.6:
            hands[chosen].send(signal.SIGKILL)
            assert hands[chosen].gone_within(5)
            hands[chosen] = stock.hire("kimi" if chosen % 2 else "qwen", **orders)
            kills += 1
        else:
            hands[chosen].send(signal.SIGSTOP)
            timer = threading.Timer(7.0, hands[chosen].send, [signal.SIGCONT])
            timer.start()
            stops += 1
    took = time.monotonic() - begun
    stock.dismiss(patience=60.0)
    print(f"drained {_TASKS} tasks in {took:.0f} s with {kills} kills and {stops} stops")
    assert stock.left("done") == _TASKS
    _keeping(stock).reconcile(500)
    assert _columns(stock) == {"Done": _TASKS}
    assert _verdict(stock.verdict()) == []
    _check_tags(stock)


def test_a_worker_stopped_for_longer_than_its_lease_is_refused_when_it_wakes(stock: Arena) -> None:
    """Situation 2: SIGSTOP, expiry, SIGCONT. G3: the zombie neither finishes nor moves the card."""
    sleeper = stock.hire("kimi", lease=2.0, work=1.0, poll=0.1)
    task = stock.submit("a task")
    until(lambda: stock.left("working") == 1, within=20, what="the claim")
    sleeper.send(signal.SIGSTOP)
    stock.hire("qwen", lease=10.0, work=0.0, poll=0.1)
    until(lambda: stock.left("done") == 1, within=30, what="another worker finished it")
    sleeper.send(signal.SIGCONT)
    until(lambda: any(c.error == LeaseLost.name for c in stock.history()), within=30, what="the refusal")
    stock.dismiss(patience=60.0)
    assert stock.board.get(task.id, None).producer == "qwen"
    assert _columns(stock) == {"Done": 1}
    assert _verdict(stock.verdict()) == []
    _check_tags(stock)


def test_a_holder_who_finishes_just_before_a_late_sweep_wins(stock: Arena) -> None:
    """Situation 9: the lease has expired, the holder finishes, then the sweep acts. G3, G9."""
    kimi, board = stock.agents["kimi"], _board(stock)
    stock.submit("a task")
    (got,) = board.claim(stock.want(lease=timedelta(seconds=1)), 1, kimi)
    pause(1.2)
    with ThreadPoolExecutor(2) as threads:
        end = threads.submit(board.settle, got.fence, Done(note="done"), kimi)
        sweep = threads.submit(board.sweep, 10, FABRIC)
        finished = end.exception() is None
        assert (got.task.id in sweep.result().ready) is not finished
    assert board.get(got.task.id, None).status.value == ("done" if finished else "ready")
    _check_tags(stock)


def test_of_many_claimers_of_one_task_exactly_one_gets_it(stock: Arena) -> None:
    """Situation 10: 16 claimers at once, 20 rounds, with two keepers at their chores meanwhile. G1."""
    agents, stop = list(stock.agents.values()), threading.Event()
    board = _board(stock)
    board._stock._pool.resize(4, 24)
    want = stock.want(lease=timedelta(minutes=10))

    def keep() -> int:
        keeping, rounds = _keeping(stock), 0
        while not stop.is_set():
            keeping.reconcile(100)
            board.sweep(100, FABRIC)
            rounds += 1
        return rounds

    def take(number: int, task: int) -> Claimed | HeldBy | Unavailable:
        try:
            return board.take(task, want, agents[number % 2])
        except (HeldBy, Unavailable) as held:
            return held

    with ThreadPoolExecutor(18) as threads:
        keepers = [threads.submit(keep) for _ in range(2)]
        try:
            for _ in range(20):
                task = stock.submit("wanted").id
                answers = list(threads.map(take, range(16), [task] * 16))
                (got,) = [one for one in answers if isinstance(one, Claimed)]
                holder = next(agent for agent in agents if agent.principal_id == got.task.holder_id)
                board.settle(got.fence, Done(note="x"), holder)
        finally:
            stop.set()
        assert all(keeper.result() > 0 for keeper in keepers)
    _keeping(stock).reconcile(500)
    assert _columns(stock) == {"Done": 20}
    assert stock.verdict_of_board() == []
    _check_tags(stock)


def test_a_fabric_with_a_new_database_grants_no_epoch_a_second_time(stock: Arena) -> None:
    """G2: the tags outlive the database; the cards become tasks again, and their epochs go on."""
    kimi, board = stock.agents["kimi"], _board(stock)
    for _ in range(2):
        stock.submit("lost with the database")
    (held,) = board.claim(stock.want(lease=timedelta(seconds=2)), 1, kimi)
    with stock.database.connection() as conn:
        conn.execute("DELETE FROM tasks")
        for table in ("stock_cards", "stock_leases", "stock_dirty", "stock_comments", "comments", "journal"):
            conn.execute(f"DELETE FROM {table}".encode())
    pause(3.5)
    _keeping(stock).reconcile(100)
    again = board.claim(stock.want(), 5, kimi)
    epochs = {got.task.id: got.task.epoch for got in again}
    assert epochs.get(held.task.id, 2) == 2
    assert all(epoch >= 1 for epoch in epochs.values())
    assert len(epochs) >= 1
