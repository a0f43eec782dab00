"""The labels of links in PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from psycopg.errors import UniqueViolation

from taskfabric.boards.native.layout import Conn, journal
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, IllegalMove, not_found
from taskfabric.domain.principal import Stamp
from taskfabric.ports.labels import Label


class NativeLabels:
    """``ports.labels.Labels`` over our own tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Label]:
        """By number."""
        with self._database.connection() as conn:
            rows: list[tuple[Any, ...]] = conn.execute(
                "SELECT id, label, opposite_id FROM links ORDER BY id"
            ).fetchall()
        return [Label(id=row[0], label=row[1], opposite_id=row[2]) for row in rows]

    def create(self, label: str, opposite: str, stamp: Stamp) -> int:
        with self._changing() as conn:
            made = _insert(conn, label, 0)
            if opposite:
                other = _insert(conn, opposite, made)
                conn.execute("UPDATE links SET opposite_id = %s WHERE id = %s", (other, made))
            journal(conn, "label-created", None, stamp, {"label": label, "opposite": opposite})
        return made

    def update(self, label_id: int, opposite_id: int, label: str, stamp: Stamp) -> None:
        with self._changing() as conn:
            done = conn.execute(
                "UPDATE links SET label = %s, opposite_id = %s WHERE id = %s", (label, opposite_id, label_id)
            )
            if not done.rowcount:
                raise not_found("label")
            journal(conn, "label-changed", None, stamp, {"id": label_id, "label": label})

    def remove(self, label_id: int, stamp: Stamp) -> None:
        """Raises IllegalMove while a task has a link that says so."""
        with self._changing() as conn:
            if conn.execute("SELECT 1 FROM links WHERE id = %s FOR UPDATE", (label_id,)).fetchone() is None:
                raise not_found("label")
            used = "SELECT 1 FROM task_has_links WHERE link_id = %s LIMIT 1"
            if conn.execute(used, (label_id,)).fetchone() is not None:
                raise IllegalMove("tasks are linked by this label", next="remove those links first")
            conn.execute("UPDATE links SET opposite_id = 0 WHERE opposite_id = %s", (label_id,))
            conn.execute("DELETE FROM links WHERE id = %s", (label_id,))
            journal(conn, "label-removed", None, stamp, {"id": label_id})

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Conn]:
        try:
            with self._database.transaction() as conn:
                yield conn
        except UniqueViolation:
            raise BadInput("there is such a label already", field="label") from None


def _insert(conn: Conn, label: str, opposite_id: int) -> int:
    row = conn.execute(
        "INSERT INTO links (label, opposite_id) VALUES (%s, %s) RETURNING id", (label, opposite_id)
    ).fetchone()
    assert row is not None
    return int(row[0])
