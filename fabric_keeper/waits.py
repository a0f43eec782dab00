"""Waits that are over and were not told: a finish releases its waiters by itself, this is the net below.

Only what is named is mended: a parent all of whose children have finished, and a dependent whose blocker has ended.
Nothing is promoted because a set is empty.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fabric_keeper.rounds import Report
from taskfabric.domain.watch import Matter, Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs

_EVERY: Final = timedelta(minutes=1)  # a net may be slower than what it is a net for


def is_due(last: datetime | None, now: datetime) -> bool:
    """Whether the net is drawn in this round."""
    return last is None or now - last >= _EVERY


class Waits:
    """The chore."""

    name = "waits"

    def __init__(self) -> None:
        self._last: datetime | None = None

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        if not is_due(self._last, turn.now):
            return Report(chore=self.name)
        self._last = turn.now
        mended = {
            matter.value: sum(
                fabric.call(verbs.Mend(matter=matter, task=concern.task_id))
                for concern in fabric.call(verbs.Watch(matter=matter))
            )
            for matter in (Matter.CHILDREN, Matter.BLOCKERS)
        }
        return Report(chore=self.name, counts=mended)
