"""Expired leases are taken back, so that the task of a dead worker is ready again even where nobody claims.

After a gap (the machine slept, the keeper was stopped) for longer than a lease, every lease looks expired although
its holder may live: then one renewal period passes before the first sweep, and whoever lives has renewed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from fabric_keeper.rounds import Report
from taskfabric.domain.watch import Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs

_LIMIT: Final = 500  # leases of one round


def quiet_until(turn: Turn, before: datetime | None) -> datetime | None:
    """Until when nothing is swept: begun by a gap longer than a lease, over after one renewal period."""
    if turn.gap is None or turn.gap > turn.lease:
        return turn.now + turn.renew_every
    return before if before is not None and before > turn.now else None


class Leases:
    """The chore. It remembers, from round to round, until when it waits."""

    name = "leases"

    def __init__(self) -> None:
        self._quiet: datetime | None = None

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        began, self._quiet = self._quiet, quiet_until(turn, self._quiet)
        if self._quiet is not None:
            note = "" if began is not None else "waits one renewal period after a gap"
            return Report(chore=self.name, note=note)
        swept = fabric.call(verbs.Sweep(limit=_LIMIT))
        counts = {"ready": len(swept.ready), "dead": len(swept.dead), "skipped": swept.skipped}
        return Report(chore=self.name, counts=counts)
