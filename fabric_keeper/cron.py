"""``python -m fabric_keeper.cron [--once]``: asks the server, again and again, to look at the schedules.

The server reads schedules.toml, judges time by the board's clock and keeps the slots; any number of these may run.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import threading
from collections.abc import Mapping
from typing import Any

from fabric_keeper.process import connect, program, stopping
from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.settings import Settings

log = logging.getLogger("fabric_keeper.cron")


class Ticker:
    """Ticks over one fabric; says a problem once, and again when it has changed."""

    def __init__(self, fabric: Fabric, *, every: float) -> None:
        self._fabric = fabric
        self._every = every
        self._said: list[str] = []

    def run_once(self) -> Mapping[str, Any]:
        """One look at every schedule; what became of the slots. Raises the errors of ``domain.errors``."""
        found = self._fabric.call(verbs.Tick())
        if any(found[state] for state in ("made", "missed", "skipped")):
            log.info("slots made=%d missed=%d skipped=%d", found["made"], found["missed"], found["skipped"])
        if found["problems"] != self._said:
            self._said = list(found["problems"])
            for problem in self._said:
                log.warning("schedule problem=%r", problem)
        return found

    def run(self, stop: threading.Event) -> None:
        """Until ``stop`` is set. A server that is away costs slots nothing but time, and their grace is for that."""
        while not stop.is_set():
            try:
                self.run_once()
            except Unavailable as away:
                log.info("server away reason=%r", away.message)
            except FabricError as error:
                log.error("tick failed reason=%r next=%r", error.message, error.next)  # noqa: TRY400 (expected)
            stop.wait(self._every * random.uniform(0.8, 1.2))


def main() -> int:
    """The exit code: 1 when a schedule has a problem, with ``--once``."""
    return program("fabric cron", _tick)


def _tick(args: argparse.Namespace, rules: Settings) -> int:
    with connect("cron") as fabric:
        ticker = Ticker(fabric, every=rules.keeper.cron_every.total_seconds())
        if not args.once:
            with stopping(leash=args.leash) as stop:
                ticker.run(stop)
            return 0
        found = ticker.run_once()
    if args.json:
        print(json.dumps(dict(found)))
    else:
        print(
            f"made {found['made']}, missed {found['missed']}, skipped {found['skipped']}, next {found['next'] or '-'}"
        )
        for problem in found["problems"]:
            print(problem)
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
