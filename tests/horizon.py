"""How far the journal is read: a reader stops before the oldest transaction of the whole database server, and other
tests have theirs there."""

from __future__ import annotations

import time
from typing import Any, Final

import psycopg

_PATIENCE: Final = 20.0  # seconds before a test gives up; nothing here takes that long


def caught_up(conn: psycopg.Connection[Any]) -> None:
    """All that is committed now can be read in the journal. ``conn`` is in no transaction."""
    row = conn.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert row is not None
    deadline = time.monotonic() + _PATIENCE
    query = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > %s::xid8"
    while conn.execute(query, (row[0],)).fetchone() != (True,):
        assert time.monotonic() < deadline, "a transaction on this server does not end"


__all__ = ["caught_up"]
