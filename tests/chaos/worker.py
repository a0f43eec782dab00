"""A stand-in for a worker: a real process that claims, works, renews and settles, and puts each call on record.

It is forked by the nursery and runs until SIGTERM. Work on a task whose title begins with ``poison`` kills the process.
A call of unknown outcome is repeated with the same fence, as a worker that wants to know does. ``shift`` and ``jump``
set this process' own clock off by so many seconds, at once and in the middle of each run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.ground import StockDatabase
from taskfabric.boards.kanboard.leases import Locks
from taskfabric.boards.native.board import NativeBoard
from taskfabric.db.pool import Database
from taskfabric.domain.errors import FabricError, LeaseLost, NotFound, Unavailable
from taskfabric.domain.lease import Fence, Renewal
from taskfabric.domain.outcome import Done, Failed, Outcome, Parked, Released
from taskfabric.domain.principal import Kind, Stamp, Trust
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.board import Want
from taskfabric.remote import RemoteFabric
from taskfabric.services import verbs
from taskfabric.stores.signal import Bus
from tests.chaos.history import Recorder

_REPEATS: Final = 40  # of a call whose outcome is unknown, before the worker lets the task go
_VERB: Final[Mapping[type[Outcome], str]] = {Done: "done", Failed: "failed", Parked: "parked", Released: "released"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What one worker is to do; instants and lengths in seconds."""

    history: str
    name: str
    actor: int
    queue: int
    dsn: str = ""
    url: str = ""
    token: str = ""
    lease: float = 5.0
    work: float = 0.0  # how long a task takes
    poll: float = 0.2
    batch: int = 1
    hears: bool = True  # wakes at notifications
    mixed: bool = False  # not everything ends done
    shift: float = 0.0
    jump: float = 0.0
    limit: float = 5.0  # for one call
    kanboard: tuple[str, str] | None = None  # address and token, if the board is one

    @classmethod
    def read(cls, text: str) -> Orders:
        """Raises TypeError for an order that there is not."""
        given: dict[str, Any] = json.loads(text)
        assert set(given) <= {f.name for f in fields(cls)}
        return cls(**given)


class Hands(Protocol):
    """How a worker reaches the board."""

    def claim(self, limit: int) -> list[Claimed]: ...
    def renew(self, fences: Sequence[Fence]) -> list[Renewal]: ...
    def settle(self, fence: Fence, outcome: Outcome) -> Task: ...


class NativeHands:
    """Straight to the database, through the board."""

    def __init__(self, orders: Orders, heard: Callable[[], None]) -> None:
        self._bus = Bus(orders.dsn)
        self._board = self._reach(orders)
        self._stamp = Stamp(principal_id=orders.actor, name=orders.name, kind=Kind.AGENT, trust=Trust.SANDBOXED)
        self._want = Want(queues=(orders.queue,), lease=timedelta(seconds=orders.lease))
        if orders.hears:
            self._bus.subscribe(lambda _: heard())

    def _reach(self, orders: Orders) -> NativeBoard:
        if orders.kanboard is None:
            database = Database(orders.dsn, size=2, name=orders.name, patience=2.0, limit=orders.limit)
            return NativeBoard(database, self._bus)
        line = Kanboard(*orders.kanboard)
        stock = StockDatabase(orders.dsn, line, Locks(line), size=4, name=orders.name)
        return KanboardBoard(stock, self._bus)

    def claim(self, limit: int) -> list[Claimed]:
        return self._board.claim(self._want, limit, self._stamp)

    def renew(self, fences: Sequence[Fence]) -> list[Renewal]:
        return self._board.renew(fences, None, self._stamp)

    def settle(self, fence: Fence, outcome: Outcome) -> Task:
        return self._board.settle(fence, outcome, self._stamp)


class RemoteHands:
    """Over HTTP, with a URL and a token, as real workers do."""

    def __init__(self, orders: Orders) -> None:
        self._fabric = RemoteFabric(orders.url, orders.token, timeout=orders.limit, instance=f"{orders.name}@chaos")
        self._lease = orders.lease

    def claim(self, limit: int) -> list[Claimed]:
        return self._fabric.call(verbs.Claim(limit=limit, lease=self._lease))

    def renew(self, fences: Sequence[Fence]) -> list[Renewal]:
        return self._fabric.call(verbs.Renew(fences=tuple(_named(fence) for fence in fences)))

    def settle(self, fence: Fence, outcome: Outcome) -> Task:
        named = _named(fence)
        match outcome:
            case Done():
                return self._fabric.call(verbs.Done(fence=named, note=outcome.note))
            case Failed():
                return self._fabric.call(verbs.Fail(fence=named, note=outcome.error))
            case Released():
                return self._fabric.call(verbs.Release(fence=named))
            case _:
                raise AssertionError(f"this stand-in does not end with {outcome!r}")


def _named(fence: Fence) -> verbs.FenceArg:
    return verbs.FenceArg(task=fence.task_id, epoch=fence.epoch, token=fence.hex)


class Worker:
    """Claims, works and settles until it is told to stop."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._hint = threading.Event()
        self._stop = threading.Event()
        self._hands: Hands = RemoteHands(orders) if orders.url else NativeHands(orders, self._hint.set)
        self._told = Recorder(Path(orders.history), client=Path(orders.history).name, actor=orders.actor)
        self._dice = random.Random(os.getpid())

    def stop(self, *_: object) -> None:
        """End after the task at hand."""
        self._stop.set()
        self._hint.set()

    def run(self) -> None:
        """The loop of every worker: claim, work under renewals, settle; without work wait for a hint or the poll."""
        while not self._stop.is_set():
            self._hint.clear()
            try:
                got = self._told.call("claim", lambda: self._hands.claim(self._orders.batch), _granted)
            except FabricError:
                self._stop.wait(0.05)
                continue
            for claimed in got:
                self._work_on(claimed)
            if not got:
                self._hint.wait(self._orders.poll)

    def _work_on(self, claimed: Claimed) -> None:
        if claimed.task.title.startswith("poison"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._under_renewals(claimed.fence):
            self._settle(claimed)

    def _under_renewals(self, fence: Fence) -> bool:
        """Work for as long as a task takes; False as soon as the lease is known to be lost."""
        left = self._orders.work
        while left > 0 and not self._stop.is_set():
            turn = min(left, self._orders.lease / 3)
            self._stop.wait(turn)
            left -= turn
            shift_clocks(self._orders.jump)
            if left > 0 and not self._renew(fence):
                return False
        return True

    def _renew(self, fence: Fence) -> bool:
        def renewed() -> list[Renewal]:
            answers = self._hands.renew([fence])
            if answers[0].until is None:
                raise LeaseLost("the renewal says so")
            return answers

        try:
            self._told.call("renew", renewed, lambda _: {}, grants=[_triple(fence)])
        except Unavailable:
            return True  # not known: go on, the finish will tell
        except FabricError:
            return False
        return True

    def _settle(self, claimed: Claimed) -> None:
        outcome = self._outcome(claimed)
        grants = [_triple(claimed.fence)]
        for _ in range(_REPEATS):
            try:
                self._told.call(
                    _VERB[type(outcome)],
                    lambda: self._hands.settle(claimed.fence, outcome),
                    lambda _: {},
                    grants=grants,
                )
            except (LeaseLost, NotFound):
                return
            except FabricError:
                self._stop.wait(0.05)
                continue
            return

    def _outcome(self, claimed: Claimed) -> Outcome:
        done = Done(note=f"by {self._orders.name}, attempt {claimed.task.attempts}")
        if not self._orders.mixed or claimed.task.releases > 2 or claimed.task.attempts > 1:
            return done
        choices: list[Outcome] = [done, done, done, Released(reason="later"), Failed(error="boom")]
        return self._dice.choice(choices)


def _granted(got: Sequence[Claimed]) -> Mapping[str, Any]:
    return {"grants": [_triple(claimed.fence) for claimed in got]}


def _triple(fence: Fence) -> list[int]:
    return [fence.task_id, fence.epoch, fence.token]


def shift_clocks(seconds: float) -> None:
    """Set what this process takes for the time of day off by so much more."""
    if seconds:
        honest = time.time
        time.time = lambda: honest() + seconds


def work(orders: Orders) -> None:
    """Work until SIGTERM, then end the process."""
    shift_clocks(orders.shift)
    worker = Worker(orders)
    signal.signal(signal.SIGTERM, worker.stop)
    try:
        worker.run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # connections end with the process; a database that is away must not hold it
