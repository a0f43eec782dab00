"""Telling: what the reminding chores have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskfabric.domain.watch import Concern
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Something to be said about a task, once."""

    concern: Concern
    level: int


def tell(fabric: Fabric, words: Sequence[Word]) -> int:
    """How many were said now: the server says each once, and only while its matter stands."""
    return sum(
        fabric.call(
            verbs.Tell(
                matter=word.concern.matter, task=word.concern.task_id, occasion=word.concern.occasion, level=word.level
            )
        )
        for word in words
    )
