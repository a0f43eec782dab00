"""``python -m fabric_keeper [--once]``: the keeper as a process, with a URL and the token of the fabric's keeper."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping

from fabric_keeper import zabbix
from fabric_keeper.dead_letters import DeadLetters
from fabric_keeper.deadlines import Deadlines
from fabric_keeper.digest import Digests
from fabric_keeper.inbox import Inbox
from fabric_keeper.leases import Leases
from fabric_keeper.metrics import Metrics
from fabric_keeper.process import connect, instance, program, stopping
from fabric_keeper.reconcile import Reconcile
from fabric_keeper.rounds import Chore, Keeper
from fabric_keeper.waits import Waits
from taskfabric.settings import Settings

log = logging.getLogger("fabric_keeper")


def chores(rules: Settings) -> list[Chore]:
    """The chores of a round, in their order."""
    keeper = rules.keeper
    return [
        Leases(),
        Reconcile(),
        Waits(),
        Deadlines(escalate_after=keeper.escalate_after),
        DeadLetters(),
        Inbox(span=keeper.question_span),
        Digests(),
        Metrics(_pusher(keeper.zabbix, keeper.zabbix_host)),
    ]


def _pusher(server: str, host: str) -> Callable[[Mapping[str, float]], int] | None:
    return (lambda values: zabbix.send(server, host, values)) if server else None


def main() -> int:
    """The exit code: that of the error for ``--once``."""
    return program("fabric keeper", _keep)


def _keep(args: argparse.Namespace, rules: Settings) -> int:
    with connect("keeper") as fabric:
        keeper = Keeper(fabric, chores(rules), instance=instance("keeper"), every=rules.keeper.every)
        if not args.once:
            with stopping(leash=args.leash) as stop:
                keeper.run(stop)
            return 0
        reports = keeper.run_once()
    if args.json:
        shown = {report.chore: {**report.counts, "note": report.note} for report in reports}
        print(json.dumps({"turn": bool(reports), "chores": shown}))
    else:
        print("\n".join(str(report) for report in reports) or "another keeper has the turn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
