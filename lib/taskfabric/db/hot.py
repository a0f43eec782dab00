"""Statements that run so often that the cursor around them costs more than they do themselves.

    START = Hot("SELECT ... WHERE id = %(task)s")
    row = START.row(conn, {"task": 12})

The client library's cursor looks at each argument's type, chooses a plan's name and may be driven asynchronously; here
the statement is prepared once for each connection and then run by one blocking call. Inside a transaction the cursor
does it, since there a statement that the connection has forgotten could not be prepared anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from typing import Any, Final, assert_never

import psycopg
from psycopg import errors as pg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

_NUMBERS: Final = count()
_PLACE: Final = re.compile(r"%\((\w+)\)s|%%")


class Hot:
    """One statement with named arguments: texts, numbers, truths, instants, nulls. Their places say their types."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._name = b"hot_%d" % next(_NUMBERS)
        names: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            return f"${names.setdefault(found[1], len(names) + 1)}" if found[1] else "%"

        self._numbered = _PLACE.sub(numbered, sql).encode()
        self._names = tuple(names)

    def row(self, conn: psycopg.Connection[tuple[Any, ...]], values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The first row, or None. Raises what ``conn.execute`` raises."""
        plain = conn.pgconn
        if plain.transaction_status != TransactionStatus.IDLE:
            return conn.execute(self.sql, values).fetchone()
        given: list[Any] = [_text(values[name]) for name in self._names]
        result = plain.exec_prepared(self._name, given)
        if result.status == ExecStatus.FATAL_ERROR and result.error_field(DiagnosticField.SQLSTATE) == b"26000":
            # New on this connection, or forgotten with a rollback: nothing was done.
            _checked(plain, plain.prepare(self._name, self._numbered))
            result = plain.exec_prepared(self._name, given)
        _checked(plain, result)
        if not result.ntuples:
            return None
        reader = Transformer(conn)
        reader.set_pgresult(result)
        return reader.load_row(0, tuple)


def _text(value: str | float | datetime | None) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            if "\0" in value:
                raise pg.DataError("a text has the character NUL")
            return value.encode()
        case bool():
            return b"t" if value else b"f"
        case int():
            return b"%d" % value
        case float():
            return repr(value).encode()
        case datetime():
            return value.isoformat().encode()
        case _:
            assert_never(value)


def _checked(plain: PGconn, result: PGresult) -> None:
    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return
    if plain.status != ConnStatus.OK:
        raise pg.OperationalError(result.get_error_message() or "the connection is lost")
    raise pg.error_from_result(result)
