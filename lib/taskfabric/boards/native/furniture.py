"""Columns, swimlanes and categories in PostgreSQL, with everything that is written on them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from psycopg.errors import UniqueViolation

from taskfabric.boards.native.layout import Conn, first, journal
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, IllegalMove, not_found
from taskfabric.domain.principal import Stamp
from taskfabric.ports.furniture import Category, ColumnRow, SwimlaneRow

_COLUMN: Final = "SELECT id, project_id, title, position, task_limit, description, hide_in_dashboard FROM columns"
_SWIMLANE: Final = "SELECT id, project_id, name, position, is_active, description, task_limit FROM swimlanes"
_CATEGORY: Final = "SELECT id, project_id, name, color_id, description FROM project_has_categories"


class NativeFurniture:
    """``ports.furniture.Furniture`` over our own tables. ``changed`` is told whose layout this process has changed."""

    def __init__(self, database: Database, *, changed: Callable[[int | None], None] = lambda _: None) -> None:
        self._database = database
        self._changed = changed

    # -- columns -------------------------------------------------------------------------------------

    def columns(self, project_id: int) -> list[ColumnRow]:
        """By position."""
        return [
            _column(row) for row in self._rows(f"{_COLUMN} WHERE project_id = %s ORDER BY position, id", project_id)
        ]

    def column(self, column_id: int) -> ColumnRow:
        return first([_column(row) for row in self._rows(f"{_COLUMN} WHERE id = %s", column_id)], "column")

    def describe_column(self, column_id: int, description: str) -> None:
        with self._database.transaction() as conn:
            conn.execute("UPDATE columns SET description = %s WHERE id = %s", (description, column_id))

    # -- swimlanes -----------------------------------------------------------------------------------

    def swimlanes(self, project_id: int) -> list[SwimlaneRow]:
        """By position."""
        return [
            _swimlane(row) for row in self._rows(f"{_SWIMLANE} WHERE project_id = %s ORDER BY position, id", project_id)
        ]

    def swimlane(self, swimlane_id: int) -> SwimlaneRow:
        return first([_swimlane(row) for row in self._rows(f"{_SWIMLANE} WHERE id = %s", swimlane_id)], "swimlane")

    def add_swimlane(self, project_id: int, name: str, description: str, stamp: Stamp) -> int:
        with self._changing(project_id, name) as conn:
            row = conn.execute(
                "INSERT INTO swimlanes (project_id, name, description, position) VALUES (%s, %s, %s,"
                " (SELECT count(*) + 1 FROM swimlanes WHERE project_id = %s AND is_active)) RETURNING id",
                (project_id, name, description, project_id),
            ).fetchone()
            assert row is not None
            journal(conn, "swimlane-added", project_id, stamp, {"name": name})
        self._changed(project_id)
        return int(row[0])

    def update_swimlane(self, swimlane_id: int, name: str, description: str | None, stamp: Stamp) -> None:
        before = self.swimlane(swimlane_id)
        with self._changing(before.project_id, name) as conn:
            conn.execute(
                "UPDATE swimlanes SET name = %s, description = coalesce(%s, description) WHERE id = %s",
                (name, description, swimlane_id),
            )
            journal(conn, "swimlane-changed", before.project_id, stamp, {"was": before.name, "is": name})
        self._changed(before.project_id)

    def remove_swimlane(self, swimlane_id: int, stamp: Stamp) -> None:
        """Raises IllegalMove while a task, open or closed, stands in it, and for a queue's own."""
        before = self.swimlane(swimlane_id)
        with self._changing(before.project_id) as conn:
            _not_a_queues_own(conn, before)
            conn.execute("SELECT 1 FROM swimlanes WHERE id = %s FOR UPDATE", (swimlane_id,))
            used = "SELECT 1 FROM tasks WHERE project_id = %s AND swimlane_id = %s LIMIT 1"
            if conn.execute(used, (before.project_id, swimlane_id)).fetchone() is not None:
                raise IllegalMove(f"there are tasks in {before.name!r}", next="move them first, the closed ones too")
            conn.execute("DELETE FROM swimlanes WHERE id = %s", (swimlane_id,))
            _close_ranks(conn, before.project_id)
            journal(conn, "swimlane-removed", before.project_id, stamp, {"name": before.name})
        self._changed(before.project_id)

    def set_swimlane_active(self, swimlane_id: int, active: bool, stamp: Stamp) -> None:
        """A disabled one has no position; an enabled one comes last. Raises IllegalMove for a queue's own."""
        before = self.swimlane(swimlane_id)
        with self._changing(before.project_id) as conn:
            if active:
                conn.execute(
                    "UPDATE swimlanes SET is_active = true, position = (SELECT count(*) + 1 FROM swimlanes"
                    " WHERE project_id = %s AND is_active) WHERE id = %s",
                    (before.project_id, swimlane_id),
                )
            else:
                _not_a_queues_own(conn, before)
                conn.execute("UPDATE swimlanes SET is_active = false, position = 0 WHERE id = %s", (swimlane_id,))
                _close_ranks(conn, before.project_id)
            journal(conn, "swimlane-changed", before.project_id, stamp, {"name": before.name, "active": active})
        self._changed(before.project_id)

    def move_swimlane(self, swimlane_id: int, position: int, stamp: Stamp) -> None:
        """Raises BadInput for a position that the project has not."""
        before = self.swimlane(swimlane_id)
        with self._changing(before.project_id) as conn:
            rows = conn.execute(
                "SELECT id, is_active FROM swimlanes WHERE project_id = %s ORDER BY position, id", (before.project_id,)
            ).fetchall()
            if not 1 <= position <= len(rows):
                raise BadInput(f"this project has the positions 1 to {len(rows)}", field="position")
            order = [row[0] for row in rows if row[1] and row[0] != swimlane_id]
            order.insert(position - 1, swimlane_id)
            _place(conn, order)
            facts = {"name": before.name, "position": position}
            journal(conn, "swimlane-moved", before.project_id, stamp, facts)
        self._changed(before.project_id)

    # -- categories ----------------------------------------------------------------------------------

    def categories(self, project_id: int) -> list[Category]:
        """By name."""
        return [_category(row) for row in self._rows(f"{_CATEGORY} WHERE project_id = %s ORDER BY name", project_id)]

    def category(self, category_id: int) -> Category:
        return first([_category(row) for row in self._rows(f"{_CATEGORY} WHERE id = %s", category_id)], "category")

    def add_category(self, project_id: int, name: str, color_id: str | None, stamp: Stamp) -> int:
        with self._changing(project_id, name) as conn:
            row = conn.execute(
                "INSERT INTO project_has_categories (project_id, name, color_id) VALUES (%s, %s, %s) RETURNING id",
                (project_id, name, color_id),
            ).fetchone()
            assert row is not None
            journal(conn, "category-added", project_id, stamp, {"name": name})
        return int(row[0])

    def update_category(self, category_id: int, name: str, color_id: str | None, stamp: Stamp) -> None:
        before = self.category(category_id)
        with self._changing(before.project_id, name) as conn:
            conn.execute(
                "UPDATE project_has_categories SET name = %s, color_id = %s WHERE id = %s",
                (name, color_id, category_id),
            )
            journal(conn, "category-changed", before.project_id, stamp, {"was": before.name, "is": name})

    def remove_category(self, category_id: int, stamp: Stamp) -> None:
        """Tasks that had it have none."""
        before = self.category(category_id)
        with self._changing(before.project_id) as conn:
            conn.execute("UPDATE task_faces SET category_id = 0 WHERE category_id = %s", (category_id,))
            conn.execute("DELETE FROM project_has_categories WHERE id = %s", (category_id,))
            journal(conn, "category-removed", before.project_id, stamp, {"name": before.name})

    # -- rows ----------------------------------------------------------------------------------------

    def _rows(self, query: str, id: int) -> Sequence[tuple[Any, ...]]:
        with self._database.connection() as conn:
            return conn.execute(query.encode(), (id,)).fetchall()

    @contextlib.contextmanager
    def _changing(self, project_id: int, name: str = "") -> Iterator[Conn]:
        """A transaction on one project, which is there and which nobody else rearranges meanwhile."""
        try:
            with self._database.transaction() as conn:
                if conn.execute("SELECT 1 FROM projects WHERE id = %s FOR UPDATE", (project_id,)).fetchone() is None:
                    raise not_found("project")
                yield conn
        except UniqueViolation:
            raise BadInput(f"this project has a {name!r} already", field="name") from None


def _not_a_queues_own(conn: Conn, lane: SwimlaneRow) -> None:
    if conn.execute("SELECT 1 FROM queues WHERE swimlane_id = %s", (lane.id,)).fetchone() is not None:
        raise IllegalMove(f"{lane.name!r} is where this queue's new tasks stand", next="use another swimlane")


def _close_ranks(conn: Conn, project_id: int) -> None:
    """The active swimlanes have the positions 1, 2, 3 …"""
    rows = conn.execute(
        "SELECT id FROM swimlanes WHERE project_id = %s AND is_active ORDER BY position, id", (project_id,)
    ).fetchall()
    _place(conn, [row[0] for row in rows])


def _place(conn: Conn, order: Sequence[int]) -> None:
    conn.execute(
        "UPDATE swimlanes s SET position = u.place FROM unnest(%s::int[]) WITH ORDINALITY AS u(id, place)"
        " WHERE s.id = u.id",
        (list(order),),
    )


def _column(row: tuple[Any, ...]) -> ColumnRow:
    return ColumnRow(
        id=row[0],
        project_id=row[1],
        title=row[2],
        position=row[3],
        task_limit=row[4],
        description=row[5],
        hide_in_dashboard=row[6],
    )


def _swimlane(row: tuple[Any, ...]) -> SwimlaneRow:
    return SwimlaneRow(
        id=row[0],
        project_id=row[1],
        name=row[2],
        position=row[3],
        is_active=row[4],
        description=row[5],
        task_limit=row[6],
    )


def _category(row: tuple[Any, ...]) -> Category:
    return Category(id=row[0], project_id=row[1], name=row[2], color_id=row[3], description=row[4])
