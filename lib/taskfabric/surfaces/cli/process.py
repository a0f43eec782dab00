"""What the operating system knows of a process: whether it runs, and since when, so that a reused number is noticed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def started(pid: int) -> str | None:
    """When the process started, in a form that only one process of this machine has; None when it does not run.

    A process that ended and whose parent has not asked yet (a zombie) does not run.
    """
    if _PROC.is_dir():
        try:
            stat = (_PROC / str(pid) / "stat").read_text()
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return None
        values = stat.rpartition(")")[2].split()
        return None if values[0] in "ZX" else f"{boot[:8]}-{values[19]}"
    asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def is_running(pid: object, since: object) -> bool:
    """Whether this very process runs. Anything that is not a pid and a start is no."""
    return isinstance(pid, int) and isinstance(since, str) and pid > 0 and started(pid) == since


def end(processes: Iterable[tuple[int, str]], *, patience: float) -> None:
    """End processes and their groups: asked first, killed after ``patience`` seconds. Afterwards none of them runs."""
    left = [(pid, since) for pid, since in processes if is_running(pid, since)]
    for pid, _ in left:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [(pid, since) for pid, since in left if is_running(pid, since)]
    for pid, _ in left:
        _signal(pid, signal.SIGKILL)
    while any(is_running(pid, since) for pid, since in left):
        time.sleep(0.02)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:  # the leader of a group of its own: what it started goes with it
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
