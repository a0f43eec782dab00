"""Where chaos happens: a board with a pool and two agents, worker processes, and the verdict at the end."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.ground import StockDatabase
from taskfabric.boards.kanboard.leases import Locks
from taskfabric.boards.kanboard.projects import KanboardProjects
from taskfabric.boards.native.board import BoardRules, NativeBoard
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.outcome import Backoff
from taskfabric.domain.principal import Kind, ProjectRole, Stamp, Trust
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.task import NewTask, Submitted, Task
from taskfabric.ports.board import Want
from taskfabric.stores.signal import Bus
from tests.chaos.checker import Violation, check
from tests.chaos.history import Call, Recorder, read_board, read_history
from tests.chaos.nursery import Hand, Nursery

_MOMENT: Final = threading.Event()  # never set: a wait that yields the processor


def pause(seconds: float) -> None:
    """Let the chaos go on for so long: here real time passes, by real clocks."""
    _MOMENT.wait(seconds)


def until(condition: Callable[[], bool], *, within: float, what: str) -> float:
    """Returns the seconds it took until the condition held; fails when it does not within that many."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < within, f"{what}: not within {within:g} s"
        pause(0.02)
    return time.monotonic() - begun


@dataclass
class Arena:
    """A board on a database, and the processes that work for it."""

    dsn: str
    folder: Path
    database: Database
    bus: Bus
    board: NativeBoard
    projects: NativeProjects
    nursery: Nursery
    alice: Stamp = field(init=False)
    agents: dict[str, Stamp] = field(default_factory=dict)
    pool: Queue = field(init=False)
    submitter: Recorder = field(init=False)
    files: int = 0
    kanboard: tuple[str, str] | None = None  # address and token, if the board is one

    def queue(self, name: str) -> Queue:
        """One more pool, which both agents serve."""
        made, _ = self.projects.make_queue(name, QueueKind.POOL, self.alice)
        for agent in self.agents.values():
            self.projects.set_member(made.project_id, agent.principal_id, ProjectRole.MEMBER, self.alice)
        return made

    def want(self, **more: Any) -> Want:
        return Want(**{"queues": (self.pool.project_id,), "lease": timedelta(seconds=5), **more})

    def recorder(self, actor: int, name: str) -> Recorder:
        """A file of its own for one more client."""
        self.files += 1
        return Recorder(self.folder / f"{name}-{self.files}", client=f"{name}-{self.files}", actor=actor)

    def submit(self, title: str, *, key: str | None = None, project: int | None = None, **more: Any) -> Task:
        """Submit one task, on record."""
        item = NewTask(
            project_id=project or self.pool.project_id, title=title, key=key, body_hash=title.encode(), **more
        )
        return self.submitter.call(
            "submit",
            lambda: self.board.submit([item], self.alice, Limits())[0],
            lambda made: {"task": made.task.id},
            key=key,
        ).task

    def submit_many(self, number: int, **more: Any) -> list[Submitted]:
        """So many tasks at once, off the record."""
        items = [NewTask(**{"project_id": self.pool.project_id, "title": f"task {i}", **more}) for i in range(number)]
        return self.board.submit(items, self.alice, Limits())

    def hire(self, agent: str = "kimi", **orders: Any) -> Hand:
        """Start a worker process."""
        self.files += 1
        given = {
            "dsn": "" if "url" in orders else self.dsn,
            "name": agent,
            "actor": self.agents[agent].principal_id,
            "queue": self.pool.project_id,
            "history": str(self.folder / f"{agent}-{self.files}"),
            **({"kanboard": list(self.kanboard)} if self.kanboard else {}),
            **orders,
        }
        return self.nursery.hire(json.dumps(given))

    def dismiss(self, *, patience: float = 15.0) -> None:
        """Ask all workers to stop and wait for them; fails when one does not, or when one broke."""
        for hand in self.nursery.hands:
            hand.send(signal.SIGCONT)
            hand.send(signal.SIGTERM)
        stuck = [hand.pid for hand in self.nursery.hands if not hand.gone_within(patience)]
        assert not stuck, f"workers {stuck} did not stop"
        self.nursery.hands.clear()
        assert "Traceback" not in self.complaints(), self.complaints()

    def left(self, *statuses: str) -> int:
        """How many tasks stand in one of these statuses."""
        with self.database.connection() as conn:
            row = conn.execute("SELECT count(*) FROM tasks WHERE status = ANY(%s)", (list(statuses),)).fetchone()
        assert row is not None
        return int(row[0])

    def history(self) -> list[Call]:
        return read_history(path for path in self.folder.iterdir() if path.suffix != ".err")

    def verdict(self) -> list[Violation]:
        """What is wrong with all that happened here."""
        return check(self.history(), read_board(self.dsn))

    def verdict_of_board(self) -> list[Violation]:
        """What is wrong with the board's own account, whatever clients were told."""
        return check((), read_board(self.dsn))

    def verdict_of_claims(self) -> list[Violation]:
        """What is wrong with claims and submits, where the ends were not put on record."""
        return check([call for call in self.history() if call.verb in ("claim", "submit")], read_board(self.dsn))

    def complaints(self) -> str:
        """What the workers wrote to their standard error: a crash shows here."""
        return (self.folder / "workers.err").read_text()


def fast_rules() -> BoardRules:
    """Failures rest for a moment only, so that a run of a minute sees many attempts."""
    return BoardRules(backoff=Backoff(base=timedelta(milliseconds=50), ceiling=timedelta(seconds=1)))


@contextlib.contextmanager
def arena(
    dsn: str, folder: Path, *, name: str = "arena", kanboard: tuple[str, str] | None = None, pool: str = "pool"
) -> Iterator[Arena]:
    """An arena on a migrated database, and on a Kanboard if there is one; people and pool that are there already are
    taken over."""
    database = Database(dsn, size=6, name=name, patience=10.0)
    bus = Bus(dsn)
    board, projects, stock = NativeBoard(database, bus, fast_rules()), NativeProjects(database), None
    if kanboard is not None:
        line = Kanboard(*kanboard)
        stock = StockDatabase(dsn, line, Locks(line), size=6, name=name)
        board = there = KanboardBoard(stock, bus, fast_rules())
        projects = KanboardProjects(database, line, there.people)
    made = Arena(dsn, folder, database, bus, board, projects, Nursery(folder / "workers.err"), kanboard=kanboard)
    made.alice = _person(made, "alice", Kind.HUMAN, Trust.HUMAN)
    made.agents = {agent: _person(made, agent, Kind.AGENT, Trust.SANDBOXED) for agent in ("kimi", "qwen")}
    made.pool = made.queue(pool)
    made.submitter = made.recorder(made.alice.principal_id, "alice")
    try:
        yield made
    finally:
        made.nursery.close()
        if stock is not None:
            stock.close()
        bus.close()
        database.close()


def _person(made: Arena, name: str, kind: Kind, trust: Trust) -> Stamp:
    with made.database.connection() as conn:
        row = conn.execute(
            "INSERT INTO users (username, kind, trust) VALUES (%s, %s, %s)"
            " ON CONFLICT (username) DO UPDATE SET username = excluded.username RETURNING id",
            (name, kind.value, int(trust)),
        ).fetchone()
    assert row is not None
    return Stamp(principal_id=row[0], name=name, kind=kind, trust=trust)
