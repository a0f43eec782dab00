"""The keeper's round: whose turn it is, then one chore after the other. Open this first.

A chore is a file with a pure decision and ``run_once``. It repeats, as a net, what claims and finishes do by
themselves; it reminds; it never assigns, answers or approves. ``now`` is the board's clock, read once a round.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.watch import Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs

log = logging.getLogger(__name__)

_LONGEST_REST: Final = 60.0  # seconds between two tries while the server is away


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one chore did in one round."""

    chore: str
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  # why it did less than it might

    @property
    def is_quiet(self) -> bool:
        """Nothing to say."""
        return not self.note and not any(self.counts.values())

    def __str__(self) -> str:
        counts = " ".join(f"{name}={number}" for name, number in self.counts.items())
        return " ".join(part for part in (f"chore={self.chore}", counts, self.note and f"note={self.note!r}") if part)


class Chore(Protocol):
    """One of the keeper's chores."""

    name: str

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        """The chore as far as it is due at ``turn.now``. Raises the errors of ``domain.errors``."""


class Keeper:
    """Rounds over one fabric. Of several keepers one has the turn; the others look on."""

    def __init__(self, fabric: Fabric, chores: Sequence[Chore], *, instance: str, every: timedelta) -> None:
        self._fabric = fabric
        self._chores = chores
        self._instance = instance
        self._every = every

    def run_once(self) -> list[Report]:
        """One round; empty when it is another keeper's turn. A chore that fails stops no other.

        Raises Unavailable when the server is away."""
        # Twice the interval and some: who misses two rounds has lost the turn.
        length = min(3600.0, max(10.0, 3 * self._every.total_seconds()))
        turn = self._fabric.call(verbs.Turn(instance=self._instance, length=length))
        if not turn.mine:
            return []
        return [self._one(chore, turn) for chore in self._chores]

    def _one(self, chore: Chore, turn: Turn) -> Report:
        try:
            report = chore.run_once(self._fabric, turn)
        except Unavailable:
            raise
        except FabricError as error:
            report = Report(chore=chore.name, note=f"failed: {error.message}")
        if not report.is_quiet:
            log.info("%s", report)
        return report

    def run(self, stop: threading.Event) -> None:
        """Rounds until ``stop`` is set, with jitter; while the server is away, ever more slowly up to a minute."""
        rest = self._every.total_seconds()
        while not stop.is_set():
            try:
                self.run_once()
                rest = self._every.total_seconds()
            except Unavailable as away:
                log.info("server away reason=%r", away.message)
                rest = min(max(_LONGEST_REST, self._every.total_seconds()), rest * 2)
            except FabricError as error:
                log.error("round failed reason=%r next=%r", error.message, error.next)  # noqa: TRY400 (expected)
            stop.wait(rest * random.uniform(0.8, 1.2))
