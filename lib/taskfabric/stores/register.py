"""The accounts in PostgreSQL as people keep them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from taskfabric.db.pool import Database
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import AppRole, Kind, Stamp
from taskfabric.ports.register import Profile
from taskfabric.stores.credential_rows import every, journal, one

_PROFILE: Final = """
SELECT u.id, u.username, u.name, u.email, u.kind, u.role, u.timezone, u.is_active FROM users u
 WHERE u.kind <> 'service' AND NOT u.removed
"""


class PostgresRegister:
    """``ports.register.Register`` over the table users. ``changed`` is told whose entry this process has changed."""

    def __init__(self, database: Database, *, changed: Callable[[int], None] = lambda _: None) -> None:
        self._database = database
        self._changed = changed

    def all(self, ids: Sequence[int] | None = None) -> list[Profile]:
        """These, or every one, by user name."""
        where = "" if ids is None else "AND u.id = ANY (%s)"
        values = () if ids is None else (list(ids),)
        return self._profiles(f"{where} ORDER BY u.username", values)

    def get(self, user_id: int) -> Profile:
        found = self._profiles("AND u.id = %s", (user_id,))
        if not found:
            raise not_found("user")
        return found[0]

    def named(self, username: str) -> Profile | None:
        found = self._profiles("AND u.username = %s", (username,))
        return found[0] if found else None

    def change(self, user_id: int, stamp: Stamp, *, name: str | None, email: str | None, role: AppRole | None) -> None:
        with self._database.transaction() as conn:
            done = one(
                conn,
                "UPDATE users SET name = coalesce(%s, name), email = coalesce(%s, email), role = coalesce(%s, role)"
                " WHERE id = %s AND kind <> 'service' AND NOT removed RETURNING username",
                (name, email, None if role is None else role.value, user_id),
            )
            if done is None:
                raise not_found("user")
            facts = {"name": done["username"], "role": None if role is None else role.value}
            journal(conn, "user-changed", stamp, facts)
        self._changed(user_id)

    def remove(self, user_id: int, stamp: Stamp) -> None:
        """It answers nobody, belongs nowhere and is listed no more; what it did keeps its name."""
        with self._database.transaction() as conn:
            gone = one(
                conn,
                "UPDATE users SET is_active = false, removed = true WHERE id = %s AND kind <> 'service' AND NOT removed"
                " RETURNING username",
                (user_id,),
            )
            if gone is None:
                raise not_found("user")
            for statement in (
                "UPDATE credentials SET revoked_at = fabric_now() WHERE user_id = %s AND revoked_at IS NULL",
                "DELETE FROM group_has_users WHERE user_id = %s",
                "DELETE FROM project_has_users m WHERE user_id = %s"
                " AND NOT EXISTS (SELECT FROM queues q WHERE q.project_id = m.project_id AND q.owner_id = m.user_id)",
            ):
                conn.execute(statement.encode(), (user_id,))
            journal(conn, "user-removed", stamp, {"name": gone["username"], "principal": user_id})
        self._changed(user_id)

    def _profiles(self, where: str, values: Sequence[object]) -> list[Profile]:
        with self._database.connection() as conn:
            rows = every(conn, _PROFILE + where, values)
        return [
            Profile(
                id=row["id"],
                username=row["username"],
                name=row["name"],
                email=row["email"],
                kind=Kind(row["kind"]),
                role=AppRole(row["role"]),
                zone=row["timezone"],
                is_active=row["is_active"],
            )
            for row in rows
        ]


__all__ = ["PostgresRegister"]
