"""Bringing a database to the schema of this version: numbered SQL files, forward only.

``python -m taskfabric.db.migrate --write-schema`` writes the resulting schema to ``schema.sql`` beside this file, which
a test compares with what the migrations really make.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import psycopg

from taskfabric.db.binaries import client_programs
from taskfabric.db.client import client_environment
from taskfabric.db.embedded import Cluster
from taskfabric.db.pool import configured
from taskfabric.domain.errors import FabricError, Unavailable

log = logging.getLogger(__name__)

_LOCK: Final = 0x7461736B66616272  # "taskfabr": one migrator at a time in a database
_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS schema_migration (
    number integer PRIMARY KEY,
    name   text NOT NULL,
    sha256 text NOT NULL,
    at     timestamptz NOT NULL DEFAULT now()
)
"""
# Said by pg_dump about itself and the session, not about the schema; the extensions depend on the server.
_NOISE: Final = re.compile(
    r"^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*|(CREATE|COMMENT ON) EXTENSION .*)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file: applied once, never edited afterwards."""

    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """What tells an edited file from the one that was applied; line ends do not count."""
        return hashlib.sha256(self.sql.replace("\r\n", "\n").encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.number:04d}_{self.name}"


def packaged() -> Traversable:
    """The folder of this version's migrations."""
    return resources.files("taskfabric.db") / "migrations"


def read_migrations(folder: Traversable | None = None) -> list[Migration]:
    """The migrations of a folder in order. Raises FabricError for a misnamed file, a gap or a number used twice."""
    found: list[Migration] = []
    for entry in (packaged() if folder is None else folder).iterdir():
        if not entry.name.endswith(".sql"):
            continue
        match = _NAME.fullmatch(entry.name)
        if match is None:
            raise FabricError(f"the migration {entry.name!r} is not named NNNN_words.sql")
        found.append(Migration(number=int(match[1]), name=match[2], sql=entry.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(numbers) + 1)):
        raise FabricError(f"migrations must be numbered 1, 2, 3 without gaps; found {numbers}", numbers=numbers)
    return found


def migrate(dsn: str, *, folder: Traversable | None = None) -> list[str]:
    """Apply what is missing, each file in one transaction; the names applied now, in order.

    Any number of processes may call it at once: one works, the others wait and find nothing to do. Raises FabricError
    for a database that is newer than this version or was made by an edited file, Unavailable when it is not reachable.
    """
    wanted = read_migrations(folder)
    try:
        with psycopg.connect(configured(dsn, name="migrate"), autocommit=True) as conn:
            conn.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))  # goes with the connection
            conn.execute(_TABLE)
            done = conn.execute("SELECT number, name, sha256 FROM schema_migration ORDER BY number").fetchall()
            missing = _missing(wanted, [(int(number), str(name), str(sha)) for number, name, sha in done])
            for migration in missing:
                _apply(conn, migration)
            return [str(migration) for migration in missing]
    except psycopg.OperationalError as cause:
        raise Unavailable(f"the database cannot be reached for its migrations: {str(cause).strip()}") from cause


def schema_dump(dsn: str) -> str:
    """The schema as SQL text, equal for equal schemas: without versions, owners, session settings and random tokens.

    Partitions are left out as well: which months there are is a matter of the calendar.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        major = conn.info.server_version // 10000
        partitions = conn.execute("SELECT oid::regclass::text FROM pg_class WHERE relispartition AND relkind = 'r'")
        without = [f"--exclude-table={row[0]}" for row in partitions.fetchall()]
    programs = client_programs(major)
    done = subprocess.run(
        [programs.program("pg_dump"), "--schema-only", "--no-owner", "--no-privileges", *without],
        env=client_environment(dsn),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"the schema could not be read: {done.stderr.strip()}")
    lines = [line.rstrip() for line in done.stdout.splitlines() if not _NOISE.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _missing(wanted: Sequence[Migration], done: Sequence[tuple[int, str, str]]) -> list[Migration]:
    """What is left to apply, after a look at whether what was applied is what we have."""
    for number, name, sha in done:
        if number > len(wanted):
            raise FabricError(
                f"the database is newer than this program: it has migration {number:04d}_{name}, "
                f"this version knows {len(wanted)}",
                next="install the newer version of taskfabric, or restore a backup made with this one",
                database=number,
                program=len(wanted),
            )
        ours = wanted[number - 1]
        if sha != ours.sha256:
            raise FabricError(
                f"migration {ours} differs from what was applied to this database as {number:04d}_{name}",
                next="applied migrations are never edited: put the file back as it was, and write a new one",
                number=number,
            )
    return list(wanted[len(done) :])


def _apply(conn: psycopg.Connection[tuple[object, ...]], migration: Migration) -> None:
    try:
        with conn.transaction():
            # A migration is our own file: trusted text, several statements at once.
            conn.execute(migration.sql, prepare=False)
            conn.execute(
                "INSERT INTO schema_migration (number, name, sha256) VALUES (%s, %s, %s)",
                (migration.number, migration.name, migration.sha256),
            )
    except psycopg.OperationalError:
        raise
    except psycopg.Error as cause:
        raise FabricError(
            f"migration {migration} failed and was undone: {str(cause).strip()}",
            next="the database is as it was before; report this with the text above",
            number=migration.number,
        ) from cause
    log.info("migration applied name=%s", migration)


def write_schema(path: Path) -> None:
    """Write the schema that the migrations make, using a server of its own that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="fabric-schema-") as home:
        cluster = Cluster(Path(home), durable=False)
        try:
            dsn = cluster.start()
            migrate(dsn)
            path.write_text(schema_dump(dsn), encoding="utf-8")
        finally:
            cluster.destroy()


def main(arguments: Sequence[str] | None = None) -> None:
    """Regenerate ``schema.sql``."""
    parser = argparse.ArgumentParser(prog="python -m taskfabric.db.migrate", description=main.__doc__)
    parser.add_argument("--write-schema", action="store_true", required=True, help="write schema.sql beside this file")
    parser.parse_args(arguments)
    path = Path(__file__).with_name("schema.sql")
    write_schema(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
