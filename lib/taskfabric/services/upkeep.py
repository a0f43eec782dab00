"""What the verbs of upkeep have at hand beside the desk: the keeper's lists, schedules, letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from taskfabric.ports.channels import Channels
from taskfabric.ports.keeping import Keeping
from taskfabric.ports.notifier import Notifier
from taskfabric.ports.outbox import Outbox
from taskfabric.ports.slots import Slots

# The services of the fabric itself, by the names of their principals.
KEEPER: Final = "fabric-keeper"
CRON: Final = "fabric-cron"
METRICS: Final = "fabric-metrics"  # reads the whole house's numbers, and nothing else


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """The ports of upkeep. ``schedules`` gives the text of schedules.toml as it now is, and where it stands."""

    keeping: Keeping
    slots: Slots
    outbox: Outbox
    notifier: Notifier
    channels: Channels
    schedules: Callable[[], tuple[str, str]]
