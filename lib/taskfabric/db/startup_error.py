"""Turning what PostgreSQL says about a failed start into a sentence with a next step."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import Unavailable

_LAST_WORDS: Final = 2.0  # seconds
_LAST_LINES: Final = 12
# What PostgreSQL says (lower case) -> what it means, what to do.
_KNOWN: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "no space left on device",
        "the disk is full",
        "free some space on the file system of {place}, then start again",
    ),
    (
        "read-only file system",
        "its folder is on a read-only file system",
        "make {place} writable, or name another place with FABRIC_PG_DATA",
    ),
    (
        "address already in use",
        "its port on 127.0.0.1 is taken",
        "end the program that listens there, or choose another port",
    ),
    (
        "permission denied",
        "its account may not use its files",
        "every folder above {place} must let that account pass (chmod o+x), or name another place with FABRIC_PG_DATA",
    ),
    (
        "could not create shared memory segment",
        "there is not enough shared memory",
        "give the container more (docker: --shm-size=256m), or lower shared_buffers in {place}/local.conf",
    ),
    (
        "cannot allocate memory",
        "there is not enough memory",
        "free some memory, or lower shared_buffers in {place}/local.conf",
    ),
    (
        "database files are incompatible",
        "the data directory was made by another PostgreSQL",
        "use the PostgreSQL that made it (FABRIC_PG_BIN names its folder)",
    ),
)


def explain(said: str, *, log_folder: Path | None, place: Path) -> Unavailable:
    """The error for a start that failed: the known cause if there is one, and the last lines of the log in any case."""
    own = [line for line in said.splitlines() if line.strip()]
    # The server's log collector may still be writing when the server has already given up.
    deadline = time.monotonic() + _LAST_WORDS
    while True:
        lines = (own + (_tail(log_folder) if log_folder is not None else []))[-_LAST_LINES:]
        text = "\n".join(lines).lower()
        known = next(((cause, step) for sign, cause, step in _KNOWN if sign in text), None)
        if known or log_folder is None or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    cause, step = known or ("see its last lines", "read the log in {place}/log; `fabric doctor` checks the rest")
    quoted = "\n".join(f"  | {line}" for line in lines)
    return Unavailable(
        f"the embedded PostgreSQL could not start: {cause}\n{quoted}",
        next=step.format(place=place),
        place=str(place),
        log=lines,
    )


def _tail(folder: Path) -> list[str]:
    """The last lines of the start log and of the newest server log."""
    logs = sorted(folder.glob("postgresql-*.log"), key=lambda path: path.lstat().st_mtime)[-1:]
    lines: list[str] = []
    for path in (*logs, folder / "startup.log"):
        try:
            # The folder belongs to the server's account: a link there must not make root read another file aloud.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
                lines += file.read()[-8000:].splitlines()[-_LAST_LINES:]
        except OSError:
            continue
    return [line for line in lines if line.strip()]
