"""Measure 12: how long a renewal takes over HTTP while five hundred clients wait and some work is going on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from taskfabric.domain.errors import FabricError
from taskfabric.remote.fabric import RemoteFabric
from taskfabric.services import verbs
from taskfabric.services.args import FenceArg
from tests.bench.context import Bench
from tests.bench.host import make
from tests.bench.report import Line, quantile, spread
from tests.bench.ruler import cpu_of
from tests.bench.sys_fabric import NOTE
from tests.bench.sys_house import Http

_WAITERS = 500
_AGENTS = 10
_PACE = 0.1  # seconds between two tasks that are submitted, worked and finished meanwhile


def measure(bench: Bench) -> list[Line]:
    """200 wait for a task's end, 200 for work, 100 read the event stream; ten tasks a second pass by."""
    system = make("http", bench.admin)
    assert isinstance(system, Http)
    system.name = "waiters"
    system.setup()
    try:
        human = RemoteFabric(system.url, system.human_token)
        agent = RemoteFabric(system.url, system.agent_token)
        fences = _leases(human, agent, 20)
        plain = _renewals(agent, fences, 5.0)
        crowd = _Crowd(system, human)
        with crowd:
            stop = threading.Event()
            traffic = threading.Thread(target=_traffic, args=(system, stop))
            traffic.start()
            assert system.server is not None
            c0, t0 = cpu_of(system.server.pid), time.monotonic()
            crowded = _renewals(agent, fences, 40.0 if bench.full else 12.0)
            busy = (cpu_of(system.server.pid) - c0) / (time.monotonic() - t0)
            stop.set()
            traffic.join()
    finally:
        system.close()
        system.drop()
    p99 = quantile(crowded, 0.99)
    return [
        Line(
            number="12",
            what=f"a renewal over HTTP beside {_WAITERS} waiters, p99",
            ours=p99,
            baseline=quantile(plain, 0.99),
            unit="s",
            value=p99,
            must=1,
            aim=0.1,
            better="less",
            note=f"min/median/max {spread(crowded)}; alone {spread(plain)};"
            f" {len(crowded)} renewals; the server uses {100 * busy:.0f} % of a core; the crowd saw {crowd.seen}",
            samples={"crowded": crowded, "plain": plain},
        )
    ]


def _leases(human: RemoteFabric, agent: RemoteFabric, n: int) -> list[FenceArg]:
    human.call(verbs.SubmitMany(tasks=tuple(verbs.Submit(title=f"held {i}") for i in range(n))))
    return [FenceArg.of(claimed.fence) for claimed in agent.call(verbs.Claim(limit=n))]


def _renewals(agent: RemoteFabric, fences: list[FenceArg], secs: float) -> list[float]:
    """Seconds that each renewal took, one lease after the other."""
    took: list[float] = []
    end = time.monotonic() + secs
    while time.monotonic() < end:
        fence = fences[len(took) % len(fences)]
        t0 = time.monotonic()
        (renewed,) = agent.call(verbs.Renew(fences=(fence,)))
        took.append(time.monotonic() - t0)
        if renewed.until is None:
            raise RuntimeError("a lease was lost")
        time.sleep(0.01)
    return took


def _traffic(system: Http, stop: threading.Event) -> None:
    """Ten tasks a second are submitted, claimed by one worker, and finished."""
    human, agent = RemoteFabric(system.url, system.human_token), RemoteFabric(system.url, system.agent_token)
    while not stop.wait(_PACE):
        try:
            human.call(verbs.Submit(title="passing by"))
            for claimed in agent.call(verbs.Claim(limit=10)):
                agent.call(verbs.Done(fence=FenceArg.of(claimed.fence), note=NOTE))
        except FabricError:
            if not stop.is_set():
                raise


class _Crowd:
    """The waiters, in a process of their own."""

    seen = ""

    def __init__(self, system: Http, human: RemoteFabric) -> None:
        agents = [human.call(verbs.CreateToken(name=f"waiter-{i}"))["token"] for i in range(_AGENTS)]
        task = human.call(verbs.Submit(title="never done", backlog=True)).task.id
        polls = [(system.human_token, {"task": task, "timeout": 50})] * 200
        polls += [(agents[i % _AGENTS], {"timeout": 50}) for i in range(200)]
        plan = {"url": system.url, "polls": polls, "streams": [system.human_token] * 100}
        assert len(polls) + len(plan["streams"]) == _WAITERS
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.crowd"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdin is not None
        print(json.dumps(plan), file=self._process.stdin, flush=True)

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the crowd did not assemble (code {self._process.wait()})")

    def __exit__(self, *_: object) -> None:
        self.seen = self._process.communicate("\n", timeout=30)[0].strip()
