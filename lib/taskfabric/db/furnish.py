"""What a fresh server needs before the fabric can live in it: a role without power, a database, two extensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from taskfabric.domain.errors import Unavailable

SUPERUSER: Final = "postgres"
ROLE: Final = "fabric"
DATABASE: Final = "fabric"
EXTENSIONS: Final = ("vector", "pg_trgm")


def furnish(superuser_dsn: str, *, password: str) -> None:
    """Make the role `fabric` with this password, its database and the extensions that are available.

    What is there already stays; the password becomes this one. Raises Unavailable when the server lets nobody in.
    """
    try:
        with psycopg.connect(superuser_dsn, autocommit=True, connect_timeout=10) as conn:
            _make_role(conn, password)
            make_database(conn, DATABASE)
        add_extensions(superuser_dsn, DATABASE)
    except psycopg.OperationalError as cause:
        raise Unavailable(
            f"PostgreSQL runs, but its superuser cannot enter: {str(cause).strip()}",
            next="if the file `superuser` beside the data directory was lost or changed, put it back",
        ) from cause


def make_database(conn: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    """Make an empty database that only its owner, the role `fabric`, may enter."""
    if conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
        conn.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(ROLE)))
        conn.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))


def add_extensions(superuser_dsn: str, database: str, names: Sequence[str] = EXTENSIONS) -> list[str]:
    """Make or update the extensions that this server has to offer; the names of those that are there now."""
    present: list[str] = []
    with psycopg.connect(make_conninfo(superuser_dsn, dbname=database), autocommit=True, connect_timeout=10) as conn:
        offered = conn.execute(
            "SELECT name, default_version, installed_version FROM pg_available_extensions WHERE name = ANY(%s)",
            (list(names),),
        ).fetchall()
        for name, newest, installed in offered:
            if installed is None:
                conn.execute(sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(name)))
            elif installed != newest:
                conn.execute(sql.SQL("ALTER EXTENSION {} UPDATE").format(sql.Identifier(name)))
            present.append(name)
    return present


def _make_role(conn: psycopg.Connection[tuple[object, ...]], password: str) -> None:
    # The verifier is made here, so that the password itself is in no statement and no log.
    verifier = conn.pgconn.encrypt_password(password.encode(), ROLE.encode(), b"scram-sha-256").decode()
    known = conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone()
    verb = "ALTER" if known else "CREATE"
    conn.execute(
        sql.SQL(verb + " ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD {}").format(
            sql.Identifier(ROLE), sql.Literal(verifier)
        )
    )
