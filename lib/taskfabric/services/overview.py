"""Boards seen whole, through their reader's eyes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from taskfabric.domain.journal import Cursor
from taskfabric.domain.principal import Caller, Viewer
from taskfabric.ports.overview import CardFilter, EventFilter, Overview
from taskfabric.services import overview_verbs, policy, text
from taskfabric.services.desk import Desk
from taskfabric.services.overview_verbs import Recent, Wall
from taskfabric.services.reading import Reading


class Overlooking:
    """The verbs that show many cards at once."""

    def __init__(self, desk: Desk, overview: Overview, reading: Reading) -> None:
        self._desk = desk
        self._overview = overview
        self._reading = reading

    def board(self, caller: Caller, verb: overview_verbs.ShowBoard) -> Wall:
        """Raises NotFound for a queue that the caller may not know of."""
        queue = self._reading.readable(caller, verb.queue)
        rules = self._desk.rules
        wanted = CardFilter(
            text=text.note(verb.text, rules, "text"),
            holder=caller.principal.name if verb.holder == "me" else verb.holder,
            tag=verb.tag,
            priority=verb.priority,
            tasks=verb.tasks,
        )
        view = self._overview.board(queue.project_id, wanted, verb.per_column, Viewer.of(caller))
        moves = caller.principal.is_human and caller.run is None
        arranges = moves and policy.manages(self._desk, caller, queue.project_id)
        return Wall(queue=queue.name, may_move=moves, may_arrange=arranges, view=view)

    def standing(self, caller: Caller, verb: overview_verbs.Standing) -> dict[int, datetime | None]:
        """Raises NotFound for a queue that the caller may not know of."""
        queue = self._reading.readable(caller, verb.queue)
        return self._overview.standing(queue.project_id, verb.tasks, Viewer.of(caller))

    def depths(self, caller: Caller, verb: overview_verbs.Depths) -> list[dict[str, Any]]:
        """One entry a queue, with a number for each hour."""
        queues = [q for q in self._desk.projects.queues() if policy.sees_queue(self._desk, caller, q)]
        found = self._overview.depth([q.project_id for q in queues], verb.hours, Viewer.of(caller))
        return [
            {
                "queue": queue.name,
                "kind": queue.kind.value,
                "points": [{"at": point.at.isoformat(), "open": point.open} for point in found[queue.project_id]],
            }
            for queue in queues
        ]

    def recent(self, caller: Caller, verb: overview_verbs.RecentEvents) -> Recent:
        """Raises NotFound for a queue that the caller may not know of."""
        project_id = None if verb.queue is None else self._reading.readable(caller, verb.queue).project_id
        wanted = EventFilter(actor=verb.actor, kind=verb.kind, project_id=project_id, task=verb.task)
        before = Cursor.parse(verb.before) if verb.before else None
        events, older = self._overview.recent(wanted, before, verb.limit, Viewer.of(caller))
        return Recent(events=tuple(events), older=older)
