"""Measures 14 to 16: what a worker costs on top of the board, how soon a model speaks, and what an idle worker uses."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import time
from typing import Final
from urllib.parse import urlsplit

from tests.bench.context import Bench
from tests.bench.hosted import Hosted
from tests.bench.m_throughput import cpu_line, windows_of
from tests.bench.report import Line, median, quantile, spread
from tests.integration.endpoint import Script, endpoint

_IDLE: Final = 45.0  # seconds of an idle worker's CPU clock: two polls, and what lies between


def measure(bench: Bench) -> list[Line]:
    """CPU of everything (workers, server, PostgreSQL) for a task whose run does nothing, beside the board alone."""
    got = windows_of(bench, bench.hosts(["http", "workers", "fabric"]))
    return [
        cpu_line("14", "CPU a task, worker daemons, against claim + done over HTTP", got, "workers", "http", 2, 1.5),
        cpu_line("14", "CPU a task, worker daemons, against the board in process", got, "workers", "fabric"),
    ]


def measure_first_token(bench: Bench) -> list[Line]:
    """From the beginning of the submit to the first words of a warm model worker, less the endpoint's own time."""
    if importlib.util.find_spec("litellm") is None:
        bench.missing["workers_model"] = "litellm is not installed"
        return []
    n = 60 if bench.full else 30
    with endpoint(Script()) as url:
        os.environ["BENCH_ENDPOINT"] = url
        hosts = bench.hosts(["workers_model"])
        got: list[float] = []
        own: list[float] = []

        def visit(host: Hosted) -> None:
            got.extend(1000 * seconds for seconds in host.pickup(n, 0.1))
            own.extend(1000 * _first_token(url) for _ in range(n))

        bench.interleaved(hosts, visit)
    if not got:
        return []
    ours, theirs = quantile(got, 0.5), quantile(own, 0.5)
    return [
        Line(
            number="15",
            what="submit to first token on a warm model worker, beyond the endpoint's own, p50",
            ours=ours,
            baseline=theirs,
            unit="ms",
            value=ours - theirs,
            must=30,
            better="less",
            note=f"min/median/max: {spread(got)}; p99 {quantile(got, 0.99):.0f}; the endpoint alone {spread(own)}",
            samples={"worker": got, "endpoint": own},
        )
    ]


def _first_token(url: str) -> float:
    """Seconds from the request to the first words, straight from the endpoint."""
    place = urlsplit(url)
    begun = time.monotonic()
    line = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=10)
    try:
        body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": "x"}], "stream": True})
        line.request("POST", f"{place.path}/chat/completions", body, {"Content-Type": "application/json"})
        line.getresponse().readline()
        return time.monotonic() - begun
    finally:
        line.close()


def measure_idle(bench: Bench) -> list[Line]:
    """CPU share and memory of a worker that waits for work, as a process of its own."""
    host = bench.host("workers")
    if host is None:
        return []
    shares, sizes = [], []
    for _ in range(bench.rounds if bench.full else 1):
        found = host.idle(_IDLE)
        shares.append(100 * found["cpu"])
        sizes.append(found["rss"])
    return [
        Line(
            number="16",
            what="CPU of an idle worker",
            ours=median(shares),
            unit="%",
            value=median(shares),
            must=0.2,
            better="less",
            note=f"min/median/max: {spread(shares)}",
            samples={"shares": shares},
        ),
        Line(
            number="16",
            what="memory of an idle worker, without LiteLLM",
            ours=median(sizes),
            unit="MB",
            value=median(sizes),
            must=70,
            better="less",
            note=f"min/median/max: {spread(sizes)}",
            samples={"sizes": sizes},
        ),
    ]
