"""Run the bench:  python -m tests.bench [--rounds N] [--secs S] [--only 1,6] [--full] [--peers DIR] [--json FILE].

Prints a line for each measure as it comes and the whole table at the end; the exit code says whether every measure
reached what it must.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psycopg

from tests.bench.context import Bench
from tests.bench.ground import Ground
from tests.bench.report import Line, table

# measures -> module and function; one entry for those that share their windows
MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "1,2,3": ("m_throughput", "measure"),
    "4": ("m_throughput", "measure_http"),
    "5": ("m_pickup", "measure"),
    "6": ("m_bulk", "measure"),
    "7": ("m_depth", "measure"),
    "8": ("m_horizon", "measure"),
    "9,10": ("m_leases", "measure"),
    "11": ("m_moving", "measure"),
    "12": ("m_waiters", "measure"),
    "13": ("m_commands", "measure"),
    "14": ("m_fleet", "measure"),
    "15": ("m_fleet", "measure_first_token"),
    "16": ("m_fleet", "measure_idle"),
}
_PEERS: Final = Path(__file__).parents[2] / ".venv" / "bench"


def main() -> int:
    """The exit code: 0 if nothing missed what it must reach, 1 otherwise."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server goes with us
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, format="%(message)s")
    wanted = set(options.only.split(",")) if options.only else None
    lines: list[Line] = []
    broken: dict[str, str] = {}
    began = time.monotonic()
    with Ground() as ground:
        bench = Bench(
            admin=ground.admin,
            peers=options.peers,
            rounds=options.rounds or (5 if options.full else 3),
            secs=options.secs or (20.0 if options.full else 2.0),
            full=options.full,
        )
        print(_surroundings(ground.admin, bench), flush=True)
        try:
            for numbers, (module, function) in MEASURES.items():
                if wanted is not None and wanted.isdisjoint(numbers.split(",")):
                    continue
                try:
                    got: list[Line] = getattr(importlib.import_module(f"tests.bench.{module}"), function)(bench)
                except Exception as error:  # one broken measure must not lose the others
                    traceback.print_exc()
                    broken[numbers] = f"{type(error).__name__}: {error}"
                    continue
                finally:
                    bench.close()
                lines += got
                print(table(got), end="\n\n", flush=True)
        finally:
            bench.close()
    print(table(lines))
    for name, why in bench.missing.items():
        print(f"not measured: {name} ({why})")
    for numbers, why in broken.items():
        print(f"broken: {numbers} ({why})")
    print(f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    if options.json:
        found = {"lines": [x.to_json() for x in lines], "missing": bench.missing, "broken": broken}
        Path(options.json).write_text(json.dumps(found, indent=1))
    return 1 if broken or any(line.verdict == "MISSED" for line in lines) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help="visits to each system (quick 3, full 5)")
    parser.add_argument("--secs", type=float, help="length of a window (quick 2, full 20)")
    parser.add_argument("--only", help="measures by number: 1,6,11")
    parser.add_argument("--full", action="store_true", help="the sizes of the table: minutes become an hour")
    parser.add_argument("--peers", type=Path, default=_PEERS, help=f"virtual environment of the peers ({_PEERS})")
    parser.add_argument("--json", help="write everything to this file as well")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def _surroundings(admin: str, bench: Bench) -> str:
    with psycopg.connect(admin) as conn:
        row = conn.execute("SELECT current_setting('server_version'), current_setting('fsync')").fetchone()
    assert row is not None
    return (
        f"PostgreSQL {row[0]} (fsync {row[1]}), Python {platform.python_version()}, {os.cpu_count()} cores,"
        f" load {os.getloadavg()[0]:.1f}, {bench.rounds} rounds of {bench.secs:g} s\n"
    )


if __name__ == "__main__":
    sys.exit(main())
