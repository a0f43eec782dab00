"""The numbers of ``/metrics``, pushed to a Zabbix server where one is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from fabric_keeper.rounds import Report
from taskfabric.domain.watch import Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.metrics import samples

_EVERY: Final = timedelta(minutes=1)


def items(exposition: str) -> dict[str, float]:
    """Zabbix keys: ``fabric_tasks{status="ready"}`` is ``fabric.tasks[ready]``."""
    found: dict[str, float] = {}
    for name, value in samples(exposition).items():
        word, brace, label = name.partition("{")
        key = word.replace("fabric_", "fabric.", 1)
        found[f"{key}[{label.split(chr(34))[1]}]" if brace else key] = value
    return found


class Metrics:
    """The chore; ``push`` sends items, None = nobody wants them."""

    name = "metrics"

    def __init__(self, push: Callable[[Mapping[str, float]], int] | None) -> None:
        self._push = push
        self._last: datetime | None = None

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        if self._push is None or (self._last is not None and turn.now - self._last < _EVERY):
            return Report(chore=self.name)
        self._last = turn.now
        try:
            refused = self._push(items(fabric.call(verbs.Metrics())))
        except OSError as error:
            return Report(chore=self.name, note=f"Zabbix does not answer: {error}")
        return Report(chore=self.name, note=f"Zabbix refused {refused} items" if refused else "")
