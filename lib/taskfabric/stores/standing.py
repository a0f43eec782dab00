"""Pauses, workers' reports and the output of runs, in PostgreSQL."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.db.pool import Database
from taskfabric.domain.errors import LeaseLost, Unavailable
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Stamp
from taskfabric.domain.quota import utc
from taskfabric.ports.standing import Chunk, Paused, WorkerState
from taskfabric.stores.credential_rows import every, journal, one

log = logging.getLogger(__name__)

_REPORT: Final = """
INSERT INTO worker_reports AS w (user_id, instance, state, reason, until, running, facts)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (user_id, instance) DO UPDATE SET
    since = CASE WHEN w.state = excluded.state AND w.reason = excluded.reason THEN w.since ELSE excluded.since END,
    seen = excluded.seen, state = excluded.state, reason = excluded.reason, until = excluded.until,
    running = excluded.running, facts = excluded.facts
"""
_HEARD: Final = """
SELECT w.*, u.username FROM worker_reports w JOIN users u ON u.id = w.user_id
 WHERE w.seen > fabric_now() - interval '1 day' ORDER BY w.user_id, w.instance
"""
# Nothing of a run is written by somebody who does not hold it.
_ADD: Final = """
INSERT INTO chunks (task_id, epoch, n, stream, text)
SELECT %(task)s, %(epoch)s, c.n, c.stream, c.text
  FROM unnest(%(n)s::bigint[], %(stream)s::text[], %(text)s::text[]) AS c(n, stream, text)
 WHERE EXISTS (SELECT FROM tasks WHERE id = %(task)s AND epoch = %(epoch)s AND token = %(token)s AND owner_id = %(me)s)
ON CONFLICT DO NOTHING
"""
_HOLDS: Final = "SELECT 1 AS one FROM tasks WHERE id = %s AND epoch = %s AND token = %s AND owner_id = %s"
# What the run has said since its last comment is one comment more: five seconds after that at the earliest, and in a
# long run less and less often.
_SAY: Final = """
WITH c AS (
    INSERT INTO comments (task_id, user_id, kind, epoch, text)
    SELECT t.id, t.owner_id, 'said', t.epoch,
           CASE WHEN length(s.text) > 2000 THEN '… ' ELSE '' END || right(s.text, 2000)
      FROM tasks t
      CROSS JOIN LATERAL (SELECT max(m.date_creation) AS at FROM comments m
                           WHERE m.task_id = t.id AND m.kind = 'said' AND m.epoch = t.epoch) AS last
      CROSS JOIN LATERAL (SELECT string_agg(x.text, '' ORDER BY x.n) AS text FROM chunks x
                           WHERE x.task_id = t.id AND x.epoch = t.epoch AND x.stream = 'out'
                            AND (last.at IS NULL OR x.at > last.at)) AS s
     WHERE t.id = %(task)s AND t.epoch = %(epoch)s
       AND fabric_now() - coalesce(last.at, t.date_started)
           >= greatest(interval '5 seconds', (fabric_now() - t.date_started) / 12)
       AND s.text ~ '[^[:space:]]'
    RETURNING task_id)
INSERT INTO stock_dirty (task_id) SELECT s.task_id FROM stock_cards s JOIN c USING (task_id) ON CONFLICT DO NOTHING
"""
_PRUNE: Final = """
DELETE FROM chunks WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM chunks WHERE at < fabric_now() - %s LIMIT 5000 FOR UPDATE SKIP LOCKED))
"""
_PRUNE_EVERY: Final = 600.0  # seconds


class PostgresStanding:
    """``ports.standing.Standing``. Output is kept for ``keep``, what workers reported for ``reports``; what is older is
    removed by whoever writes some output."""

    def __init__(
        self,
        database: Database,
        *,
        keep: timedelta = timedelta(days=14),
        reports: timedelta = timedelta(days=7),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._keep = keep
        self._reports = reports
        self._clock = clock
        self._lock = threading.Lock()
        self._pruned = float("-inf")

    # -- pauses --------------------------------------------------------------------------------------

    def pause(self, name: str, until: datetime | None, note: str, stamp: Stamp) -> None:
        with self._database.transaction() as conn:
            conn.execute(
                "INSERT INTO pauses (name, until, note, by_id) VALUES (%s, %s, %s, %s) ON CONFLICT (name) DO UPDATE"
                " SET until = excluded.until, note = excluded.note, by_id = excluded.by_id, at = excluded.at",
                (name, until, note, stamp.principal_id),
            )
            journal(conn, "agent-paused", stamp, {"name": name, "until": utc(until), "note": note})

    def resume(self, name: str, stamp: Stamp) -> bool:
        """Whether it was paused."""
        with self._database.transaction() as conn:
            row = one(
                conn,
                "DELETE FROM pauses WHERE name = %s RETURNING until IS NULL OR until > fabric_now() AS held",
                (name,),
            )
            if row is not None:
                journal(conn, "agent-resumed", stamp, {"name": name})
        return row is not None and bool(row["held"])

    def pauses(self) -> dict[str, Paused]:
        """Those in force by the board's clock."""
        with self._database.connection() as conn:
            rows = every(
                conn,
                "SELECT p.name, p.until, p.note, p.at, u.username FROM pauses p JOIN users u ON u.id = p.by_id"
                " WHERE p.until IS NULL OR p.until > fabric_now()",
            )
        return {
            row["name"]: Paused(
                name=row["name"], by=row["username"], at=row["at"], until=row["until"], note=row["note"]
            )
            for row in rows
        }

    # -- workers -------------------------------------------------------------------------------------

    def report(self, state: WorkerState) -> None:
        with self._database.transaction() as conn:
            conn.execute("SET LOCAL synchronous_commit = off")  # said again at the next cycle
            conn.execute(
                _REPORT,
                (
                    state.principal_id,
                    state.instance,
                    state.state,
                    state.reason,
                    state.until,
                    state.running,
                    Jsonb(state.facts),
                ),
            )

    def workers(self) -> list[WorkerState]:
        """Those heard of in the last day, by agent and instance."""
        with self._database.connection() as conn:
            rows = every(conn, _HEARD)
        return [_worker(row) for row in rows]

    # -- output --------------------------------------------------------------------------------------

    def add_chunks(self, fence: Fence, principal_id: int, chunks: Sequence[Chunk]) -> int:
        """How many were new; the card has a comment of what was said, at most one in five seconds. Raises LeaseLost
        unless the caller holds the task by this fence."""
        token = fence.token - 2**64 if fence.token >= 2**63 else fence.token  # as the column holds it
        values = {
            "task": fence.task_id,
            "epoch": fence.epoch,
            "token": token,
            "me": principal_id,
            "n": [chunk.n for chunk in chunks],
            "stream": [chunk.stream for chunk in chunks],
            "text": [chunk.text for chunk in chunks],
        }
        with self._database.transaction() as conn:
            conn.execute("SET LOCAL synchronous_commit = off")
            written = conn.execute(_ADD, values).rowcount
            if written == 0 and one(conn, _HOLDS, (fence.task_id, fence.epoch, token, principal_id)) is None:
                raise LeaseLost("this run does not hold the task any more", task=fence.task_id, epoch=fence.epoch)
            if any(chunk.stream == "out" for chunk in chunks):
                conn.execute(_SAY, values)
        self._prune()
        return written

    def chunks(
        self, task_id: int, epoch: int | None, after: int, limit: int, *, stream: str | None = None
    ) -> tuple[int | None, list[Chunk]]:
        """The run's epoch (None = it said nothing) and its output after this number; ``stream``: of this one only."""
        with self._database.connection() as conn:
            if epoch is None:
                row = one(conn, "SELECT max(epoch) AS epoch FROM chunks WHERE task_id = %s", (task_id,))
                epoch = None if row is None else row["epoch"]
            if epoch is None:
                return None, []
            rows = every(
                conn,
                "SELECT n, at, stream, text FROM chunks WHERE task_id = %s AND epoch = %s AND n > %s"
                " AND (%s::text IS NULL OR stream = %s) ORDER BY n LIMIT %s",
                (task_id, epoch, after, stream, stream, limit),
            )
        return epoch, [Chunk(n=row["n"], at=row["at"], stream=row["stream"], text=row["text"]) for row in rows]

    def _prune(self) -> None:
        with self._lock:
            now = self._clock()
            if now - self._pruned < _PRUNE_EVERY:
                return
            self._pruned = now
        try:
            with self._database.transaction() as conn:
                conn.execute(_PRUNE, (self._keep,))
                conn.execute("DELETE FROM worker_reports WHERE seen < fabric_now() - %s", (self._reports,))
        except Unavailable as error:
            log.warning("old output not removed reason=%s", error.message)


def _worker(row: dict[str, Any]) -> WorkerState:
    return WorkerState(
        principal_id=row["user_id"],
        instance=row["instance"],
        state=row["state"],
        since=row["since"],
        seen=row["seen"],
        reason=row["reason"],
        until=row["until"],
        running=row["running"],
        facts=dict(row["facts"]),
        agent=row["username"],
    )
