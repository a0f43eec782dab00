"""The labels of links between tasks, each with its opposite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from taskfabric.domain.principal import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a link says. ``opposite_id`` is 0 where it says the same from both sides."""

    id: int
    label: str
    opposite_id: int


class Labels(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached, NotFound for a label that is not there, BadInput for
    one that is there already."""

    def all(self) -> list[Label]:
        """By number."""

    def create(self, label: str, opposite: str, stamp: Stamp) -> int: ...
    def update(self, label_id: int, opposite_id: int, label: str, stamp: Stamp) -> None: ...
    def remove(self, label_id: int, stamp: Stamp) -> None:
        """Raises IllegalMove while a task has a link that says so."""
