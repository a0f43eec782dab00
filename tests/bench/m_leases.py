"""Measures 9 and 10: what it costs to keep a thousand leases alive, and to sweep where nothing has expired."""

from __future__ import annotations

from tests.bench.context import Bench
from tests.bench.report import Line, median, spread
from tests.bench.rig import Rig, rig

_LEASES = 1_000
_EVERY = 20.0  # seconds between two renewals of one lease


def measure(bench: Bench) -> list[Line]:
    """One board with a thousand leases for the renewals, then with a hundred thousand for the sweep."""
    working = 100_000 if bench.full else 20_000
    with rig(bench, "leases") as board:
        board.system.fill(working + 10)
        board.system.settle_down()
        held = board.claims(_LEASES)
        fences = [claimed.fence for claimed in held]
        batched = [_round(board, fences, 100) for _ in range(2 + 3 * bench.rounds)][2:]
        single = [_round(board, fences, 1) for _ in range(2)]
        board.claims(working - _LEASES)
        board.system.settle_down()
        board.board.sweep(1000, board.human)
        sweeps = [board.cost(lambda: board.board.sweep(1000, board.human)) for _ in range(20)]
        claims = [board.cost(lambda: board.board.has_work(board.system.want(), board.agent)) for _ in range(20)]
    percent = [100 * cpu / _EVERY for cpu in batched]
    walls = [cost.wall / 1000 for cost in sweeps]
    return [
        Line(
            number="9",
            what=f"{_LEASES:,} leases renewed every {_EVERY:.0f} s, 100 a call",
            ours=median(percent),
            unit="% of a core",
            value=median(percent),
            must=5,
            aim=3,
            better="less",
            note=f"min/median/max {spread(percent)}; one a call {100 * median(single) / _EVERY:.1f} %",
            samples={"percent": percent},
        ),
        Line(
            number="10",
            what=f"a sweep over {working:,} working tasks, none expired",
            ours=median(walls),
            unit="s",
            value=median(walls),
            must=1,
            aim=0.1,
            better="less",
            note=f"min/median/max {spread(walls)}; a look for work there {median([c.wall for c in claims]):.2f} ms",
        ),
    ]


def _round(board: Rig, fences: list, size: int) -> float:  # type: ignore[type-arg]
    """CPU seconds to renew all of them once, client and server."""

    def renew() -> None:
        for i in range(0, len(fences), size):
            board.board.renew(fences[i : i + size], None, board.agent)

    return board.cost(renew).cpu / 1000
