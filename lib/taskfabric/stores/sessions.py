"""Web sessions in PostgreSQL. Secrets have 256 random bits, so a plain hash of them cannot be searched backwards.

A session ends after ``idle`` without a request, and after ``longest`` whatever is done with it. It is looked up at each
request, so that revoking it acts at once, everywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Any, Final

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.principal import Principal, Stamp
from taskfabric.ports.sessions import Session, Signed
from taskfabric.stores.credential_rows import PRINCIPAL, every, journal, must, one, principal_of

IDLE: Final = timedelta(days=14)
LONGEST: Final = timedelta(days=90)
LINK: Final = timedelta(minutes=15)

_ROW: Final = """
s.id AS session_id, s.user_id, s.is_proven, s.agent, s.created, s.seen, s.expires, s.revoked_at IS NOT NULL AS revoked
"""
_ALIVE: Final = "s.revoked_at IS NULL AND s.expires > fabric_now() AND s.seen > fabric_now() - %(idle)s"


class PostgresSessions:
    """``ports.sessions.Sessions``."""

    def __init__(self, database: Database, *, idle: timedelta = IDLE, longest: timedelta = LONGEST) -> None:
        self._db = database
        self._idle = idle
        self._longest = longest

    def begin(self, principal_id: int, *, proven: bool, agent: str, stamp: Stamp) -> Signed:
        with self._db.transaction() as conn:
            return self._begin(conn, principal_id, proven, agent, stamp, "signed-in")

    def _begin(self, conn: Connection, principal_id: int, proven: bool, agent: str, stamp: Stamp, kind: str) -> Signed:
        secret = secrets.token_urlsafe(32)
        row = one(
            conn,
            f"WITH s AS (INSERT INTO sessions (user_id, hash, is_proven, agent, expires) VALUES"
            f" (%s, %s, %s, %s, fabric_now() + %s) RETURNING *) SELECT {_ROW}, u.username FROM s"
            " JOIN users u ON u.id = s.user_id",
            (principal_id, _digest(secret), proven, agent[:200], self._longest),
        )
        made = _session(must(row))
        journal(conn, kind, stamp, {"session": made.id, "principal": principal_id, "proven": proven})
        return Signed(secret=secret, csrf=self.csrf(secret), session=made)

    def find(self, secret: str) -> tuple[Session, Principal] | None:
        with self._db.connection() as conn:
            rows = every(
                conn,
                f"SELECT {_ROW}, {PRINCIPAL}, s.seen < fabric_now() - interval '1 minute' AS stale FROM sessions s"
                f" JOIN users u ON u.id = s.user_id WHERE s.hash = %(hash)s AND u.is_active AND u.kind = 'human'"
                f" AND {_ALIVE}",
                {"hash": _digest(secret), "idle": self._idle},
            )
        if not rows:
            return None
        row = rows[0]
        if row["stale"]:
            with self._db.transaction() as conn:
                conn.execute("SET LOCAL synchronous_commit = off")
                conn.execute("UPDATE sessions SET seen = fabric_now() WHERE id = %s", (row["session_id"],))
        return _session(row), principal_of(row)

    def csrf(self, secret: str) -> str:
        return hmac.new(secret.encode("utf-8", "surrogatepass"), b"taskfabric csrf", hashlib.sha256).hexdigest()

    def rotate(self, secret: str, *, proven: bool, stamp: Stamp) -> Signed | None:
        with self._db.transaction() as conn:
            rows = every(
                conn,
                f"UPDATE sessions s SET revoked_at = fabric_now() WHERE s.hash = %(hash)s AND {_ALIVE}"
                " RETURNING s.user_id, s.agent",
                {"hash": _digest(secret), "idle": self._idle},
            )
            if not rows:
                return None
            return self._begin(conn, rows[0]["user_id"], proven, rows[0]["agent"], stamp, "session-rotated")

    def end(self, session_id: int, stamp: Stamp) -> bool:
        with self._db.transaction() as conn:
            sql = "UPDATE sessions SET revoked_at = fabric_now() WHERE id = %s AND revoked_at IS NULL"
            if not conn.execute(sql, (session_id,)).rowcount:
                return False
            journal(conn, "session-ended", stamp, {"session": session_id})
            return True

    def end_all(self, principal_id: int, stamp: Stamp) -> int:
        with self._db.transaction() as conn:
            sql = "UPDATE sessions SET revoked_at = fabric_now() WHERE user_id = %s AND revoked_at IS NULL"
            count = conn.execute(sql, (principal_id,)).rowcount
            conn.execute("DELETE FROM sign_in_links WHERE user_id = %s", (principal_id,))
            journal(conn, "sessions-ended", stamp, {"principal": principal_id, "count": count})
            return count

    def of(self, principal_id: int) -> list[Session]:
        with self._db.connection() as conn:
            rows = every(
                conn,
                f"SELECT {_ROW}, u.username FROM sessions s JOIN users u ON u.id = s.user_id"
                f" WHERE s.user_id = %(user)s AND {_ALIVE} ORDER BY s.id DESC",
                {"user": principal_id, "idle": self._idle},
            )
        return [_session(row) for row in rows]

    def get(self, session_id: int) -> Session | None:
        with self._db.connection() as conn:
            row = one(
                conn,
                f"SELECT {_ROW}, u.username FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.id = %s",
                (session_id,),
            )
        return None if row is None else _session(row)

    def make_link(self, principal_id: int, *, proven: bool, stamp: Stamp) -> tuple[str, datetime]:
        secret = secrets.token_urlsafe(32)
        with self._db.transaction() as conn:
            conn.execute("DELETE FROM sign_in_links WHERE expires < fabric_now()")
            row = one(
                conn,
                "INSERT INTO sign_in_links (hash, user_id, made_by, is_proven, expires)"
                " VALUES (%s, %s, %s, %s, fabric_now() + %s)"
                " RETURNING expires",
                (_digest(secret), principal_id, stamp.principal_id, proven, LINK),
            )
            journal(conn, "sign-in-link-made", stamp, {"principal": principal_id})
        until: datetime = must(row)["expires"]
        return secret, until

    def use_link(self, secret: str) -> tuple[int, bool] | None:
        with self._db.transaction() as conn:
            row = one(
                conn,
                "UPDATE sign_in_links SET used_at = fabric_now() WHERE hash = %s AND used_at IS NULL"
                " AND expires > fabric_now() RETURNING user_id, is_proven",
                (_digest(secret),),
            )
        return None if row is None else (int(row["user_id"]), bool(row["is_proven"]))


def _session(row: dict[str, Any]) -> Session:
    return Session(
        id=row["session_id"],
        principal=row["username"],
        principal_id=row["user_id"],
        proven=row["is_proven"],
        agent=row["agent"],
        created=row["created"],
        seen=row["seen"],
        expires=row["expires"],
        revoked=row["revoked"],
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
