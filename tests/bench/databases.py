"""A database for each system. Nothing but psycopg is imported here: the peers' interpreter has no more."""

from __future__ import annotations

from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo


def fresh(admin: str, name: str, *, relaxed: bool) -> str:
    """An empty database of this name; its connection string. ``relaxed``: commits do not wait for the disk."""
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        if relaxed:
            conn.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(name)))
    return make_conninfo(admin, dbname=name)


def drop(admin: str, name: str) -> None:
    """No database of this name, and no session in it, is there."""
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def url(dsn: str) -> str:
    """The same connection as a postgresql:// URL, for clients that want one."""
    part = {key: quote(str(value), safe="") for key, value in conninfo_to_dict(dsn).items()}
    return f"postgresql://{part['user']}:{part['password']}@{part['host']}:{part['port']}/{part['dbname']}"
