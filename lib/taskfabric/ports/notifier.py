"""The notifier: how a letter leaves the house."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from taskfabric.domain.letter import Quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How one person is reached."""

    urls: tuple[str, ...] = field(default=(), repr=False)  # a notifier's addresses; they hold secrets
    quiet: Quiet | None = None
    digest: int = 7  # local hour of the daily digest
    ping: bool = True  # letters between the digests


class Notifier(Protocol):
    """Sends over the channels that its own configuration names."""

    def reach(self, name: str) -> Reach:
        """How this person is reached; without addresses he gets his digests in his inbox only."""

    def send(self, urls: Sequence[str], subject: str, body: str) -> None:
        """Accepted by every channel. Raises Unavailable with the reason (which holds no secret), BadInput for a
        configuration that cannot be read."""

    def problem(self) -> str:
        """What is wrong with its configuration; "" = nothing."""
