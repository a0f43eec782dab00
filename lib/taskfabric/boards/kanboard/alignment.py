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
from datetime import timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.boards.kanboard import adoption, hands
from taskfabric.boards.kanboard.client import Call, Doubtful, Kanboard, say
from taskfabric.boards.kanboard.face import Face, of_card, of_task, written
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
_ON_THE_WAY: Final = 2  # cards of others that a mover puts in line after his own


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a card from before."""

    seen: Face | None
    meta: Mapping[str, str]
    comment_id: int
    rank: int | None  # of our row, when the card was put in its place
    moved_from: int | None  # only if that was a moment ago


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
        cards are his, unless ``wait``: a verb's answer must not stand in a queue of movers until its lease is over."""
        with self._db.connection() as conn:
            rows = conn.execute(
                "SELECT project_id, array_agg(id ORDER BY id) FROM tasks WHERE id = ANY(%s) GROUP BY 1 ORDER BY 1",
                (list(task_ids),),
            ).fetchall()
        done = 0
        for project_id, ids in rows:
            with self._moving(project_id, wait=wait) as mine:
                if mine:
                    done += self._move(project_id, ids, _ON_THE_WAY if not wait else 0)
        return done

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

    def _move(self, project_id: int, task_ids: Sequence[int], others: int) -> int:
        done = 0
        todo, seen = list(task_ids), set[int]()
        while todo or others > 0:
            if not todo:
                todo = [task_id for task_id in self._behind_in(project_id, others) if task_id not in seen]
                others -= max(1, len(todo))
                continue
            task_id = todo.pop(0)
            if task_id in seen:
                continue
            seen.add(task_id)
            try:
                todo += self.one(task_id)
                done += 1
            except Unavailable as away:
                log.warning("card left behind task=%d reason=%r", task_id, away.message)
                return done
            except (FabricError, Doubtful) as error:
                log.warning("card left behind task=%d reason=%r", task_id, str(error))
        return done

    def _behind_in(self, project_id: int, limit: int) -> list[int]:
        with self._db.connection() as conn:
            rows = conn.execute(
                "SELECT d.task_id FROM stock_dirty d JOIN tasks t ON t.id = d.task_id WHERE t.project_id = %s"
                " ORDER BY d.since LIMIT %s",
                (project_id, limit),
            ).fetchall()
        return [row[0] for row in rows]

    def left_behind(self, limit: int = _AT_ONCE) -> list[int]:
        """Tasks whose cards are not in line, oldest first."""
        with self._db.connection() as conn:
            rows = conn.execute("SELECT task_id FROM stock_dirty ORDER BY since LIMIT %s", (limit,)).fetchall()
        return [row[0] for row in rows]

    def one(self, task_id: int) -> list[int]:
        """This card is in line; the caller is the mover of its project. Returns other tasks that a person's act on it
        has touched.

        Raises Unavailable, Doubtful, NotFound."""
        with self._db.plain() as conn:
            return self._one(conn, task_id)

    def _one(self, conn: Connection, task_id: int) -> list[int]:
        touched: list[int] = []
        for _ in range(_ROUNDS):
            card, tags = self._card(task_id)
            if card is None:
                touched += self._gone(conn, task_id)
                return touched
            now = of_card(card, tags)
            record = self._record(conn, task_id)
            standing = self._standing(conn, task_id)
            acts = self._by_hand(conn, standing, now, record, card, tags)
            if acts:
                touched += self._db.arbitrate(conn)
                standing = self._standing(conn, task_id)
            certain = self._write(conn, standing, now, record)
            if certain:
                break
        return [other for other in touched if other != task_id]

    # -- what there is ---------------------------------------------------------------------------------------

    def _card(self, task_id: int) -> tuple[Mapping[str, Any] | None, list[str]]:
        card, tags = self._kanboard.many([say("getTask", task_id=task_id), say("getTaskTags", task_id=task_id)])
        for answer in (card, tags):
            if isinstance(answer, Doubtful):
                raise answer
        return card or None, list((tags or {}).values())

    def _record(self, conn: Connection, task_id: int) -> Record:
        row = conn.execute(
            "SELECT seen, comment_id, CASE WHEN moved_at > statement_timestamp() - %s THEN moved_from END"
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

    def _gone(self, conn: Connection, task_id: int) -> list[int]:
        """The card was removed there: the task is cancelled."""
        adoption.lay_away(conn, self._names, task_id)
        touched = self._db.arbitrate(conn)
        conn.execute("UPDATE stock_cards SET gone = true WHERE task_id = %s", (task_id,))
        conn.execute("DELETE FROM stock_dirty WHERE task_id = %s", (task_id,))
        return [other for other in touched if other != task_id]

    # -- what goes out ---------------------------------------------------------------------------------------

    def _write(self, conn: Connection, standing: Standing, now: Face, record: Record) -> bool:
        """The card shows what the row says; False: Kanboard did not say clearly whether it does."""
        want = standing.face
        if record.seen is not None and want.owner_id == record.seen.owner_id and standing.task.holder is None:
            want = replace(want, owner_id=now.owner_id)  # a card may be given to somebody by hand: nothing follows
        calls = list(_calls(standing.task, now, want, standing.position))
        if record.seen is None:  # the mark of its submission has done its work
            calls.insert(0, say("updateTask", id=standing.task.id, reference=standing.task.reference))
        meta = _metadata(standing.task)
        if meta != record.meta:
            calls.append(say("saveTaskMetadata", task_id=standing.task.id, values=meta))
        if now.active and not want.active:
            calls.append(say("closeTask", task_id=standing.task.id))
        fresh = self._unsaid(conn, standing.task, record.comment_id)
        answers = self._kanboard.many([*calls, *(say("createComment", **words) for _, words in fresh)])
        self._remember(conn, standing.task.id, fresh, answers[len(calls) :])
        if want.column_id == now.column_id and record.rank not in (None, standing.rank):
            self._kanboard.many([_place(standing.task.id, want, standing.position)])  # false: it stands there already
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
            for entry in read.entries(conn, self._names, task, after=after)
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


def _calls(task: Task, now: Face, want: Face, position: int) -> list[Call]:
    """What makes the card look so; closing it comes last and is not among them."""
    different = now.differs(want)
    calls: list[Call] = []
    if want.active and not now.active:
        calls.append(say("openTask", task_id=task.id))
    if "project_id" in different:
        place = {"column_id": want.column_id, "swimlane_id": want.swimlane_id}
        calls.append(say("moveTaskToProject", task_id=task.id, project_id=want.project_id, **place))
    fields: dict[str, Any] = {}
    if "title" in different:
        fields["title"] = task.title
    if "text" in different:
        fields["description"] = task.description
    if "priority" in different:
        fields["priority"] = want.priority
    if "score" in different:
        fields["score"] = want.score
    if "due" in different:
        fields["date_due"] = written(want.due)
    if "owner_id" in different:
        fields["owner_id"] = want.owner_id
    if "tags" in different:
        fields["tags"] = list(want.tags)
    if fields:
        calls.append(say("updateTask", id=task.id, **fields))
    if {"column_id", "swimlane_id"} & different and "project_id" not in different:
        calls.append(_place(task.id, want, position))
    return calls


def _place(task_id: int, want: Face, position: int) -> Call:
    return say(
        "moveTaskPosition",
        project_id=want.project_id,
        task_id=task_id,
        column_id=want.column_id,
        position=position,
        swimlane_id=want.swimlane_id,
    )


def _metadata(task: Task) -> dict[str, str]:
    """The counters and the provenance, for people to read. Nothing is ever read back from there."""
    shown: dict[str, object] = {
        "fabric.status": task.status.value,
        "fabric.epoch": task.epoch,
        "fabric.attempts": f"{task.attempts}/{task.max_attempts}",
        "fabric.submitter": task.submitter,
        "fabric.trust": task.trust.word,
    }
    if task.parent is not None:
        shown["fabric.parent"] = task.parent
    if task.not_before is not None:
        shown["fabric.not_before"] = task.not_before.isoformat()
    return {name: str(value)[:255] for name, value in shown.items()}
