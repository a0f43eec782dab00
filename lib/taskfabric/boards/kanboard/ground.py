"""The database under the board, whose transactions are arbitrated by the tags of the locks project.

At the end of each transaction, before its commit, every lease that it grants must win its ``L`` tag and every lease
that it ends its ``E`` tag; whoever loses writes nothing. So the verbs of our own board, which run in it, are the same
ones, and what they decide is true on the Kanboard as well. Cards are brought in line after the commit.

A crash after a tag and before the commit leaves a tag without a row: the next who comes that far sees it by its token
(his own call, repeated) or goes on above it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.leases import Locks, Lost
from taskfabric.db.pool import Connection, Database

# Leases whose row has let go of them, and leases that have no tag yet; and whether this transaction did that. What an
# interrupted one has left behind is put right in passing, and must stop nobody.
_ENDED: Final = """
SELECT l.task_id, l.epoch, l.token, coalesce(t.status, 'gone'),
       EXISTS (SELECT FROM journal j WHERE j.task_id = l.task_id AND j.xid >= pg_current_xact_id())
  FROM stock_leases l LEFT JOIN tasks t ON t.id = l.task_id
 WHERE NOT l.ended AND (t.token IS NULL OR t.token <> l.token OR t.epoch <> l.epoch)
 ORDER BY l.task_id
"""
_GRANTED: Final = """
SELECT t.id, t.epoch, t.token, t.lease_until - fabric_now(), t.owner_id,
       EXISTS (SELECT FROM journal j WHERE j.task_id = t.id AND j.xid >= pg_current_xact_id())
  FROM tasks t
 WHERE t.lease_until IS NOT NULL AND t.token IS NOT NULL
   AND NOT EXISTS (SELECT FROM stock_leases l WHERE l.task_id = t.id AND l.epoch = t.epoch)
 ORDER BY t.id
"""
_TOUCHED: Final = """
INSERT INTO stock_dirty (task_id)
SELECT DISTINCT j.task_id FROM journal j JOIN tasks t ON t.id = j.task_id
 WHERE j.xid >= pg_current_xact_id() AND j.kind <> 'refused'
ON CONFLICT (task_id) DO UPDATE SET since = stock_dirty.since
RETURNING task_id
"""


class Contested(Exception):
    """The epoch that was to be granted is taken on the board."""

    def __init__(self, task_id: int, epoch: int) -> None:
        super().__init__(f"{task_id}@{epoch}")
        self.task_id, self.epoch = task_id, epoch


class Overtaken(Exception):
    """The epoch was ended on the board by somebody else."""

    def __init__(self, task_id: int, epoch: int, says: str) -> None:
        super().__init__(f"{task_id}@{epoch}: {says}")
        self.task_id, self.epoch, self.says = task_id, epoch, says


def hexed(token: int) -> str:
    """A stored token, which is signed, as the tags have it."""
    return f"{token & (2**64 - 1):016x}"


class StockDatabase(Database):
    """A database each of whose transactions asks the locks before it commits.

    ``settled`` is told afterwards which tasks were touched."""

    def __init__(self, dsn: str, kanboard: Kanboard, locks: Locks, *, size: int, name: str) -> None:
        self.kanboard = kanboard
        self.locks = locks
        self.settled: Callable[[list[int]], None] = lambda _: None
        super().__init__(dsn, size=size, name=name, limit=180.0)

    @contextlib.contextmanager
    def transaction(self, *, limit: float | None = None) -> Iterator[Connection]:
        """As everywhere. Raises Contested, Overtaken: then nothing was written."""
        self.kanboard.must_answer()
        with super().transaction(limit=limit) as conn:
            yield conn
            touched = self.arbitrate(conn)
        if touched:
            self.settled(touched)

    @contextlib.contextmanager
    def plain(self) -> Iterator[Connection]:
        """A transaction that the locks are not asked about, and after which nobody is told."""
        with super().transaction() as conn:
            yield conn

    def arbitrate(self, conn: Connection) -> list[int]:
        """Every lease that this transaction ends or grants has won its tag; which tasks it touched."""
        for row in conn.execute(_ENDED).fetchall():
            self._end(conn, *row)
        for row in conn.execute(_GRANTED).fetchall():
            self._grant(conn, *row)
        return [row[0] for row in conn.execute(_TOUCHED).fetchall()]

    def _end(self, conn: Connection, task_id: int, epoch: int, token: int, status: str, ours: bool) -> None:
        fate = self.locks.end(task_id, epoch, hexed(token), status)
        if isinstance(fate, Lost) and ours:
            raise Overtaken(task_id, epoch, fate.says)
        conn.execute("UPDATE stock_leases SET ended = true WHERE task_id = %s AND epoch = %s", (task_id, epoch))

    def _grant(
        self, conn: Connection, task_id: int, epoch: int, token: int, left: timedelta, user_id: int, ours: bool
    ) -> None:
        # The deadline on the tag is in the Kanboard's own time, so that whoever reads it there can judge it.
        deadline = datetime.now(UTC) + self.kanboard.skew + left
        fate = self.locks.take(task_id, epoch, hexed(token), deadline)
        if isinstance(fate, Lost) and ours:
            raise Contested(task_id, epoch)
        tag_id = 0 if isinstance(fate, Lost) else fate.tag_id
        conn.execute(
            "INSERT INTO stock_leases (task_id, epoch, token, tag_id, user_id) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (task_id, epoch) DO NOTHING",
            (task_id, epoch, token, tag_id, user_id),
        )
