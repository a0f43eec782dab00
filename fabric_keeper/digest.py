"""The daily digest: one for each human and day of his own calendar, from the hour on that he chose."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from fabric_keeper.rounds import Report
from taskfabric.domain.times import zone_of
from taskfabric.domain.watch import Reader, Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs


def decide(readers: Sequence[Reader], now: datetime) -> list[tuple[str, date]]:
    """For whom one is due, and for which day. A day on which no keeper ran has none afterwards."""
    due: list[tuple[str, date]] = []
    for reader in readers:
        local = now.astimezone(zone_of(reader.zone))
        if local.hour >= reader.hour and (reader.last is None or date.fromisoformat(reader.last) < local.date()):
            due.append((reader.name, local.date()))
    return due


class Digests:
    """The chore."""

    name = "digest"

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        readers = fabric.call(verbs.Readers())
        due = decide(readers, turn.now)
        written = sum(fabric.call(verbs.Digest(name=name, day=day)) for name, day in due)
        return Report(chore=self.name, counts={"written": written})
