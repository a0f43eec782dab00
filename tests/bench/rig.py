"""Our board in this process, for the measures that have no peer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taskfabric.boards.native.board import NativeBoard
from taskfabric.domain.outcome import Done
from taskfabric.domain.principal import Stamp
from taskfabric.domain.task import Claimed
from tests.bench.context import Bench
from tests.bench.host import make
from tests.bench.ruler import SessionClock
from tests.bench.sys_fabric import NOTE, Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call cost, in milliseconds."""

    wall: float
    cpu: float  # of this process and of its sessions in PostgreSQL


class Rig:
    """A board with an agent and a human, and a stop-watch."""

    def __init__(self, system: Fabric) -> None:
        self.system = system
        self.clock = SessionClock(system.admin, system.database)
        self.board: NativeBoard = system.client
        self.agent: Stamp = system.agent.stamp()
        self.human: Stamp = system.human.stamp()

    def claims(self, n: int) -> list[Claimed]:
        """Up to ``n`` leases, taken one hundred at a time."""
        got: list[Claimed] = []
        while len(got) < n:
            more = self.board.claim(self.system.want(), min(100, n - len(got)), self.agent)
            if not more:
                break
            got += more
        return got

    def finish(self, claimed: list[Claimed]) -> None:
        """All of these are done."""
        for i in range(0, len(claimed), 100):
            ends = [(c.fence, Done(note=NOTE)) for c in claimed[i : i + 100]]
            self.board.settle_many(ends, self.agent)

    def cost(self, act: Callable[[], object], n: int = 1) -> Cost:
        """What each of ``n`` acts costs on average."""
        s0, c0, t0 = self.clock.read(), time.process_time(), time.perf_counter()
        for _ in range(n):
            act()
        t1, c1, s1 = time.perf_counter(), time.process_time(), self.clock.read()
        return Cost(wall=1000 * (t1 - t0) / n, cpu=1000 * (c1 - c0 + s1 - s0) / n)


@contextlib.contextmanager
def rig(bench: Bench, name: str) -> Iterator[Rig]:
    """A board on a database of its own, which is gone afterwards."""
    system = make("fabric", bench.admin)
    assert isinstance(system, Fabric)
    system.name = name
    system.setup()
    system.open_client()
    try:
        yield Rig(system)
    finally:
        system.close_client()
        system.drop()
