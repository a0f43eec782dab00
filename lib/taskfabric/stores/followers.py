"""Actions, the follower's cursor and the webhooks' outbox on PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from psycopg.types.json import Jsonb

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.card_actions import KINDS, Action
from taskfabric.domain.journal import Cursor
from taskfabric.domain.principal import Stamp
from taskfabric.ports.followers import Followed, Hook

_TURN: Final = 7303  # the advisory lock of whoever follows
# Never past the oldest running transaction: what it writes would stand in front of the cursor afterwards.
_NEW: Final = """
SELECT j.xid::text, j.id, j.kind, j.at, j.task_id, j.project_id, j.actor_id, u.username, j.via,
       coalesce(q.kind = 'inbox', false), coalesce(j.data, '{}')
  FROM journal j LEFT JOIN users u ON u.id = j.actor_id LEFT JOIN queues q ON q.project_id = j.project_id
 WHERE (j.xid, j.id) > (%s::text::xid8, %s) AND j.xid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY j.xid, j.id LIMIT %s
"""
_ACTIONS: Final = """
SELECT a.id, a.project_id, a.event_name, a.action_name,
       (SELECT coalesce(jsonb_object_agg(p.name, p.value), '{}') FROM action_has_params p WHERE p.action_id = a.id)
  FROM actions a WHERE %(project)s::int IS NULL OR a.project_id = %(project)s ORDER BY a.id
"""
_EVENT: Final = """
INSERT INTO journal (project_id, actor_id, kind, via, data) VALUES (%s, %s, %s, %s, %s)
"""
_DUE: Final = """
UPDATE webhooks w SET due = fabric_now() + interval '5 minutes'
 WHERE w.id IN (SELECT id FROM webhooks WHERE state = 'pending' AND due <= fabric_now() ORDER BY due, id LIMIT %s
                   FOR UPDATE SKIP LOCKED)
RETURNING w.id, w.event_id, w.event_name, w.body, w.attempts
"""


class FollowerStore:
    """Implements ``ports.followers.Followers``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @contextlib.contextmanager
    def turn(self) -> Iterator[bool]:
        with self._db.connection() as conn:
            row = conn.execute("SELECT pg_try_advisory_lock(%s)", (_TURN,)).fetchone()
            mine = row is not None and bool(row[0])
            try:
                yield mine
            finally:
                if mine:
                    conn.execute("SELECT pg_advisory_unlock(%s)", (_TURN,))

    # -- actions -------------------------------------------------------------------------------------

    def actions(self, project_id: int | None) -> list[Action]:
        with self._db.connection() as conn:
            found = conn.execute(_ACTIONS, {"project": project_id}).fetchall()
        return [Action(id=i, project_id=p, event_name=e, action_name=a, params=values) for i, p, e, a, values in found]

    def add_action(
        self, project_id: int, event_name: str, action_name: str, params: Mapping[str, str], stamp: Stamp
    ) -> int:
        def add(conn: Connection) -> int:
            row = conn.execute(
                "INSERT INTO actions (project_id, event_name, action_name) VALUES (%s, %s, %s) RETURNING id",
                (project_id, event_name, action_name),
            ).fetchone()
            assert row is not None
            for name, value in params.items():
                conn.execute("INSERT INTO action_has_params VALUES (%s, %s, %s)", (row[0], name, value))
            facts = {"action": row[0], "name": action_name, "event": event_name, "params": dict(params)}
            conn.execute(_EVENT, (project_id, stamp.principal_id, "action-added", stamp.via.value, Jsonb(facts)))
            return int(row[0])

        return self._db.retrying(add)

    def remove_action(self, action_id: int, stamp: Stamp) -> bool:
        def remove(conn: Connection) -> bool:
            row = conn.execute(
                "DELETE FROM actions WHERE id = %s RETURNING project_id, action_name", (action_id,)
            ).fetchone()
            if row is None:
                return False
            facts = {"action": action_id, "name": row[1]}
            conn.execute(_EVENT, (row[0], stamp.principal_id, "action-removed", stamp.via.value, Jsonb(facts)))
            return True

        return self._db.retrying(remove)

    def recurring(self) -> bool:
        with self._db.connection() as conn:
            row = conn.execute("SELECT EXISTS (SELECT FROM task_faces WHERE recurrence_status = 1)").fetchone()
        return row is not None and bool(row[0])

    # -- the journal ---------------------------------------------------------------------------------

    def events(self, limit: int) -> tuple[list[Followed], Cursor, Cursor]:
        with self._db.connection() as conn:
            at = conn.execute("SELECT xid::text, id FROM journal_followers WHERE name = 'cards'").fetchone()
            assert at is not None
            before = after = Cursor(xid=int(at[0]), id=at[1])
            found: list[Followed] = []
            for row in conn.execute(_NEW, (at[0], at[1], limit)).fetchall():
                after = Cursor(xid=int(row[0]), id=row[1])
                if row[2] not in KINDS or row[4] is None:
                    continue
                found.append(
                    Followed(
                        id=row[1],
                        kind=row[2],
                        at=row[3],
                        task_id=row[4],
                        project_id=row[5],
                        actor_id=row[6],
                        actor=row[7] or "",
                        via=row[8],
                        private=row[9],
                        data=row[10],
                    )
                )
        return found, before, after

    def advance(self, before: Cursor, after: Cursor, hooks: Sequence[Hook]) -> bool:
        def move(conn: Connection) -> bool:
            moved = conn.execute(
                "UPDATE journal_followers SET xid = %s::text::xid8, id = %s"
                " WHERE name = 'cards' AND xid = %s::text::xid8 AND id = %s",
                (str(after.xid), after.id, str(before.xid), before.id),
            ).rowcount
            for hook in hooks if moved else ():
                conn.execute(
                    "INSERT INTO webhooks (event_id, event_name, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (hook.event_id, hook.event_name, hook.body),
                )
            return bool(moved)

        return self._db.retrying(move)

    def skip(self) -> None:
        with self._db.connection() as conn:
            conn.execute(
                "UPDATE journal_followers SET xid = pg_snapshot_xmin(pg_current_snapshot()), id = 0"
                " WHERE name = 'cards' AND xid < pg_snapshot_xmin(pg_current_snapshot())"
            )

    # -- webhooks ------------------------------------------------------------------------------------

    def due(self, limit: int) -> list[Hook]:
        with self._db.connection() as conn:
            found = conn.execute(_DUE, (limit,)).fetchall()
        return sorted(
            (Hook(id=i, event_id=e, event_name=n, body=b, attempts=a) for i, e, n, b, a in found),
            key=lambda hook: hook.id,
        )

    def sent(self, hook_id: int) -> None:
        with self._db.connection() as conn:
            conn.execute(
                "UPDATE webhooks SET state = 'sent', sent = fabric_now(), error = '', attempts = attempts + 1"
                " WHERE id = %s",
                (hook_id,),
            )

    def failed(self, hook_id: int, error: str, again: datetime | None) -> None:
        with self._db.connection() as conn:
            conn.execute(
                "UPDATE webhooks SET state = CASE WHEN %(again)s::timestamptz IS NULL THEN 'failed' ELSE 'pending' END,"
                " due = coalesce(%(again)s, due), error = %(error)s, attempts = attempts + 1"
                " WHERE id = %(id)s AND state = 'pending'",
                {"id": hook_id, "error": error[:500], "again": again},
            )
