"""One task: what is wanted, what was said and done, its runs, its family, and what its reader may do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from taskfabric.domain.errors import FabricError, NotFound, Refused
from taskfabric.domain.journal import Event
from taskfabric.domain.status import FINISHED
from taskfabric.domain.task import Kin, Task
from taskfabric.services.approval_verbs import ShowApproval
from taskfabric.services.fleet_verbs import ReadChunks
from taskfabric.services.verbs import Events, ListQueues, Show, ShowAnnex, Tree, Why
from taskfabric.surfaces.web.pages.inbox import humans, preview
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit

_MOST: Final = 1000  # events and pieces of output on one page
_ENDED: Final = {
    "done", "parked", "waiting", "asked", "failed", "dead", "released", "expired", "swept", "rejected", "cancelled",
    "moved", "declined", "drained",
}  # fmt: skip


def task(visit: Visit, ref: str) -> Page:
    """Raises NotFound for a task that is missing and for one that the reader may not see."""
    number = int(ref)
    thread = visit.fabric.call(Show(task=number))
    found = thread.task
    if found.restricted:
        return Page(template="restricted.html", values={"title": f"#{number}", "task": found})
    journal = visit.fabric.call(Events(task=number, limit=_MOST))
    output = visit.fabric.call(ReadChunks(task=number, limit=_MOST))
    return Page(
        template="task.html",
        values={
            "title": f"#{number} {found.title}",
            "task": found,
            "thread": thread,
            "annex": visit.fabric.call(ShowAnnex(task=number)),
            "events": journal.events,
            "cursor": journal.cursor,
            "output": output,
            "runs": runs(journal.events),
            "tree": _family(visit, found),
            "why": () if found.status in FINISHED else visit.fabric.call(Why(task=number)).reasons,
            "approval": approval_of(visit, number),
            "queues": [q.name for q in visit.fabric.call(ListQueues())],
            "humans": humans(visit),
        },
    )


def approval_of(visit: Visit, number: int) -> dict[str, Any] | None:
    """The approval that this task is about or waits for, if the reader may know of it."""
    try:
        found = visit.fabric.call(ShowApproval(task=number))
    except (NotFound, Refused):
        return None
    return {**found, "preview": preview(found)}


def _family(visit: Visit, found: Task) -> Kin:
    """The whole family from its root, as far as the reader sees it; at least the task with its own children."""
    for top in dict.fromkeys((found.root, found.parent, found.id)):
        if top is not None:
            try:
                return visit.fabric.call(Tree(task=top))
            except FabricError:
                continue
    return Kin(task=found)


def runs(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Each try, from the claim to what became of it, the latest first."""
    found: list[dict[str, Any]] = []
    for event in events:
        if event.kind == "claimed":
            found.append({"epoch": event.epoch, "holder": event.actor, "began": event.at, "end": None, "ended": None})
        elif event.kind in _ENDED and found and found[-1]["end"] is None:
            found[-1] |= {"end": event.kind, "ended": event.at}
    return found[::-1]
