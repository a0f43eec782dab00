"""Cards and tasks are put in line where the board is a stock Kanboard: what an interrupted verb left behind, and what
people changed there without a trace. On our own board there is nothing of the kind."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fabric_keeper.rounds import Report
from taskfabric.domain.watch import Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs

_EVERY: Final = timedelta(minutes=1)  # it looks at every open card


class Reconcile:
    """The chore."""

    name = "reconcile"

    def __init__(self) -> None:
        self._last: datetime | None = None

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        if self._last is not None and turn.now - self._last < _EVERY:
            return Report(chore=self.name)
        self._last = turn.now
        done: dict[str, int] = fabric.call(verbs.Reconcile())
        return Report(chore=self.name, counts=dict(done))
