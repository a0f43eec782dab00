"""The addresses to which people want their letters sent. An address is a secret of its owner's."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from taskfabric.domain.principal import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One address of one person's."""

    id: int
    shown: str  # the address without what is secret in it
    created: datetime
    url: str | None = field(default=None, repr=False)  # None: another key than ours has sealed it


class Channels(Protocol):
    """Raises ``Unavailable`` while the store, or the key of its secrets, cannot be reached."""

    def of(self, name: str) -> list[Channel]:
        """The channels of the person of this name, oldest first."""

    def add(self, principal_id: int, url: str, shown: str, most: int, stamp: Stamp) -> int | None:
        """The number of the new channel; None, and nothing: he has ``most`` already."""

    def remove(self, principal_id: int, channel_id: int, stamp: Stamp) -> bool:
        """False: he has no such channel."""
