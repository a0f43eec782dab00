"""Tasks: the group Task, and the board that shows them."""

from __future__ import annotations

from typing import Final

import orjson

from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.recurrence import Recurrence
from taskfabric.ports.faces import Elsewhere, Row, Spot
from taskfabric.ports.places import PlaceKind
from taskfabric.services.cards import Changes, Draft
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.arguments import BigId
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.errors import Forbidden, WrongParams
from taskfabric.surfaces.kanboard_api.roles import APP_ADMIN, member, of, viewer
from taskfabric.surfaces.kanboard_api.shapes import color

_BASE: Final = b"\0"  # where the server's own URL belongs in a text that is kept: JSON never holds this byte


class Tasks:
    """The groups Task and Board."""

    def __init__(self, hallway: Hallway) -> None:
        self._cards = hallway.cards
        self._rights = hallway.rights

    def table(self) -> list[Procedure]:
        project, task = of("project", "project_id"), of("task", "task_id")
        return [
            procedure("getBoard", self.board, viewer(project), no=[]),
            procedure("searchTasks", self.search, viewer(project), no=[]),
            procedure("getTask", self.one, viewer(task), no=None),
            procedure("getTaskByReference", self.by_reference, viewer(project), no=None),
            procedure("getAllTasks", self.all, viewer(project), no=[]),
            procedure("getOverdueTasks", self.overdue, APP_ADMIN, no=[]),
            procedure("getOverdueTasksByProject", self.overdue_here, viewer(project), no=[]),
            procedure("openTask", self.reopen, member(task)),
            procedure("closeTask", self.close, member(task)),
            procedure("removeTask", self.remove, member(task)),
            procedure("moveTaskPosition", self.place, member(task)),
            procedure("moveTaskToProject", self.move_to, member(task)),
            procedure("duplicateTaskToProject", self.duplicate, member(task), missing=0),
            procedure("createTask", self.create, member(project), missing=0),
            procedure("updateTask", self.update, member(of("task", "id"))),
        ]

    # -- reading -------------------------------------------------------------------------------------

    def board(self, call: Call, project_id: int) -> object:
        return self._cards.board(call.caller, project_id)

    def search(self, call: Call, project_id: int, query: str) -> object:
        return self._cards.search(call.caller, project_id, query)

    def one(self, call: Call, task_id: BigId) -> object:
        return _faced(call, self._cards.get(call.caller, task_id))

    def by_reference(self, call: Call, project_id: int, reference: str) -> object:
        return _faced(call, self._cards.by_reference(call.caller, project_id, reference))

    def all(self, call: Call, project_id: int, status_id: int = 1) -> object:
        if status_id not in (0, 1):
            raise WrongParams("status_id: 1 is open, 0 is closed")
        texts = self._cards.all(call.caller, project_id, status_id == 1, _dressed)
        return orjson.Fragment(b"[%b]" % b",".join(texts).replace(_BASE, orjson.dumps(call.base)[1:-1]))

    def overdue(self, call: Call) -> object:
        return self._cards.overdue(call.caller, None)

    def overdue_here(self, call: Call, project_id: int) -> object:
        return self._cards.overdue(call.caller, project_id)

    # -- ends and places -----------------------------------------------------------------------------

    def reopen(self, call: Call, task_id: BigId) -> bool:
        return self._cards.reopen(call.caller, task_id)

    def close(self, call: Call, task_id: BigId) -> bool:
        return self._cards.close(call.caller, task_id)

    def remove(self, call: Call, task_id: BigId) -> bool:
        return self._cards.remove(call.caller, task_id)

    def place(
        self, call: Call, project_id: int, task_id: BigId, column_id: int, position: int, swimlane_id: int
    ) -> bool:
        if call.project_id != project_id:
            return False
        spot = Spot(column_id=column_id, swimlane_id=swimlane_id, position=position)
        return self._cards.place(call.caller, task_id, project_id, spot)

    def move_to(
        self,
        call: Call,
        task_id: BigId,
        project_id: int,
        swimlane_id: int | None = None,
        column_id: int | None = None,
        category_id: int | None = None,
        owner_id: int | None = None,
    ) -> bool:
        if not self._works_in(call, project_id):
            return False
        there = _there(project_id, swimlane_id, column_id, category_id, owner_id)
        return self._cards.move_to(call.caller, task_id, there)

    def duplicate(
        self,
        call: Call,
        task_id: BigId,
        project_id: int,
        swimlane_id: int | None = None,
        column_id: int | None = None,
        category_id: int | None = None,
        owner_id: int | None = None,
    ) -> int:
        if not self._works_in(call, project_id):
            return 0
        there = _there(project_id, swimlane_id, column_id, category_id, owner_id)
        return self._cards.duplicate(call.caller, task_id, there)

    def _works_in(self, call: Call, project_id: int) -> bool:
        """True for a member of the other project. Raises Forbidden for a stranger; False: the app token means none."""
        if self._rights.place(call.caller, PlaceKind.PROJECT, project_id, ProjectRole.MEMBER) is not None:
            return True
        if call.is_app:
            return False
        raise Forbidden

    # -- words ---------------------------------------------------------------------------------------

    def create(
        self,
        call: Call,
        title: str,
        project_id: int,
        color_id: str = "",
        column_id: int = 0,
        owner_id: int = 0,
        creator_id: int = 0,
        date_due: object = "",
        description: str = "",
        category_id: int = 0,
        score: int = 0,
        swimlane_id: int | None = None,
        priority: int = 0,
        recurrence_status: int = 0,
        recurrence_trigger: int = 0,
        recurrence_factor: int = 0,
        recurrence_timeframe: int = 0,
        recurrence_basedate: int = 0,
        reference: str = "",
        tags: list[object] = [],  # noqa: B006 (read only; the signature is the declaration)
        date_started: object = "",
        time_spent: float | None = None,
        time_estimated: float | None = None,
    ) -> int:
        draft = Draft(
            title=title,
            project_id=project_id,
            color_id=color_id,
            column_id=column_id,
            owner_id=owner_id,
            creator_id=creator_id,
            date_due=date_due,
            description=description,
            category_id=category_id,
            score=score,
            swimlane_id=swimlane_id,
            priority=priority,
            recurrence=Recurrence(
                status=recurrence_status,
                trigger=recurrence_trigger,
                factor=recurrence_factor,
                timeframe=recurrence_timeframe,
                basedate=recurrence_basedate,
            ),
            reference=reference,
            tags=tags,
            date_started=date_started,
            time_spent=time_spent,
            time_estimated=time_estimated,
        )
        return self._cards.create(call.caller, draft)

    def update(
        self,
        call: Call,
        id: BigId,
        title: str | None = None,
        color_id: str | None = None,
        owner_id: int | None = None,
        date_due: object = None,
        description: str | None = None,
        category_id: int | None = None,
        score: int | None = None,
        priority: int | None = None,
        recurrence_status: int | None = None,
        recurrence_trigger: int | None = None,
        recurrence_factor: int | None = None,
        recurrence_timeframe: int | None = None,
        recurrence_basedate: int | None = None,
        reference: str | None = None,
        tags: list[object] | None = None,
        date_started: object = None,
        time_spent: float | None = None,
        time_estimated: float | None = None,
    ) -> bool:
        again = {
            "status": recurrence_status,
            "trigger": recurrence_trigger,
            "factor": recurrence_factor,
            "timeframe": recurrence_timeframe,
            "basedate": recurrence_basedate,
        }
        changes = Changes(
            title=title,
            color_id=color_id,
            owner_id=owner_id,
            date_due=date_due,
            description=description,
            category_id=category_id,
            score=score,
            priority=priority,
            recurrence={name: value for name, value in again.items() if value is not None},
            reference=reference,
            tags=tags,
            date_started=date_started,
            time_spent=time_spent,
            time_estimated=time_estimated,
        )
        return self._cards.change(call.caller, id, changes)


def _there(
    project_id: int, swimlane_id: int | None, column_id: int | None, category_id: int | None, owner_id: int | None
) -> Elsewhere:
    return Elsewhere(
        project_id=project_id,
        swimlane_id=swimlane_id or None,
        column_id=column_id or None,
        category_id=category_id,
        owner_id=owner_id,
    )


def _dressed(row: Row) -> bytes:
    """The row as a list has it, but for the server's own URL."""
    url = orjson.Fragment(b'"%btasks/%b"' % (_BASE, str(row["id"]).encode()))
    return orjson.dumps({**row, "url": url, "color": color(str(row["color_id"]))})


def _faced(call: Call, row: Row | None) -> Row | None:
    """The row with its page and its colours, as single tasks and lists of them have it."""
    if row is not None:
        row["url"] = f"{call.base}tasks/{row['id']}"
        row["color"] = color(str(row["color_id"]))
    return row
