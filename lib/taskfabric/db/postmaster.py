"""What the operating system knows about the server process of one data directory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """The server process as its own lock file describes it."""

    pid: int
    port: int
    socket_folder: Path  # where its Unix socket lies; may differ from where we would put it today
    ready: bool  # it says that it accepts connections


def living(data: Path) -> Postmaster | None:
    """The server that runs on this data directory; None when none does, whatever stale files say."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid, port, socket_folder = int(lines[0]), int(lines[3]), Path(lines[4])
    except (OSError, ValueError, IndexError):  # absent, or half-written by a server that just starts
        return None
    if not _is_server(pid, data):
        return None
    ready = len(lines) > 7 and lines[7].strip() == "ready"
    return Postmaster(pid=pid, port=port, socket_folder=socket_folder, ready=ready)


def clear_stale(data: Path, socket_folder: Path) -> None:
    """Remove lock files and sockets of a dead server.

    PostgreSQL does this itself unless the old process number now belongs to another process of the same account, which
    happens after a reboot. Call it only while nobody else can start the server. A server whose number cannot be read
    counts as dead only if no process works in the data directory.
    """
    if living(data) is not None or orphans(data):
        return
    (data / "postmaster.pid").unlink(missing_ok=True)
    for leftover in socket_folder.glob(".s.PGSQL.*"):
        leftover.unlink(missing_ok=True)


def orphans(data: Path) -> list[int]:
    """Server processes that still work in the data directory, by process number (Linux; elsewhere nothing is known)."""
    found: list[int] = []
    if not _PROC.is_dir():
        return found
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and _works_in(int(entry.name), data):
            found.append(int(entry.name))
    return found


def dismiss(pids: list[int], data: Path) -> None:
    """End leftover processes of a dead server, so that the next one may start. They hold nothing of value."""
    for pid in pids:
        if _works_in(pid, data):  # asked again: numbers are reused
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _is_server(pid: int, data: Path) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if _PROC.is_dir():
        return _works_in(pid, data)
    said = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return "postgres" in said


def _works_in(pid: int, data: Path) -> bool:
    """Whether this is a process called postgres in the data directory, where all of a server's processes work."""
    process = _PROC / str(pid)
    try:
        status = (process / "stat").read_text()
        name, _, rest = status.partition("(")[2].rpartition(")")
        if not name.startswith("postgres") or rest.split()[0] == "Z":
            return False
        return (process / "cwd").readlink() == data.resolve()
    except PermissionError:
        # Root in a container may lack the right to look there; the arguments are open to everybody, and the server's
        # first process, the one that counts, keeps them.
        return _names(process, data)
    except OSError:
        return False


def _names(process: Path, data: Path) -> bool:
    try:
        return os.fsencode(data) in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
