"""Measures 1 to 4: claims and finishes a second, one at a time and in tens, their CPU, and the same over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.bench.context import Bench
from tests.bench.hosted import Hosted
from tests.bench.report import Line, median, spread
from tests.bench.ruler import Window

# Tasks that four workers may use up in a second; twice what was ever seen.
_PER_SECOND: Final = {"raw_tens": 40_000, "raw": 6_000, "raw_leased": 6_000, "fabric_tens": 15_000, "dbos": 1_500}
_USUAL: Final = 4_000

Windows = dict[str, list[Window]]


def measure(bench: Bench) -> list[Line]:
    """All of it in the product's commit mode, and the first two relaxed for comparison."""
    lines = []
    names = ["raw", "fabric", "raw_leased", "fabric_tens", "raw_tens", "services", "services_tens"]
    names += ["pgqueuer", "pgqueuer_tens"]
    sync = windows_of(bench, bench.hosts(names))
    relaxed = windows_of(bench, bench.hosts(["raw", "fabric", "fabric_tens"], relaxed=True))
    lines += [
        _rate("1", "claim + done, synchronous commit", sync, "fabric", "raw", 0.5, 0.75),
        _rate("1", "claim + done, relaxed commit", relaxed, "fabric", "raw"),
        _rate("2", "in tens, synchronous commit", sync, "fabric_tens", "raw", 2, 3),
        _rate("2", "in tens, relaxed commit", relaxed, "fabric_tens", "raw"),
        cpu_line("3", "CPU a task", sync, "fabric", "raw", 2, 1.3),
        cpu_line("3", "CPU a task, through services", sync, "services", "fabric", 1.3, 1.2),
        cpu_line("3", "CPU a task in tens, through services", sync, "services_tens", "fabric_tens"),
    ]
    lines += [
        _rate("-", f"for comparison: {name}", sync, name, "raw")
        for name in ("raw_leased", "raw_tens", "pgqueuer", "pgqueuer_tens")
        if name in sync
    ]
    return lines


def measure_http(bench: Bench) -> list[Line]:
    """Our server and four client processes beside the workers of procrastinate and DBOS."""
    names = ["http", "procrastinate", "dbos", "dbos_tuned", "http_pairs", "http_tens"]
    got = windows_of(bench, bench.hosts(names))
    lines = []
    for peer, must, aim in (("procrastinate", 1.0, 2.0), ("dbos", 1.0, 2.0), ("dbos_tuned", None, None)):
        if peer in got:
            lines.append(_rate("4", f"over HTTP, against {peer}", got, "http", peer, must, aim))
    lines.append(_rate("4", "over HTTP, done and the next claim in one request", got, "http_pairs", "http"))
    lines.append(_rate("4", "over HTTP, tens against one at a time", got, "http_tens", "http"))
    return lines


def windows_of(bench: Bench, hosts: Sequence[Hosted]) -> Windows:
    """The windows of each system, in turns."""
    got: Windows = {host.name: [] for host in hosts}

    def visit(host: Hosted) -> None:
        host.fill(int(_PER_SECOND.get(host.name, _USUAL) * (bench.secs + 1)))
        got[host.name].append(host.window(bench.workers, bench.secs))

    bench.interleaved(hosts, visit)
    return got


def _rate(
    number: str, what: str, got: Windows, name: str, base: str, must: float | None = None, aim: float | None = None
) -> Line:
    ours, theirs = _rates(got[name]), _rates(got[base])
    return Line(
        number=number,
        what=what,
        ours=median(ours),
        baseline=median(theirs),
        unit="tasks/s",
        value=median(ours) / max(1e-9, median(theirs)),
        must=must,
        aim=aim,
        note=f"min/median/max: {spread(ours)}; {base} {spread(theirs)};"
        f" ratio of the maxima {max(ours) / max(theirs):.2f};"
        f" CPU {_split(got[name])}, {base} {_split(got[base])}",
        samples={name: ours, base: theirs},
    )


def cpu_line(
    number: str, what: str, got: Windows, name: str, base: str, must: float | None = None, aim: float | None = None
) -> Line:
    """CPU milliseconds a task of one system against another's."""
    ours, theirs = [w.cpu_ms for w in got[name]], [w.cpu_ms for w in got[base]]
    return Line(
        number=number,
        what=what,
        ours=median(ours),
        baseline=median(theirs),
        unit="ms",
        value=median(ours) / max(1e-9, median(theirs)),
        must=must,
        aim=aim,
        better="less",
        note=f"{_split(got[name])}; {base} {_split(got[base])}; ratio of the minima {min(ours) / min(theirs):.2f}",
        samples={name: ours, base: theirs},
    )


def _rates(windows: Sequence[Window]) -> list[float]:
    return [w.per_second for w in windows]


def _split(windows: Sequence[Window]) -> str:
    client, server = median([w.client_ms for w in windows]), median([w.server_ms for w in windows])
    return f"{client:.2f} client + {server:.2f} server ms"
