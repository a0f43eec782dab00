"""The ports of Kanboard's API on PostgreSQL: cards, and what hangs on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, tzinfo
from typing import TypeVar

from taskfabric.boards.native.cards import carry, ends, faces, find, layout, listing, make, place, recurring, words
from taskfabric.boards.native.cards.kept import Kept
from taskfabric.boards.native.cards.links import Links
from taskfabric.boards.native.cards.remarks import Remarks
from taskfabric.boards.native.cards.subtasks import Subtasks, listed
from taskfabric.boards.native.cards.tags import Tags
from taskfabric.boards.native.cards.trimmings import ExternalLinks, Metadata, TaskFiles
from taskfabric.boards.native.names import Connection, Names
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.card_query import CardQuery
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.domain.recurrence import Trigger
from taskfabric.domain.status import ColumnRole
from taskfabric.ports.faces import Dress, Elsewhere, NewCard, Row, Spot, Words
from taskfabric.ports.signal import Change, Signal

T = TypeVar("T")


class NativeAnnex(Tags, Remarks, Subtasks, Links, Metadata, ExternalLinks, TaskFiles):
    """Implements ``ports.annex.Annex``."""


class NativeFaces:
    """Implements ``ports.faces.Faces``."""

    def __init__(self, database: Database, names: Names, signal: Signal) -> None:
        self._db = database
        self._names = names
        self._signal = signal
        self._of_copy = 0  # of the database, whose cards are kept
        self._cards, self._drawn = Kept(), Kept()  # as lists have them, as boards have them

    # -- reading -------------------------------------------------------------------------------------

    def card(self, task_id: int, viewer: Viewer | None) -> Row | None:
        with self._db.connection() as conn:
            return faces.card(conn, task_id, viewer)

    def by_reference(self, project_id: int, reference: str, viewer: Viewer | None) -> Row | None:
        with self._db.connection() as conn:
            return faces.by_reference(conn, project_id, reference, viewer)

    def cards(self, project_id: int, active: bool, viewer: Viewer | None, dress: Dress) -> list[bytes]:
        with self._db.connection() as conn:
            return listing.cards(conn, self._kept[0], project_id, active, viewer, dress)

    def board(self, project_id: int, viewer: Viewer | None) -> list[Row]:
        with self._db.connection() as conn:
            return layout.board(conn, self._kept[1], project_id, viewer)

    def search(
        self, project_id: int, query: CardQuery, viewer: Viewer | None, me: int, now: datetime, zone: tzinfo
    ) -> list[Row]:
        with self._db.connection() as conn:
            return find.search(conn, project_id, query, viewer, me, now, zone)

    def overdue(self, viewer: Viewer | None, project_id: int | None = None, owner_id: int | None = None) -> list[Row]:
        with self._db.connection() as conn:
            return faces.overdue(conn, viewer, project_id, owner_id)

    def dashboard(self, owner_id: int, viewer: Viewer | None) -> list[Row]:
        with self._db.connection() as conn:
            found = listing.dashboard(conn, owner_id, viewer)
            tags = layout.tags_of(conn, [task_id for row in found if isinstance(task_id := row["id"], int)])
            for row in found:
                task_id = row["id"]
                assert isinstance(task_id, int)
                row["tags"] = tags.get(task_id, [])
                row["subtasks"] = listed(conn, task_id, owner_id)
        return found

    def assignable(self, project_id: int) -> frozenset[int]:
        with self._db.connection() as conn:
            return carry.assignable(conn, project_id)

    def categories(self, project_ids: Sequence[int]) -> dict[int, tuple[int, str]]:
        with self._db.connection() as conn:
            found = conn.execute(
                "SELECT id, project_id, name FROM project_has_categories WHERE project_id = ANY (%s)",
                (list(project_ids),),
            ).fetchall()
        return {row[0]: (row[1], row[2]) for row in found}

    @property
    def _kept(self) -> tuple[Kept, Kept]:
        """What is kept of this copy of the database: after a restore the same version may be of another card."""
        if self._of_copy != self._names.copies:
            self._of_copy, self._cards, self._drawn = self._names.copies, Kept(), Kept()
        return self._cards, self._drawn

    # -- writing -------------------------------------------------------------------------------------

    def create(self, new: NewCard, stamp: Stamp, limits: Limits) -> int:
        notify = self._notify(new)
        return self._made(new, lambda conn: make.create(conn, self._names, new, stamp, limits, notify))

    def duplicate(self, task_id: int, new: NewCard, files: bool, stamp: Stamp, limits: Limits) -> int:
        notify = self._notify(new)
        return self._made(
            new, lambda conn: make.duplicate(conn, self._names, task_id, new, files, stamp, limits, notify)
        )

    def _made(self, new: NewCard, work: Callable[[Connection], int]) -> int:
        """The number of the new card; its lane is known to the next one, and to whoever claims."""
        made = self._db.retrying(work)
        self._signal.publish(Change(task_id=made, project_id=new.task.project_id))
        if self._names.missed_a_lane():
            with self._db.connection() as conn:
                self._names.learn_lanes(conn)
        return made

    def _notify(self, new: NewCard) -> list[int]:
        project_id = new.task.project_id
        return [project_id] if self._signal.may_notify(project_id) else []

    def change(self, task_id: int, changes: Words, stamp: Stamp) -> None:
        self._write(task_id, lambda conn: words.change(conn, self._names, task_id, changes, stamp))

    def place(
        self, task_id: int, project_id: int, spot: Spot, viewer: Viewer | None, stamp: Stamp, limits: Limits
    ) -> bool:
        return self._write(
            task_id, lambda conn: place.place(conn, self._names, task_id, project_id, spot, viewer, stamp, limits)
        )

    def columns(self, project_id: int) -> dict[int, ColumnRole | None]:
        with self._db.connection() as conn:
            return dict(self._names.layout(conn, project_id).role_of)

    def close(self, task_id: int, stamp: Stamp, limits: Limits) -> bool:
        return self._write(task_id, lambda conn: ends.close(conn, self._names, task_id, stamp, limits))

    def come_again(self, task_id: int, triggers: Collection[Trigger], stamp: Stamp, limits: Limits) -> int | None:
        return self._write(
            task_id,
            lambda conn: recurring.come_again(conn, self._names, task_id, triggers, stamp, limits),
        )

    def reopen(self, task_id: int, stamp: Stamp) -> bool:
        return self._write(task_id, lambda conn: ends.reopen(conn, self._names, task_id, stamp))

    def remove(self, task_id: int, stamp: Stamp) -> bool:
        return self._write(task_id, lambda conn: ends.remove(conn, self._names, task_id, stamp))

    def move_to(self, task_id: int, there: Elsewhere, stamp: Stamp) -> bool:
        return self._write(task_id, lambda conn: carry.move_to(conn, self._names, task_id, there, stamp))

    def _write(self, task_id: int, work: Callable[[Connection], T]) -> T:
        """The value of ``work``, one transaction; whoever waits for the task, or for work, looks again."""
        done = self._db.retrying(work)
        self._signal.publish(Change(task_id=task_id))
        return done
