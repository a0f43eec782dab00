"""The journal as people read it: newest first, by who, what, where."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlencode

from taskfabric.services.overview_verbs import PlainProjects, RecentEvents
from taskfabric.services.verbs import ListQueues
from taskfabric.surfaces.fabric_rpc.arguments import verb_of
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit

_PAGE: Final = 100
_CURSOR: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,19}")
# What one looks for, in words that stand alone.
KINDS: Final = {
    "submitted": "made",
    "claimed": "taken",
    "done": "finished",
    "verified": "verified",
    "rejected": "sent back",
    "failed": "failed",
    "dead": "dead letters",
    "parked": "parked",
    "asked": "questions",
    "answered": "answers",
    "released": "given back",
    "expired": "leases taken back",
    "cancelled": "cancelled",
    "moved": "moved by hand",
    "edited": "edited",
    "commented": "comments",
    "refused": "refusals",
}


def activity(visit: Visit) -> Page:
    """What happened lately, as far as the reader may know of it."""
    asked: dict[str, Any] = {name: visit.query[name] for name in ("actor", "kind", "queue") if visit.query.get(name)}
    if (number := visit.query.get("task", "").lstrip("#")).isdigit():
        asked["task"] = number[:18]
    filters = dict(asked)
    if _CURSOR.fullmatch(before := visit.query.get("before", "")):
        asked["before"] = before
    boards = [(queue.project_id, queue.name, queue.name) for queue in visit.fabric.call(ListQueues())]
    boards += [(one["id"], f"#{one['id']}", one["name"]) for one in visit.fabric.call(PlainProjects())]
    found = visit.fabric.call(verb_of(RecentEvents, {**asked, "limit": _PAGE}))
    return Page(
        template="activity.html",
        values={
            "title": "Activity",
            "events": found.events,
            "titles": found.titles,
            "older": None if found.older is None else urlencode({**filters, "before": str(found.older)}),
            "filters": filters,
            "kinds": KINDS,
            "boards": boards,
            "queues": {id_: name for id_, _, name in boards},
        },
    )
