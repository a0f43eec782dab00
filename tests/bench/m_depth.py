"""Measure 7: the claim rate with a million ready tasks, and an idle poll when none of them is eligible."""

from __future__ import annotations

from dataclasses import replace

from taskfabric.domain.task import NewTask
from tests.bench.context import Bench
from tests.bench.report import Line, median, spread
from tests.bench.rig import Rig, rig

_CHUNK = 200


def measure(bench: Bench) -> list[Line]:
    """A deep and a shallow board side by side, both with twelve lanes."""
    deep_size, shallow_size = (1_000_000 if bench.full else 100_000), 1_000
    with rig(bench, "deep") as deep, rig(bench, "shallow") as shallow, rig(bench, "ineligible") as barred:
        deep.system.pattern(_lanes(deep.system.project))
        deep.system.fill(deep_size)
        barred.system.pattern(_lanes(barred.system.project, needs=("gpu",)))
        barred.system.fill(deep_size)
        shallow.system.pattern(_lanes(shallow.system.project))
        shallow.system.fill(shallow_size)
        for board in (deep, barred, shallow):
            board.system.settle_down()
        rates: dict[str, list[float]] = {"deep": [], "shallow": []}
        cpu: dict[str, list[float]] = {"deep": [], "shallow": []}
        boards = [("deep", deep), ("shallow", shallow)]
        for _ in range(2 + 4 * bench.rounds):
            boards.reverse()
            for name, board in boards:
                cost = board.cost(lambda board=board: _claim_one(board), _CHUNK)  # type: ignore[misc]
                rates[name].append(1000 / cost.wall)
                cpu[name].append(cost.cpu)
                board.system.fill(_CHUNK)  # as many are ready as before, and both boards have the same life
        want = replace(barred.system.want(), capabilities=("tools",))
        barred.board.claim(want, 1, barred.agent)
        polls = [barred.cost(lambda: barred.board.claim(want, 1, barred.agent)) for _ in range(200)]
    rates = {name: values[2:] for name, values in rates.items()}
    idle = [cost.wall for cost in polls]
    return [
        Line(
            number="7",
            what=f"claim rate with {deep_size:,} ready to that with {shallow_size:,}",
            ours=median(rates["deep"]),
            baseline=median(rates["shallow"]),
            unit="claims/s",
            value=median(rates["deep"]) / median(rates["shallow"]),
            must=0.85,
            aim=0.95,
            note=f"CPU a claim {median(cpu['deep']):.2f} and {median(cpu['shallow']):.2f} ms;"
            f" min/median/max {spread(rates['deep'])}, {spread(rates['shallow'])}",
            samples={**rates, "cpu_deep": cpu["deep"], "cpu_shallow": cpu["shallow"]},
        ),
        Line(
            number="7",
            what=f"idle poll with {deep_size:,} ready, none eligible",
            ours=median(idle),
            unit="ms",
            value=median(idle),
            must=5,
            aim=2,
            better="less",
            note=f"min/median/max {spread(idle)} ms wall; CPU {median([cost.cpu for cost in polls]):.2f} ms",
        ),
    ]


def _lanes(project: int, needs: tuple[str, ...] = ()) -> list[NewTask]:
    """Twelve lanes: three tiers of four priorities."""
    return [
        NewTask(project_id=project, title=f"{tier} {priority}", tier=tier, priority=priority, needs=needs)
        for tier in ("small", "medium", "large")
        for priority in range(4)
    ]


def _claim_one(board: Rig) -> None:
    if not board.board.claim(board.system.want(), 1, board.agent):
        raise RuntimeError("nothing was left to claim")
