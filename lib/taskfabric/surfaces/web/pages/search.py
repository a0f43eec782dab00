"""Looking for tasks, and making one."""

from __future__ import annotations

from typing import Final

from taskfabric.domain.status import Status
from taskfabric.services.verbs import Agents, List, ListQueues
from taskfabric.surfaces.fabric_rpc.arguments import verb_of
from taskfabric.surfaces.web.pages.inbox import humans
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit

_FOUND: Final = 200
_ALL: Final = [status.value for status in Status if status is not Status.RECORD]


def find(visit: Visit) -> Page:
    """The tasks with these words in their title, text or number, open or closed."""
    words = visit.query.get("q", "").strip()[:200]
    tasks = visit.fabric.call(verb_of(List, {"text": words, "statuses": _ALL, "limit": _FOUND})) if words else []
    return Page(template="find.html", values={"title": "Find", "words": words, "tasks": tasks, "most": _FOUND})


def new(visit: Visit) -> Page:
    """The form for a task."""
    names = [q.name for q in visit.fabric.call(ListQueues())]
    agents = [agent["name"] for agent in visit.fabric.call(Agents()) if agent["enabled"]]
    targets = dict.fromkeys(["pool", *names, *agents, *humans(visit), "auto"])
    return Page(template="new.html", values={"title": "New task", "targets": list(targets)})
