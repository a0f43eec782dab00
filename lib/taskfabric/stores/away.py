"""Absences, quiet hours and what was put off, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from taskfabric.db.pool import Database
from taskfabric.domain.letter import Quiet
from taskfabric.domain.principal import Stamp
from taskfabric.domain.times import iso
from taskfabric.ports.away import Absence
from taskfabric.stores.credential_rows import every, journal, one


class PostgresAway:
    """``ports.away.Away``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def absence(self, principal_id: int) -> Absence | None:
        with self._db.connection() as conn:
            row = one(
                conn,
                "SELECT a.*, u.username FROM absences a LEFT JOIN users u ON u.id = a.to_id"
                " WHERE a.user_id = %s AND a.until > fabric_now()",
                (principal_id,),
            )
        if row is None:
            return None
        return Absence(
            principal_id=principal_id, until=row["until"], to=row["username"], to_id=row["to_id"], note=row["note"]
        )

    def leave(self, principal_id: int, until: datetime, to_id: int | None, note: str, stamp: Stamp) -> None:
        with self._db.transaction() as conn:
            conn.execute(
                "INSERT INTO absences (user_id, until, to_id, note) VALUES (%s, %s, %s, %s) ON CONFLICT (user_id) DO"
                " UPDATE SET until = excluded.until, to_id = excluded.to_id, note = excluded.note,"
                " since = excluded.since",
                (principal_id, until, to_id, note),
            )
            journal(conn, "left", stamp, {"principal": principal_id, "until": iso(until), "to": to_id})

    def come_back(self, principal_id: int, stamp: Stamp) -> bool:
        with self._db.transaction() as conn:
            row = one(
                conn, "DELETE FROM absences WHERE user_id = %s RETURNING until > fabric_now() AS was", (principal_id,)
            )
            if row is None:
                return False
            journal(conn, "came-back", stamp, {"principal": principal_id})
            return bool(row["was"])

    def quiet(self, principal_id: int) -> Quiet | None:
        with self._db.connection() as conn:
            row = one(conn, "SELECT quiet_begin, quiet_end FROM user_settings WHERE user_id = %s", (principal_id,))
        if row is None or row["quiet_begin"] is None:
            return None
        return Quiet(begin=row["quiet_begin"], end=row["quiet_end"])

    def set_quiet(self, principal_id: int, quiet: Quiet | None, stamp: Stamp) -> None:
        begin, end = (None, None) if quiet is None else (quiet.begin, quiet.end)
        with self._db.transaction() as conn:
            conn.execute(
                "INSERT INTO user_settings (user_id, quiet_begin, quiet_end) VALUES (%s, %s, %s)"
                " ON CONFLICT (user_id) DO UPDATE SET quiet_begin = excluded.quiet_begin,"
                " quiet_end = excluded.quiet_end",
                (principal_id, begin, end),
            )
            journal(conn, "quiet-set", stamp, {"principal": principal_id})

    def set_zone(self, principal_id: int, zone: str, stamp: Stamp) -> None:
        with self._db.transaction() as conn:
            conn.execute("UPDATE users SET timezone = %s WHERE id = %s", (zone, principal_id))
            journal(conn, "zone-set", stamp, {"principal": principal_id, "zone": zone})

    def snoozed(self, principal_id: int) -> Mapping[int, datetime]:
        with self._db.connection() as conn:
            rows = every(
                conn, "SELECT task_id, until FROM snoozes WHERE user_id = %s AND until > fabric_now()", (principal_id,)
            )
        return {row["task_id"]: row["until"] for row in rows}

    def snooze(self, principal_id: int, task_id: int, until: datetime | None) -> None:
        with self._db.transaction() as conn:
            if until is None:
                conn.execute("DELETE FROM snoozes WHERE user_id = %s AND task_id = %s", (principal_id, task_id))
                return
            conn.execute(
                "INSERT INTO snoozes (user_id, task_id, until) VALUES (%s, %s, %s)"
                " ON CONFLICT (user_id, task_id) DO UPDATE SET until = excluded.until",
                (principal_id, task_id, until),
            )
