"""Statements that are run past the cursor: the same rows, the same errors, whatever happened to the connection."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import errors as pg

from taskfabric.db.hot import Hot
from taskfabric.db.pool import Database
from taskfabric.domain.errors import Unavailable
from taskfabric.testing import TestDatabase

_SAID = Hot(
    "SELECT %(text)s::text, %(number)s::bigint, %(share)s::float8, %(truth)s::bool, %(at)s::timestamptz,"
    " %(none)s::int, 5 %% 3, %(text)s::text"
)
_AT = datetime(2026, 11, 30, 17, 0, 0, 250_000, UTC)
_VALUES = {"text": "Größe '%s' \\ \"", "number": -(2**63), "share": 0.1, "truth": False, "at": _AT, "none": None}
_ROW = ("Größe '%s' \\ \"", -(2**63), 0.1, False, _AT, None, 2, "Größe '%s' \\ \"")
_DIVIDED = Hot("SELECT 1 / %(by)s::int")


@pytest.fixture
def pool(database: TestDatabase) -> Iterator[Database]:
    opened = Database(database.dsn, size=2, name="test")
    yield opened
    opened.close()


def test_every_kind_of_value_arrives_as_it_was_sent(pool: Database) -> None:
    with pool.connection() as conn:
        assert _SAID.row(conn, _VALUES) == _ROW
        assert _SAID.row(conn, _VALUES) == _ROW


def test_a_transaction_of_the_connection_is_joined(pool: Database) -> None:
    with pool.transaction() as conn:
        assert _SAID.row(conn, _VALUES) == _ROW


def test_a_connection_that_has_forgotten_the_statement_learns_it_again(pool: Database) -> None:
    with pool.connection() as conn:
        _SAID.row(conn, _VALUES)
        conn.execute("DEALLOCATE ALL")
        assert _SAID.row(conn, _VALUES) == _ROW


def test_no_row_is_none(pool: Database) -> None:
    with pool.connection() as conn:
        assert Hot("SELECT 1 WHERE %(truth)s").row(conn, {"truth": False}) is None


@pytest.mark.parametrize("prepared", [False, True])
def test_an_error_of_the_database_keeps_its_class_and_the_connection(pool: Database, prepared: bool) -> None:
    with pool.connection() as conn:
        if prepared:
            assert _DIVIDED.row(conn, {"by": 1}) == (1,)
        with pytest.raises(pg.DivisionByZero):
            _DIVIDED.row(conn, {"by": 0})
        assert _DIVIDED.row(conn, {"by": 1}) == (1,)


def test_a_text_with_nul_is_refused_and_not_cut_short(pool: Database) -> None:
    with pool.connection() as conn, pytest.raises(psycopg.DataError):
        _SAID.row(conn, {**_VALUES, "text": "a\0b"})


def test_a_connection_that_dies_is_reported_as_the_database_being_away(pool: Database) -> None:
    killed = Hot("SELECT pg_terminate_backend(pg_backend_pid()), %(none)s::int")
    with pytest.raises(Unavailable), pool.connection() as conn:
        killed.row(conn, {"none": None})
    with pool.connection() as conn:
        assert _SAID.row(conn, _VALUES) == _ROW
