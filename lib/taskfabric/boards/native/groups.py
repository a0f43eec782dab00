"""Groups in PostgreSQL, and the roles that they have in projects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from psycopg.errors import ForeignKeyViolation, UniqueViolation

from taskfabric.boards.native.layout import Conn, first, journal
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, not_found
from taskfabric.domain.principal import ProjectRole, Stamp
from taskfabric.ports.groups import Belonging, Group

_GROUP: Final = """
SELECT g.id, g.name, g.external_id, (SELECT count(*) FROM group_has_users m WHERE m.group_id = g.id) FROM groups g
"""
# Own before a group's; "project-manager" sorts before "project-member" before "project-viewer".
_BELONGING: Final = """
SELECT DISTINCT ON (u.id) u.id, u.username, u.name, r.role, u.is_active
  FROM project_roles r JOIN users u ON u.id = r.user_id
 WHERE r.project_id = %s AND NOT u.removed ORDER BY u.id, r.own DESC, r.role
"""


class NativeGroups:
    """``ports.groups.Groups`` over our own tables. ``changed`` is told when memberships may have changed."""

    def __init__(self, database: Database, *, changed: Callable[[int | None], None] = lambda _: None) -> None:
        self._database = database
        self._changed = changed

    def all(self) -> list[Group]:
        """By name."""
        return self._groups("ORDER BY g.name", ())

    def get(self, group_id: int) -> Group:
        return first(self._groups("WHERE g.id = %s", (group_id,)), "group")

    def of_user(self, user_id: int) -> list[Group]:
        """By name."""
        where = "WHERE g.id IN (SELECT group_id FROM group_has_users WHERE user_id = %s) ORDER BY g.name"
        return self._groups(where, (user_id,))

    def create(self, name: str, external_id: str, stamp: Stamp) -> int:
        with self._changing() as conn:
            row = conn.execute(
                "INSERT INTO groups (name, external_id) VALUES (%s, %s) RETURNING id", (name, external_id)
            ).fetchone()
            assert row is not None
            _journal(conn, "group-created", stamp, {"group": row[0], "name": name})
        return int(row[0])

    def update(self, group_id: int, name: str | None, external_id: str | None, stamp: Stamp) -> None:
        with self._changing() as conn:
            done = conn.execute(
                "UPDATE groups SET name = coalesce(%s, name), external_id = coalesce(%s, external_id) WHERE id = %s",
                (name, external_id, group_id),
            )
            _must(done.rowcount, "group")
            _journal(conn, "group-changed", stamp, {"group": group_id, "name": name})

    def remove(self, group_id: int, stamp: Stamp) -> None:
        with self._changing() as conn:
            _must(conn.execute("DELETE FROM groups WHERE id = %s", (group_id,)).rowcount, "group")
            _journal(conn, "group-removed", stamp, {"group": group_id})

    # -- members -------------------------------------------------------------------------------------

    def members(self, group_id: int) -> list[int]:
        """Their numbers, by user name."""
        query = (
            "SELECT u.id FROM group_has_users m JOIN users u ON u.id = m.user_id"
            " WHERE m.group_id = %s AND NOT u.removed ORDER BY u.username"
        )
        return [row[0] for row in self._rows(query, (group_id,))]

    def add_member(self, group_id: int, user_id: int, stamp: Stamp) -> None:
        with self._changing() as conn:
            conn.execute("INSERT INTO group_has_users VALUES (%s, %s)", (group_id, user_id))
            _journal(conn, "group-member", stamp, {"group": group_id, "principal": user_id, "is": True})

    def remove_member(self, group_id: int, user_id: int, stamp: Stamp) -> None:
        with self._changing() as conn:
            gone = conn.execute("DELETE FROM group_has_users WHERE group_id = %s AND user_id = %s", (group_id, user_id))
            _must(gone.rowcount, "member")
            _journal(conn, "group-member", stamp, {"group": group_id, "principal": user_id, "is": False})

    # -- projects ------------------------------------------------------------------------------------

    def projects(self, group_id: int) -> list[int]:
        """The projects that the group has a role in."""
        query = "SELECT project_id FROM project_has_groups WHERE group_id = %s ORDER BY project_id"
        return [row[0] for row in self._rows(query, (group_id,))]

    def add_to_project(self, project_id: int, group_id: int, role: ProjectRole, stamp: Stamp) -> None:
        with self._changing() as conn:
            conn.execute("INSERT INTO project_has_groups VALUES (%s, %s, %s)", (project_id, group_id, role.value))
            journal(conn, "group-set", project_id, stamp, {"group": group_id, "is": role.value})

    def remove_from_project(self, project_id: int, group_id: int, stamp: Stamp) -> None:
        with self._changing() as conn:
            gone = conn.execute(
                "DELETE FROM project_has_groups WHERE project_id = %s AND group_id = %s", (project_id, group_id)
            )
            _must(gone.rowcount, "group")
            journal(conn, "group-set", project_id, stamp, {"group": group_id, "is": None})

    def set_role(self, project_id: int, group_id: int, role: ProjectRole, stamp: Stamp) -> None:
        with self._changing() as conn:
            done = conn.execute(
                "UPDATE project_has_groups SET role = %s WHERE project_id = %s AND group_id = %s",
                (role.value, project_id, group_id),
            )
            _must(done.rowcount, "group")
            journal(conn, "group-set", project_id, stamp, {"group": group_id, "is": role.value})

    def admit(self, project_id: int, user_id: int, role: ProjectRole, stamp: Stamp) -> None:
        """Somebody is a member by himself. Raises BadInput for one who is: of several callers one admits him."""
        with self._changing() as conn:
            conn.execute("INSERT INTO project_has_users VALUES (%s, %s, %s)", (project_id, user_id, role.value))
            facts = {"principal": user_id, "was": None, "is": role.value}
            journal(conn, "member-set", project_id, stamp, facts)

    def belonging(self, project_id: int) -> list[Belonging]:
        """Each account once, with the role that counts, by name."""
        found = [
            Belonging(user_id=row[0], username=row[1], name=row[2], role=ProjectRole(row[3]), is_active=row[4])
            for row in self._rows(_BELONGING, (project_id,))
        ]
        return sorted(found, key=lambda one: (one.name or one.username, one.user_id))

    def own_role(self, project_id: int, user_id: int) -> ProjectRole | None:
        """The role that somebody has there by himself."""
        query = "SELECT role FROM project_has_users WHERE project_id = %s AND user_id = %s"
        rows = self._rows(query, (project_id, user_id))
        return ProjectRole(rows[0][0]) if rows else None

    # -- rows ----------------------------------------------------------------------------------------

    def _groups(self, where: str, values: Sequence[object]) -> list[Group]:
        rows = self._rows(f"{_GROUP} {where}", values)
        return [Group(id=row[0], name=row[1], external_id=row[2], members=row[3]) for row in rows]

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._database.connection() as conn:
            return conn.execute(query.encode(), values).fetchall()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Conn]:
        try:
            with self._database.transaction() as conn:
                yield conn
        except UniqueViolation:
            raise BadInput("that is there already", field="name") from None
        except ForeignKeyViolation:
            raise not_found("group") from None
        self._changed(None)


def _must(rows: int, what: str) -> None:
    if not rows:
        raise not_found(what)


def _journal(conn: Conn, kind: str, stamp: Stamp, data: dict[str, Any]) -> None:
    journal(conn, kind, None, stamp, data)
