"""The agent cards: files that are read anew when they change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from taskfabric.domain.card import AgentCard


@dataclass(frozen=True, slots=True, kw_only=True)
class Deck:
    """All cards at one moment."""

    cards: Mapping[str, AgentCard] = field(default_factory=dict)  # by name, sorted
    problems: Mapping[str, str] = field(default_factory=dict)  # by file name: why it could not be read
    generation: int = 0  # another number after each change


class Cards(Protocol):
    """A file that cannot be read is reported, and its last good card stays in force."""

    def deck(self) -> Deck:
        """The cards as the files say them now, at most a second old."""

    def persona(self, card: AgentCard) -> str:
        """The text of the card's persona; "" if it names none or the file is not there."""
