"""Boards seen whole, through their reader's eyes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from taskfabric.domain.journal import Cursor
from taskfabric.domain.principal import Caller, Viewer
from taskfabric.ports.overview import CardFilter, EventFilter, Happened, Later, Overview
from taskfabric.services import overview_verbs, policy, text
from taskfabric.services.desk import Desk
from taskfabric.services.overview_verbs import Wall
from taskfabric.services.reading import Reading, plain_projects


class Overlooking:
    """The verbs that show many cards at once."""

    def __init__(self, desk: Desk, overview: Overview, reading: Reading) -> None:
        self._desk = desk
        self._overview = overview
        self._reading = reading

    def board(self, caller: Caller, verb: overview_verbs.ShowBoard) -> Wall:
        """Raises NotFound for a board that the caller may not know of."""
        place = self._reading.place(caller, verb.queue)
        rules = self._desk.rules
        wanted = CardFilter(
            text=text.note(verb.text, rules, "text"),
            holder=caller.principal.name if verb.holder == "me" else verb.holder,
            tag=verb.tag,
            priority=verb.priority,
            tasks=verb.tasks,
        )
        view = self._overview.board(place.project_id, wanted, verb.per_column, Viewer.of(caller))
        acts = caller.principal.is_human and caller.run is None
        return Wall(
            queue=place.address,
            name=place.name,
            is_queue=place.queue,
            may_move=acts and (place.queue or policy.works_in(self._desk, caller, place.project_id)),
            may_arrange=acts and place.queue and policy.manages(self._desk, caller, place.project_id),
            view=view,
        )

    def standing(self, caller: Caller, verb: overview_verbs.Standing) -> dict[int, datetime | None]:
        """Raises NotFound for a board that the caller may not know of."""
        place = self._reading.place(caller, verb.queue)
        return self._overview.standing(place.project_id, verb.tasks, Viewer.of(caller))

    def projects(self, caller: Caller, verb: overview_verbs.PlainProjects) -> list[dict[str, Any]]:
        """By name; the count is of the cards that the caller may see."""
        found = sorted(plain_projects(self._desk, caller), key=lambda project: (project.name.casefold(), project.id))
        counts = self._overview.depth([project.id for project in found], 1, Viewer.of(caller))
        return [{"id": one.id, "name": one.name, "open": counts[one.id][-1].open} for one in found]

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

    def later(self, caller: Caller, verb: overview_verbs.ListLater) -> Later:
        return self._overview.later(verb.limit, Viewer.of(caller))

    def recent(self, caller: Caller, verb: overview_verbs.RecentEvents) -> Happened:
        """Raises NotFound for a board that the caller may not know of."""
        project_id = None if verb.queue is None else self._reading.place(caller, verb.queue).project_id
        wanted = EventFilter(actor=verb.actor, kind=verb.kind, project_id=project_id, task=verb.task)
        before = Cursor.parse(verb.before) if verb.before else None
        return self._overview.recent(wanted, before, verb.limit, Viewer.of(caller))
