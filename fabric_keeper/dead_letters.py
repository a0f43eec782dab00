"""Dead letters: the human whom one concerns is told, once a death. None is ever redriven by a rule."""

from __future__ import annotations

from collections.abc import Sequence

from fabric_keeper.rounds import Report
from fabric_keeper.telling import Word, tell
from taskfabric.domain.watch import Concern, Matter, Turn
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs


def decide(concerns: Sequence[Concern]) -> list[Word]:
    """One word for each death of which nothing was said."""
    return [Word(concern=concern, level=0) for concern in concerns if not concern.told]


class DeadLetters:
    """The chore."""

    name = "dead_letters"

    def run_once(self, fabric: Fabric, turn: Turn) -> Report:
        dead = fabric.call(verbs.Watch(matter=Matter.DEAD))
        return Report(chore=self.name, counts={"told": tell(fabric, decide(dead))})
