"""The outbox on PostgreSQL: letters written from the journal, each event once, behind a cursor that skips nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.journal import Cursor
from taskfabric.domain.letter import CODED, NOTIFY, Happening, Letter, LetterState, NewLetter

# Never past the oldest running transaction: what it writes would stand in front of the cursor afterwards.
_NEW: Final = """
SELECT xid::text, id, kind, actor_id, task_id, coalesce(data, '{}')
  FROM journal WHERE (xid, id) > (%s::text::xid8, %s) AND xid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY xid, id LIMIT %s
"""
# The event's own task; where it waits for its children, or for blockers, those of them that a human has.
_ABOUT: Final = """
SELECT t.id, t.title, l.priority, CASE WHEN q.kind = 'inbox' THEN q.owner_id END,
       t.is_active AND t.status IN ('ready', 'backlog', 'held', 'working', 'waiting'),
       EXISTS (SELECT FROM task_has_links x WHERE x.opposite_task_id = t.id AND x.link_id = 3 AND x.state = 'open')
       OR EXISTS (SELECT FROM tasks p WHERE p.id = t.parent_id AND p.status = 'waiting'),
       t.asked_id, t.interlocutor_id,
       CASE WHEN t.has_tags AND %(kind)s = ANY(%(ends)s) AND EXISTS (
                SELECT FROM task_has_tags h JOIN tags g ON g.id = h.tag_id WHERE h.task_id = t.id AND g.name = %(tag)s)
            THEN coalesce(t.interlocutor_id, t.creator_id) END
  FROM tasks t JOIN lanes l ON l.id = t.lane_id LEFT JOIN queues q ON q.project_id = t.project_id
 WHERE t.id = %(task)s
    OR %(kind)s = 'waiting' AND t.parent_id = %(task)s
    OR %(kind)s = 'submitted' AND t.id IN (SELECT x.opposite_task_id FROM task_has_links x
                                            WHERE x.task_id = %(task)s AND x.link_id = 3 AND x.state = 'open')
"""
_ENDS: Final = ("done", "dead", "rejected", "cancelled")
_KINDS: Final = frozenset({"submitted", "waiting", "asked", "held", "told", *_ENDS})
_LETTER: Final = (
    "o.id, u.username, o.subject, o.body, o.reason, o.task_id, o.state, o.attempts, o.due, o.created, o.sent, o.error,"
    " o.taken"
)
_DUE: Final = f"""
UPDATE outbox o SET due = fabric_now() + interval '5 minutes'
  FROM users u WHERE u.id = o.user_id AND o.id IN (
    SELECT id FROM outbox WHERE state = 'pending' AND due <= fabric_now() ORDER BY due, id LIMIT %s
       FOR UPDATE SKIP LOCKED)
RETURNING {_LETTER}
"""


class OutboxStore:
    """Implements ``ports.outbox.Outbox``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def happenings(self, limit: int) -> tuple[list[Happening], Cursor, Cursor]:
        with self._db.connection() as conn:
            row = conn.execute("SELECT xid::text, id FROM outbox_cursor").fetchone()
            assert row is not None
            before = after = Cursor(xid=int(row[0]), id=row[1])
            found: list[Happening] = []
            for xid, id_, kind, actor, task, data in conn.execute(_NEW, (row[0], row[1], limit)).fetchall():
                after = Cursor(xid=int(xid), id=id_)
                if kind in _KINDS and task is not None:
                    values = {"task": task, "kind": kind, "ends": list(_ENDS), "tag": NOTIFY}
                    rows = conn.execute(_ABOUT, values).fetchall()
                    found += [_happening(id_, kind, actor, about, data) for about in rows]
        return found, before, after

    def write(self, letters: Sequence[NewLetter], before: Cursor | None = None, after: Cursor | None = None) -> bool:
        def put(conn: Connection) -> bool:
            if before is not None and after is not None:
                moved = conn.execute(
                    "UPDATE outbox_cursor SET xid = %s::text::xid8, id = %s WHERE xid = %s::text::xid8 AND id = %s",
                    (str(after.xid), after.id, str(before.xid), before.id),
                ).rowcount
                if not moved:
                    return False
            for new in letters:
                conn.execute(
                    "INSERT INTO outbox (user_id, event_id, task_id, reason, subject, body, due)"
                    " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (new.to_id, new.event_id, new.task_id, new.reason, new.subject, new.body, new.due),
                )
            return True

        return self._db.retrying(put)

    def due(self, limit: int) -> list[Letter]:
        with self._db.connection() as conn:
            return sorted((_letter(row) for row in conn.execute(_DUE, (limit,)).fetchall()), key=lambda one: one.id)

    def sent(self, letter_id: int) -> None:
        with self._db.connection() as conn:
            conn.execute(
                "UPDATE outbox SET state = 'sent', sent = fabric_now(), error = '', taken = '{}',"
                " attempts = attempts + 1, body = CASE WHEN reason = %s THEN '' ELSE body END WHERE id = %s",
                (CODED, letter_id),
            )

    def failed(self, letter_id: int, error: str, again: datetime | None, taken: Sequence[str]) -> None:
        with self._db.connection() as conn:
            conn.execute(
                "UPDATE outbox SET state = CASE WHEN %(again)s::timestamptz IS NULL THEN 'failed' ELSE 'pending' END,"
                " due = coalesce(%(again)s, due), error = %(error)s, taken = %(taken)s, attempts = attempts + 1"
                " WHERE id = %(id)s AND state = 'pending'",
                {"id": letter_id, "error": error[:500], "again": again, "taken": list(taken)},
            )

    def of(self, principal_id: int, limit: int) -> list[Letter]:
        with self._db.connection() as conn:
            rows = conn.execute(
                f"SELECT {_LETTER} FROM outbox o JOIN users u ON u.id = o.user_id WHERE o.user_id = %s"
                " ORDER BY o.id DESC LIMIT %s",
                (principal_id, limit),
            ).fetchall()
        return [_letter(row) for row in rows]


def _happening(event_id: int, kind: str, actor: int, about: tuple[Any, ...], data: dict[str, Any]) -> Happening:
    task, title, priority, inbox_of, is_open, gates, asked, behalf, notify = about
    return Happening(
        event_id=event_id,
        kind=kind,
        actor_id=actor,
        task_id=task,
        title=title,
        priority=priority,
        inbox_of=inbox_of,
        is_open=is_open,
        gates=gates,
        asked_id=asked,
        behalf_id=behalf,
        notify=notify,
        to=tuple(data.get("to", ())) if kind == "told" else (),
        matter="auth" if data.get("auth") else str(data.get("matter") or data.get("rule") or ""),
    )


def _letter(row: tuple[Any, ...]) -> Letter:
    id_, to, subject, body, reason, task, state, attempts, due, created, sent, error, taken = row
    return Letter(
        id=id_,
        to=to,
        subject=subject,
        body=body,
        reason=reason,
        task_id=task,
        state=LetterState(state),
        attempts=attempts,
        due=due,
        created=created,
        sent=sent,
        error=error,
        taken=tuple(taken),
    )
