"""Tasks as Kanboard's API shows and changes them: whole cards with places, colours and dates, row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Protocol

from taskfabric.domain.ancestry import Limits
from taskfabric.domain.card_query import CardQuery
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.domain.recurrence import Recurrence, Trigger
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.task import NewTask

Row = dict[str, object]  # a row under Kanboard's own names: whole numbers, texts, seconds since 1970


Dress = Callable[[Row], bytes]  # writes a card of a list as JSON; what it writes follows from the row alone


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCard:
    """A task to be made, and what only its card shows."""

    task: NewTask
    owner_id: int | None = None  # assigned to
    color_id: str = "yellow"
    category_id: int = 0
    priority: int | None = None  # as given, if it is none that a lane has
    time_spent: float | None = None  # hours
    time_estimated: float | None = None
    recurrence: Recurrence = field(default_factory=Recurrence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Changes to a card; None leaves alone. Reserved tags and provenance cannot be changed so."""

    title: str | None = None
    description: str | None = None
    reference: str | None = None
    owner_id: int | None = None  # 0 = nobody
    score: int | None = None  # 0 = unrated
    tier: str | None = None  # what follows from the score
    priority: int | None = None  # as given
    due: datetime | None = None
    clear_due: bool = False
    started: datetime | None = None
    clear_started: bool = False
    color_id: str | None = None
    category_id: int | None = None
    time_spent: float | None = None
    time_estimated: float | None = None
    recurrence: Mapping[str, int] = field(default_factory=dict)  # those of its fields that change
    tags: tuple[str, ...] | None = None  # people's, all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a card is to stand. A swimlane of 0 keeps the one it has."""

    column_id: int
    swimlane_id: int = 0
    position: int = 1  # from 1; beyond the end is the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """In which project a task is to stand, and what is said of its place there; None = as like as possible."""

    project_id: int
    column_id: int | None = None
    swimlane_id: int | None = None
    category_id: int | None = None
    owner_id: int | None = None


class Faces(Protocol):
    """``viewer``: through whose eyes; None = everybody's. A task that the viewer may not see is not there.

    Writes are one transaction each, their comment and journal event included, and say whether they did anything. They
    raise NotFound for a missing task, column or swimlane, IllegalMove for what its status does not allow."""

    # -- reading -------------------------------------------------------------------------------------
    def card(self, task_id: int, viewer: Viewer | None) -> Row | None: ...
    def by_reference(self, project_id: int, reference: str, viewer: Viewer | None) -> Row | None: ...
    def cards(self, project_id: int, active: bool, viewer: Viewer | None, dress: Dress) -> list[bytes]:
        """The open ones, or the closed ones, by id, each as ``dress`` writes it; that is kept as long as the card stays
        the same, so ask with one and the same ``dress``."""

    def board(self, project_id: int, viewer: Viewer | None) -> list[Row]:
        """Active swimlanes, in each all columns, in each its open and closed cards with counts, tags and assignee: what
        ``orjson.dumps`` makes of it is the answer."""

    def search(
        self, project_id: int, query: CardQuery, viewer: Viewer | None, me: int, now: datetime, zone: tzinfo
    ) -> list[Row]: ...
    def overdue(self, viewer: Viewer | None, project_id: int | None = None, owner_id: int | None = None) -> list[Row]:
        """Open tasks of active projects whose date has passed."""

    def dashboard(self, owner_id: int, viewer: Viewer | None) -> list[Row]:
        """Open tasks that are, or have a subtask that is, assigned to this user; each with its subtasks."""

    # -- writing -------------------------------------------------------------------------------------
    def create(self, new: NewCard, stamp: Stamp, limits: Limits) -> int: ...
    def duplicate(self, task_id: int, new: NewCard, files: bool, stamp: Stamp, limits: Limits) -> int:
        """``new``, with the subtasks, tags, external links and (if asked for) files of the task, linked to it."""

    def change(self, task_id: int, words: Words, stamp: Stamp) -> None: ...
    def place(
        self, task_id: int, project_id: int, spot: Spot, viewer: Viewer | None, stamp: Stamp, limits: Limits
    ) -> bool:
        """The card stands there; False if it did already. To another column of a queue it is a human's fact. In any
        other project a card that comes again by this move has come again."""

    def close(self, task_id: int, stamp: Stamp, limits: Limits) -> bool:
        """It is closed, and its subtasks are done: verified in the column for what is done, cancelled in any other.
        Closing what is closed changes nothing and is True. In a project that is no queue a card that comes again
        when it is closed has come again."""

    def come_again(self, task_id: int, triggers: Collection[Trigger], stamp: Stamp, limits: Limits) -> int | None:
        """The next one of a recurring task, submitted by ``stamp``; None if none of these makes it come again, or if
        it has come again before. Raises Refused for an agent beyond its quota."""

    def reopen(self, task_id: int, stamp: Stamp) -> bool: ...
    def remove(self, task_id: int, stamp: Stamp) -> bool:
        """It is gone with all that belongs to it; what it blocked is held. Raises IllegalMove if it has children."""

    def move_to(self, task_id: int, there: Elsewhere, stamp: Stamp) -> bool: ...
    def columns(self, project_id: int) -> dict[int, ColumnRole | None]:
        """The roles of the project's columns, in their order; a few seconds old at most. Raises NotFound."""

    def assignable(self, project_id: int) -> frozenset[int]:
        """Who may be assigned there: active members and managers."""

    def categories(self, project_ids: Sequence[int]) -> dict[int, tuple[int, str]]:
        """The categories of these projects: by id, whose they are, and the name."""
