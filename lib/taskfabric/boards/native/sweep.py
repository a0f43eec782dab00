"""The sweep: expired leases are taken back, delayed tasks whose time has come become claimable.

A claim does this for itself before it looks, the keeper does it as a net. The condition stands again in each write, so
that a holder who finishes between the look and the write wins; and each task has a savepoint, so that one task that
cannot be swept stops no other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import psycopg

from taskfabric.boards.native.names import Connection
from taskfabric.boards.native.rows import Remark, record
from taskfabric.boards.native.settle import LET_GO, column_sql
from taskfabric.domain.comments import LineKind
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import Status
from taskfabric.ports.board import Swept

log = logging.getLogger(__name__)

_EXPIRED: Final = """
SELECT id FROM tasks
 WHERE lease_until < (SELECT fabric_now())
   AND (%(queues)s::int[] IS NULL OR project_id = ANY(%(queues)s::int[]))
 ORDER BY lease_until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
# An attempt is spent, unless a human let his own lease run out. The last attempt's end is a dead letter.
_TAKE_BACK: Final = f"""
UPDATE tasks t SET
       {column_sql("ready")}, status = 'ready',
       attempts = CASE WHEN h.human THEN greatest(0, attempts - 1) ELSE attempts END,
       date_started = NULL, ready_since = fabric_now(), {LET_GO}
  FROM (SELECT t.id, u.username, u.kind = 'human' AS human FROM tasks t JOIN users u ON u.id = t.owner_id
         WHERE t.id = %(task)s) h
 WHERE t.id = h.id AND t.token IS NOT NULL AND t.lease_until < fabric_now() AND (h.human OR t.attempts < t.max_attempts)
RETURNING t.epoch, h.username
"""
_BURY: Final = f"""
UPDATE tasks t SET {column_sql("done")}, flags = flags | 32, status = 'dead', date_completed = fabric_now(), {LET_GO}
  FROM (SELECT t.id, u.username FROM tasks t JOIN users u ON u.id = t.owner_id WHERE t.id = %(task)s) h
 WHERE t.id = h.id AND t.token IS NOT NULL AND t.lease_until < fabric_now() AND t.attempts >= t.max_attempts
RETURNING t.epoch, h.username, t.attempts
"""
_MATURE: Final = """
WITH m AS (
    UPDATE tasks SET delayed = false, ready_since = fabric_now()
     WHERE id = ANY(ARRAY(SELECT id FROM tasks WHERE delayed AND date_started <= (SELECT fabric_now())
                           ORDER BY date_started LIMIT %s FOR UPDATE SKIP LOCKED))
    RETURNING id)
SELECT fabric_open_lane(id) FROM m
"""


def mature(conn: Connection, limit: int = 200) -> int:
    """Up to ``limit`` delayed tasks whose time has come can be claimed afterwards; returns how many."""
    return len(conn.execute(_MATURE, (limit,)).fetchall())


def sweep(conn: Connection, limit: int, stamp: Stamp, queues: Sequence[int] | None) -> Swept:
    """Up to ``limit`` expired leases are ended; runs inside the caller's transaction."""
    values = {"limit": limit, "queues": None if queues is None else list(queues)}
    ids = [row[0] for row in conn.execute(_EXPIRED, values).fetchall()]
    ready: list[int] = []
    dead: list[int] = []
    skipped = 0
    for task_id in ids:
        try:
            with conn.transaction():
                fate = _sweep_one(conn, task_id, stamp)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            raise  # undone as a whole, and repeated by the caller
        except psycopg.DatabaseError as error:
            if conn.broken or isinstance(error, psycopg.OperationalError):
                raise  # not about this task
            log.exception("task cannot be swept task=%d", task_id)
            skipped += 1
            continue
        if fate == "ready":
            ready.append(task_id)
        elif fate == "dead":
            dead.append(task_id)
    return Swept(ready=tuple(ready), dead=tuple(dead), skipped=skipped)


def _sweep_one(conn: Connection, task_id: int, stamp: Stamp) -> str | None:
    row = conn.execute(_TAKE_BACK, {"task": task_id}).fetchone()
    if row is not None:
        remark = Remark(kind=LineKind.EXPIRED, epoch=row[0], text=row[1], by_fabric=True)
        record(conn, task_id, "expired", stamp, remark, {"holder": row[1]}, was=Status.WORKING)
        return "ready"
    row = conn.execute(_BURY, {"task": task_id}).fetchone()
    if row is None:
        return None
    why = f"the lease of `{row[1]}` expired in attempt {row[2]}, the last one"
    record(
        conn,
        task_id,
        "dead",
        stamp,
        Remark(kind=LineKind.DEAD, text=why, by_fabric=True),
        {"holder": row[1]},
        was=Status.WORKING,
    )
    return "dead"
