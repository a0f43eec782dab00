"""The test kit itself: what other tests rely on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from taskfabric.domain.errors import BadInput
from taskfabric.testing import TestDatabase, TestServer

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_a_set_clock_stands_still_for_every_session(database: TestDatabase) -> None:
    database.clock.set(NOON)
    with database.connect() as other:
        assert other.execute("SELECT fabric_now()").fetchone() == (NOON,)
    assert database.clock.now() == NOON


def test_an_advanced_clock_has_moved_by_exactly_that_much(database: TestDatabase) -> None:
    database.clock.set(NOON)
    assert database.clock.advance(timedelta(minutes=11)) == NOON + timedelta(minutes=11)


def test_an_unset_clock_shows_the_real_time(database: TestDatabase) -> None:
    row = database.connect().execute("SELECT fabric_now() = statement_timestamp()").fetchone()
    assert row == (True,)


def test_a_clock_that_runs_again_shows_the_real_time(database: TestDatabase) -> None:
    database.clock.set(NOON)
    database.clock.run()
    assert database.connect().execute("SELECT fabric_now() = statement_timestamp()").fetchone() == (True,)


def test_a_naive_instant_is_refused(database: TestDatabase) -> None:
    with pytest.raises(BadInput):
        database.clock.set(datetime(2026, 11, 30, 12, 0))  # noqa: DTZ001 - the point of the test


def test_two_databases_share_nothing(server: TestServer) -> None:
    with server.database() as one, server.database() as two:
        one.clock.set(NOON)
        assert two.clock.now() != NOON
        assert one.dsn != two.dsn


def test_a_database_is_gone_after_its_test(server: TestServer) -> None:
    with server.database() as database:
        name = database.connect().info.dbname
    with server.database() as other:
        assert other.connect().execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None


def test_the_role_of_the_product_has_no_power_over_the_server(database: TestDatabase) -> None:
    row = (
        database.connect()
        .execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication FROM pg_roles WHERE rolname = current_user"
        )
        .fetchone()
    )
    assert row == (False, False, False, False)
