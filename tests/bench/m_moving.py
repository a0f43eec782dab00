"""Measure 11: moving a card within a long column, to the top, the middle and the bottom, to one of ten cards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from taskfabric.domain.principal import Viewer
from taskfabric.ports.board import Filter, Place
from tests.bench.context import Bench
from tests.bench.report import Line, median
from tests.bench.rig import Rig, rig

_SHORT: Final = 10
_TIMES: Final = 20


def measure(bench: Bench) -> list[Line]:
    """Ratios of CPU time (the wall clock is beside them), long column to short, place by place."""
    long = 10_000
    with rig(bench, "column_long") as big, rig(bench, "column_short") as small:
        boards = {"long": _Column(big, long), "short": _Column(small, _SHORT)}
        places: dict[str, Callable[[_Column], Place]] = {
            "the top": lambda column: Place(top=True),
            "the middle": lambda column: Place(after=column.middle()),
            "position n/2": lambda column: Place(position=len(column.cards) // 2),
            "the bottom": lambda column: Place(),
        }
        cpu: dict[tuple[str, str], list[float]] = {}
        wall: dict[tuple[str, str], list[float]] = {}
        for _ in range(2 + 2 * bench.rounds):
            for label, place in places.items():
                for name, column in boards.items():
                    cost = column.rig.cost(lambda c=column, p=place: c.move(p(c)), _TIMES)  # type: ignore[misc]
                    cpu.setdefault((label, name), []).append(cost.cpu)
                    wall.setdefault((label, name), []).append(cost.wall)
    lines = []
    for label in places:
        ours, theirs = median(cpu[label, "long"][2:]), median(cpu[label, "short"][2:])
        lines.append(
            Line(
                number="11",
                what=f"a card to {label} of {long:,}, to one of {_SHORT}",
                ours=ours,
                baseline=theirs,
                unit="ms CPU",
                value=ours / theirs,
                must=2,
                aim=1.2,
                better="less",
                note=f"wall {median(wall[label, 'long'][2:]):.2f} and {median(wall[label, 'short'][2:]):.2f} ms",
            )
        )
    return lines


class _Column:
    """The ready column of one board."""

    def __init__(self, rig: Rig, n: int) -> None:
        self.rig = rig
        rig.system.fill(n)
        rig.system.settle_down()
        viewer = Viewer(principal_id=rig.human.principal_id, kind=rig.human.kind)
        first = rig.board.find(Filter(limit=1), viewer)[0].id
        self.cards = list(range(first, first + n))
        self.chance = random.Random(11)

    def middle(self) -> int:
        """A card somewhere in the middle of the column."""
        return self.cards[len(self.cards) // 2 + self.chance.randrange(-len(self.cards) // 4, len(self.cards) // 4)]

    def move(self, place: Place) -> None:
        card = self.chance.choice(self.cards)
        while card == place.after:
            card = self.chance.choice(self.cards)
        self.rig.board.move(card, place, self.rig.human)
