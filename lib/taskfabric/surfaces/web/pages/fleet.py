"""The fleet: who is open and why not, what quotas are left, what runs, what is parked, what is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskfabric.domain.status import Status
from taskfabric.services.verbs import Agents, Depths, List, ListLater, ListQueues
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit

WIDTH: Final = 240  # of a line of depths, in its own units
HEIGHT: Final = 36
_SHOWN: Final = 50  # tasks of a kind


def fleet(visit: Visit) -> Page:
    """The agents that the reader knows of, and the tasks that he may see."""
    depths = [line for queue in visit.fabric.call(Depths()) if (line := _line(queue)) is not None]
    counts = [queue.counts or {} for queue in visit.fabric.call(ListQueues())]
    later = visit.fabric.call(ListLater(limit=_SHOWN))
    return Page(
        template="fleet.html",
        values={
            "title": "Fleet",
            "agents": [_agent(agent) for agent in visit.fabric.call(Agents())],
            "depths": depths,
            "width": WIDTH,
            "height": HEIGHT,
            "running": visit.fabric.call(List(statuses=(Status.WORKING,), limit=_SHOWN)),
            "runs": sum(count.get(Status.WORKING.value, 0) for count in counts),
            "later": later,
            "dead": visit.fabric.call(List(statuses=(Status.DEAD,), limit=_SHOWN)),
            "deaths": sum(count.get(Status.DEAD.value, 0) for count in counts),
        },
    )


def _agent(agent: Mapping[str, Any]) -> dict[str, Any]:
    """The agent with what its provider says of windows beside what is counted here, and what could be pressed."""
    return {
        **agent,
        "paused": _closed_by(agent, "pause"),
        "shut": _closed_by(agent, "account"),
        "stuck": not agent["open"] and agent["queue"]["waiting"] > 0,
    }


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
