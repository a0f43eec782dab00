"""Whose throw-away server it is, and that it ends with its owner, however that one ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from taskfabric.db.embedded import SYSTEM_PLACE, Cluster

# Commits stay synchronous, so that tests see the product's order of things; only the disk itself is not waited for.
THROW_AWAY: Final[Mapping[str, str]] = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "log_min_duration_statement": "-1",
}
_ENOUGH_MEMORY: Final = 2 << 30  # bytes
_PREFIX: Final = "fabric-test-"


def cluster_in(folder: Path, *, tcp_port: int | None = None, options: Mapping[str, str] | None = None) -> Cluster:
    """A throw-away server that lives in a test folder with everything that belongs to it."""
    return Cluster(
        folder / "home",
        place=folder / "pg",
        tcp_port=tcp_port,
        options={**THROW_AWAY, **(options or {})},
        durable=False,
    )


def destroy(folder: Path) -> None:
    """End the server of a test folder and remove both."""
    cluster_in(folder).destroy()
    shutil.rmtree(folder, ignore_errors=True)


class Ownership:
    """That this process owns a test folder. As long as it lives nobody else removes the server there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = (folder / "owner").open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.write(f"{os.getpid()}\n")  # from now on it counts as owned: a sweep skips an empty mark
        self._file.flush()

    def end(self) -> None:
        """Remove the server and the folder, now."""
        destroy(self.folder)
        self._file.close()


def new_folder() -> Path:
    """A fresh folder for a TestServer, where also the unprivileged account of root's servers can go."""
    base = _bases()[0]
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    folder.chmod(0o711)
    return folder


def _bases() -> list[Path]:
    """Where test folders may be, the best place first."""
    usual = SYSTEM_PLACE if os.geteuid() == 0 else Path(tempfile.gettempdir())
    # On ext4, files made soon after others were removed cost a millisecond each, and a database has five hundred.
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= _ENOUGH_MEMORY
    return [memory, usual] if roomy else [usual]


def remove_leftovers() -> int:
    """End the servers of owners that were killed, so far as nobody has; how many there were."""
    removed = 0
    for mark in (mark for base in _bases() for mark in base.glob(f"{_PREFIX}*/owner")):
        with contextlib.suppress(OSError), mark.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.tell() == 0:
                continue
            destroy(mark.parent)
            removed += 1
    return removed


def reap(folder: Path) -> None:
    """Wait until the owner of this folder is gone, however it went, and remove what it left."""
    with contextlib.suppress(FileNotFoundError), (folder / "owner").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if folder.is_dir():
            destroy(folder)


def leave_reaper(folder: Path) -> None:
    """Start a process that removes the server of this folder when its owner is gone."""
    if not (folder / "owner").exists():  # nobody to outlive: the caller ends it himself
        return
    # Spawned by number and not as an object: it outlives this process, and nobody waits for it.
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", __package__, str(folder)],
        {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)],
        setsid=True,
    )


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock file; one process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
