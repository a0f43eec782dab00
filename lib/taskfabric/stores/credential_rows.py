"""The rows of users and credentials: how they are asked for, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from taskfabric.db.pool import Connection
from taskfabric.domain.principal import AppRole, Caller, Kind, Principal, RunRef, Stamp, Trust, Via
from taskfabric.ports.credentials import Credential

PRINCIPAL: Final = """
u.id, u.username, u.kind, u.trust, u.role, u.tiers, u.capabilities, u.concurrency, u.timezone, u.is_active, u.owner_id
"""
# A run's token is worth something only while the lease it was made under stands.
AUTHENTICATE: Final = f"""
SELECT c.id AS credential_id, c.via, c.queues, c.run_task, c.run_epoch,
       extract(epoch FROM c.expires_at - fabric_now())::float8 AS lasts,
       coalesce(c.last_used_at < fabric_now() - interval '1 minute', true) AS stale, {PRINCIPAL}
  FROM credentials c JOIN users u ON u.id = c.user_id
 WHERE c.hash = %s AND c.revoked_at IS NULL AND (c.expires_at IS NULL OR c.expires_at > fabric_now()) AND u.is_active
   AND (c.run_task IS NULL OR EXISTS (
        SELECT FROM tasks t WHERE t.id = c.run_task AND t.epoch = c.run_epoch AND t.token IS NOT NULL
           AND t.owner_id = c.user_id))
"""
TOUCH: Final = """
UPDATE credentials SET last_used_at = fabric_now()
 WHERE id = %s AND (last_used_at IS NULL OR last_used_at < fabric_now() - interval '1 minute')
"""
CREDENTIAL: Final = """
SELECT c.id, u.username, c.name, c.via, c.created_at, c.expires_at, c.last_used_at, c.revoked_at IS NOT NULL AS revoked,
       c.queues IS NOT NULL AS scoped,
       (SELECT array_agg(q.name ORDER BY q.name) FROM queues q WHERE q.project_id = ANY (c.queues)) AS queue_names
  FROM credentials c JOIN users u ON u.id = c.user_id
"""
EVENT: Final = "INSERT INTO journal (actor_id, run_task, run_epoch, kind, via, data) VALUES (%s, %s, %s, %s, %s, %s)"


def principal_of(row: dict[str, Any]) -> Principal:
    return Principal(
        id=row["id"],
        name=row["username"],
        kind=Kind(row["kind"]),
        trust=Trust(row["trust"]),
        role=AppRole(row["role"]),
        tiers=None if row["tiers"] is None else tuple(row["tiers"]),
        capabilities=None if row["capabilities"] is None else tuple(row["capabilities"]),
        concurrency=row["concurrency"],
        zone=row["timezone"],
        active=row["is_active"],
        owner_id=row["owner_id"],
    )


def caller_of(row: dict[str, Any]) -> Caller:
    run = None if row["run_task"] is None else RunRef(task_id=row["run_task"], epoch=row["run_epoch"])
    return Caller(
        principal=principal_of(row),
        via=Via(row["via"]),
        run=run,
        queues=None if row["queues"] is None else frozenset(row["queues"]),
        credential_id=row["credential_id"],
    )


def credential_of(row: dict[str, Any]) -> Credential:
    return Credential(
        id=row["id"],
        principal=row["username"],
        name=row["name"],
        via=Via(row["via"]),
        queues=tuple(row["queue_names"] or ()) if row["scoped"] else None,
        created=row["created_at"],
        expires=row["expires_at"],
        last_used=row["last_used_at"],
        revoked=row["revoked"],
    )


def journal(conn: Connection, kind: str, stamp: Stamp, data: dict[str, Any]) -> None:
    run = stamp.run
    task, epoch = (None, None) if run is None else (run.task_id, run.epoch)
    conn.execute(EVENT, (stamp.principal_id, task, epoch, kind, stamp.via.value, Jsonb(data)))


def every(conn: Connection, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[dict[str, Any]]:
    with psycopg.Cursor(conn, row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


def one(conn: Connection, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> dict[str, Any] | None:
    with psycopg.Cursor(conn, row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), values).fetchone()


def must(row: dict[str, Any] | None) -> dict[str, Any]:
    assert row is not None  # a RETURNING of a row just written
    return row
