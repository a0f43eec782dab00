"""The operating system's account that the embedded server runs as.

PostgreSQL refuses to run as root, rightly. A plain user runs it as himself; root hands it to an account of its own that
can neither log in nor enter anybody's home.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from taskfabric.domain.errors import BadInput, Unavailable

SYSTEM_ACCOUNT: Final = "taskfabric"
_QUIET: Final = ("--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent")
_NOLOGIN: Final = ("/usr/sbin/nologin", "/sbin/nologin", "/bin/false")


class _As(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who owns the cluster's files and runs its processes."""

    name: str
    uid: int
    gid: int

    @property
    def is_me(self) -> bool:
        """Whether no change of account is needed."""
        return self.uid == os.geteuid()

    def own(self, path: Path) -> None:
        """Give a file or folder to this account (when it is not ours already)."""
        if not self.is_me:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def folder(self, path: Path) -> Path:
        """Make a 0700 folder of this account, or check the one that is there. Raises Unavailable if it is not ours."""
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            stat = path.lstat()
            if stat.st_uid not in {self.uid, os.geteuid()} or not path.is_dir() or path.is_symlink():
                raise Unavailable(
                    f"{path} belongs to somebody else", next=f"look who made {path}, and remove it", path=str(path)
                ) from None
        path.chmod(0o700)
        self.own(path)
        return path

    def run(self, command: Sequence[str | Path], *, timeout: float) -> tuple[int, str]:
        """Run a program as this account, away from our terminal; its exit code and everything it said."""
        become = _As() if self.is_me else _As(user=self.uid, group=self.gid, extra_groups=[])
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=timeout,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "PGTZ": "UTC"},
                start_new_session=True,  # a Ctrl-C at our terminal is not meant for the database
                umask=0o077,
                **become,
            )
        except OSError as cause:  # it may not even look at the program
            return 126, str(cause)
        except subprocess.TimeoutExpired:
            return 124, f"{Path(command[0]).name} did not come back within {timeout:.0f} s"
        return done.returncode, done.stdout


def choose(env: Mapping[str, str]) -> Account:
    """The account for the embedded server: ourselves, or as root ``FABRIC_PG_ACCOUNT``, else a system account.

    The system account is made on first use. Raises BadInput for an account that does not exist or is root,
    Unavailable when none can be made.
    """
    if os.geteuid() != 0:
        return _myself()
    if named := env.get("FABRIC_PG_ACCOUNT"):
        return _named(named)
    try:
        return _named(SYSTEM_ACCOUNT)
    except BadInput:
        _make(SYSTEM_ACCOUNT)
        return _named(SYSTEM_ACCOUNT)


def _myself() -> Account:
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a number without a name
        name = str(uid)
    return Account(name=name, uid=uid, gid=os.getegid())


def _named(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise BadInput(
            f"there is no account '{name}' on this machine",
            next="set FABRIC_PG_ACCOUNT to an existing unprivileged account",
            account=name,
        ) from None
    if entry.pw_uid == 0:
        raise BadInput(
            f"the account '{name}' is root, and PostgreSQL refuses to run as root",
            next="set FABRIC_PG_ACCOUNT to an unprivileged account",
            account=name,
        )
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _make(name: str) -> None:
    """Make a system account without a home or a login; somebody else may be making it at the same moment."""
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        raise Unavailable(
            f"running as root, the database needs an unprivileged account, and there is no 'useradd' to make '{name}'",
            next="make an account without a login and name it with FABRIC_PG_ACCOUNT, or run as a plain user",
            account=name,
        )
    shell = next((s for s in _NOLOGIN if Path(s).exists()), _NOLOGIN[-1])
    said = ""
    for _ in range(5):
        done = subprocess.run(
            [useradd, *_QUIET, "--comment", "taskfabric database", "--shell", shell, name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode in {0, 9}:  # 9: it exists by now
            return
        said = done.stderr.strip()
        time.sleep(0.2)  # the password file is locked by another useradd
    raise Unavailable(
        f"the account '{name}' for the database could not be made: {said}",
        next="make an account without a login and name it with FABRIC_PG_ACCOUNT",
        account=name,
    )
