"""Cards in line with their tasks, both ways: what a person changed on a card comes in, what a verb decided goes out.

One mover at a time for each project: Kanboard loses concurrent moves silently, so all writes to the cards of a project
happen under one advisory lock of the database that all processes of this fabric share. A card in the column from which
the fabric has just moved it was not dragged there by anybody: Kanboard has undone the move, and it is made again.

What a lease decides a drag does not change: a leased card goes back to its place, and a comment says so.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.boards.kanboard import adoption, hands, outgoing
from taskfabric.boards.kanboard.client import Doubtful, Kanboard, say
from taskfabric.boards.kanboard.face import Face, of_card, of_task
from taskfabric.boards.kanboard.ground import StockDatabase
from taskfabric.boards.kanboard.people import People
from taskfabric.boards.native import read
from taskfabric.boards.native.names import Connection, Names
from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.task import Task

log = logging.getLogger(__name__)

MOVERS: Final = 0x6B62  # with the project: the advisory lock of its one mover
_ROUNDS: Final = 4  # looks at one card before it is left to the next occasion
_UNDONE: Final = timedelta(
    minutes=2
)  # so long after our move a card in its old column counts as moved back by Kanboard
_AT_ONCE: Final = 100
_TOGETHER: Final = 20  # cards that are read by one call
_ON_THE_WAY: Final = 2  # cards of others that a mover puts in line after his own
_TURNS: Final = 8  # that a mover takes for what others have left to him meanwhile


# A card with its tags; None: it is not there; Doubtful: Kanboard did not say.
Found = tuple[Mapping[str, Any], list[str]] | Doubtful | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a card from before."""

    seen: Face | None
    meta: Mapping[str, str]
    comment_id: int
    rank: int | None  # of our row, when the card was put in its place
    moved_from: int | None  # only if that was a moment ago
    gone: bool = False  # it was removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A task as our row has it, with Kanboard's numbers."""

    task: Task
    face: Face
    seq: int
    rank: int
    position: int  # of the card in its cell, 1 being the first


class Alignment:
    """Brings cards in line. Errors of one card stop no other."""

    def __init__(self, database: StockDatabase, names: Names, kanboard: Kanboard, people: People) -> None:
        self._db = database
        self._names = names
        self._kanboard = kanboard
        self._people = people

    def settle(self, task_ids: Sequence[int], *, wait: bool = False) -> int:
        """These cards are in line, and some others of their projects that were left behind; how many.

        What cannot be done now is done later: all their tasks are noted. Where another is the mover at this moment the
        cards are his, unless ``wait``: a verb's answer must not stand in a queue of movers until its lease is over.
        So a mover looks once more when he has let go: whoever came too early for that has left him his card."""
        with self._db.connection() as conn:
            rows = conn.execute(
                "SELECT project_id, array_agg(id ORDER BY id), statement_timestamp() FROM tasks WHERE id = ANY(%s)"
                " GROUP BY 1 ORDER BY 1",
                (list(task_ids),),
            ).fetchall()
        done, others = 0, set[int]()
        for project_id, ids, begun in rows:
            for turn in range(1 if wait else _TURNS):
                count = 0
                with self._moving(project_id, wait=wait) as mine:
                    if mine:
                        count, touched = self._move(project_id, ids, 0 if wait or turn else _ON_THE_WAY)
                        done += count
                        others |= touched
                ids = self._left(project_id, ids, begun) if count and not wait else []
                if not ids:
                    break
        others -= set(task_ids)
        return done + (self.settle(sorted(others), wait=wait) if others else 0)

    @contextlib.contextmanager
    def _moving(self, project_id: int, *, wait: bool) -> Iterator[bool]:
        """Within, this process is the one mover of the project, if it is told so."""
        key = (MOVERS, project_id)
        with self._db.connection() as conn:
            if wait:
                conn.execute("SELECT pg_advisory_lock(%s, %s)", key)
                mine = True
            else:
                row = conn.execute("SELECT pg_try_advisory_lock(%s, %s)", key).fetchone()
                mine = row is not None and bool(row[0])
            try:
                yield mine
            finally:
                if mine:
                    conn.execute("SELECT pg_advisory_unlock(%s, %s)", key)

    def _move(self, project_id: int, task_ids: Sequence[int], others: int) -> tuple[int, set[int]]:
        """These cards and up to so many others of the project are in line: how many were, and which further tasks that
        has touched."""
        done, touched = 0, set[int]()
        todo = [*task_ids, *(self._behind_in(project_id, others, task_ids) if others else ())]
        try:
            for begin in range(0, len(todo), _TOGETHER):
                together = todo[begin : begin + _TOGETHER]
                for task_id, found in zip(together, self._cards(together), strict=True):
                    try:
                        touched |= self._one(task_id, found)
                        done += 1
                    except FabricError as error:
                        if isinstance(error, Unavailable) and not isinstance(error, Doubtful):
                            raise
                        log.warning("card left behind task=%d reason=%r", task_id, str(error))
        except Unavailable as away:
            log.warning("cards left behind project=%d reason=%r", project_id, away.message)
        return done, touched

    def _left(self, project_id: int, mine: Sequence[int], begun: datetime) -> list[int]:
        """Cards of the project that are not in line, of those that were put in line and of those noted since."""
        with self._db.connection() as conn:
            rows = conn.execute(
                "SELECT d.task_id FROM stock_dirty d JOIN tasks t ON t.id = d.task_id WHERE t.project_id = %s"
                " AND (d.task_id = ANY(%s) OR d.since >= %s) ORDER BY d.task_id LIMIT %s",
                (project_id, list(mine), begun, _TOGETHER),
            ).fetchall()
        return [row[0] for row in rows]

    def _behind_in(self, project_id: int, limit: int, known: Sequence[int]) -> list[int]:
        with self._db.connection() as conn:
            rows = conn.execute(
                "SELECT d.task_id FROM stock_dirty d JOIN tasks t ON t.id = d.task_id WHERE t.project_id = %s"
                " AND d.task_id <> ALL(%s) ORDER BY d.since LIMIT %s",
                (project_id, list(known), limit),
            ).fetchall()
        return [row[0] for row in rows]

    def left_behind(self, limit: int = _AT_ONCE) -> list[int]:
        """Tasks whose cards are not in line, oldest first."""
        with self._db.connection() as conn:
            rows = conn.execute("SELECT task_id FROM stock_dirty ORDER BY since LIMIT %s", (limit,)).fetchall()
        return [row[0] for row in rows]

    def _one(self, task_id: int, found: Found) -> set[int]:
        """This card, which was just found so, is in line; the caller is the mover of its project. Returns other tasks
        that a person's act on it has touched.

        Raises Unavailable, Doubtful, NotFound."""
        touched: set[int] = set()
        with self._db.plain() as conn:
            for again in range(_ROUNDS):
                if again:
                    (found,) = self._cards([task_id])
                if isinstance(found, Doubtful):
                    raise found
                record = self._record(conn, task_id)
                if found is None or record.gone:  # a card that was removed leaves its number, perhaps to another one
                    return self._gone(conn, task_id, record)
                now = of_card(*found)
                standing = self._standing(conn, task_id)
                if self._by_hand(conn, standing, now, record, *found):
                    touched |= set(self._db.arbitrate(conn))
                    standing = self._standing(conn, task_id)
                if self._write(conn, standing, now, record):
                    break
        return touched - {task_id}

    # -- what there is ---------------------------------------------------------------------------------------

    def _cards(self, task_ids: Sequence[int]) -> list[Found]:
        """Each card with its tags, None for one that is not there."""
        answers = self._kanboard.many(
            [say(method, task_id=task_id) for task_id in task_ids for method in ("getTask", "getTaskTags")]
        )
        found: list[Found] = []
        for card, tags in zip(answers[::2], answers[1::2], strict=True):
            if isinstance(card, Doubtful) or isinstance(tags, Doubtful):
                found.append(card if isinstance(card, Doubtful) else tags)
            else:
                found.append((card, list((tags or {}).values())) if card else None)
        return found

    def _record(self, conn: Connection, task_id: int) -> Record:
        row = conn.execute(
            "SELECT seen, comment_id, CASE WHEN moved_at > statement_timestamp() - %s THEN moved_from END, gone"
            "  FROM stock_cards WHERE task_id = %s",
            (_UNDONE, task_id),
        ).fetchone()
        if row is None:
            return Record(seen=None, meta={}, comment_id=0, rank=None, moved_from=None)
        seen = row[0]
        return Record(
            seen=Face.from_json(seen["face"]),
            meta=seen["meta"],
            comment_id=row[1],
            rank=seen["rank"],
            moved_from=row[2],
            gone=row[3],
        )

    def _standing(self, conn: Connection, task_id: int) -> Standing:
        row = conn.execute(
            "SELECT t.seq, t.column_id, t.swimlane_id, 1 + (SELECT count(*) FROM tasks o WHERE o.is_active"
            " AND o.project_id = t.project_id AND o.column_id = t.column_id AND o.swimlane_id = t.swimlane_id"
            " AND o.rank < t.rank), t.rank FROM tasks t WHERE t.id = %s",
            (task_id,),
        ).fetchone()
        assert row is not None, "tasks are not deleted"
        task = read.get(conn, self._names, task_id, None)
        owner = self._people.id_of(task.holder) if task.holder is not None else 0
        if not self._people.may_hold(task.project_id, owner):
            owner = 0
        face = of_task(task, column_id=row[1], swimlane_id=row[2], owner_id=owner)
        return Standing(task=task, face=face, seq=row[0], rank=row[4], position=row[3])

    # -- what comes in ---------------------------------------------------------------------------------------

    def _by_hand(
        self,
        conn: Connection,
        standing: Standing,
        now: Face,
        record: Record,
        card: Mapping[str, Any],
        tags: Sequence[str],
    ) -> bool:
        """Whether a person's acts on the card have come in."""
        if record.seen is None:
            return False
        changed = now.differs(record.seen) & now.differs(standing.face)
        if now.column_id == record.moved_from:
            changed -= {"column_id", "swimlane_id"}
        if not changed - {"owner_id"}:
            return False
        holder = self._people.name_of(now.owner_id)
        return hands.bring_in(conn, self._names, standing.task, now, changed, card, tags, holder)

    def _gone(self, conn: Connection, task_id: int, record: Record) -> set[int]:
        """The card was removed there: the task is cancelled.

        Raises Doubtful if its queue is not there either: then this is not the Kanboard that we know."""
        queue = (
            None
            if record.gone
            else conn.execute(
                "SELECT q.project_id, q.name FROM queues q JOIN tasks t ON t.project_id = q.project_id WHERE t.id = %s",
                (task_id,),
            ).fetchone()
        )
        if queue is not None:
            marks = self._kanboard.call("getProjectMetadata", project_id=queue[0]) or {}
            if marks.get("fabric.name") != queue[1]:
                raise Doubtful("getTask", f"neither the card nor the queue {queue[1]!r} is on this Kanboard")
        adoption.lay_away(conn, self._names, task_id)
        touched = set(self._db.arbitrate(conn))
        conn.execute("UPDATE stock_cards SET gone = true WHERE task_id = %s", (task_id,))
        conn.execute("DELETE FROM stock_dirty WHERE task_id = %s", (task_id,))
        return touched - {task_id}

    # -- what goes out ---------------------------------------------------------------------------------------

    def _write(self, conn: Connection, standing: Standing, now: Face, record: Record) -> bool:
        """The card shows what the row says; False: Kanboard did not say clearly whether it does."""
        want = standing.face
        if record.seen is not None and want.owner_id == record.seen.owner_id and standing.task.holder is None:
            want = replace(want, owner_id=now.owner_id)  # a card may be given to somebody by hand: nothing follows
        calls = list(outgoing.calls(standing.task, now, want, standing.position))
        if record.seen is None:  # the mark of its submission has done its work
            calls.insert(0, say("updateTask", id=standing.task.id, reference=standing.task.reference))
        meta = outgoing.metadata(standing.task)
        if meta != record.meta:
            calls.append(say("saveTaskMetadata", task_id=standing.task.id, values=meta))
        if now.active and not want.active:
            calls.append(say("closeTask", task_id=standing.task.id))
        fresh = self._unsaid(conn, standing.task, record.comment_id)
        answers = self._kanboard.many([*calls, *(say("createComment", **words) for _, words in fresh)])
        self._remember(conn, standing.task.id, fresh, answers[len(calls) :])
        if want.column_id == now.column_id and record.rank not in (None, standing.rank):
            self._kanboard.many(
                [outgoing.place(standing.task.id, want, standing.position)]
            )  # false: it stands there already
        if any(isinstance(a, Doubtful) or a is False for a in answers):
            log.info("card looked at again task=%d", standing.task.id)
            return False
        comment_id = max([record.comment_id, *(number for number, _ in fresh)])
        self._link(conn, standing.task, new=record.seen is None)
        before = now if record.seen is None else record.seen
        moved = before.column_id if now.column_id != want.column_id != before.column_id else None
        conn.execute(
            """INSERT INTO stock_cards (task_id, seen, seq, comment_id, moved_from, moved_at)
               VALUES (%(task)s, %(seen)s, %(seq)s, %(comment)s, %(moved)s,
                       CASE WHEN %(moved)s::integer IS NOT NULL THEN statement_timestamp() END)
               ON CONFLICT (task_id) DO UPDATE SET seen = EXCLUDED.seen, seq = EXCLUDED.seq, gone = false,
                   comment_id = EXCLUDED.comment_id,
                   moved_from = coalesce(EXCLUDED.moved_from, stock_cards.moved_from),
                   moved_at = coalesce(EXCLUDED.moved_at, stock_cards.moved_at)""",
            {
                "task": standing.task.id,
                "seen": Jsonb({"face": want.to_json(), "meta": dict(meta), "rank": standing.rank}),
                "seq": standing.seq,
                "comment": comment_id,
                "moved": moved,
            },
        )
        conn.execute(
            "DELETE FROM stock_dirty d USING tasks t WHERE d.task_id = %s AND t.id = d.task_id AND t.seq = %s",
            (standing.task.id, standing.seq),
        )
        return True

    def _unsaid(self, conn: Connection, task: Task, after: int) -> list[tuple[int, dict[str, Any]]]:
        """Our comments that are not on the card yet: each with its number and its words there."""
        known = {
            row[0]
            for row in conn.execute("SELECT comment_id FROM stock_comments WHERE task_id = %s", (task.id,)).fetchall()
        }
        return [
            (
                entry.id,
                {"task_id": task.id, "user_id": self._people.id_of(entry.author), "content": entry.text},
            )
            for entry in read.entries(conn, self._names, task, None, after=after)
            if entry.id not in known and entry.text
        ]

    def _remember(
        self, conn: Connection, task_id: int, fresh: Sequence[tuple[int, dict[str, Any]]], answers: Sequence[Any]
    ) -> None:
        """Which comment there is which of ours. What is not said now is said at the next look at the card."""
        for (comment_id, _), made in zip(fresh, answers, strict=True):
            if made and not isinstance(made, Doubtful):
                conn.execute(
                    "INSERT INTO stock_comments (task_id, card_comment_id, comment_id) VALUES (%s, %s, %s)"
                    " ON CONFLICT (task_id, card_comment_id) DO UPDATE SET comment_id = EXCLUDED.comment_id",
                    (task_id, int(made), comment_id),
                )

    def _link(self, conn: Connection, task: Task, *, new: bool) -> None:
        """Parent and blockers of a new card are links there: a projection for people, never read back as rights."""
        if not new:
            return
        rows = conn.execute(
            "SELECT link_id, opposite_task_id FROM task_has_links WHERE task_id = %s AND link_id IN (3, 6)", (task.id,)
        ).fetchall()
        self._kanboard.many(
            [say("createTaskLink", task_id=task.id, opposite_task_id=other, link_id=link) for link, other in rows]
        )
