"""The boards: all queues, and one of them with its cards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final
from urllib.parse import urlencode

from taskfabric.domain.errors import NotFound
from taskfabric.domain.queue import QueueKind
from taskfabric.ports.overview import ColumnView
from taskfabric.services.overview_verbs import PlainProjects, ShowBoard, Wall
from taskfabric.services.verbs import Events, ListQueues
from taskfabric.surfaces.fabric_rpc.arguments import verb_of
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit

CAP: Final = 40  # cards of a column on the first view
_ALL: Final = 500
_MOST: Final = 5000  # cards that one stream watches
_NUMBERS: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})*")
_FILTERS: Final = ("text", "holder", "tag", "priority")


def boards(visit: Visit) -> Page:
    """Every board that the reader may know of, with the counts of what he may see in it; his own first."""
    queues = visit.fabric.call(ListQueues())
    me = visit.caller.principal
    kinds = {
        kind: [queue for queue in queues if queue.kind is kind and queue.owner_id != me.id]
        for kind in (QueueKind.POOL, QueueKind.AGENT, QueueKind.INBOX)
    }
    return Page(
        template="boards.html",
        values={
            "title": "Boards",
            "groups": [
                ("Yours", [queue for queue in queues if queue.owner_id == me.id]),
                ("Pools", kinds[QueueKind.POOL]),
                ("Agents", kinds[QueueKind.AGENT]),
                ("Inboxes", kinds[QueueKind.INBOX]),
            ],
            "projects": visit.fabric.call(PlainProjects()),
        },
    )


def board(visit: Visit, queue: str) -> Page:
    """One queue's board, as far as its filters let through."""
    more = visit.query.get("all") == "1"
    try:
        wall = visit.fabric.call(wanted(visit.query, queue, per_column=_ALL if more else CAP))
    except NotFound as error:
        raise NotFound(
            error.message, next="the boards that you may see are at /boards; `fabric adopt` makes a queue of a project"
        ) from error
    # From here on the stream goes: what happens while the page is made is shown twice rather than not at all.
    cursor = visit.fabric.call(Events(cursor="end")).cursor
    filters = {name: visit.query[name] for name in _FILTERS if visit.query.get(name)}
    shown = [card.id for column in wall.view.columns for card in column.cards]
    return Page(
        template="board.html",
        values={
            "title": wall.name,
            "wall": wall,
            "columns": [columned(column, wall) for column in wall.view.columns],
            "lanes": wall.view.swimlanes if len(wall.view.swimlanes) > 1 else (),
            "now": wall.view.now,
            "filters": filters,
            "all": more,
            "more": urlencode({**filters, "all": "1"}),
            "live": urlencode({**filters, "cursor": str(cursor), "shown": write_numbers(shown)}),
            "queues": [q.name for q in visit.fabric.call(ListQueues())],
        },
    )


def wanted(query: Any, queue: str, *, per_column: int, tasks: Sequence[int] | None = None) -> ShowBoard:
    """The verb for a board with the filters of this query. Raises BadInput."""
    asked: dict[str, Any] = {"queue": queue, "per_column": per_column}
    for name in ("text", "holder", "tag"):
        if query.get(name):
            asked[name] = query[name]
    if (priority := query.get("priority", "")).isdigit():
        asked["priority"] = int(priority[:4])
    if tasks is not None:
        asked["tasks"] = list(tasks)
    return verb_of(ShowBoard, asked)


def write_numbers(numbers: Iterable[int]) -> str:
    """The numbers as a short word of an address: in order, each as the distance from the one before."""
    ordered = [0, *sorted(numbers)]
    return ".".join(str(after - before) for before, after in pairwise(ordered))


def read_numbers(word: str) -> list[int]:
    """What ``write_numbers`` wrote, as far as it may be asked for at once; nothing for any other word."""
    if not _NUMBERS.fullmatch(word):
        return []
    return [n for n in accumulate(int(step) for step in word.split(".")[:_MOST]) if n < 2**62]


def columned(column: ColumnView, wall: Wall) -> dict[str, Any]:
    """A column with its cards under their swimlanes, as the template shows it."""
    cards = list(zip(column.cards, column.ranks, strict=True))
    lanes = wall.view.swimlanes if len(wall.view.swimlanes) > 1 else ("",)
    return {
        "view": column,
        "lanes": [(lane, [(c, r) for c, r in cards if not lane or c.swimlane == lane]) for lane in lanes],
        "hidden": column.total - len(column.cards),
        "over": bool(column.limit) and column.total >= column.limit,
    }
