"""The ruler: processes, counters and CPU clocks, the same for every system.

Workers are operating-system processes with one slot each, forked after the imports. A worker counts in shared memory;
the parent reads the counters and the CPU clocks at both ends of a window, so start-up and shut-down cost nobody
anything. CPU time is the number to trust on a machine that others use as well.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray, RawValue
from pathlib import Path
from typing import Any, Final

import psycopg

_FORK: Final = multiprocessing.get_context("fork")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_LATENCIES: Final = 4096  # kept for each worker


class Slot:
    """One worker's side of the ruler. Shared memory without locks: each field has one writer."""

    def __init__(self) -> None:
        self._ready = RawValue("b", 0)
        self._go = RawValue("b", 0)
        self._stop = RawValue("b", 0)
        self._count = RawValue("Q", 0)
        self._lat: Any = RawArray("d", _LATENCIES)
        self._lats = RawValue("Q", 0)

    # the worker's side
    def ready(self) -> None:
        """Say that work can be taken, and wait until it may be."""
        self._ready.value = 1
        while not self._go.value:
            time.sleep(0.002)

    def taken(self, submitted: str | float) -> None:
        """A task was taken; ``submitted``: the monotonic time when its submit began, if it carries one."""
        if submitted:
            self._lat[self._lats.value % _LATENCIES] = time.monotonic() - float(submitted)
            self._lats.value += 1

    def done(self, n: int = 1) -> None:
        """``n`` tasks have been worked."""
        self._count.value += n

    @property
    def stopping(self) -> bool:
        return bool(self._stop.value)

    def wait_stop(self) -> None:
        """Return when the parent says stop."""
        while not self._stop.value:
            time.sleep(0.005)

    # the parent's side
    @property
    def is_ready(self) -> bool:
        return bool(self._ready.value)

    @property
    def count(self) -> int:
        return int(self._count.value)

    def forget(self) -> None:
        """Latencies begin anew."""
        self._lats.value = 0

    @property
    def latencies(self) -> list[float]:
        return list(self._lat[: min(_LATENCIES, self._lats.value)])

    def go(self) -> None:
        self._go.value = 1

    def stop(self) -> None:
        self._stop.value = 1


class Fleet:
    """``n`` workers of one system."""

    def __init__(self, work: Callable[[Slot], None], n: int) -> None:
        self.slots = [Slot() for _ in range(n)]
        self._procs: list[BaseProcess] = []
        for slot in self.slots:
            process = _FORK.Process(target=_run, args=(work, slot), daemon=True)
            process.start()
            self._procs.append(process)

    def start(self, patience: float = 60.0) -> None:
        """All workers are at work afterwards. Raises TimeoutError."""
        end = time.monotonic() + patience
        while not all(slot.is_ready for slot in self.slots):
            if time.monotonic() > end or not all(p.is_alive() for p in self._procs):
                self.stop()
                raise TimeoutError("a worker did not get ready")
            time.sleep(0.005)
        for slot in self.slots:
            slot.go()

    @property
    def count(self) -> int:
        return sum(slot.count for slot in self.slots)

    def cpu(self) -> float:
        """CPU seconds of the workers so far."""
        return sum(cpu_of(p.pid) for p in self._procs if p.pid)

    def await_count(self, n: int, patience: float = 30.0) -> None:
        """Return when ``n`` tasks have been worked. Raises TimeoutError."""
        end = time.monotonic() + patience
        while self.count < n:
            if time.monotonic() > end or not all(p.is_alive() for p in self._procs):
                raise TimeoutError(f"only {self.count} of {n} tasks were worked")
            time.sleep(0.005)

    def stop(self, grace: float = 3.0) -> None:
        """All workers are gone afterwards; one that does not listen is killed."""
        for slot in self.slots:
            slot.stop()
        end = time.monotonic() + grace
        for process in self._procs:
            process.join(max(0.05, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _run(work: Callable[[Slot], None], slot: Slot) -> None:
    code = 0
    try:
        work(slot)
    except BaseException:
        if not slot.stopping:
            traceback.print_exc()
            code = 1
    finally:
        os._exit(code)


def cpu_of(pid: int) -> float:
    """CPU seconds of one process, in nanosecond steps where the kernel tells."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return _stat(pid)[1]
    return total / 1e9


def life_of(pid: int) -> float:
    """CPU seconds of one process, threads that have ended included, in steps of the kernel's clock."""
    return _stat(pid)[1]


def rss_of(pid: int) -> float:
    """Megabytes of memory that a process has for itself and with others."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def tree_cpu(root: int) -> float:
    """CPU seconds of a process and all its descendants that live."""
    kids: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            kids.setdefault(_stat(int(entry.name))[0], []).append(int(entry.name))
    todo, total = [root], 0.0
    while todo:
        pid = todo.pop()
        total += cpu_of(pid)
        todo += kids.get(pid, [])
    return total


def _stat(pid: int) -> tuple[int, float, float]:
    """Parent, CPU seconds, CPU seconds of reaped children."""
    try:
        part = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return (-1, 0.0, 0.0)
    return int(part[1]), (int(part[11]) + int(part[12])) / _TICK, (int(part[13]) + int(part[14])) / _TICK


class ServerClock:
    """CPU seconds of PostgreSQL: every process of the server, those that have ended as well."""

    def __init__(self, admin: str) -> None:
        with psycopg.connect(admin, autocommit=True) as conn:
            row = conn.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'").fetchone()
        assert row is not None
        self._postmaster = _stat(row[0])[0]

    def read(self) -> float:
        total = _stat(self._postmaster)[2]
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _stat(int(entry.name))[0] == self._postmaster:
                total += cpu_of(int(entry.name))
        return total


class SessionClock:
    """CPU seconds of the sessions that one database has now, without the server's own processes."""

    def __init__(self, admin: str, database: str) -> None:
        with psycopg.connect(admin, autocommit=True) as conn:
            found = conn.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'", (database,)
            ).fetchall()
        self._pids = [pid for (pid,) in found]

    def read(self) -> float:
        return sum(cpu_of(pid) for pid in self._pids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one window measured."""

    per_second: float
    tasks: int
    client_ms: float  # CPU milliseconds a task, of the workers (and of the product's own server)
    server_ms: float  # CPU milliseconds a task, of PostgreSQL

    @property
    def cpu_ms(self) -> float:
        return self.client_ms + self.server_ms


def window(
    work: Callable[[Slot], None],
    n: int,
    secs: float,
    server: ServerClock,
    *,
    done: Callable[[], int | None] = lambda: None,
    beside: Callable[[], float] = lambda: 0.0,
    warm: float = 0.4,
    first_wait: float = 30.0,
) -> Window:
    """``n`` workers at work for ``secs`` seconds after a short warm-up.

    ``done`` counts what the database records as finished, for products that only tell when a handler starts;
    ``beside`` reads the CPU clock of a process that belongs to the product and is no worker.
    """
    fleet = Fleet(work, n)
    try:
        fleet.start()
        fleet.await_count(1, first_wait)
        time.sleep(warm)
        d0 = done()
        c0, s0, n0, t0 = fleet.cpu() + beside(), server.read(), fleet.count, time.monotonic()
        time.sleep(secs)
        n1, t1, c1, s1 = fleet.count, time.monotonic(), fleet.cpu() + beside(), server.read()
        tasks = n1 - n0
        d1 = done()
        if d0 is not None and d1 is not None:
            tasks = min(tasks, d1 - d0)
    finally:
        fleet.stop()
    per = max(1, tasks)
    return Window(
        per_second=tasks / (t1 - t0),
        tasks=tasks,
        client_ms=1000 * (c1 - c0) / per,
        server_ms=1000 * (s1 - s0) / per,
    )
