"""Overdue tasks: whoever has it is told once, and after a while all whom it concerns, once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from fabric_keeper.rounds import Report
from fabric_keeper.telling import Word, tell
from taskfabric.domain.watch import Concern, Matter, Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs

TOLD: Final = 0
ESCALATED: Final = 1


def decide(concerns: Sequence[Concern], now: datetime, escalate_after: timedelta) -> list[Word]:
    """What is to be said: the first word at once, the second no sooner than the first was said and the time is over."""
    words: list[Word] = []
    for concern in concerns:
        due = concern.due or concern.since
        if due >= now:
            continue
        if TOLD not in concern.told:
            words.append(Word(concern=concern, level=TOLD))
        elif ESCALATED not in concern.told and now - due >= escalate_after:
            words.append(Word(concern=concern, level=ESCALATED))
    return words


class Deadlines:
    """The chore."""

    name = "deadlines"

    def __init__(self, *, escalate_after: timedelta) -> None:
        self._after = escalate_after

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        overdue = fabric.call(verbs.Watch(matter=Matter.OVERDUE))
        words = decide(overdue, turn.now, self._after)
        told = [word for word in words if word.level == TOLD]
        escalated = [word for word in words if word.level == ESCALATED]
        return Report(chore=self.name, counts={"told": tell(fabric, told), "escalated": tell(fabric, escalated)})
