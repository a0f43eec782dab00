"""What changed on the Kanboard by itself: looked for before a claim and a list, as often as it stays cheap."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from taskfabric.boards.kanboard import adoption
from taskfabric.boards.kanboard.alignment import MOVERS, Alignment
from taskfabric.boards.kanboard.client import Doubtful, Kanboard, say
from taskfabric.boards.kanboard.face import Face, of_card
from taskfabric.boards.kanboard.ground import StockDatabase
from taskfabric.boards.kanboard.leases import Lock, Locks
from taskfabric.boards.kanboard.people import People
from taskfabric.boards.native.names import Names

log = logging.getLogger(__name__)

_EVERY: Final = 2.0  # seconds between two looks at a project
_AT_ONCE: Final = 20  # cards that one look takes in; the next takes the others
_SHARE: Final = 20.0  # a look that took long is not repeated before so many times its length


class Incoming:
    """Looks at the open cards of queues. ``thresholds``: the largest scores of the tiers small and medium."""

    def __init__(
        self,
        database: StockDatabase,
        names: Names,
        kanboard: Kanboard,
        people: People,
        locks: Locks,
        alignment: Alignment,
        *,
        thresholds: tuple[int, int],
        every: float = _EVERY,
    ) -> None:
        self._db = database
        self._names = names
        self._kanboard = kanboard
        self._people = people
        self._locks = locks
        self._alignment = alignment
        self._thresholds = thresholds
        self._every = every
        self._next: dict[int, float] = {}
        self._lock = threading.Lock()

    def look(self, project_ids: Iterable[int], *, closely: bool = False) -> int:
        """The open cards of these queues are as they are there; how many were not. ``closely``: tags, too, which
        change without a trace, and at once."""
        return sum(
            self._project(project_id, closely=closely) for project_id in project_ids if self._due(project_id, closely)
        )

    def _due(self, project_id: int, closely: bool) -> bool:
        with self._lock:
            if not closely and time.monotonic() < self._next.get(project_id, 0.0):
                return False
            self._next[project_id] = time.monotonic() + self._every  # nobody else meanwhile
            return True

    def _project(self, project_id: int, *, closely: bool) -> int:
        began = time.monotonic()
        cards = {int(c["id"]): c for c in self._kanboard.call("getAllTasks", project_id=project_id, status_id=1) or []}
        strange, changed = self._compare(project_id, cards)
        if closely and cards:
            changed |= self._retagged(list(cards))
        if strange:
            self._adopt(project_id, [cards[task_id] for task_id in sorted(strange, key=lambda i: _place(cards[i]))])
        todo = [*sorted(strange), *sorted(changed - strange)]
        self._alignment.settle(todo if closely else todo[:_AT_ONCE], wait=closely)
        length = time.monotonic() - began
        with self._lock:
            self._next[project_id] = time.monotonic() + max(self._every, _SHARE * length if length > 1 else 0)
        return len(strange) + len(changed)

    def _compare(self, project_id: int, cards: Mapping[int, Mapping[str, Any]]) -> tuple[set[int], set[int]]:
        """Cards without a row, and tasks whose card is not as it was."""
        with self._db.connection() as conn:
            known = {
                row[0]: (row[1], row[2])
                for row in conn.execute(
                    "SELECT t.id, c.seen, t.project_id FROM tasks t LEFT JOIN stock_cards c ON c.task_id = t.id"
                    " WHERE NOT coalesce(c.gone, false) AND (t.id = ANY(%s) OR t.project_id = %s AND t.is_active)",
                    (list(cards), project_id),
                ).fetchall()
            }
        strange = {i for i, card in cards.items() if i not in known and not _in_making(card)}
        changed: set[int] = set()
        for task_id, (seen, project) in known.items():
            card = cards.get(task_id)
            if seen is None:
                continue  # just being made
            face = Face.from_json(seen["face"])
            if card is None:
                if face.active and project == project_id:
                    changed.add(task_id)  # closed, removed, or in another project
            elif of_card(card, face.tags) != face:
                changed.add(task_id)
        return strange, changed

    def _retagged(self, task_ids: Sequence[int]) -> set[int]:
        answers = self._kanboard.many([say("getTaskTags", task_id=task_id) for task_id in task_ids])
        with self._db.connection() as conn:
            rows = conn.execute(
                "SELECT task_id, seen FROM stock_cards WHERE task_id = ANY(%s)", (list(task_ids),)
            ).fetchall()
        seen = {task_id: tuple(value["face"]["tags"]) for task_id, value in rows}
        return {
            task_id
            for task_id, tags in zip(task_ids, answers, strict=True)
            if task_id in seen
            and not isinstance(tags, Doubtful)
            and tuple(sorted((tags or {}).values())) != seen[task_id]
        }

    def _adopt(self, project_id: int, cards: Sequence[Mapping[str, Any]]) -> None:
        locks: Mapping[int, Lock] = self._locks.highest()
        now = adoption.board_time(self._kanboard.skew)
        answers = self._kanboard.many([say("getTaskTags", task_id=int(card["id"])) for card in cards])
        for card, tags in zip(cards, answers, strict=True):
            if isinstance(tags, Doubtful):
                continue
            task_id = int(card["id"])
            creator = int(card.get("creator_id") or 0)
            found = adoption.Found(
                card=card,
                tags=list((tags or {}).values()),
                maker=self._people.name_of(creator) if creator else None,
                lock=locks.get(task_id),
            )
            with self._db.transaction() as conn:
                conn.execute("SELECT pg_advisory_xact_lock(%s, %s)", (MOVERS, project_id))
                row = conn.execute(
                    "SELECT coalesce(c.gone, false) FROM tasks t LEFT JOIN stock_cards c ON c.task_id = t.id"
                    " WHERE t.id = %s",
                    (task_id,),
                ).fetchone()
                if row is None:
                    adoption.adopt(conn, self._names, found, self._thresholds, now)
                    log.info("card adopted task=%d project=%d", task_id, project_id)
                elif row[0]:
                    self._renumber(found)

    def _renumber(self, found: adoption.Found) -> None:
        """Another card stands in the place of this one, whose number a removed card had; the next look adopts it."""
        task_id = int(found.card["id"])
        now = self._kanboard.call("getTask", task_id=task_id)
        if not now or not of_card(now, found.tags).active:
            return  # somebody else has just done it
        instead = self._kanboard.call("createTask", **adoption.copied(found, self._people))
        if instead:
            adoption.give_up(self._kanboard, task_id, int(instead))
            log.info("card renumbered task=%d instead=%d", task_id, int(instead))

    def comments(self, task_id: int) -> None:
        """What people said on the card is in the task's thread."""
        said = self._kanboard.call("getAllComments", task_id=task_id) or []
        with self._db.plain() as conn:
            here = conn.execute(
                "SELECT FROM tasks t WHERE id = %(task)s AND NOT EXISTS (SELECT FROM stock_cards c"
                " WHERE c.task_id = %(task)s AND c.gone) FOR UPDATE OF t",
                {"task": task_id},
            ).fetchone()
            if here is None:
                return
            rows = conn.execute("SELECT card_comment_id FROM stock_comments WHERE task_id = %s", (task_id,)).fetchall()
            known = {row[0] for row in rows}
            for comment in said:
                card_comment = int(comment["id"])
                if card_comment in known:
                    continue
                author = adoption.maker(conn, self._people.name_of(int(comment.get("user_id") or 0)))
                made = conn.execute(
                    "INSERT INTO comments (task_id, user_id, text, date_creation, visibility)"
                    " VALUES (%s, %s, %s, to_timestamp(%s), %s) RETURNING id",
                    (
                        *(task_id, author.principal_id, str(comment["comment"]), int(comment["date_creation"])),
                        str(comment.get("visibility") or "app-user"),
                    ),
                ).fetchone()
                assert made is not None
                conn.execute("INSERT INTO stock_comments VALUES (%s, %s, %s)", (task_id, card_comment, made[0]))


def _in_making(card: Mapping[str, Any]) -> bool:
    return str(card.get("reference") or "").startswith(adoption.MARK)


def _place(card: Mapping[str, Any]) -> tuple[int, int, int]:
    return int(card["column_id"]), int(card.get("position") or 0), int(card["id"])
