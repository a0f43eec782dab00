"""What the keeper needs of the native board: short lists, words told once, and the mending of a missed end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from taskfabric.boards.native.names import Connection
from taskfabric.db.pool import Database
from taskfabric.domain.principal import Stamp
from taskfabric.domain.watch import Concern, Matter
from taskfabric.ports.signal import Change, Signal

_TURN: Final = """
INSERT INTO turns AS t (name, instance, until, last_round)
VALUES (%(name)s, %(instance)s, fabric_now() + %(length)s, fabric_now())
ON CONFLICT (name) DO UPDATE SET instance = excluded.instance, until = excluded.until, last_round = excluded.last_round
 WHERE t.instance = excluded.instance OR t.until <= fabric_now()
RETURNING 1
"""
# For each matter: which tasks, the occasion, since when, and a due date.
_WHICH: Final[dict[Matter, LiteralString]] = {
    Matter.OVERDUE: """
SELECT t.id, t.date_due::text AS occasion, t.date_due AS since, t.date_due AS due FROM tasks t
 WHERE t.date_due < fabric_now() AND t.is_active AND t.status NOT IN ('done', 'dead', 'record')
   AND t.creator_id <> 0""",
    Matter.DEAD: """
SELECT t.id, t.epoch::text AS occasion, coalesce(t.date_completed, t.date_modification) AS since,
       NULL::timestamptz AS due FROM tasks t WHERE t.status = 'dead' AND t.is_active""",
    Matter.QUESTION: """
SELECT t.id, t.epoch::text AS occasion, t.date_due AS due, coalesce((SELECT max(m.date_creation) FROM comments m
       WHERE m.task_id = t.id AND m.kind = 'question'), t.date_modification) AS since FROM tasks t
 WHERE t.status = 'waiting' AND t.is_active AND t.flags & 6 <> 0
   AND NOT EXISTS (SELECT FROM approvals a WHERE a.task_id = t.id AND a.state = 'pending')""",
    Matter.CHILDREN: """
SELECT t.id, t.epoch::text AS occasion, t.date_modification AS since, NULL::timestamptz AS due FROM tasks t
 WHERE t.status = 'waiting' AND t.is_active AND t.flags & 6 = 0 AND t.children > 0
   AND NOT EXISTS (SELECT FROM tasks c WHERE c.parent_id = t.id AND NOT fabric_finished(c.status))""",
    Matter.BLOCKERS: """
SELECT DISTINCT ON (t.id) t.id, l.opposite_task_id::text AS occasion, t.date_modification AS since,
       NULL::timestamptz AS due
  FROM task_has_links l JOIN tasks b ON b.id = l.opposite_task_id JOIN tasks t ON t.id = l.task_id
 WHERE l.link_id = 3 AND l.state = 'open' AND t.is_active
   AND (fabric_finished(b.status) AND b.status <> 'done'
        OR b.status = 'done' AND (b.flags & 16 <> 0 OR NOT coalesce(
            (SELECT q.needs_verified FROM queues q WHERE q.project_id = b.project_id), false)))
 ORDER BY t.id""",
}
_TOLD: Final = """
SELECT w.id, w.occasion, w.since, w.due,
       coalesce(array_agg(o.level) FILTER (WHERE o.level IS NOT NULL), '{{}}') AS levels
  FROM ({which}) w LEFT JOIN told o ON o.task_id = w.id AND o.kind = %(kind)s AND o.occasion = w.occasion
 GROUP BY w.id, w.occasion, w.since, w.due ORDER BY count(o.level), w.since, w.id LIMIT %(limit)s
"""
_TELL: Final = """
UPDATE tasks t SET seq = seq + 1, told = greatest(t.told, pg_current_xact_id()) FROM ({which}) w
 WHERE w.id = t.id AND t.id = %(task)s AND w.occasion = %(occasion)s RETURNING t.seq, t.told, t.project_id, t.epoch
"""
_EVENT: Final = """
INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch, data)
VALUES (%(told)s, %(task)s, %(seq)s, %(project)s, %(me)s, 'told', 'system', %(epoch)s, %(data)s)
"""
# Who never had one gets his first on the day after he moved in.
_DIGESTS: Final = """
SELECT u.id, coalesce((SELECT max(day) FROM digests d WHERE d.user_id = u.id),
                      (u.date_creation AT TIME ZONE u.timezone)::date)
  FROM users u WHERE u.kind = 'human'
"""
_FIGURES: Final[dict[str, LiteralString]] = {
    "tasks": "SELECT status, count(*) FROM tasks WHERE status <> 'record' GROUP BY 1",
    "leases": "SELECT CASE WHEN lease_until < fabric_now() THEN 'expired' ELSE 'live' END, count(*) FROM tasks"
    " WHERE lease_until IS NOT NULL GROUP BY 1",
    "schedule_slots": "SELECT state, count(*) FROM schedule_slots GROUP BY 1",
    "outbox": "SELECT state, count(*) FROM outbox GROUP BY 1",
    "oldest_ready_seconds": "SELECT '', coalesce(extract(epoch FROM fabric_now() - min(ready_since)), 0) FROM tasks"
    " WHERE status = 'ready' AND open_blockers = 0 AND NOT delayed",
    "last_round_seconds": "SELECT name, extract(epoch FROM fabric_now() - last_round) FROM turns",
}


class NativeKeeping:
    """Implements ``ports.keeping.Keeping`` on PostgreSQL."""

    def __init__(self, database: Database, signal: Signal) -> None:
        self._db = database
        self._signal = signal

    def turn(self, name: str, instance: str, length: timedelta) -> tuple[bool, timedelta | None]:
        def ask(conn: Connection) -> tuple[bool, timedelta | None]:
            conn.execute("SELECT pg_advisory_xact_lock(hashtext('taskfabric.turns'))")
            last = conn.execute("SELECT fabric_now() - last_round FROM turns WHERE name = %s", (name,)).fetchone()
            values = {"name": name, "instance": instance, "length": length}
            mine = conn.execute(_TURN, values).fetchone() is not None
            return mine, None if last is None else last[0]

        return self._db.retrying(ask)

    def concerns(self, matter: Matter, limit: int) -> list[Concern]:
        with self._db.connection() as conn:
            query = _TOLD.format(which=_WHICH[matter])
            rows: list[tuple[Any, ...]] = conn.execute(
                query.encode(), {"kind": matter.value, "limit": limit}
            ).fetchall()
        return [
            Concern(matter=matter, task_id=id_, occasion=occasion, since=since, due=due, told=frozenset(levels))
            for id_, occasion, since, due, levels in rows
        ]

    def tell(self, concern: Concern, level: int, text: str, to: Sequence[int], stamp: Stamp) -> bool:
        def write(conn: Connection) -> bool:
            values = {"task": concern.task_id, "occasion": concern.occasion}
            query = _TELL.format(which=_WHICH[concern.matter])
            row = conn.execute(query.encode(), values).fetchone()
            if row is None:
                return False
            new = conn.execute(
                "INSERT INTO told (task_id, kind, occasion, level) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (concern.task_id, concern.matter.value, concern.occasion, level),
            ).rowcount
            if not new:
                raise _Before
            conn.execute("INSERT INTO comments (task_id, user_id, text) VALUES (%s, 0, %s)", (concern.task_id, text))
            data = {"matter": concern.matter.value, "level": level, "to": list(to)}
            seq, told, project, epoch = row
            conn.execute(
                _EVENT,
                {"told": told, "task": concern.task_id, "seq": seq, "project": project, "me": stamp.principal_id,
                 "epoch": epoch, "data": Jsonb(data)},
            )  # fmt: skip
            return True

        try:
            done = self._db.retrying(write)
        except _Before:
            return False
        if done:
            self._signal.publish(Change(task_id=concern.task_id))
        return done

    def mend(self, matter: Matter, task_id: int) -> bool:
        def write(conn: Connection) -> bool:
            conn.execute("SELECT 1 FROM tasks WHERE id = %s FOR UPDATE", (task_id,))
            query = f"SELECT 1 FROM ({_WHICH[matter]}) w WHERE w.id = %s"
            if conn.execute(query.encode(), (task_id,)).fetchone() is None:
                return False
            if matter is Matter.CHILDREN:
                # The same function as a child's end calls; the count is set right first, then the last child "ends".
                conn.execute("UPDATE tasks SET open_children = 1 WHERE id = %s", (task_id,))
                conn.execute(
                    "SELECT fabric_tell_parent(c, -1) FROM tasks c WHERE c.parent_id = %s ORDER BY c.id DESC LIMIT 1",
                    (task_id,),
                )
            else:
                conn.execute(
                    "SELECT fabric_release_dependents(b) FROM task_has_links l"
                    " JOIN tasks b ON b.id = l.opposite_task_id"
                    " WHERE l.link_id = 3 AND l.state = 'open' AND l.task_id = %s AND fabric_finished(b.status)",
                    (task_id,),
                )
            return True

        done = self._db.retrying(write)
        if done:
            self._signal.publish(Change())
        return done

    def reconcile(self, limit: int) -> dict[str, int]:
        """Here the card is the row."""
        return {}

    def last_digests(self) -> dict[int, date]:
        with self._db.connection() as conn:
            return dict(conn.execute(_DIGESTS).fetchall())

    def digest(self, principal_id: int, day: date) -> bool:
        with self._db.connection() as conn:
            sql = "INSERT INTO digests (user_id, day) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            return conn.execute(sql, (principal_id, day)).rowcount == 1

    def figures(self) -> dict[str, dict[str, float]]:
        with self._db.connection() as conn:
            return {
                name: {str(label): float(value) for label, value in conn.execute(query).fetchall()}
                for name, query in _FIGURES.items()
            }


class _Before(Exception):
    """It was told before: what was begun is undone."""
