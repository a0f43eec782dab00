"""Questions and approvals that wait for a human: he is reminded at 25, 50 and 90 % of the time; an approval then goes
on to the next human, and expires. Nothing is ever answered or approved for him."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from fabric_keeper.rounds import Report
from fabric_keeper.telling import Word, tell
from taskfabric.domain.watch import REMINDERS, Concern, Matter, Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs


def decide(concerns: Sequence[Concern], now: datetime, span: timedelta) -> list[Word]:
    """The highest level that each question has reached, unless that or a higher one was said: who was away for long
    hears of it once."""
    words: list[Word] = []
    for concern in concerns:
        has_due = concern.due is not None and concern.due > concern.since
        whole = concern.due - concern.since if has_due and concern.due is not None else span
        level = next((level for level in REMINDERS if (now - concern.since) * 100 >= whole * level), None)
        if level is not None and level > max(concern.told, default=0):
            words.append(Word(concern=concern, level=level))
    return words


class Inbox:
    """The chore."""

    name = "inbox"

    def __init__(self, *, span: timedelta) -> None:
        self._span = span

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        asked = fabric.call(verbs.Watch(matter=Matter.QUESTION))
        words = decide(asked, turn.now, self._span)
        counts = {"reminded": tell(fabric, words)}
        for name, number in fabric.call(verbs.Tend()).items():
            counts[name] = counts.get(name, 0) + number
        return Report(chore=self.name, counts=counts)
