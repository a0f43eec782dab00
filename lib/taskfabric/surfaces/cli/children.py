"""The processes that a supervisor keeps alive: started on a leash, restarted with back-off, their logs rotated.

The leash is a pipe: each child reads it as its standard input, only the supervisor can write to it, and a child ends
itself when it closes. So however a supervisor ends, its children do too.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from taskfabric.surfaces.cli import process

log = logging.getLogger(__name__)

_FIRST_REST: Final = 0.5  # seconds before the first restart; doubled each time
_LONGEST_REST: Final = 30.0
_STEADY: Final = 60.0  # seconds after which a child counts as well again
_PATIENCE: Final = 10.0  # seconds that a child has to end by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """A process to keep alive: a module of ours with its arguments, and what it finds in its environment."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class Child:
    """One kept process. ``log_file`` gets all that it says; ``leash`` is the reading end of the supervisor's pipe."""

    def __init__(self, spec: ChildSpec, log_file: Path, leash: int) -> None:
        self.spec = spec
        self.log_file = log_file
        self.restarts = 0
        self.since = 0.0
        self._leash = leash
        self._process: subprocess.Popen[bytes] | None = None
        self._ticks: str | None = None
        self._next = 0.0  # when it may be started, monotonic
        self._rest = _FIRST_REST

    @property
    def pid(self) -> int | None:
        """The number of the running process."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it, in a process group of its own."""
        with os.fdopen(os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self.spec.module, *self.spec.arguments],
                env=dict(self.spec.env),
                stdin=self._leash,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._ticks = process.started(self._process.pid)
        self.since = time.time()
        log.info("child started name=%s pid=%d", self.spec.name, self._process.pid)

    def look(self) -> bool:
        """Start it again if it ended and has rested; whether anything changed."""
        now = time.monotonic()
        if self._process is None:
            if now < self._next:
                return False
            self.restarts += 1
            self.start()
            return True
        code = self._process.poll()
        if code is None:
            return False
        lived = time.time() - self.since
        rest = _FIRST_REST if lived >= _STEADY else self._rest
        self._rest = min(rest * 2, _LONGEST_REST)
        self._next = now + rest
        self._process = None
        log.warning("child ended name=%s code=%d lived=%.0fs rest=%.1fs", self.spec.name, code, lived, rest)
        return True

    @property
    def due(self) -> float | None:
        """In how many seconds it is to be started again; None while it runs."""
        return None if self._process is not None else max(0.0, self._next - time.monotonic())

    @property
    def has_ended(self) -> bool:
        """Whether it was started and does not run any more."""
        return self._process is None or self._process.poll() is not None

    def show(self) -> dict[str, object]:
        """What runtime.json says about it."""
        return {
            "name": self.spec.name,
            "pid": self.pid,
            "started_ticks": self._ticks,
            "since": self.since,
            "restarts": self.restarts,
        }


def stop(children: Sequence[Child]) -> None:
    """End them all with whatever they started. Afterwards none of them runs."""
    running = [child for child in children if child.pid is not None]
    process.end([(child.pid, child._ticks) for child in running if child.pid and child._ticks], patience=_PATIENCE)
    for child in running:
        if child._process is not None:
            child._process.wait()


def rotate(file: Path, *, limit: int, keep: int) -> bool:
    """Put a log aside that has grown past ``limit`` bytes and begin it anew; whether it was done.

    By copying and cutting, since the writers hold the file open for appending; a line written in between may be lost.
    """
    try:
        if file.stat().st_size <= limit:
            return False
        for number in range(keep - 1, 0, -1):
            older = file.with_name(f"{file.name}.{number}")
            if older.exists():
                older.replace(file.with_name(f"{file.name}.{number + 1}"))
        if keep > 0:
            copy = file.with_name(f"{file.name}.1")
            shutil.copyfile(file, copy)
            copy.chmod(0o600)
        os.truncate(file, 0)
    except OSError as error:
        log.warning("log not rotated file=%s reason=%s", file, error)
        return False
    return True
