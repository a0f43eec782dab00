"""A throw-away server, a database a test, and the clock in it."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self

import psycopg
from psycopg import sql

from taskfabric.db.furnish import ROLE, add_extensions
from taskfabric.db.migrate import migrate
from taskfabric.domain.errors import BadInput
from taskfabric.testing.ownership import Ownership, cluster_in, destroy, held, leave_reaper

Connection = psycopg.Connection[tuple[object, ...]]

_TEMPLATE: Final = "template_fabric"
# The same name, arguments and volatility as the real one; a null stands for the real time.
_CLOCK: Final = """
CREATE TABLE fabric_clock (at timestamptz);
INSERT INTO fabric_clock VALUES (NULL);
CREATE OR REPLACE FUNCTION fabric_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
AS 'SELECT coalesce((SELECT at FROM fabric_clock), statement_timestamp())';
"""
# What every write must leave true, and provenance alone; too dear for the product's own hot path, so that each test
# pays for it instead.
_CHECKS: Final = """
ALTER TABLE tasks ADD CONSTRAINT tasks_status_is_the_function CHECK (status = fabric_status(role, is_active, flags)),
    ADD CONSTRAINT tasks_lease_is_whole CHECK ((token IS NULL) = (lease_until IS NULL)
        AND (token IS NULL OR owner_id IS NOT NULL AND status = 'working')),
    ADD CONSTRAINT tasks_counters CHECK (attempts >= 0 AND open_blockers >= 0 AND open_children >= 0),
    ADD CONSTRAINT tasks_verdict CHECK (verdict IN ('pass', 'fail'));
CREATE FUNCTION fabric_keep_provenance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'provenance of task % cannot be changed', OLD.id USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER tasks_provenance AFTER UPDATE ON tasks FOR EACH ROW
    WHEN ((OLD.creator_id, OLD.interlocutor_id, OLD.parent_id, OLD.root_id, OLD.depth, OLD.run_task, OLD.run_epoch,
           OLD.trust, OLD.label)
          IS DISTINCT FROM (NEW.creator_id, NEW.interlocutor_id, NEW.parent_id, NEW.root_id, NEW.depth, NEW.run_task,
           NEW.run_epoch, NEW.trust, NEW.label))
    EXECUTE FUNCTION fabric_keep_provenance();
"""


class TestClock:
    """The board's clock in one test database. Setting it stops it; all sessions see it from their next statement on."""

    __test__ = False

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def set(self, at: datetime) -> None:
        """Stop the clock at an aware instant."""
        if at.tzinfo is None:
            raise BadInput("a test clock is set to an aware datetime", next="give it tzinfo=UTC")
        self._conn.execute("UPDATE fabric_clock SET at = %s", (at,))

    def advance(self, by: timedelta) -> datetime:
        """Move the clock on from where it is (and stop it if it ran); the new instant."""
        self._conn.execute("UPDATE fabric_clock SET at = coalesce(at, statement_timestamp()) + %s", (by,))
        return self.now()

    def run(self) -> None:
        """Let the clock show the real time again."""
        self._conn.execute("UPDATE fabric_clock SET at = NULL")

    def now(self) -> datetime:
        """What ``fabric_now()`` says, in UTC."""
        row = self._conn.execute("SELECT fabric_now()").fetchone()
        assert row is not None
        assert isinstance(row[0], datetime)
        return row[0]


class TestDatabase:
    """A migrated database of one test, and what the test does beside the product."""

    __test__ = False

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._open: list[Connection] = []
        self._clock: TestClock | None = None

    @property
    def clock(self) -> TestClock:
        """The clock of this database."""
        if self._clock is None:
            self._clock = TestClock(self.connect())
        return self._clock

    def connect(self) -> Connection:
        """A plain autocommit connection for assertions; closed with the database."""
        conn = psycopg.connect(self.dsn, autocommit=True, options="-c timezone=UTC")
        self._open.append(conn)
        return conn

    def close(self) -> None:
        """Close the connections that were handed out."""
        for conn in self._open:
            conn.close()
        self._open.clear()
        self._clock = None


class TestServer:
    """A throw-away server that several processes may share: each names the same folder, the first one starts it."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = cluster_in(folder)
        self._admin: Connection | None = None
        self._owned: Ownership | None = None

    def __enter__(self) -> Self:
        self._owned = Ownership(self.folder)  # so that it also ends when we are killed
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self._owned is not None:
            self._owned.end()
            self._owned = None

    def start(self) -> None:
        """Have the server run and the template made, by us or by whoever came first."""
        with held(self.folder / "template.lock"):
            self.cluster.start()
            if not self._exists(_TEMPLATE):
                leave_reaper(self.folder)
                self._make_template()

    @contextlib.contextmanager
    def database(self) -> Iterator[TestDatabase]:
        """A fresh migrated database, gone afterwards with every session in it."""
        name = f"test_{secrets.token_hex(6)}"
        self._copy(name, of=_TEMPLATE)
        database = TestDatabase(self.cluster.dsn(database=name))
        try:
            yield database
        finally:
            database.close()
            self._drop(name)

    @contextlib.contextmanager
    def empty_database(self) -> Iterator[str]:
        """The connection string of a database without any table, gone afterwards."""
        name = f"test_{secrets.token_hex(6)}"
        self._copy(name, of="template1")
        try:
            yield self.cluster.dsn(database=name)
        finally:
            self._drop(name)

    def close(self) -> None:
        """Let go of the server; it goes on running for the others."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def destroy(self) -> None:
        """End the server and remove every trace of it."""
        self.close()
        destroy(self.folder)

    def _make_template(self) -> None:
        # Under another name first: a maker that is killed half-way leaves no half-made template.
        draft = f"{_TEMPLATE}_draft"
        self._do(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(draft)))
        self._copy(draft, of="template1")
        add_extensions(self.cluster.superuser_dsn(), draft)
        dsn = self.cluster.dsn(database=draft)
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(_CLOCK)
            conn.execute(_CHECKS)
            conn.execute("ANALYZE")
        self._do(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(draft), sql.Identifier(_TEMPLATE)))

    def _copy(self, name: str, *, of: str) -> None:
        self._do(
            sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {} STRATEGY {}").format(
                sql.Identifier(name), sql.Identifier(ROLE), sql.Identifier(of), sql.SQL("FILE_COPY")
            )
        )

    def _drop(self, name: str) -> None:
        # A session that is just ending makes DROP wait for a tenth of a second; it is gone within a millisecond or two.
        sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        patience = time.monotonic() + 0.5
        while self._ask().execute(sessions, (name,)).fetchone() is not None and time.monotonic() < patience:
            time.sleep(0.001)
        self._do(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _exists(self, name: str) -> bool:
        return self._ask().execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is not None

    def _do(self, statement: sql.Composed) -> None:
        self._ask().execute(statement)

    def _ask(self) -> Connection:
        if self._admin is None or self._admin.closed:
            self._admin = psycopg.connect(self.cluster.superuser_dsn(), autocommit=True)
        return self._admin
