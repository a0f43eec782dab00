"""The addresses to be told, and what is still to be told there, on PostgreSQL.

A trigger puts each event of a task into the outbox of its addresses, in the event's own transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.errors import not_found
from taskfabric.ports.push import Delivery, PushConfig, Secrets
from taskfabric.stores.vault import Vault

_CONFIG: Final = "c.id, c.a2a_id, c.owner_id, c.url, c.scheme, c.has_token, c.has_credentials"
# The task's row is the lock, so that many calls at once do not go beyond what one task may have.
_LOCK: Final = "SELECT true FROM a2a_tasks WHERE id = %s FOR NO KEY UPDATE"
_COUNT: Final = "SELECT count(*) FILTER (WHERE id <> %s) FROM push_configs WHERE a2a_id = %s AND owner_id = %s"
_PUT: Final = """
INSERT INTO push_configs (a2a_id, owner_id, id, url, scheme, sealed, has_token, has_credentials)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (a2a_id, owner_id, id) DO UPDATE SET url = excluded.url, scheme = excluded.scheme, sealed = excluded.sealed,
       has_token = excluded.has_token, has_credentials = excluded.has_credentials, given_up = NULL
RETURNING number
"""
_MISSED: Final = """
INSERT INTO push_outbox (config, n)
SELECT %s, n FROM a2a_events WHERE a2a_id = %s AND n > %s AND kind <> 'message' ON CONFLICT DO NOTHING
"""
_HOST: Final = "lower(substring({} FROM '//([^/?#]+)'))"
# Only the first of each address: the others wait for it, and rest with it. Who takes the first puts off all of them.
# Of what is near only so many are looked at: who is not among them because of others' shares is so at the next look.
_DUE: Final = f"""
WITH busy AS (
    SELECT b.owner_id, {_HOST.format("b.url")} AS host
      FROM unnest(%(owners)s::integer[], %(urls)s::text[]) AS b(owner_id, url)),
near AS (
    SELECT o.config, o.n, o.due, c.owner_id, h.host, s.of_owner, s.at_host
      FROM push_outbox o JOIN push_configs c ON c.number = o.config
     CROSS JOIN LATERAL (SELECT {_HOST.format("c.url")} AS host) h
     CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE b.owner_id = c.owner_id) AS of_owner,
                                count(*) FILTER (WHERE b.host = h.host) AS at_host FROM busy b) s
     WHERE o.due <= fabric_now() AND s.of_owner < %(share)s AND s.at_host < %(share)s
       AND NOT EXISTS (SELECT FROM push_outbox b WHERE b.config = o.config AND b.n < o.n)
     ORDER BY o.due, o.config LIMIT 200),
shared AS (
    SELECT config, n, of_owner + row_number() OVER (PARTITION BY owner_id ORDER BY due, config) AS of_owner,
           at_host + row_number() OVER (PARTITION BY host ORDER BY due, config) AS at_host FROM near),
head AS (
    SELECT o.config, o.n FROM push_outbox o JOIN shared s ON s.config = o.config AND s.n = o.n
     WHERE s.of_owner <= %(share)s AND s.at_host <= %(share)s AND o.due <= fabric_now()
     ORDER BY o.due, o.config LIMIT %(limit)s FOR UPDATE OF o SKIP LOCKED),
kept AS (
    UPDATE push_outbox o SET due = fabric_now() + interval '1 minute' FROM head h WHERE o.config = h.config
    RETURNING o.config, o.n, o.attempts)
SELECT c.number, {_CONFIG}, c.sealed, k.n, k.attempts, e.body,
       NOT EXISTS (SELECT FROM users u WHERE u.id = c.owner_id AND NOT u.is_active)
  FROM head h JOIN kept k ON k.config = h.config AND k.n = h.n
  JOIN push_configs c ON c.number = h.config
  JOIN a2a_events e ON e.a2a_id = c.a2a_id AND e.n = h.n
"""
_TOLD: Final = """
WITH gone AS (DELETE FROM push_outbox WHERE config = %(config)s AND n = %(n)s)
UPDATE push_outbox SET due = fabric_now() WHERE config = %(config)s AND n > %(n)s
"""
_FAILED: Final = """
UPDATE push_outbox SET due = %(again)s, attempts = attempts + (n = %(n)s)::integer WHERE config = %(config)s
"""
_GIVE_UP: Final = """
WITH gone AS (DELETE FROM push_outbox WHERE config = %(config)s)
UPDATE push_configs SET given_up = %(why)s WHERE number = %(config)s
"""


class PushRows:
    """Implements ``ports.push.PushStore``."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._db = database
        self._vault = vault

    def put(self, config: PushConfig, secrets: Secrets, most: int, after: int | None = None) -> bool:
        sealed = self._sealed(config, secrets)

        def work(conn: Connection) -> bool:
            if conn.execute(_LOCK, (config.a2a_id,)).fetchone() is None:
                raise not_found("task")
            row = conn.execute(_COUNT, (config.id, config.a2a_id, config.owner_id)).fetchone()
            assert row is not None
            if row[0] >= most:
                return False
            made = conn.execute(
                _PUT,
                (
                    config.a2a_id,
                    config.owner_id,
                    config.id,
                    config.url,
                    config.scheme,
                    sealed,
                    config.has_token,
                    config.has_credentials,
                ),
            ).fetchone()
            assert made is not None
            if after is not None:  # the task's row is locked: no event is on its way meanwhile
                conn.execute(_MISSED, (made[0], config.a2a_id, after))
            return True

        return self._db.retrying(work)

    def find(self, a2a_id: str, owner_id: int) -> list[PushConfig]:
        with self._db.connection() as conn:
            rows = conn.execute(
                f"SELECT {_CONFIG} FROM push_configs c WHERE a2a_id = %s AND owner_id = %s ORDER BY number",
                (a2a_id, owner_id),
            ).fetchall()
        return [_config(row) for row in rows]

    def drop(self, a2a_id: str, owner_id: int, config_id: str) -> bool:
        with self._db.connection() as conn:
            gone = conn.execute(
                "DELETE FROM push_configs WHERE a2a_id = %s AND owner_id = %s AND id = %s",
                (a2a_id, owner_id, config_id),
            )
        return gone.rowcount > 0

    def due(self, limit: int, telling: Sequence[PushConfig] = (), share: int | None = None) -> list[Delivery]:
        values = {
            "limit": limit,
            "owners": [config.owner_id for config in telling],
            "urls": [config.url for config in telling],
            "share": limit if share is None else share,
        }
        with self._db.transaction() as conn:
            rows = conn.execute(_DUE, values).fetchall()
        return [self._delivery(row) for row in rows]

    def told(self, delivery: Delivery) -> None:
        with self._db.connection() as conn:
            conn.execute(_TOLD, {"config": delivery.number, "n": delivery.n})

    def failed(self, delivery: Delivery, again: datetime) -> None:
        with self._db.connection() as conn:
            conn.execute(_FAILED, {"config": delivery.number, "n": delivery.n, "again": again})

    def give_up(self, delivery: Delivery, why: str) -> None:
        with self._db.connection() as conn:
            conn.execute(_GIVE_UP, {"config": delivery.number, "why": why[:500]})

    def _sealed(self, config: PushConfig, secrets: Secrets) -> bytes | None:
        if not secrets.token and not secrets.credentials:
            return None
        text = json.dumps({"token": secrets.token, "credentials": secrets.credentials})
        return self._vault.seal(text.encode(), _bond(config))

    def _delivery(self, row: tuple[Any, ...]) -> Delivery:
        number, *face, sealed, n, attempts, body, active = row
        config = _config(tuple(face))
        secrets: Secrets | None = Secrets()
        if sealed is not None:
            opened = self._vault.open(bytes(sealed), _bond(config))
            secrets = None if opened is None else Secrets(**json.loads(opened))
        return Delivery(
            number=number, config=config, n=n, attempts=attempts, owner_active=active, secrets=secrets, body=body
        )


def _bond(config: PushConfig) -> str:
    return f"push:{config.a2a_id}:{config.owner_id}:{config.id}:{config.url}"


def _config(row: tuple[Any, ...]) -> PushConfig:
    id_, a2a_id, owner_id, url, scheme, has_token, has_credentials = row
    return PushConfig(
        id=id_,
        a2a_id=a2a_id,
        owner_id=owner_id,
        url=url,
        scheme=scheme,
        has_token=has_token,
        has_credentials=has_credentials,
    )
