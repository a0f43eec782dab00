"""The parts of a(t) that only the worker's own machine can judge: does the node answer, and is there room for it.

A card with a wake command is an on-demand node: it may sleep while there is no work, and is woken when there is some.
What is loaded on this machine the workers tell each other by locked files in one folder; a dead worker's lock is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from taskfabric.domain.availability import Part, residency
from taskfabric.domain.card import AgentCard
from taskfabric.domain.card_file import read_card, shape_of
from taskfabric.domain.errors import BadInput
from workers import clock, ollama

log = logging.getLogger(__name__)

_EVERY: Final = 15.0  # seconds between two probes of a node that answers
_AGAIN: Final = 5.0  # seconds until a node that does not answer is asked again; doubled up to the next
_AGAIN_AT_MOST: Final = 60.0
_ANSWER: Final = 5.0  # seconds for a probe
_COMMAND: Final = 60.0  # seconds for a wake or sleep command
_FACTS: Final = 60.0  # seconds for which the size of the machine is remembered


class Node:
    """What a card's work runs on, as far as it can be asked: a probe, a wake and a sleep command."""

    def __init__(self, card: AgentCard, *, now: Callable[[], float] = clock.now) -> None:
        self._card = card
        self._now = now
        self._answers = True
        self._next = 0.0  # when it is probed again
        self._rest = _AGAIN
        self._used = now()
        self.asleep = bool(card.wake and card.probe)  # until work comes nobody needs to know

    def part(self, *, work: bool) -> Part:
        """Whether it may be given work. A sleeping node is open, and is woken when there is ``work``."""
        if not self._card.probe:
            if work and self.asleep:
                self._wake()
            return Part(name="probe")
        if self.asleep and not work:
            return Part(name="probe")
        now = self._now()
        if now >= self._next:
            self._probe(now, work=work)
        if self._answers:
            return Part(name="probe")
        return Part(name="probe", open=False, reason=f"{self._card.probe} does not answer", next="start it")

    @property
    def seconds_to_next(self) -> float:
        """When it is worth asking again."""
        return max(0.0, self._next - self._now())

    def used(self) -> None:
        """Work runs on it."""
        self._used = self._now()

    def rest(self) -> bool:
        """Put it to sleep if it has idled long enough; whether it was."""
        idle = self._card.idle_stop
        if self.asleep or idle is None or self._now() - self._used < idle.total_seconds():
            return False
        self.stop()
        return True

    def stop(self) -> None:
        """It sleeps, as far as its card says how."""
        self.asleep = True
        self._next = 0.0
        _run(self._card.sleep, "sleep")

    def _probe(self, now: float, *, work: bool) -> None:
        self._answers = _is_answered(self._card.probe)
        if not self._answers and work and self._card.wake:
            self._wake()
            self._answers = _is_answered(self._card.probe)
        if self._answers:
            self.asleep, self._rest, self._next = False, _AGAIN, now + _EVERY
        else:
            self._next = now + self._rest
            self._rest = min(self._rest * 2, _AGAIN_AT_MOST)

    def _wake(self) -> None:
        self.asleep = False
        self._used = self._now()
        _run(self._card.wake, "wake")


class Room:
    """Memory of this machine and its GPU, which the models of several cards share. ``folder`` is the same for all."""

    def __init__(self, card: AgentCard, folder: Path) -> None:
        self._card = card
        self._folder = folder
        self._mark: IO[str] | None = None
        self._sizes: tuple[float, int | None, int | None] = (-_FACTS, None, None)
        if self._counts:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def _counts(self) -> bool:
        return bool(self._card.gpu_mb or self._card.ram_mb)

    def part(self, *, work: bool) -> Part:
        """Whether the card's model may be loaded now; with ``work`` it then is, and others are asked to make room."""
        if not work or not self._counts or self._mark is not None:
            return Part(name="residency")
        with self._alone():
            sizes = ollama.loaded(self._card)
            cards = {card.name: ollama.measured(card, sizes) for card in self._loaded()}
            gpu, ram = self._left(ollama.of_strangers([self._card, *cards.values()], sizes))
            found, evicted = residency(
                self._card, cards, {**cards, self._card.name: self._card}, gpu_mb=gpu, ram_mb=ram
            )
            if found.open and not evicted:
                self._load()
                return found
            for name in evicted:
                (self._folder / f"{name}.evict").touch()
        if not found.open:
            return found
        return Part(name="residency", open=False, reason=f"waits until {', '.join(evicted)} has made room")

    @property
    def is_loaded(self) -> bool:
        """Whether the card's model is in memory, as far as this worker put it there."""
        return self._mark is not None

    @property
    def is_wanted(self) -> bool:
        """Whether another card waits for this one's place."""
        return self._mark is not None and not self._card.keep_loaded and self._request.exists()

    def leave(self) -> None:
        """The model is not loaded any more."""
        if self._mark is not None:
            Path(self._mark.name).unlink(missing_ok=True)
            self._mark.close()
            self._mark = None
            self._request.unlink(missing_ok=True)

    @property
    def _request(self) -> Path:
        return self._folder / f"{self._card.name}.evict"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._folder / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _load(self) -> None:
        self._request.unlink(missing_ok=True)
        mark = (self._folder / f"{self._card.name}.{os.getpid()}.json").open("w")
        json.dump(shape_of(self._card), mark)
        mark.flush()
        fcntl.flock(mark, fcntl.LOCK_EX)
        self._mark = mark

    def _loaded(self) -> list[AgentCard]:
        """The cards whose workers hold their marks."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, BadInput), path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    found.append(read_card(json.load(file), name=path.name.rsplit(".", 2)[0]))
                    continue
                path.unlink(missing_ok=True)  # its worker is dead
        return found

    def _left(self, taken: ollama.Size) -> tuple[int | None, int | None]:
        """Megabytes of the GPU and of the memory that models of ours may share; None = unknown."""
        gpu, ram = self._machine()
        return (None if gpu is None else gpu - taken.gpu), (None if ram is None else ram - taken.ram)

    def _machine(self) -> tuple[int | None, int | None]:
        """Megabytes of the GPU and of the memory; None = unknown."""
        at, gpu, ram = self._sizes
        if clock.now() - at >= _FACTS:
            gpu, ram = _gpu_mb(), _ram_mb()
            self._sizes = (clock.now(), gpu, ram)
        return gpu, ram


# ---------------------------------------------------------------- asking the machine


def _gpu_mb() -> int | None:
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_ANSWER,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
        return sum(int(line) for line in said.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _ram_mb() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (OSError, ValueError):
        return None


def _is_answered(probe: str) -> bool:
    if probe.startswith(("http://", "https://")):
        return _is_up(probe)
    try:
        argv = shlex.split(probe)
        done = subprocess.run(argv, capture_output=True, timeout=_ANSWER, check=False, stdin=subprocess.DEVNULL,
                              env=_surroundings())  # fmt: skip
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _is_up(url: str) -> bool:
    """Whether something answers there; that it asks for a key is an answer."""
    import http.client  # only who has a probe of this kind pays for it

    try:
        parts = urlsplit(url)
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        with contextlib.closing(make(parts.hostname or "", parts.port, timeout=_ANSWER)) as conn:
            conn.request("GET", parts.path or "/")
            return conn.getresponse().status < 500
    except (OSError, ValueError, http.client.HTTPException):
        return False


def _run(argv: Sequence[str], what: str) -> None:
    if not argv:
        return
    try:
        done = subprocess.run(list(argv), capture_output=True, timeout=_COMMAND, check=False, stdin=subprocess.DEVNULL,
                              env=_surroundings())  # fmt: skip
        log.info("node told what=%s code=%d", what, done.returncode)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("node not told what=%s reason=%s", what, error)


def _surroundings() -> dict[str, str]:
    """Our environment without our credentials."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FABRIC_")}
