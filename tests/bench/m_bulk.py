"""Measure 6: bulk submit with events by one human, a thousand a call, against COPY into one table."""

from __future__ import annotations

from tests.bench.context import Bench
from tests.bench.hosted import Hosted
from tests.bench.report import Line, median, spread


def measure(bench: Bench) -> list[Line]:
    """The ratio of tasks a second."""
    hosts = bench.hosts(["raw", "fabric", "procrastinate", "pgqueuer_tens"])
    got: dict[str, list[dict[str, float]]] = {host.name: [] for host in hosts}
    bench.interleaved(hosts, lambda host: got[host.name].append(_visit(host, bench.secs)))
    theirs = [x["per_second"] for x in got["raw"]]
    lines = []
    for name, samples in got.items():
        ours = [x["per_second"] for x in samples]
        client, server = (median([x[key] for x in samples]) for key in ("client_ms", "server_ms"))
        if name != "raw":
            lines.append(
                Line(
                    number="6" if name == "fabric" else "-",
                    what="bulk submit with events, 1,000 a call" if name == "fabric" else f"for comparison: {name}",
                    ours=median(ours),
                    baseline=median(theirs),
                    unit="tasks/s",
                    value=median(ours) / median(theirs),
                    must=0.2 if name == "fabric" else None,
                    aim=0.3 if name == "fabric" else None,
                    note=f"min/median/max: {spread(ours)}; COPY {spread(theirs)};"
                    f" CPU {1000 * client:.1f} client + {1000 * server:.1f} server us a task",
                    samples={name: ours, "raw": theirs},
                )
            )
    return lines


def _visit(host: Hosted, secs: float) -> dict[str, float]:
    return host.bulk(1000, secs)
