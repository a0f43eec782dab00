"""Saving the fabric's database to a file, and putting such a file in its place.

Both work on any server that a connection string names, with PostgreSQL's own pg_dump and pg_restore.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskfabric.db.binaries import Binaries, client_programs
from taskfabric.db.client import client_environment
from taskfabric.db.furnish import add_extensions
from taskfabric.domain.errors import BadInput, FabricError, Unavailable

log = logging.getLogger(__name__)

_MAGIC: Final = b"PGDMP"
_EXTENSION: Final = re.compile(r"\d EXTENSION - (\S+)")
_TIMEOUT_SINCE: Final = 17  # pg_restore sets transaction_timeout since this major
Connection = psycopg.Connection[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did."""

    database: str
    tasks: int  # whose epoch was lifted
    lifts: int  # steps of 1,000,000


def backup(dsn: str, file: Path) -> int:
    """Save the database to ``file`` (mode 0600); its size in bytes. The file appears complete or not at all.

    Raises Unavailable when the database is not reachable, FabricError when the file cannot be written.
    """
    with _connect(dsn) as conn:
        programs = client_programs(_major(conn))
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
        done = subprocess.run(
            [programs.program("pg_dump"), "--format=custom", "--no-owner", "--no-privileges", f"--file={draft}"],
            env=client_environment(dsn),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise FabricError(
                f"the backup failed and left no file: {done.stderr.strip()}",
                next="free some space, or name a file on another disk",
                file=str(file),
            )
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(file)
    except OSError as cause:
        raise FabricError(f"the backup cannot be written to {file}: {cause}", file=str(file)) from cause
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    return file.stat().st_size


def restore(dsn: str, file: Path, *, admin_dsn: str | None = None, force: bool = False) -> Restored:
    """Put the saved database in the place of the one that ``dsn`` names, and lift every epoch (G2).

    It is built beside the present one and swapped in by renaming, so a failure leaves the present one as it was. Nobody
    may be connected unless ``force`` ends their sessions. ``admin_dsn`` is a login that may make databases; without it
    the role of ``dsn`` must be one. Raises FabricError with the reason, BadInput for a file that is no backup.
    """
    _check_file(file)
    parts = conninfo_to_dict(dsn)
    name, role = str(parts.get("dbname") or parts.get("user")), str(parts.get("user"))
    admin_dsn = make_conninfo(admin_dsn or dsn, dbname="postgres")
    fresh, old = f"{name}_restore_{secrets.token_hex(4)}", f"{name}_before_{secrets.token_hex(4)}"
    with _connect(admin_dsn) as admin:
        programs = _restorer(_major(admin))
        if not force:
            _refuse_if_used(admin, name)
        lifts_before = _lifts(make_conninfo(dsn)) if _exists(admin, name) else 0
        _make(admin, fresh, role)
        try:
            entries = _entries(programs, file)
            _bring_extensions(admin_dsn, fresh, entries)
            _fill(programs, file, entries, make_conninfo(dsn, dbname=fresh))
            tasks, lifts = _lift(make_conninfo(dsn, dbname=fresh), lifts_before)
            _swap(admin, name, fresh, old, force=force)
        except BaseException:
            _drop(admin, fresh)
            raise
        _drop(admin, old)
    return Restored(database=name, tasks=tasks, lifts=lifts)


def _check_file(file: Path) -> None:
    try:
        with file.open("rb") as content:
            head = content.read(len(_MAGIC))
    except OSError as cause:
        raise BadInput(f"the backup {file} cannot be read: {cause}", file=str(file)) from cause
    if head != _MAGIC:
        raise BadInput(f"{file} is not a backup made by `fabric db backup`", file=str(file))


def _refuse_if_used(admin: Connection, name: str) -> None:
    rows = admin.execute(
        "SELECT application_name FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'", (name,)
    ).fetchall()
    if rows:
        who = sorted({str(row[0]) or "(unnamed)" for row in rows})
        raise FabricError(
            f"{len(rows)} sessions use the database ({', '.join(who)})",
            next="stop the fabric with `fabric down`, or restore with --force, which ends them",
            sessions=len(rows),
            who=who,
        )


def _entries(programs: Binaries, file: Path) -> list[str]:
    """The table of contents of a backup, an entry a line."""
    listing = subprocess.run(
        [programs.program("pg_restore"), "--list", file], capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        raise FabricError(
            f"the backup cannot be read: {listing.stderr.strip()}",
            next="it may be cut off, or made by a newer PostgreSQL than the programs here",
            file=str(file),
        )
    return [line for line in listing.stdout.splitlines() if line and not line.startswith(";")]


def _bring_extensions(admin_dsn: str, database: str, entries: list[str]) -> None:
    """Make the extensions that the backup names, as far as this login may and this server has them.

    One that is missing stops the restore only if a table uses it; then pg_restore says so.
    """
    for name in sorted({match[1] for entry in entries if (match := _EXTENSION.search(entry))}):
        try:
            present = add_extensions(admin_dsn, database, [name])
        except psycopg.errors.InsufficientPrivilege:
            present = []
        if not present:
            log.warning("extension of the backup not made name=%s database=%s", name, database)


def _fill(programs: Binaries, file: Path, entries: list[str], dsn: str) -> None:
    """Restore everything but the extensions, which are there already and belong to somebody with more power."""
    environment = client_environment(dsn)
    wanted = [entry for entry in entries if " EXTENSION " not in entry]
    with tempfile.NamedTemporaryFile("w", prefix="fabric-restore-", suffix=".list") as chosen:
        chosen.write("\n".join(wanted) + "\n")
        chosen.flush()
        how = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
        how += [f"--use-list={chosen.name}", f"--dbname={environment['PGDATABASE']}"]
        done = subprocess.run(
            [programs.program("pg_restore"), *how, file],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise FabricError(
            f"the backup could not be restored; the present database is as it was: {done.stderr.strip()}",
            file=str(file),
        )


def _lift(dsn: str, lifts_before: int) -> tuple[int, int]:
    """Lift every epoch of the restored copy; how many tasks, how many steps.

    A copy older than an earlier restore is lifted once more than the present database was, so that restoring the same
    file twice does not grant the same epochs twice.
    """
    steps = max(1, lifts_before - _lifts(dsn) + 1)
    tasks = 0
    with _connect(dsn) as conn:
        for _ in range(steps):
            row = conn.execute("SELECT fabric_lift_epochs()").fetchone()
            tasks = row[0] if row is not None and isinstance(row[0], int) else 0
        conn.execute("ANALYZE")
    return tasks, steps


def _lifts(dsn: str) -> int:
    """How often the epochs of this database were lifted; 0 for a database without our tables."""
    with _connect(dsn) as conn:
        row = conn.execute("SELECT to_regclass('restores') IS NOT NULL").fetchone()
        if row is None or not row[0]:
            return 0
        row = conn.execute("SELECT count(*) FROM restores").fetchone()
        return row[0] if row is not None and isinstance(row[0], int) else 0


def _swap(admin: Connection, name: str, fresh: str, old: str, *, force: bool) -> None:
    present = _exists(admin, name)
    try:
        if present:
            # Nobody new from here on; without force whoever slipped in makes the renaming fail, and nothing happened.
            _run(admin, "ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
            if force:
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
                )
        with admin.transaction():
            if present:
                _run(admin, "ALTER DATABASE {} RENAME TO {}", name, old)
            _run(admin, "ALTER DATABASE {} RENAME TO {}", fresh, name)
    except psycopg.Error as cause:
        if present:
            _run(admin, "ALTER DATABASE {} ALLOW_CONNECTIONS true", name)
        raise FabricError(
            f"the restored database could not take its place; the present one is as it was: {str(cause).strip()}",
            next="stop the fabric with `fabric down`, then try again",
        ) from cause


def _make(admin: Connection, fresh: str, role: str) -> None:
    try:
        _run(admin, "CREATE DATABASE {} OWNER {} TEMPLATE template0", fresh, role)
    except psycopg.errors.InsufficientPrivilege as cause:
        raise FabricError(
            f"the role '{role}' may not make databases, which a restore needs",
            next=f"as an administrator: ALTER ROLE {role} CREATEDB; and take it back afterwards",
            role=role,
        ) from cause
    _run(admin, "REVOKE ALL ON DATABASE {} FROM PUBLIC", fresh)


def _drop(admin: Connection, name: str) -> None:
    _run(admin, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _exists(admin: Connection, name: str) -> bool:
    return admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is not None


def _run(admin: Connection, statement: str, *names: str) -> None:
    admin.execute(sql.SQL(statement).format(*(sql.Identifier(name) for name in names)))


def _restorer(server_major: int) -> Binaries:
    """Client programs that this server understands: newer ones set parameters which an older server refuses."""
    programs = client_programs(server_major)
    if programs.major >= _TIMEOUT_SINCE > server_major:
        raise Unavailable(
            f"pg_restore {programs.version} cannot restore into a PostgreSQL {server_major} server",
            next=f"install the client programs of PostgreSQL {server_major}",
            server=server_major,
        )
    return programs


def _major(conn: Connection) -> int:
    return conn.info.server_version // 10000


@contextlib.contextmanager
def _connect(dsn: str) -> Iterator[Connection]:
    try:
        conn = psycopg.connect(dsn, autocommit=True, connect_timeout=10)
    except psycopg.OperationalError as cause:
        raise Unavailable(f"the database cannot be reached: {str(cause).strip()}") from cause
    with conn:
        yield conn
