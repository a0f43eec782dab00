"""People: who is away and who decides meanwhile, quiet hours, and what somebody has put off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from taskfabric.domain.letter import Quiet
from taskfabric.domain.principal import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A human is away."""

    principal_id: int
    until: datetime
    to: str | None = None  # who decides meanwhile
    to_id: int | None = None
    note: str = ""


class Away(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def absence(self, principal_id: int) -> Absence | None:
        """The absence in force by the board's clock."""

    def leave(self, principal_id: int, until: datetime, to_id: int | None, note: str, stamp: Stamp) -> None: ...
    def come_back(self, principal_id: int, stamp: Stamp) -> bool:
        """Whether he was away."""

    def quiet(self, principal_id: int) -> Quiet | None: ...
    def set_quiet(self, principal_id: int, quiet: Quiet | None, stamp: Stamp) -> None: ...
    def set_zone(self, principal_id: int, zone: str, stamp: Stamp) -> None: ...
    def snoozed(self, principal_id: int) -> Mapping[int, datetime]:
        """By task: until when it is out of his list."""

    def snooze(self, principal_id: int, task_id: int, until: datetime | None) -> None: ...
