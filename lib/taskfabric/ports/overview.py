"""A board seen whole: how many cards stand in each column, the first of them, and how the depth changed over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.principal import Viewer
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFilter:
    """Which cards are looked for; every condition given must hold."""

    text: str = ""  # in title, description or number
    holder: str = ""  # a name
    tag: str = ""  # one of people's tags
    priority: int | None = None
    tasks: tuple[int, ...] | None = None  # these only


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """One column: its cards from the top, at most as many as were asked for, and how many there are."""

    id: int
    title: str
    role: ColumnRole | None
    limit: int  # work in progress; 0 = none
    total: int  # open cards that the viewer may see and that meet the filter
    cards: tuple[Task, ...]
    ranks: tuple[int, ...]  # the place of each card: a lower one stands further up


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardView:
    """The board of one project."""

    project_id: int
    now: datetime  # by the board's clock
    columns: tuple[ColumnView, ...]
    swimlanes: tuple[str, ...]  # names in order


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPoint:
    """How many tasks were unfinished at an instant."""

    at: datetime
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """Ready tasks that wait for an instant: the first of them, and how many there are."""

    tasks: tuple[Task, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are looked for; every condition given must hold."""

    actor: str = ""  # a name
    kind: str = ""
    project_id: int | None = None
    task: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Events, newest first, with the titles of their tasks as they are now, and where to go on for older ones."""

    events: tuple[Event, ...]
    titles: Mapping[int, str]
    older: Cursor | None  # None = that was all


class Overview(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached. Every number is of rows that the viewer may see."""

    def board(self, project_id: int, wanted: CardFilter, per_column: int, viewer: Viewer) -> BoardView:
        """The open cards of the project, by column and then by place. Raises NotFound for a missing project."""

    def standing(self, project_id: int, tasks: Sequence[int], viewer: Viewer) -> dict[int, datetime | None]:
        """Those of the tasks that stand open on this board and that the viewer may see, with the end of their lease."""

    def depth(self, project_ids: Sequence[int], hours: int, viewer: Viewer) -> dict[int, tuple[DepthPoint, ...]]:
        """For each of the projects the unfinished tasks at the end of each of the last hours, oldest first."""

    def later(self, limit: int, viewer: Viewer) -> Later:
        """The tasks that are parked or not to be begun yet, the soonest first."""

    def recent(self, wanted: EventFilter, before: Cursor | None, limit: int, viewer: Viewer) -> Happened:
        """The newest events before the cursor (None = the present end); a bounded look back may find fewer."""
