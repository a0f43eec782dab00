"""The slots of schedules: what became of each, and up to where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from taskfabric.domain.schedule import Slot


class Slots(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def cursor(self, schedule: str, begin: datetime) -> datetime:
        """Every slot up to this instant has its row. A schedule that is new begins at ``begin``."""

    def open(self, schedule: str, slots: Sequence[Slot], before: datetime, until: datetime) -> bool:
        """These rows exist and the cursor stands at ``until``, in one transaction. False, and nothing: another ticker
        has moved it from ``before``."""

    def settle(self, slot: Slot) -> None:
        """The slot's row says this."""

    def unsettled(self, schedule: str) -> list[Slot]:
        """Those that are due or waiting, oldest first."""

    def running(self, schedule: str) -> bool:
        """Whether a task of an earlier slot is still being worked for: neither finished nor gone."""

    def recent(self, limit: int) -> list[Slot]:
        """The latest, newest first."""
