"""The connections of one process: configured alike, replaced when they break, bounded in time.

    database = Database(dsn, size=12, name="server")
    with database.connection() as conn:        # autocommit: each statement is a transaction of its own
        conn.execute(...)
    with database.transaction() as conn:       # one transaction: all of it or nothing
        conn.execute(...)
    database.retrying(work)                    # a whole transaction, again after a deadlock

Open it after a fork, never before: a connection shared by two processes belongs to neither.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from taskfabric.db.cutoff import Cutoff
from taskfabric.db.outage import Outage, Watched
from taskfabric.domain.errors import Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

# Generic plans: the statements are few, hot and selective, and planning each of them again costs more than it wins.
# A plan made while a table is still empty must not scan it from end to end for the rest of the session.
_OPTIONS: Final = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off -c timezone=UTC"
# A peer that is gone without a word (a pulled cable, a stalled relay) is noticed within half a minute.
_KEEPALIVE: Final = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_CONNECT_SECONDS: Final = 5
_PREPARED_STATEMENTS: Final = 400  # a connection keeps this many; the board has fewer
_TRIES: Final = 3
_AT_HAND: Final = 2  # connections; asking the pool for one costs as much as a statement
_USES: Final = 1000  # after so many uses of a connection the pool looks at it: it may be too old
_GLANCE: Final = 0.01  # seconds: enough for a connection that lies ready
_PIECE: Final = 0.2  # seconds of waiting between two looks whether the database went away meanwhile


class Database:
    """A pool of connections to one database.

    ``size`` connections at most; a caller waits up to ``patience`` seconds for one, and hardly at all while the
    database is known to be away: then one caller at a time tries, and the others are refused at once (G14). ``limit``
    is how many seconds one caller may keep a connection: after that it is cut, so that a database which accepts and
    never answers costs an error and not a thread.
    """

    def __init__(self, dsn: str, *, size: int, name: str, patience: float = 5.0, limit: float = 60.0) -> None:
        self.name = name
        self._patience = patience
        self._limit = limit
        self._pid = os.getpid()
        self._cutoff = Cutoff(name=name)
        self._outage = Outage()
        self._greeters: list[Callable[[Connection], None]] = []
        self._kept: list[Watched] = []  # of the pool's connections, ready without asking it
        self._waiting: set[object] = set()  # who asks the pool
        self._closed = False
        self._pool: ConnectionPool[Watched] = ConnectionPool(
            configured(dsn, name=name),
            min_size=min(2, size),
            max_size=size,
            name=name,
            timeout=patience,
            # Given up soon, since the next caller begins an attempt of his own: back within seconds.
            reconnect_timeout=1.0,
            max_lifetime=3600.0,
            connection_class=Watched,
            kwargs={"autocommit": True, "prepare_threshold": 0, "outage": self._outage},
            configure=self._configure,
            open=True,
        )

    def connection(self, *, limit: float | None = None) -> _Use:
        """A connection in autocommit mode, for ``limit`` seconds at most (default: the pool's).

        Raises Unavailable when the database cannot be reached, is full or read-only. Its fact ``sent`` says whether a
        statement may have reached the database: then the outcome is unknown, and the caller must look.
        """
        return _Use(self, self._limit if limit is None else limit)

    @contextlib.contextmanager
    def transaction(self, *, limit: float | None = None) -> Iterator[Connection]:
        """A connection inside one transaction, committed at the end of the block, rolled back by an exception."""
        with self.connection(limit=limit) as conn, conn.transaction():
            yield conn

    def retrying(self, work: Callable[[Connection], T], *, limit: float | None = None) -> T:
        """The value of ``work(connection)``, run in one transaction and up to three times.

        It is repeated only after a deadlock or a serialization failure, when the database has certainly undone it.
        """
        for attempt in range(1, _TRIES):
            try:
                with self.transaction(limit=limit) as conn:
                    return work(conn)
            except (pg.DeadlockDetected, pg.SerializationFailure) as error:
                log.info("transaction repeated pool=%s attempt=%d reason=%s", self.name, attempt, error.sqlstate)
                time.sleep(random.uniform(0.005, 0.03) * attempt)
        try:
            with self.transaction(limit=limit) as conn:
                return work(conn)
        except (pg.DeadlockDetected, pg.SerializationFailure) as error:
            raise Unavailable(
                f"the database could not settle this among others that want the same rows ({_TRIES} tries)",
                next="try again; nothing was written",
                sent=False,
            ) from error

    def greet(self, greeter: Callable[[Connection], None]) -> None:
        """``greeter`` is called now and with each connection that is made from now on, before anybody uses it: a
        restore ends all the others, so what was remembered of the old copy can be forgotten in time, and only then."""
        self._greeters.append(greeter)
        with contextlib.suppress(Unavailable), self.connection() as conn:  # away: its next connection is a new one
            greeter(conn)

    def _configure(self, conn: Connection) -> None:
        conn.prepared_max = _PREPARED_STATEMENTS
        for greeter in self._greeters:
            greeter(conn)

    def check(self) -> None:
        """Ask the database for a sign of life. Raises Unavailable."""
        with self.connection(limit=self._patience) as conn:
            conn.execute("SELECT 1")

    def close(self) -> None:
        """Close every connection; a connection in use closes when it comes back."""
        self._closed = True
        while (conn := self._at_hand()) is not None:
            self._pool.putconn(conn)
        self._pool.close()
        self._cutoff.close()

    def stats(self) -> dict[str, int]:
        """Counters of the pool, for metrics."""
        return self._pool.get_stats()

    def _take(self) -> Watched:
        if os.getpid() != self._pid:
            raise RuntimeError(f"the pool {self.name!r} was opened before the fork; open one in each process")
        if (conn := self._living()) is not None:
            return conn
        me = object()
        self._waiting.add(me)  # before the next look: whatever comes back after that goes to the pool
        try:
            return self._living() or self._from_pool()
        finally:
            self._waiting.discard(me)

    def _living(self) -> Watched | None:
        """One of those at hand; a dead one the pool replaces."""
        while (conn := self._at_hand()) is not None:
            if _alive(conn):
                return conn
            conn.close()
            self._pool.putconn(conn)
        return None

    def _at_hand(self) -> Watched | None:
        try:
            return self._kept.pop()
        except IndexError:
            return None

    def _put(self, conn: Watched) -> None:
        """It stays at hand, unless the pool should see it: it is not fit, somebody waits there, or it was long away."""
        conn.uses += 1
        fit = conn.pgconn.transaction_status == TransactionStatus.IDLE
        if fit and len(self._kept) < _AT_HAND and conn.uses % _USES:
            self._kept.append(conn)
            if not (self._waiting or self._closed):
                return
            other = self._at_hand()
            if other is None:
                return
            conn = other
        self._pool.putconn(conn)

    def _from_pool(self) -> Watched:
        deadline = time.monotonic() + self._outage.patience(self._patience)
        failures = self._outage.failures
        while True:
            left = deadline - time.monotonic()
            try:
                conn = self._pool.getconn(timeout=max(_GLANCE, min(left, _PIECE)))
            except (PoolTimeout, TooManyRequests) as cause:
                if left > _PIECE and self._outage.failures == failures:
                    continue
                raise self._unreachable(cause) from cause
            except PoolClosed as cause:
                raise Unavailable("the database connections of this process are closed", sent=False) from cause
            if _alive(conn):
                return conn
            conn.close()
            self._pool.putconn(conn)  # the pool makes another one

    def _unreachable(self, cause: Exception) -> Unavailable:
        if self._pool.get_stats()["pool_available"] == 0 and self._cutoff.armed >= self._pool.max_size:
            return Unavailable(
                f"all {self._pool.max_size} database connections are busy for longer than {self._patience:g} s",
                next="try again shortly, or raise the pool size in the settings",
                sent=False,
            )
        return Unavailable(
            f"the database cannot be reached ({self._outage.reason or cause})",
            next="`fabric db status` shows whether it runs; it is tried again by itself",
            sent=False,
        )

    def _translated(self, error: psycopg.Error, *, cut: bool) -> Unavailable | None:
        """The error for callers, or None for one that is not about reaching the database."""
        if cut:
            return Unavailable("the database did not answer in time, the connection was cut", sent=True)
        state = error.sqlstate or ""
        if state == "53100":
            return Unavailable(
                "the database's disk is full; nothing was written",
                next="free some space on the database's file system",
                sent=False,
            )
        if state == "25006":
            return Unavailable(
                "the database is read-only; nothing was written",
                next="it is a replica or was set read-only: point FABRIC_BOARD to the primary",
                sent=False,
            )
        # 08 connection, 53 resources, 57P0x shutdown, 58 system error.
        lost = state.startswith(("08", "53", "57P0", "58"))
        if lost or (not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)):
            return Unavailable(f"the database went away: {_first_line(error)}", sent=True)
        return None


class _Use:
    """One use of a connection of this pool."""

    __slots__ = ("_conn", "_database", "_limit", "_ticket")

    def __init__(self, database: Database, limit: float) -> None:
        self._database = database
        self._limit = limit

    def __enter__(self) -> Connection:
        self._conn = self._database._take()
        self._ticket = self._database._cutoff.arm(self._conn, self._limit)
        return self._conn

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._database._cutoff.disarm(self._ticket)
        self._database._put(self._conn)
        if isinstance(error, psycopg.Error):
            translated = self._database._translated(error, cut=self._ticket.fired)
            if translated is not None:
                raise translated from error


def configured(dsn: str, *, name: str) -> str:
    """The connection string with everything that each of our connections has in common."""
    given = conninfo_to_dict(dsn)
    options = " ".join(part for part in (str(given.get("options") or ""), _OPTIONS) if part)
    return make_conninfo(
        dsn,
        **{key: value for key, value in _KEEPALIVE.items() if key not in given},
        options=options,
        application_name=f"fabric {name}",
        connect_timeout=given.get("connect_timeout") or _CONNECT_SECONDS,
        client_encoding="UTF8",
    )


def _alive(conn: Connection) -> bool:
    """Whether an idle connection still stands; costs no round trip while it does.

    The server says next to nothing on an idle connection except that it ends it, so anything to read is suspicious.
    """
    if conn.pgconn.transaction_status != TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(conn.pgconn.socket, select.POLLIN)
    if not poll.poll(0):
        return True
    try:
        conn.execute("")  # its last words, or only a changed setting: asking tells
    except psycopg.Error:
        return False
    return True


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
