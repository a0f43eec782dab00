"""Helpers for tests that want a real PostgreSQL: a throw-away server, a database a test, a clock to set, a bad network.

    with TestServer(new_folder()) as server, server.database() as database:
        database.clock.set(datetime(2026, 11, 30, 17, 0, tzinfo=UTC))
        database.clock.advance(timedelta(minutes=11))      # every lease of ten minutes is over now

A fresh database is a copy of one migrated template; in it the board's clock ``fabric_now()`` reads a table that the
test sets. Nothing here waits or sleeps for time to pass.
"""

from __future__ import annotations

from taskfabric.testing.ownership import THROW_AWAY, Ownership, cluster_in, destroy, new_folder, remove_leftovers
from taskfabric.testing.relay import Relay
from taskfabric.testing.server import TestClock, TestDatabase, TestServer

__all__ = [
    "THROW_AWAY",
    "Ownership",
    "Relay",
    "TestClock",
    "TestDatabase",
    "TestServer",
    "cluster_in",
    "destroy",
    "new_folder",
    "remove_leftovers",
]
