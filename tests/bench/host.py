"""A system in a process of its own: it forks its workers from there, and peers run under their own interpreter.

python -m tests.bench.host NAME         # commands as JSON lines on stdin, answers on stdout
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from tests.bench.ruler import Fleet, ServerClock, life_of, rss_of, window
from tests.bench.system import System

# name -> module, class, arguments
SYSTEMS: Final[Mapping[str, tuple[str, str, dict[str, Any]]]] = {
    "raw": ("sys_raw", "Raw", {}),
    "raw_leased": ("sys_raw", "Raw", {"variant": "leased"}),
    "raw_tens": ("sys_raw", "Raw", {"variant": "tens"}),
    "fabric": ("sys_fabric", "Fabric", {}),
    "fabric_tens": ("sys_fabric", "Fabric", {"batch": 10}),
    "services": ("sys_house", "Services", {}),
    "services_tens": ("sys_house", "Services", {"batch": 10}),
    "http": ("sys_house", "Http", {}),
    "http_tens": ("sys_house", "Http", {"batch": 10}),
    "http_pairs": ("sys_house", "HttpPairs", {}),
    "workers": ("sys_worker", "Workers", {}),
    "workers_model": ("sys_worker", "ModelWorkers", {}),
    "procrastinate": ("sys_procrastinate", "Procrastinate", {}),
    "pgqueuer": ("sys_pgqueuer", "Pgqueuer", {"batch": 1}),
    "pgqueuer_tens": ("sys_pgqueuer", "Pgqueuer", {}),
    "dbos": ("sys_dbos", "Dbos", {}),
    "dbos_tuned": ("sys_dbos", "Dbos", {"tuned": True}),
}
PEERS: Final = frozenset({"procrastinate", "pgqueuer", "pgqueuer_tens", "dbos", "dbos_tuned"})


def make(name: str, admin: str, *, relaxed: bool = False) -> System:
    """The system of this name. Raises ImportError if its library is not there."""
    module, kind, arguments = SYSTEMS[name]
    system: System = getattr(importlib.import_module(f"tests.bench.{module}"), kind)(**arguments)
    system.admin, system.relaxed = admin, relaxed
    return system


class Host:
    """Answers the commands of one bench run."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.clock = ServerClock(system.admin)

    def setup(self) -> None:
        self.system.setup()

    def fill(self, n: int) -> None:
        """Only ``n`` ready tasks are there."""
        self.system.clear()
        self.system.fill(n)
        self.system.settle_down()

    def window(self, workers: int, secs: float) -> dict[str, float]:
        system = self.system
        got = window(
            system.work,
            workers,
            secs,
            self.clock,
            done=system.finished,
            beside=system.beside,
            first_wait=system.first_wait,
        )
        return asdict(got)

    def pickup(self, n: int, gap: float) -> list[float]:
        """Seconds from the beginning of a submit to the task in the hands of one idle worker, ``n`` times."""
        system = self.system
        system.clear()
        system.settle_down()
        fleet = Fleet(system.work, 1)
        chance = random.Random(7)
        try:
            fleet.start()
            system.open_client()
            time.sleep(0.5)
            for i in range(n + 5):  # the first ones warm it up
                before = fleet.count
                system.submit(time.monotonic())
                fleet.await_count(before + 1, system.first_wait)
                time.sleep(gap * chance.uniform(0.7, 1.6))
                if i == 4:
                    fleet.slots[0].forget()
            return fleet.slots[0].latencies
        finally:
            fleet.stop()
            system.close_client()

    def bulk(self, batch: int, secs: float) -> dict[str, float]:
        """Tasks a second that one submitter makes in batches, and CPU seconds a task."""
        system = self.system
        system.clear()
        system.settle_down()
        system.open_client()
        try:
            system.submit_many(batch)
            s0, c0, t0, n = self.clock.read(), time.process_time(), time.monotonic(), 0
            while time.monotonic() - t0 < secs:
                system.submit_many(batch)
                n += batch
            t1, s1 = time.monotonic(), self.clock.read()
            return {
                "per_second": n / (t1 - t0),
                "client_ms": 1000 * (time.process_time() - c0) / n,
                "server_ms": 1000 * (s1 - s0) / n,
            }
        finally:
            system.close_client()

    def idle(self, secs: float) -> dict[str, float]:
        """The share of one processor that a waiting worker's process uses, and its memory in MB."""
        system = self.system
        system.clear()
        with system.daemon() as pid:
            time.sleep(1.0)  # what it does at its start is over
            begun, before = time.monotonic(), life_of(pid)
            time.sleep(secs)
            return {"cpu": (life_of(pid) - before) / (time.monotonic() - begun), "rss": rss_of(pid)}

    def close(self) -> None:
        self.system.close()


def main() -> None:
    """Serve one system until the input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a product prints is not an answer
    try:
        host = Host(make(sys.argv[1], os.environ["BENCH_ADMIN"], relaxed=os.environ.get("BENCH_RELAXED") == "1"))
    except ImportError as missing:
        print(json.dumps({"missing": str(missing)}), file=out, flush=True)
        return
    print(json.dumps({"ready": True}), file=out, flush=True)
    commands: dict[str, Callable[..., Any]] = {
        "setup": host.setup,
        "fill": host.fill,
        "window": host.window,
        "pickup": host.pickup,
        "bulk": host.bulk,
        "idle": host.idle,
    }
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer = {"ok": commands[asked.pop("do")](**asked)}
            except Exception as error:
                answer = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=out, flush=True)
    finally:
        host.close()


if __name__ == "__main__":
    main()
