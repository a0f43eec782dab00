"""Measure 5: how soon an idle worker has a task that was just submitted."""

from __future__ import annotations

from tests.bench.context import Bench
from tests.bench.hosted import Hosted
from tests.bench.report import Line, quantile, spread


def measure(bench: Bench) -> list[Line]:
    """From the beginning of the submit to the task in the worker's hands, one idle worker, random gaps."""
    hosts = bench.hosts(["raw", "fabric", "http", "procrastinate"])
    got: dict[str, list[float]] = {host.name: [] for host in hosts}
    n = 60 if bench.full else 25

    def visit(host: Hosted) -> None:
        got[host.name] += [1000 * seconds for seconds in host.pickup(n, 0.03)]

    bench.interleaved(hosts, visit)
    lines = []
    for name, what, must, aim in (
        ("fabric", "idle pick-up at the port", 2.5, 1.5),
        ("http", "idle pick-up over HTTP", 4.0, 2.5),
        ("procrastinate", "for comparison: procrastinate", None, None),
    ):
        for q, label in ((0.5, "p50"), (0.99, "p99")):
            if name not in got:
                continue
            ours, theirs = quantile(got[name], q), quantile(got["raw"], q)
            lines.append(
                Line(
                    number="5" if must else "-",
                    what=f"{what}, {label}",
                    ours=ours,
                    baseline=theirs,
                    unit="ms",
                    value=ours / theirs,
                    must=must,
                    aim=aim,
                    better="less",
                    note=f"min/median/max: {spread(got[name])}; raw {spread(got['raw'])}",
                    samples={name: got[name], "raw": got["raw"]},
                )
            )
    return lines
