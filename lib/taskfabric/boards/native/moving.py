"""Rows of another board become rows of ours, and ours travel: one transaction a call.

An id is kept where it is free. To know that it is, the table is locked against inserts: whoever draws an id from its
sequence does so after taking that lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Final

import psycopg
from psycopg.types.json import Jsonb

from taskfabric.boards.native import moved_rows
from taskfabric.boards.native.layout import Conn
from taskfabric.boards.native.moved_tables import BY_NAME, TABLES, MovedTable
from taskfabric.boards.native.names import Names
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Stamp
from taskfabric.ports.moving import Brought, Finished, LeftOut, Page, Row

_JSON_OF: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), (int,)),
    **{"float8": (int, float), "boolean": (bool,), "text": (str,), "bytea": (str,), "timestamptz": (str,)},
    "text[]": (list,),
}
_Groups = list[tuple[MovedTable, list[Row]]]
_ROWS: Final = "jsonb_to_recordset(%(rows)s) AS x"


class NativeMoving:
    """Implements ``ports.moving.Moving`` on PostgreSQL. ``changed`` is called when rows have come in."""

    def __init__(self, database: Database, *, changed: Callable[[], None] = lambda: None) -> None:
        self._db = database
        self._names = Names()
        self._changed = changed

    def identity(self) -> str:
        with self._db.connection() as conn:
            row = conn.execute("SELECT id::text FROM identity").fetchone()
        assert row is not None
        return str(row[0])

    def highest(self) -> dict[str, int]:
        with self._db.connection() as conn:
            return {
                table.name: row[0]
                for table in TABLES
                if table.has_id
                and (row := conn.execute(f"SELECT max(id) FROM {table.name}".encode()).fetchone()) is not None
                and row[0] is not None
            }

    def bring(self, source: str, rows: Sequence[Row], stamp: Stamp, *, highest: Mapping[str, int] = {}) -> Brought:
        groups = _grouped(rows)
        brought = self._db.retrying(lambda conn: self._load(conn, source, groups, stamp, highest))
        self._changed()
        return brought

    def look(self, source: str, rows: Sequence[Row], stamp: Stamp) -> Brought:
        groups = _grouped(rows)
        with self._db.connection() as conn, conn.transaction(force_rollback=True):
            return self._load(conn, source, groups, stamp, None)

    def _load(
        self, conn: Conn, source: str, groups: _Groups, stamp: Stamp, highest: Mapping[str, int] | None
    ) -> Brought:
        brought = Brought()
        for table, rows in groups:
            load = _Load(conn, self._names, source, table, stamp, brought, highest)
            load.put([dict(row) for row in rows])
        return brought

    def finish(self, source: str) -> Finished:
        return self._db.retrying(lambda conn: moved_rows.finish(conn, source))

    def page(self, cursor: str | None) -> Page:
        name, _, after = (cursor or f"{TABLES[0].name}:-1").partition(":")
        table = BY_NAME.get(name)
        if table is None or not after.lstrip("-").isdecimal():
            raise BadInput("that is no place in an export", next="begin it anew, without a cursor", field="cursor")
        at = TABLES.index(table)
        with self._db.connection() as conn:
            while at < len(TABLES):
                rows = moved_rows.page(conn, TABLES[at], int(after))
                if rows:
                    last = max(row.pop("page") for row in rows)
                    return Page(rows=rows, next=f"{TABLES[at].name}:{last}")
                at, after = at + 1, "-1"
        return Page(rows=[], next=None)


def _grouped(rows: Sequence[Row]) -> _Groups:
    """The rows by runs of one table. Raises BadInput for a row that is none."""
    checked = [(table_of(row, at), row) for at, row in enumerate(rows)]
    return [(table, [row for _, row in group]) for table, group in groupby(checked, key=lambda item: item[0])]


def table_of(row: Row, at: int) -> MovedTable:
    """The table that the row belongs to. Raises BadInput for a row that is none."""
    name = row.get("table")
    table = BY_NAME.get(name) if isinstance(name, str) else None
    if table is None:
        near = _near(str(name), BY_NAME)
        raise BadInput(f"row {at}: there is no table {str(name)[:40]!r} to move{near}", field=f"records[{at}].table")
    known = {"table", *table.columns, *(("id",) if table.has_id else ()), *(("queue",) if name == "projects" else ())}
    for key, value in row.items():
        if key not in known:
            near = _near(key, known)
            raise BadInput(f"row {at}: {table.name} have no {key[:40]!r}{near}", field=f"records[{at}].{key[:40]}")
        if not _fits(value, "bigint" if key == "id" else table.columns.get(key, "")):
            raise BadInput(f"row {at}: that is no value for {table.name}.{key}", field=f"records[{at}].{key}")
    if table.has_id and row.get("id") is None:
        raise BadInput(f"row {at}: a row of {table.name} needs its id", field=f"records[{at}].id")
    return table


def _near(word: str, known: Iterable[str]) -> str:
    found = get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _fits(value: object, sql_type: str) -> bool:
    if value is None or sql_type == "":
        return True
    if isinstance(value, bool) != (sql_type == "boolean") or not isinstance(value, _JSON_OF[sql_type]):
        return False
    if isinstance(value, list):
        return all(_fits(item, "text") and item is not None for item in value)
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
    bits = {"smallint": 15, "integer": 31}.get(sql_type, 63)
    return not isinstance(value, int) or -(2**bits) <= value < 2**bits


def _far(table: str) -> int:
    """Ids from here on are exchanged: a sequence that stood there would soon have none left."""
    return 2**62 if table in moved_rows.LONG_IDS else 2**30


class _Load:
    """The rows of one table, on their way in."""

    def __init__(
        self,
        conn: Conn,
        names: Names,
        source: str,
        table: MovedTable,
        stamp: Stamp,
        brought: Brought,
        highest: Mapping[str, int] | None,
    ) -> None:
        self._conn = conn
        self._names = names
        self._source = source
        self._table = table
        self._stamp = stamp
        self._brought = brought
        # None: only a look at what would come; the caller takes back what is written for it.
        self._highest = highest

    def put(self, rows: list[dict[str, Any]]) -> None:
        table = self._table
        if table.has_id:
            before = self._ours(table.name, (row["id"] for row in rows))
            self._brought.known[table.name] += sum(row["id"] in before for row in rows)
            rows = [row for row in rows if row["id"] not in before]
        for row in rows:
            moved_rows.prepare(self._conn, table, row, self._brought)
        rows = self._known_by_nature([row for row in rows if row.pop("left", None) is None])
        if not rows:
            return
        if self._highest is None and table.has_id:
            _, fresh = self._free(row["id"] for row in rows)
            self._brought.made[table.name] += len(rows)
            self._brought.renumbered[table.name] += len(fresh)
            return
        own = self._number(rows) if table.has_id else {}
        rows = self._referred(rows, own)
        rows = moved_rows.complete(self._conn, self._names, self._source, table, rows, self._brought)
        self._insert(rows)

    def _ours(self, table: str, theirs: Iterable[int | None]) -> dict[int, int]:
        wanted = sorted({i for i in theirs if i is not None})
        if not wanted:
            return {}
        return dict(
            self._conn.execute(
                "SELECT theirs, ours FROM moved WHERE source = %s AND tbl = %s AND theirs = ANY (%s)",
                (self._source, table, wanted),
            ).fetchall()
        )

    def _remember(self, pairs: Iterable[tuple[int, int]]) -> None:
        with self._conn.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO moved VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [(self._source, self._table.name, theirs, ours) for theirs, ours in pairs],
            )

    # -- what is here already ------------------------------------------------------------------------

    def _known_by_nature(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that are not here yet; the others are found by what they are."""
        table = self._table
        found: dict[int, int] = {row["id"]: row.pop("is") for row in rows if "is" in row}
        if table.natural:
            maps = {c: self._ours(t, (row.get(c) for row in rows)) for c, t in table.refs.items() if c in table.natural}
            keys = [
                {"n": n, **{c: maps[c].get(row.get(c, 0), 0) if c in maps else row.get(c) for c in table.natural}}
                for n, row in enumerate(rows)
            ]
            typed = ", ".join(f"{c} {table.columns[c]}" for c in table.natural)
            same = " AND ".join(f"t.{c} = x.{c}" for c in table.natural)
            matches = self._conn.execute(
                f"SELECT x.n, t.id FROM {_ROWS}(n integer, {typed}) JOIN {table.name} t ON {same}".encode(),
                {"rows": Jsonb(keys)},
            ).fetchall()
            found |= {rows[n]["id"]: ours for n, ours in matches}
        self._brought.known[table.name] += len(found)
        self._remember(found.items())
        return [row for row in rows if row.get("id") not in found] if found else rows

    # -- ids and references --------------------------------------------------------------------------

    def _number(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        """Every row has its id here; returns them by theirs."""
        name, conn = self._table.name, self._conn
        conn.execute(f"LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE".encode())
        kept, fresh = self._free(row["id"] for row in rows)
        theirs = (self._highest or {}).get(name, 0)
        above = max([0, *kept[-1:], *([theirs] if fresh and theirs < _far(name) else ())])
        if above:
            conn.execute(
                "SELECT setval(s, greatest(nextval(s), %s)) FROM pg_get_serial_sequence(%s, 'id') AS s", (above, name)
            )
        drawn = conn.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)", (name, len(fresh))
        ).fetchall()
        ours = {i: i for i in kept} | {i: row[0] for i, row in zip(fresh, drawn, strict=True)}
        for row in rows:
            row["theirs"], row["id"] = row["id"], ours[row["id"]]
        self._brought.renumbered[name] += len(fresh)
        return ours

    def _free(self, theirs: Iterable[int]) -> tuple[list[int], list[int]]:
        """Those ids, in order, that are free here, and the others."""
        name, wanted = self._table.name, sorted(set(theirs))
        found = self._conn.execute(f"SELECT id FROM {name} WHERE id = ANY (%s)".encode(), (wanted,)).fetchall()
        taken = {row[0] for row in found}
        kept = [i for i in wanted if i not in taken and 0 < i < _far(name)]
        return kept, [i for i in wanted if i not in set(kept)]

    def _referred(self, rows: list[dict[str, Any]], own: dict[int, int]) -> list[dict[str, Any]]:
        """Every reference is to one of our rows; rows that hang in the air are left out."""
        table = self._table
        maps = {
            column: self._ours(other, (row.get(column) for row in rows)) | (own if other == table.name else {})
            for column, other in table.refs.items()
        }
        kept = []
        for row in rows:
            missing = next((c for c in table.refs if not self._refer(row, c, maps[c])), None)
            if missing is None:
                kept.append(row)
            elif self._highest is None:
                self._brought.made[table.name] += 1  # with what it hangs on
            else:
                what = f"{table.name} {row.get('theirs', '')}".strip()
                self._brought.left_out.append(
                    LeftOut(what=what, why=f"its {missing.removesuffix('_id')} did not come along")
                )
        return kept

    def _refer(self, row: dict[str, Any], column: str, ours: Mapping[int, int]) -> bool:
        theirs = row.get(column)
        if theirs is None or (theirs == 0 and column not in self._table.weak):
            return theirs is not None or column in self._table.weak or column.endswith("_column") or column in _MAY_LACK
        if theirs in ours:
            row[column] = ours[theirs]
        elif column in self._table.weak or column == "category_id":
            row[column] = None if column in self._table.weak else 0
        elif self._table.refs[column] == "users" and self._table.has_id:
            row[column] = self._stamp.principal_id
            self._brought.notes[f"{self._table.name} of people who did not come along are now yours"] += 1
        else:
            return False
        return True

    # -- the rows ------------------------------------------------------------------------------------

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        try:
            with self._conn.transaction():
                made = self._write(rows)
        except (psycopg.IntegrityError, psycopg.DataError):
            made = 0
            for row in rows:
                try:
                    with self._conn.transaction():
                        made += self._write([row])
                except (psycopg.IntegrityError, psycopg.DataError) as error:
                    what = f"{self._table.name} {row.get('theirs', '')}".strip()
                    why = error.diag.constraint_name or error.diag.column_name or "a value that cannot be stored"
                    self._brought.left_out.append(LeftOut(what=what, why=f"it does not fit what is here: {why}"))
        self._brought.made[self._table.name] += made

    def _write(self, rows: list[dict[str, Any]]) -> int:
        if not rows:
            return 0
        made = moved_rows.write(self._conn, self._table, rows, self._stamp)
        if self._table.has_id:
            self._remember((row["theirs"], row["id"]) for row in rows)
        return made


_MAY_LACK: Final = frozenset({"owner_id", "swimlane_id"})
