"""Rows of another board become rows of ours, and ours travel: one transaction a call.

An id is kept where it is free. To know that it is, the table is locked against inserts: whoever draws an id from its
sequence does so after taking that lock.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
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
from taskfabric.domain.principal import Stamp, Trust
from taskfabric.ports.moving import Brought, Finished, LeftOut, Page, Row

_JSON_OF: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), (int,)),
    **{"float8": (int, float), "boolean": (bool,), "text": (str,), "bytea": (str,), "timestamptz": (str,)},
    "text[]": (list,),
}
_BITS: Final[Mapping[str, int]] = {"smallint": 15, "integer": 31}
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
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
        groups, before = _grouped(rows)
        brought = self._db.retrying(lambda conn: self._load(conn, source, groups, before, stamp, highest))
        self._changed()
        return brought

    def look(self, source: str, rows: Sequence[Row], stamp: Stamp) -> Brought:
        groups, before = _grouped(rows)
        with self._db.connection() as conn, conn.transaction(force_rollback=True):
            return self._load(conn, source, groups, before, stamp, None)

    def _load(
        self,
        conn: Conn,
        source: str,
        groups: _Groups,
        before: Brought,
        stamp: Stamp,
        highest: Mapping[str, int] | None,
    ) -> Brought:
        brought = Brought(left_out=[*before.left_out], changed=[*before.changed])
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


def _grouped(rows: Sequence[Row]) -> tuple[_Groups, Brought]:
    """The rows that can be stored, by runs of one table, and what had to be changed or left out for that.
    Raises BadInput for a row that is none."""
    brought = Brought()
    checked = [
        (table, fit) for at, row in enumerate(rows) if (fit := _storable(table := table_of(row, at), row, brought))
    ]
    return [(table, [row for _, row in group]) for table, group in groupby(checked, key=lambda item: item[0])], brought


def _storable(table: MovedTable, row: Row, brought: Brought) -> Row | None:
    """The row as PostgreSQL can keep it: characters that no text can have are replaced. None: a number is too large."""
    clean: dict[str, Any] = {}
    for key, value in row.items():
        sql_type = "" if key in table.refs else table.columns.get(key, "")  # a reference is exchanged for ours
        if isinstance(value, int) and not -(2 ** _BITS.get(sql_type, 63)) <= value < 2 ** _BITS.get(sql_type, 63):
            why = f"its {key} {value} is larger than can be stored"
            brought.left_out.append(LeftOut(what=what(table, row), why=why))
            return None
        clean[key] = _text(value)
        if clean[key] != value:
            why = f"its {key} had characters that no text can have; there is \N{REPLACEMENT CHARACTER} now"
            brought.changed.append(LeftOut(what=what(table, row), why=why))
    return clean


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(item) for item in value]
    return _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


def what(table: MovedTable, row: Row) -> str:
    """What a row is called in a report, by the numbers of its source."""
    if table.has_id:
        return f"{table.name} {row.get('theirs', row.get('id'))}"
    of = ", ".join(f"{other.removesuffix('s')} {row[c]}" for c, other in table.refs.items() if row.get(c) is not None)
    return f"{table.name} ({of})"


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
            raise BadInput(
                f"row {at}, {what(table, row)[:80]}: that is no value for {table.name}.{key}",
                next="mend it or take the row out, then import again: what came before comes no second time",
                field=f"records[{at}].{key}",
            )
    if table.has_id and row.get("id") is None:
        raise BadInput(f"row {at}: a row of {table.name} needs its id", field=f"records[{at}].id")
    if table.has_id and not 0 < row["id"] < 2**63:
        raise BadInput(
            f"row {at}: {table.name} have no id {str(row['id'])[:40]}",
            next="ids begin at 1 and have 63 bits",
            field=f"records[{at}].id",
        )
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
    return True


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
            _, fresh = self._free(rows)
            self._brought.made[table.name] += len(rows)
            self._brought.renumbered[table.name] += len(fresh)
            return
        own = {column for column, other in table.refs.items() if other == table.name}
        rows = self._referred(
            rows, {c: self._ours(table.refs[c], (row.get(c) for row in rows)) for c in {*table.refs} - own}
        )
        rows = moved_rows.complete(self._conn, self._names, self._source, table, rows, self._stamp, self._brought)
        if not rows:
            return
        if table.has_id:
            numbers = self._number(rows)
            rows = self._referred(
                rows, {c: self._ours(table.name, (row.get(c) for row in rows)) | numbers for c in own}
            )
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
        kept, fresh = self._free(rows)
        theirs = (self._highest or {}).get(name, 0)
        if fresh:
            self._lift([*kept[-1:], *([theirs] if theirs < _far(name) else ())])
        drawn = conn.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)", (name, len(fresh))
        ).fetchall()
        ours = {i: i for i in kept} | {i: row[0] for i, row in zip(fresh, drawn, strict=True)}
        for row in rows:
            row["theirs"], row["id"] = row["id"], ours[row["id"]]
        return ours

    def _lift(self, ids: Iterable[int]) -> None:
        """Numbers that are drawn from now on are above these."""
        self._conn.execute(
            "SELECT setval(s, greatest(nextval(s), %s)) FROM pg_get_serial_sequence(%s, 'id') AS s",
            (max(ids, default=1), self._table.name),
        )

    def _free(self, rows: Sequence[Row]) -> tuple[list[int], list[int]]:
        """Those of their ids, in order, that are free here, and the others."""
        name, wanted = self._table.name, sorted({row["id"] for row in rows})
        found = self._conn.execute(f"SELECT id FROM {name} WHERE id = ANY (%s)".encode(), (wanted,)).fetchall()
        taken = {row[0] for row in found}
        kept = [i for i in wanted if i not in taken and i < _far(name)]
        if name == "comments":
            kept = self._in_order(rows, set(kept))
        return kept, [i for i in wanted if i not in set(kept)]

    def _in_order(self, comments: Sequence[Row], free: set[int]) -> list[int]:
        """Those ids that leave each thread in its order, which is that of the ids: after one that was exchanged, all of
        the thread are."""
        found = (
            []
            if self._highest is None
            else self._conn.execute(
                "SELECT task_id, max(id) FROM comments WHERE task_id = ANY (%s) GROUP BY task_id",
                ([row["task_id"] for row in comments],),
            ).fetchall()
        )
        last: dict[int, float] = defaultdict(int, found)
        kept = []
        for id_, task in sorted((row["id"], row["task_id"]) for row in comments):
            if id_ in free and id_ > last[task]:
                kept.append(id_)
            else:
                last[task] = math.inf
        return kept

    def _referred(self, rows: list[dict[str, Any]], ours: Mapping[str, Mapping[int, int]]) -> list[dict[str, Any]]:
        """Every reference of these columns is to one of our rows; rows that hang in the air are left out."""
        table = self._table
        kept = []
        for row in rows:
            name = what(table, row)
            missing = next((c for c in ours if not self._refer(row, c, ours[c])), None)
            if missing is None:
                kept.append(row)
            elif self._highest is None:
                self._brought.made[table.name] += 1  # with what it hangs on
            elif missing != "action_id":  # of which it was said that it did not come
                why = f"its {missing.removesuffix('_id')} did not come along"
                self._brought.left_out.append(LeftOut(what=name, why=why))
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
            row[column] = 0 if self._table.name == "subtasks" else moved_rows.unknown(self._conn)
            if self._table.name == "tasks":
                row["trust"] = int(Trust.UNTRUSTED)
            self._brought.notes[f"{self._table.name} of people who did not come along are now of nobody known"] += 1
        else:
            return False
        return True

    # -- the rows ------------------------------------------------------------------------------------

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        table, written = self._table, rows
        try:
            with self._conn.transaction():
                made = self._write(rows)
        except (psycopg.IntegrityError, psycopg.DataError):
            made, written = 0, []
            for row in rows:
                try:
                    with self._conn.transaction():
                        made += self._write([row])
                    written.append(row)
                except (psycopg.IntegrityError, psycopg.DataError) as error:
                    why = error.diag.constraint_name or error.diag.column_name or "a value that cannot be stored"
                    self._brought.left_out.append(
                        LeftOut(what=what(table, row), why=f"it does not fit what is here: {why}")
                    )
        self._brought.made[table.name] += made
        if table.has_id and written:
            self._brought.renumbered[table.name] += sum(row["theirs"] != row["id"] for row in written)
            self._lift(row["id"] for row in written)

    def _write(self, rows: list[dict[str, Any]]) -> int:
        if not rows:
            return 0
        made = moved_rows.write(self._conn, self._table, rows, self._stamp)
        if self._table.has_id:
            if made != len(rows):
                raise psycopg.IntegrityError("not every row was written")
            self._remember((row["theirs"], row["id"]) for row in rows)
        return made


_MAY_LACK: Final = frozenset({"owner_id", "swimlane_id"})
