"""Submit on a Kanboard: the card first, which gives the number; then its row, with keys, quotas and families checked.

An error answer does not mean that no card was made, so each card carries the mark of its submission in its reference
until the row is there: whoever repeats the call finds it again. With a key that mark is the key's own, and the tag
``K/<hash>`` in the locks project says who may make it (G11). A card whose submission never came to its end is nobody's
task; ``reconcile`` closes it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskfabric.boards.kanboard import adoption
from taskfabric.boards.kanboard.client import Call, Doubtful, Kanboard, say
from taskfabric.boards.kanboard.ground import StockDatabase
from taskfabric.boards.kanboard.leases import Locks
from taskfabric.boards.kanboard.people import People
from taskfabric.boards.native import submit as native
from taskfabric.boards.native.names import Connection, Names
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import Unavailable
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.task import NewTask, Submitted

_NUMBERS: Final = 20  # tried, one after another
SUBMITTING: Final = 0x6B64  # the advisory lock of whoever makes cards: concurrent creates fail on SQLite


class Submission:
    """Makes cards and their tasks."""

    def __init__(self, database: StockDatabase, names: Names, kanboard: Kanboard, people: People, locks: Locks) -> None:
        self._db = database
        self._names = names
        self._kanboard = kanboard
        self._people = people
        self._locks = locks

    def submit(self, new: Sequence[NewTask], stamp: Stamp, limits: Limits) -> list[Submitted]:
        """As the board's submit."""
        answers = self._rehearse(new, stamp, limits)
        if not any(answer.created for answer in answers):
            return answers
        with self._db.transaction() as conn:
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (SUBMITTING,))
            answers = self._rehearsed(
                conn, new, stamp, limits
            )  # a concurrent call with the same key may have gone before
            cards = self._cards(conn, [i for i, a in zip(new, answers, strict=True) if a.created], stamp)
            made: list[Submitted] = []
            for item, answer in zip(new, answers, strict=True):
                if answer.created:
                    adoption.numbered(conn, cards.pop(0))
                (done,) = native.submit(conn, self._names, [item], stamp, limits, [])
                made.append(done)
        return made

    def card_for(self, conn: Connection, item: NewTask, stamp: Stamp) -> None:
        """The card of this task, whose number the next row gets; nobody else makes one until the transaction ends.

        Raises Unavailable."""
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (SUBMITTING,))
        (number,) = self._cards(conn, [item], stamp)
        adoption.numbered(conn, number)

    def _rehearse(self, new: Sequence[NewTask], stamp: Stamp, limits: Limits) -> list[Submitted]:
        """What our own board would answer; raises what it would raise, and nothing is written."""
        with self._db.plain() as conn:
            return self._rehearsed(conn, new, stamp, limits)

    def _rehearsed(self, conn: Connection, new: Sequence[NewTask], stamp: Stamp, limits: Limits) -> list[Submitted]:
        with conn.transaction(force_rollback=True):
            return native.submit(conn, self._names, new, stamp, limits, [])

    # -- cards -----------------------------------------------------------------------------------------------

    def _cards(self, conn: Connection, fresh: Sequence[NewTask], stamp: Stamp) -> list[int]:
        """The numbers of the cards, made or found."""
        marks = [self._mark(conn, item, stamp) for item in fresh]
        calls = [self._create(conn, item, mark, stamp) for item, mark in zip(fresh, marks, strict=True)]
        begun = [
            self._begun(conn, item.project_id, mark) if item.key is not None else None
            for item, mark in zip(fresh, marks, strict=True)
        ]
        made = iter(self._kanboard.many([call for call, there in zip(calls, begun, strict=True) if there is None]))
        numbers = []
        for item, mark, there in zip(fresh, marks, begun, strict=True):
            number = there
            if number is None:
                answer = next(made)
                number = (
                    self._find(item.project_id, mark) if isinstance(answer, Doubtful) or not answer else int(answer)
                )
            numbers.append(self._new_number(conn, item, mark, number, stamp))
        return numbers

    def _new_number(self, conn: Connection, item: NewTask, mark: str, number: int | None, stamp: Stamp) -> int:
        """The number of the card, or of another one in its place: SQLite gives the number of a removed card again, and
        what is known of a task is not to be said of another."""
        for _ in range(_NUMBERS):
            if number is None:
                raise Unavailable("Kanboard did not make the card; nothing was submitted", sent=True)
            if not adoption.is_known(conn, number):
                return number
            adoption.give_up(self._kanboard, number)
            (answer,) = self._kanboard.many([self._create(conn, item, mark, stamp)])
            number = self._find(item.project_id, mark) if isinstance(answer, Doubtful) or not answer else int(answer)
        raise Unavailable("Kanboard gives numbers again that its removed cards had", sent=True)

    def _mark(self, conn: Connection, item: NewTask, stamp: Stamp) -> str:
        """A key that counts only while its task is open has another mark for each of its tasks."""
        if item.key is None:
            return adoption.MARK + secrets.token_hex(16)
        row = conn.execute(
            "SELECT task_id FROM submissions WHERE submitter_id = %s AND key = %s", (stamp.principal_id, item.key)
        ).fetchone()
        before = 0 if row is None else row[0]
        token = hashlib.sha256(item.body_hash).hexdigest()[:16]
        digest = hashlib.sha256(f"{stamp.name}\0{item.key}\0{before}".encode()).hexdigest()[:32]
        self._locks.key(digest, token)  # lost to an earlier life of this key: the card is looked for all the same
        return f"{adoption.MARK}{digest}"

    def _begun(self, conn: Connection, project_id: int, mark: str) -> int | None:
        """A card that an earlier call for this submission made, and that is no task yet."""
        number = self._find(project_id, mark)
        if number is None:
            return None
        return None if adoption.is_known(conn, number) else number

    def _find(self, project_id: int, mark: str) -> int | None:
        card: Mapping[str, Any] | None = self._kanboard.call(
            "getTaskByReference", project_id=project_id, reference=mark
        )
        return int(card["id"]) if card and str(card.get("reference")) == mark else None

    def _create(self, conn: Connection, item: NewTask, mark: str, stamp: Stamp) -> Call:
        layout = self._names.layout(conn, item.project_id)
        creator = self._people.id_of(stamp.name)
        more: dict[str, Any] = {"creator_id": creator} if self._people.works_in(item.project_id, creator) else {}
        if item.score:
            more["score"] = item.score
        return say(
            "createTask",
            title=item.title,
            project_id=item.project_id,
            column_id=layout.column_for(ColumnRole.BACKLOG if item.backlog else ColumnRole.READY),
            swimlane_id=layout.swimlane_id,
            description=item.description,
            priority=item.priority,
            reference=mark,
            **more,
        )
