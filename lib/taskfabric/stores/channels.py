"""People's own channels in PostgreSQL. The journal says that there is one more, never where it leads."""

from __future__ import annotations

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Stamp
from taskfabric.ports.channels import Channel
from taskfabric.stores.credential_rows import every, journal, must, one
from taskfabric.stores.vault import Vault


class PostgresChannels:
    """``ports.channels.Channels``."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._db = database
        self._vault = vault

    def of(self, name: str) -> list[Channel]:
        with self._db.connection() as conn:
            rows = every(
                conn,
                "SELECT c.* FROM channels c JOIN users u ON u.id = c.user_id WHERE u.username = %s ORDER BY c.id",
                (name,),
            )
        found = []
        for row in rows:
            url = self._vault.open(bytes(row["sealed"]), _bond(row["user_id"]))
            found.append(
                Channel(
                    id=row["id"],
                    shown=row["shown"],
                    created=row["created"],
                    url=None if url is None else url.decode(),
                )
            )
        return found

    def urls(self, name: str) -> list[str]:
        """The addresses of this person's channels, as far as they can be read."""
        return [channel.url for channel in self.of(name) if channel.url is not None]

    def add(self, principal_id: int, url: str, shown: str, most: int, stamp: Stamp) -> int | None:
        sealed = self._vault.seal(url.encode(), _bond(principal_id))

        def write(conn: Connection) -> int | None:
            # The person's row is the lock, so that many calls at once do not go beyond what one may have.
            if one(conn, "SELECT id FROM users WHERE id = %s FOR NO KEY UPDATE", (principal_id,)) is None:
                raise not_found("person")
            count = must(one(conn, "SELECT count(*) AS n FROM channels WHERE user_id = %s", (principal_id,)))["n"]
            if count >= most:
                return None
            row = one(
                conn,
                "INSERT INTO channels (user_id, shown, sealed) VALUES (%s, %s, %s) RETURNING id",
                (principal_id, shown, sealed),
            )
            made: int = must(row)["id"]
            journal(conn, "channel-added", stamp, {"principal": principal_id, "channel": made})
            return made

        return self._db.retrying(write)

    def remove(self, principal_id: int, channel_id: int, stamp: Stamp) -> bool:
        with self._db.transaction() as conn:
            gone = conn.execute("DELETE FROM channels WHERE user_id = %s AND id = %s", (principal_id, channel_id))
            if not gone.rowcount:
                return False
            journal(conn, "channel-removed", stamp, {"principal": principal_id, "channel": channel_id})
            return True


def _bond(principal_id: int) -> str:
    return f"channel:{principal_id}"
