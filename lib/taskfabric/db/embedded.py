"""The embedded PostgreSQL: one server for one data directory, started by whoever needs it first.

    cluster = Cluster(home)
    dsn = cluster.start()      # makes, starts or joins it
    cluster.stop()

The server belongs to its data directory and outlives every client; only ``stop`` ends it. Where things are:

    <place>/            $FABRIC_HOME/pg, as root /var/lib/taskfabric/<hash of home>; FABRIC_PG_DATA names another
        data/           PostgreSQL's own
        log/            its log, one file a weekday
        run/            the Unix socket, 0700 (in /tmp or /run when the path is too long for a socket)
        superuser       the password of PostgreSQL's superuser, 0600
        home            whose it is: the path of the one home that starts and stops it
        stopped         there while it is stopped on purpose; a server that ended without it was killed
        postgresql.conf, pg_hba.conf, local.conf (yours)
    $FABRIC_HOME/credentials.d/database     the password of the role `fabric`, which owns the database and nothing else
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, assert_never

import psycopg
from psycopg.conninfo import make_conninfo

from taskfabric.db import account as accounts
from taskfabric.db import backup as backups
from taskfabric.db import binaries as programs
from taskfabric.db import initdb
from taskfabric.db.furnish import DATABASE, ROLE, SUPERUSER, furnish
from taskfabric.db.postmaster import Postmaster, clear_stale, dismiss, living, orphans
from taskfabric.db.server_config import HBA, LOCAL, server_config
from taskfabric.db.startup_error import explain
from taskfabric.domain.errors import BadInput, Unavailable

StopMode = Literal["smart", "fast", "immediate"]

SYSTEM_PLACE: Final = Path("/var/lib/taskfabric")
_PORT: Final = 5432
_PATIENCE: Final = 60.0  # seconds for a start, a recovery or a stop
_SOCKET_PATH_LIMIT: Final = 100  # bytes; Linux allows 107, macOS 103
_LONGEST_SOCKET: Final = "/.s.PGSQL.65535"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """What is known about the embedded server without asking it."""

    running: bool
    ready: bool  # it says that it accepts connections
    pid: int | None
    place: Path
    socket_folder: Path
    log: Path
    data_version: str | None  # major version of the data directory; None = not made yet
    stopped: bool  # by somebody who wanted that


class Cluster:
    """The embedded server of one fabric home.

    ``place`` overrules where it lives, ``tcp_port`` lets it listen on 127.0.0.1 as well, ``options`` are settings of
    PostgreSQL, ``durable=False`` makes its creation skip the disk syncs (for data that nobody will miss).
    """

    def __init__(
        self,
        home: Path,
        *,
        place: Path | None = None,
        tcp_port: int | None = None,
        options: Mapping[str, str] | None = None,
        durable: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._env = os.environ if env is None else env
        self.home = home.absolute()
        self.place = (place or self._usual_place()).absolute()
        self.data = self.place / "data"
        self.log = self.place / "log"
        self._password_file = self.home / "credentials.d" / "database"
        self._superuser_file = self.place / "superuser"
        self._owner_file = self.place / "home"
        self._stopped_file = self.place / "stopped"
        self._tcp_port = tcp_port
        self._options = dict(options or {})
        self._durable = durable

    # ------------------------------------------------------------- life cycle

    def start(self) -> str:
        """Make, start or join the server; the connection string of the role `fabric`.

        Safe to call from several processes at once: one starts it, all get the string. Raises Unavailable with the
        reason and the last lines of the server's log, BadInput when the place belongs to another home.
        """
        self.refuse_foreign()
        if (dsn := self._joined()) is not None:
            return dsn
        account = accounts.choose(self._env)
        self._make_place(account)
        try:
            with self._locked():
                if (dsn := self._joined()) is not None:
                    return dsn
                self._own()
                self._stopped_file.unlink(missing_ok=True)
                if living(self.data) is None:
                    self._launch(account)
                self._await_ready()
                furnish(self.superuser_dsn(), password=self._password())
        except OSError as cause:  # a full or read-only disk, a folder that is not ours
            raise explain(str(cause), log_folder=None, place=self.place) from cause
        return self.dsn()

    def stop(self, mode: StopMode = "fast") -> bool:
        """End the server and wait until it is gone; whether there was one. Another home's server is not touched.

        "fast" ends sessions and shuts down cleanly, "smart" lets sessions finish, "immediate" is a crash on purpose.
        """
        if not self.place.is_dir() or self._other_owner() is not None:
            return False
        with self._locked():
            server = living(self.data)
            if initdb.data_version(self.data) is not None:
                with contextlib.suppress(OSError):  # also a full disk lets it stop
                    self._stopped_file.touch()
            if server is None:
                self._remove_socket_folder(self.socket_folder())
                return False
            os.kill(server.pid, _signal_for(mode))
            deadline = time.monotonic() + _PATIENCE
            while living(self.data) is not None:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"PostgreSQL (process {server.pid}) did not stop within {_PATIENCE:.0f} s",
                        next="`fabric db stop` again; sessions that never end need the mode 'immediate'",
                        pid=server.pid,
                    )
                time.sleep(0.01)
            self._remove_socket_folder(server.socket_folder)
            return True

    def refuse_foreign(self) -> None:
        """Raise BadInput if the place belongs to another home: two fabrics in one database lock each other out."""
        owner = self._other_owner()
        if owner is not None:
            raise BadInput(
                f"the database in {self.place} belongs to the fabric of {owner}, not to that of {self.home}",
                next="name another folder with FABRIC_PG_DATA, or leave it unset; "
                f"FABRIC_HOME={shlex.quote(str(owner))} means that fabric",
                place=str(self.place),
                owner=str(owner),
            )

    def restart(self, mode: StopMode = "fast") -> str:
        """Stop it if it runs, start it, and return the connection string."""
        self.stop(mode)
        return self.start()

    def destroy(self) -> None:
        """End the server and remove everything that belongs to it. There is no way back."""
        self.refuse_foreign()
        self.stop("immediate")
        shutil.rmtree(self.socket_folder(), ignore_errors=True)
        shutil.rmtree(self.place, ignore_errors=True)
        self._password_file.unlink(missing_ok=True)

    def status(self) -> ClusterStatus:
        """What the files say; nothing is started and nobody is asked."""
        server = living(self.data)
        return ClusterStatus(
            running=server is not None,
            ready=server is not None and server.ready,
            pid=server.pid if server else None,
            place=self.place,
            socket_folder=server.socket_folder if server else self.socket_folder(),
            log=self.log,
            data_version=initdb.data_version(self.data),
            stopped=server is None and self._stopped_file.exists(),
        )

    # ------------------------------------------------------------- keeping it

    def backup(self, file: Path) -> int:
        """Save the database to a file (0600, whole or not at all), starting the server if needed; its size in bytes."""
        return backups.backup(self.start(), file)

    def restore(self, file: Path, *, force: bool = False) -> backups.Restored:
        """Put a saved database in the place of the present one and lift every epoch (G2); see ``db.backup``."""
        return backups.restore(self.start(), file, admin_dsn=self.superuser_dsn(), force=force)

    # ------------------------------------------------------------ where it is

    def dsn(self, *, tcp: bool = False, database: str = DATABASE) -> str:
        """The connection string of the role `fabric`. Raises Unavailable before the first start."""
        return self._dsn(ROLE, _read_secret(self._password_file), database, tcp=tcp)

    def superuser_dsn(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """The connection string of PostgreSQL's superuser, for making databases and roles."""
        return self._dsn(SUPERUSER, _read_secret(self._superuser_file), database, tcp=tcp)

    def socket_folder(self) -> Path:
        """Where a server that starts now puts its socket."""
        inside = self.place / "run"
        if len(os.fsencode(inside)) + len(_LONGEST_SOCKET) <= _SOCKET_PATH_LIMIT:
            return inside
        base = Path("/run") if os.geteuid() == 0 and Path("/run").is_dir() else Path("/tmp")
        return base / f"fabric-{_hash(self.place)}"

    def _usual_place(self) -> Path:
        if named := self._env.get("FABRIC_PG_DATA"):
            return Path(named)
        # The unprivileged account cannot enter root's home, so root's cluster lives elsewhere.
        return SYSTEM_PLACE / _hash(self.home) if os.geteuid() == 0 else self.home / "pg"

    def _dsn(self, user: str, password: str, database: str, *, tcp: bool) -> str:
        server = living(self.data)
        folder, port = (
            (server.socket_folder, server.port) if server else (self.socket_folder(), self._tcp_port or _PORT)
        )
        host = "127.0.0.1" if tcp else str(folder)
        return make_conninfo(user=user, password=password, dbname=database, host=host, port=port)

    # ---------------------------------------------------------------- starting

    def _joined(self) -> str | None:
        """The connection string if a server runs and lets the role `fabric` in, else None."""
        server = living(self.data)
        if server is None or not server.ready or not self._password_file.exists():
            return None
        dsn = self.dsn()
        try:
            psycopg.connect(dsn, connect_timeout=3).close()
        except psycopg.OperationalError:  # not furnished yet, full, or hanging: the locked path finds out which
            return None
        return dsn

    def _other_owner(self) -> Path | None:
        """The home that the place belongs to, if it is not ours. One that lies in our home came along with it, and one
        whose home is gone is free for the next."""
        try:
            owner = Path(os.fsdecode(self._owner_file.read_bytes()))
        except OSError:
            return None
        ours = self.home.resolve()
        if owner == ours or self.place.resolve().is_relative_to(ours) or _is_gone(owner):
            return None
        return owner

    def _own(self) -> None:
        """The place says that it is ours. Called under its lock. Raises BadInput if somebody else was faster."""
        self.refuse_foreign()
        ours = os.fsencode(self.home.resolve())
        with contextlib.suppress(FileNotFoundError):
            if self._owner_file.read_bytes() == ours:
                return
        draft = self._owner_file.with_name(f".home.{os.getpid()}")
        draft.write_bytes(ours)
        draft.replace(self._owner_file)

    def _remove_socket_folder(self, folder: Path) -> None:
        """Away with a socket folder outside the place; the one inside does not litter anybody's machine."""
        if folder.is_relative_to(self.place) or not folder.name.startswith("fabric-"):
            return
        clear_stale(self.data, folder)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def _make_place(self, account: accounts.Account) -> None:
        try:
            self.place.mkdir(parents=True, exist_ok=True)
            if not account.is_me and self.place.is_relative_to(SYSTEM_PLACE):
                SYSTEM_PLACE.chmod(0o711)  # whatever our umask is, the server's account must pass
            # Root keeps the folder itself, so that the account cannot swap the files that root reads there.
            self.place.chmod(0o700 if account.is_me else 0o711)
            account.folder(self.log)
            self.home.mkdir(parents=True, exist_ok=True)
            self._password_file.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as cause:
            raise Unavailable(
                f"the database cannot live in {self.place}: {cause}",
                next="make that folder writable, or name another one with FABRIC_HOME or FABRIC_PG_DATA",
                place=str(self.place),
            ) from cause

    def _launch(self, account: accounts.Account) -> None:
        found = programs.find(self._env)
        initdb.refuse_other_version(self.data, found)
        if not account.is_me:
            found = found.copied_to(self._shelf())
        _secret(self._superuser_file, account)
        initdb.make_data(
            self.data,
            account=account,
            binaries=found,
            password_file=self._superuser_file,
            durable=self._durable,
        )
        folder = account.folder(self.socket_folder())
        self._await_orphans()
        clear_stale(self.data, folder)
        config = self._write_config(folder)
        log = self.log / "startup.log"
        log.unlink(missing_ok=True)
        how = ["-w", "-t", f"{_PATIENCE:.0f}", "-o", f"-c config_file={shlex.quote(str(config))}"]
        code, said = account.run(
            [found.program("pg_ctl"), "start", "-D", self.data, "-l", log, *how], timeout=_PATIENCE + 30
        )
        if code != 0 and living(self.data) is None:
            raise explain(said, log_folder=self.log, place=self.place)

    def _write_config(self, socket_folder: Path) -> Path:
        hba, config = self.place / "pg_hba.conf", self.place / "postgresql.conf"
        local = self.place / "local.conf"
        if not local.exists():
            local.write_text(LOCAL)
        hba.write_text(HBA)
        config.write_text(
            server_config(
                data=self.data,
                hba=hba,
                log=self.log,
                socket_folder=socket_folder,
                port=self._tcp_port or _PORT,
                tcp=self._tcp_port is not None,
                options=self._options,
            )
        )
        for path in (hba, local, config):
            path.chmod(0o644)
        return config

    def _await_orphans(self) -> None:
        """After a kill of the server its sessions end by themselves within moments; those that do not are ended."""
        deadline = time.monotonic() + 5
        while left := orphans(self.data):
            if time.monotonic() > deadline:
                dismiss(left, self.data)
                deadline = time.monotonic() + 5
            time.sleep(0.02)

    def _await_ready(self) -> Postmaster:
        """Wait until the running server accepts connections; after a crash it replays its log first."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            server = living(self.data)
            if server is not None and server.ready:
                return server
            if server is None or time.monotonic() > deadline:
                reason = "PostgreSQL ended while it started" if server is None else "PostgreSQL is still starting"
                raise explain(reason, log_folder=self.log, place=self.place)
            time.sleep(0.02)

    def _shelf(self) -> Path:
        """Where copied programs go: shared by the machine's clusters, unless the owner put this one elsewhere."""
        return (self.place if self._env.get("FABRIC_PG_DATA") else SYSTEM_PLACE) / "programs"

    def _password(self) -> str:
        return _secret(self._password_file, None)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One starter or stopper at a time; the lock goes with the process that holds it."""
        with (self.place / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _signal_for(mode: StopMode) -> signal.Signals:
    match mode:
        case "smart":
            return signal.SIGTERM
        case "fast":
            return signal.SIGINT
        case "immediate":
            return signal.SIGQUIT
        case _:
            assert_never(mode)


def _is_gone(folder: Path) -> bool:
    """Whether it certainly does not exist; one that we may not see does."""
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _hash(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def _secret(path: Path, owner: accounts.Account | None) -> str:
    """The secret in this file, drawn and written (0600) if there is none yet."""
    if path.exists():
        return _read_secret(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(24))
    if owner is not None:
        owner.own(draft)
    draft.rename(path)
    return _read_secret(path)


def _read_secret(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise Unavailable(
            f"the database's password file {path} is missing",
            next="`fabric db start` makes the database and its password",
            path=str(path),
        ) from None
