"""The fleet: who is open and why not, what quotas are left, what runs, what is parked, what is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskfabric.domain.status import Status
from taskfabric.services.verbs import Agents, Depths, List
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit

WIDTH: Final = 240  # of a line of depths, in its own units
HEIGHT: Final = 36
_SHOWN: Final = 50  # tasks of a kind
_RESIDENT: Final = ("vram", "ram", "gpu", "memory", "model", "resident")


def fleet(visit: Visit) -> Page:
    """The agents that the reader knows of, and the tasks that he may see."""
    agents = visit.fabric.call(Agents())
    depths = [line for queue in visit.fabric.call(Depths()) if (line := _line(queue)) is not None]
    ready = visit.fabric.call(List(statuses=(Status.READY,), limit=1000))
    return Page(
        template="fleet.html",
        values={
            "title": "Fleet",
            "agents": [
                {
                    **agent,
                    "resident": _resident(agent),
                    "paused": _closed_by(agent, "pause"),
                    "shut": _closed_by(agent, "account"),
                }
                for agent in agents
            ],
            "depths": depths,
            "width": WIDTH,
            "height": HEIGHT,
            "running": visit.fabric.call(List(statuses=(Status.WORKING,), limit=_SHOWN)),
            "parked": [t for t in ready if t.not_before is not None and t.not_before > visit.now][:_SHOWN],
            "dead": visit.fabric.call(List(statuses=(Status.DEAD,), limit=_SHOWN)),
        },
    )


def _line(queue: Mapping[str, Any]) -> dict[str, Any] | None:
    """A queue's depths as the points of a line; None for one that was empty all the time."""
    counts: Sequence[int] = [point["open"] for point in queue["points"]]
    most = max(counts, default=0)
    if most == 0:
        return None
    step = WIDTH / max(1, len(counts) - 1)
    points = " ".join(f"{i * step:.1f},{HEIGHT - 2 - (HEIGHT - 4) * n / most:.1f}" for i, n in enumerate(counts))
    return {"queue": queue["queue"], "points": points, "most": most, "last": counts[-1]}


def _closed_by(agent: Mapping[str, Any], name: str) -> bool:
    return any(part["name"] == name and not part["open"] for part in agent["parts"])


def _resident(agent: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What the agent's workers say of memory that they hold."""
    return [
        (name, value)
        for worker in agent["workers"]
        for name, value in worker["facts"].items()
        if any(word in name.lower() for word in _RESIDENT)
    ]
