"""How a program that the fabric starts is kept from the owner's things: his home, the fabric's folder with its
credentials, the database's socket.

    root            another account, and masks in a mount namespace where the machine allows one
    a plain user    user, mount and process namespaces
    neither         "not isolated": only cards of a trusted agent start

Everything that a run starts ends with it: inside a process namespace by the kernel, else by its process group and by a
mark in its environment.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import BadInput, Refused, Unavailable
from taskfabric.domain.principal import Trust
from taskfabric.home import fabric_home

log = logging.getLogger(__name__)

ACCOUNT: Final = "taskfabric-run"
MARK: Final = "FABRIC_RUN_MARK"  # in the environment of everything a run starts
_LAUNCHER: Final = Path(__file__).with_name("jail.py")
_START: Final = 20.0  # seconds that a jail may take to be built on a busy machine
_LAST: Final = 10.0  # seconds after which a process that does not end is only reported
_GRACE: Final = 3.0  # seconds between asking a run to end and ending it
# Other people's sockets and files live here; the database's socket too when its own path is too long.
_SHARED: Final = (
    "/tmp", "/var/tmp", "/dev/shm", "/home", "/root", "/run/user", "/run/postgresql", "/run/docker.sock",
    "/run/containerd", "/run/podman", "/var/lib/taskfabric",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What this machine allows. ``word`` is what the roster says."""

    word: str  # account, account and namespaces, namespaces, not isolated
    uid: int | None = None  # the other account
    gid: int | None = None
    namespaces: bool = False
    reason: str = ""  # why not better

    @property
    def works(self) -> bool:
        return self.uid is not None or self.namespaces

    def require(self, trust: Trust, name: str) -> None:
        """Raises Refused for an agent below trusted where nothing keeps it from the owner's things."""
        if not self.works and trust < Trust.TRUSTED:
            raise Refused(
                f"'{name}' is not started: its programs would not be isolated from you on this machine ({self.reason})",
                next="allow unprivileged user namespaces, run the worker as root, or raise the card's trust to trusted",
                rule="isolation",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A file or folder that a run sees although its surroundings are masked."""

    path: Path
    write: bool = False

    @classmethod
    def parse(cls, text: str, home: Path) -> Grant:
        """``~/notes`` to read, ``~/.claude+`` to write too. Raises BadInput for a relative path."""
        bare = text.removesuffix("+")
        path = home / bare[2:] if bare.startswith("~/") else Path(bare)
        if not path.is_absolute():
            raise BadInput(f"'{text}' is no path from the root or from ~/", field="paths")
        return cls(path=path, write=text.endswith("+"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run's confinement: what it sees, as what it runs."""

    isolation: Isolation
    workspace: Path
    grants: tuple[Grant, ...] = ()
    masks: tuple[Path, ...] = ()

    def start(self, argv: Sequence[str], env: Mapping[str, str], **pipes: Any) -> Run:
        """The running program, in a session of its own. Raises Unavailable when it cannot be started, with why."""
        mark = os.urandom(12).hex()
        plan = {
            "namespaces": self.isolation.namespaces,
            "uid": self.isolation.uid,
            "gid": self.isolation.gid,
            "masks": [str(path) for path in self._masks()],
            "grants": [(str(grant.path), grant.write) for grant in self._grants()],
            "workspace": str(self.workspace),
            "argv": list(argv),
            "env": dict(env) | {MARK: mark},
            "parent": os.getpid(),
        }
        plan_out, plan_in = os.pipe()
        why_out, why_in = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(_LAUNCHER), str(plan_out), str(why_in)],
                pass_fds=(plan_out, why_in),
                env={"PATH": os.defpath},
                cwd="/",
                start_new_session=True,
                **pipes,
            )
        except OSError as error:
            os.close(plan_in)
            os.close(why_out)
            raise Unavailable(f"no process can be started: {error.strerror}") from error
        finally:
            os.close(plan_out)
            os.close(why_in)
        run = Run(process=process, mark=mark)
        with os.fdopen(plan_in, "w") as plan_file, contextlib.suppress(BrokenPipeError):
            json.dump(plan, plan_file)
        with os.fdopen(why_out) as why_file:
            why = why_file.read()  # ends when the program has taken the launcher's place
        if why:
            run.end(grace=0)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            raise Unavailable(f"the program cannot be started: {why}", next="look at the card's argv, env and paths")
        return run

    def own_workspace(self) -> None:
        """Give the workspace, as it stands, to the account of the run."""
        if self.isolation.uid is None or self.isolation.gid is None:
            return
        for folder, names, files in os.walk(self.workspace):
            for path in (folder, *(str(Path(folder, name)) for name in (*names, *files))):
                os.chown(path, self.isolation.uid, self.isolation.gid, follow_symlinks=False)

    def _masks(self) -> list[Path]:
        """Outermost first; what lies below another mask is hidden by it."""
        if not self.isolation.namespaces:
            return []
        found: list[Path] = []
        for path in sorted({mask.resolve() for mask in self.masks if mask.exists()}, key=lambda p: len(p.parts)):
            if path != Path("/") and not any(path.is_relative_to(above) for above in found):
                found.append(path)
        return found

    def _grants(self) -> list[Grant]:
        """Outermost first, the workspace among them; missing ones are left out, as in an empty home."""
        if not self.isolation.namespaces:
            return []
        wanted = [*self.grants, Grant(path=self.workspace, write=True)]
        return sorted((g for g in wanted if g.path.exists()), key=lambda grant: len(grant.path.parts))


@dataclass(slots=True)
class Run:
    """A started program and all that it starts."""

    process: subprocess.Popen[bytes]
    mark: str
    _over: bool = field(default=False, init=False)

    def end(self, *, grace: float = _GRACE) -> int:
        """Its exit code. Afterwards nothing that it started runs: asked first, killed after ``grace`` seconds."""
        if self._over:
            return self.process.returncode
        if self.process.poll() is None and grace > 0:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        # Also after it ended by itself: what it left behind is in its group.
        self._signal(signal.SIGKILL)
        code = self.process.wait()
        deadline = time.monotonic() + _LAST
        while (left := marked(self.mark)) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        if left:  # stuck inside the kernel, where nobody reaches it
            log.error("processes of a run do not end pids=%s", left)
        self._over = True
        return code

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def marked(mark: str) -> list[int]:
    """The processes that carry the mark and still run, as far as we may look."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        if entry.name.isdigit():
            try:
                if needle in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # it ended, or is not ours
                continue
    return found


def masks(env: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """What a run must not see: the owner's home, the fabric's folder, the database's places, others' sockets."""
    found = [*(Path(path) for path in _SHARED), owner_home(env), fabric_home(env, cwd)]
    found += [Path(env[name]) for name in ("FABRIC_HOME", "FABRIC_PG_DATA", "XDG_RUNTIME_DIR") if env.get(name)]
    found += [folder / name for folder in (cwd, *cwd.parents) for name in (".fabric", ".env")]
    found += Path("/run").glob("fabric-*")
    if os.environ.get("SSH_AUTH_SOCK"):
        found.append(Path(os.environ["SSH_AUTH_SOCK"]))
    return tuple(dict.fromkeys(found))


def owner_home(env: Mapping[str, str]) -> Path:
    """The home of who runs the worker."""
    if env.get("HOME"):
        return Path(env["HOME"])
    with contextlib.suppress(KeyError):
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return Path("/nonexistent")


@functools.cache
def find() -> Isolation:
    """What this machine allows, tried out once for each process."""
    if not sys.platform.startswith("linux"):
        return Isolation(word="not isolated", reason="only Linux is known to isolate")
    if os.geteuid() == 0:
        try:
            account = _account(os.environ.get("FABRIC_RUN_ACCOUNT") or ACCOUNT)
        except Unavailable as error:
            return Isolation(word="not isolated", reason=error.message)
        both = Isolation(word="account and namespaces", uid=account.pw_uid, gid=account.pw_gid, namespaces=True)
        if not (why := _tried(both)):
            return both
        alone = Isolation(word="account", uid=account.pw_uid, gid=account.pw_gid, reason=why)
        return alone if not (why := _tried(alone)) else Isolation(word="not isolated", reason=why)
    spaces = Isolation(word="namespaces", namespaces=True)
    if not (why := _tried(spaces)):
        return spaces
    return Isolation(word="not isolated", reason=why)


def _tried(isolation: Isolation) -> str:
    """Why it does not work here; "" when it does."""
    cell = Cell(isolation=isolation, workspace=Path("/"), masks=(Path("/tmp"),))
    try:
        run = cell.start(["/bin/true"], {}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    except Unavailable as error:
        return error.message
    try:
        code = run.process.wait(_START)
    except subprocess.TimeoutExpired:
        return "a trial did not come back"
    finally:
        run.end(grace=0)
    return "" if code == 0 else f"a trial ended with {code}"


def _account(name: str) -> pwd.struct_passwd:
    """The account, made on first use. Raises Unavailable when it is root or cannot be made."""
    for _ in range(2):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            if found.pw_uid == 0:
                raise Unavailable(f"the account '{name}' is root")
            return found
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if useradd is None or name != ACCOUNT:
            break
        command = [useradd, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        subprocess.run([*command, "--shell", "/usr/sbin/nologin", name], capture_output=True, check=False)
    raise Unavailable(
        f"there is no account '{name}' for programs, and none can be made",
        next="make one without a login and name it with FABRIC_RUN_ACCOUNT",
    )
