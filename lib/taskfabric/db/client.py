"""Running PostgreSQL's own client programs (pg_dump, pg_restore) against a connection string."""

from __future__ import annotations

import os
from typing import Final

from psycopg.conninfo import conninfo_to_dict

# Connection parameter -> the variable of the same meaning. In the environment, not in the arguments: a password in an
# argument is on show for everybody who lists processes.
_VARIABLES: Final = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "channel_binding": "PGCHANNELBINDING",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}


def client_environment(dsn: str) -> dict[str, str]:
    """The environment that makes a client program connect to ``dsn`` and speak plainly."""
    parts = conninfo_to_dict(dsn)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    given = {_VARIABLES[key]: str(value) for key, value in parts.items() if key in _VARIABLES and value is not None}
    return {**inherited, **given, "LC_ALL": "C", "PGCLIENTENCODING": "UTF8"}
