"""The arguments of the verbs that show a board whole: its columns with their first cards, and depths over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.task import Task, instant
from taskfabric.ports.fabric import Codec, Verb
from taskfabric.ports.overview import BoardView, ColumnView, Happened, Later
from taskfabric.services.answers import plain
from taskfabric.services.args import Page, Priority, TaskId, Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """A board as its reader sees it."""

    queue: str  # what it is asked for by: a queue's name, or the number of a project that is none
    name: str
    is_queue: bool
    may_move: bool  # whether he moves cards here by hand
    may_arrange: bool  # whether he sets its limits
    view: BoardView


def _encode(wall: Wall) -> dict[str, Any]:
    view = wall.view
    return {
        "queue": wall.queue,
        "name": wall.name,
        "is_queue": wall.is_queue,
        "may_move": wall.may_move,
        "may_arrange": wall.may_arrange,
        "project_id": view.project_id,
        "now": view.now.isoformat(),
        "swimlanes": list(view.swimlanes),
        "columns": [
            {
                "id": column.id,
                "title": column.title,
                "role": None if column.role is None else column.role.value,
                "limit": column.limit,
                "total": column.total,
                "cards": [card.to_json() for card in column.cards],
                "ranks": list(column.ranks),
            }
            for column in view.columns
        ],
    }


def _decode(shape: dict[str, Any]) -> Wall:
    columns = tuple(
        ColumnView(
            id=column["id"],
            title=column["title"],
            role=None if column["role"] is None else ColumnRole(column["role"]),
            limit=column["limit"],
            total=column["total"],
            cards=tuple(Task.from_json(card) for card in column["cards"]),
            ranks=tuple(column["ranks"]),
        )
        for column in shape["columns"]
    )
    view = BoardView(
        project_id=shape["project_id"],
        now=datetime.fromisoformat(shape["now"]),
        columns=columns,
        swimlanes=tuple(shape["swimlanes"]),
    )
    said = {name: shape[name] for name in ("queue", "name", "is_queue", "may_move", "may_arrange")}
    return Wall(**said, view=view)


WALL: Final = Codec[Wall](encode=_encode, decode=_decode)


class ShowBoard(Verb[Wall]):
    """The columns of a queue, or by its number (``#7``) of another project that the caller belongs to: their limits,
    the number of open cards in each, and the first ``per_column`` of them."""

    method: ClassVar[str] = "fabric.board"
    result = WALL

    queue: Word
    text: Word = ""
    holder: Word = ""
    tag: Word = ""
    priority: Priority | None = None
    tasks: Annotated[tuple[TaskId, ...], Field(max_length=1000)] | None = None  # these only
    per_column: Page = 50


class Standing(Verb[dict[int, datetime | None]]):
    """Those of these tasks that stand on this queue's board and that the caller may see, with the end of their lease:
    what left the board is not among them, wherever it went."""

    method: ClassVar[str] = "fabric.board.standing"
    result = Codec[dict[int, datetime | None]](
        encode=lambda found: {str(id_): None if until is None else until.isoformat() for id_, until in found.items()},
        decode=lambda shape: {int(id_): instant(until) for id_, until in shape.items()},
    )

    queue: Word
    tasks: Annotated[tuple[TaskId, ...], Field(max_length=5000)]


class PlainProjects(Verb[list[dict[str, Any]]]):
    """The projects that are no queues and that the caller belongs to: ``id``, ``name``, ``open`` (cards he may see)."""

    method: ClassVar[str] = "fabric.project.list"
    result = plain()


class ListLater(Verb[Later]):
    """The ready tasks that wait for an instant, parked or not to be begun before, soonest first; and their number."""

    method: ClassVar[str] = "fabric.later"
    result = Codec[Later](
        encode=lambda found: {"total": found.total, "tasks": [task.to_json() for task in found.tasks]},
        decode=lambda x: Later(total=x["total"], tasks=tuple(Task.from_json(task) for task in x["tasks"])),
    )

    limit: Page = 50


class Depths(Verb[list[dict[str, Any]]]):
    """For each queue that the caller may read: how many of its tasks were unfinished, hour by hour, oldest first."""

    method: ClassVar[str] = "fabric.depths"
    result = plain()

    hours: Annotated[int, Field(ge=1, le=168, strict=True)] = 24


class RecentEvents(Verb[Happened]):
    """The newest events of the journal that the caller may see, newest first, before a cursor."""

    method: ClassVar[str] = "fabric.recent"
    result = Codec[Happened](
        encode=lambda r: {
            "events": [event.to_json() for event in r.events],
            "titles": {str(task): title for task, title in r.titles.items()},
            "older": None if r.older is None else str(r.older),
        },
        decode=lambda x: Happened(
            events=tuple(Event.from_json(event) for event in x["events"]),
            titles={int(task): title for task, title in x["titles"].items()},
            older=None if x["older"] is None else Cursor.parse(x["older"]),
        ),
    )

    before: Annotated[str, Field(pattern=r"^[0-9]{1,20}-[0-9]{1,19}$")] | Literal[""] = ""
    actor: Word = ""
    kind: Word = ""
    queue: Word | None = None
    task: TaskId | None = None
    limit: Page = 100
