"""Agent cards from files: those that ship with the fabric, and over them those of its home.

    cards = CardFolder([assets, home / "cards"])
    cards.deck().cards["kimi"]

A file that has changed is read anew; one that cannot be read is reported, and its last good card stays in force.
"""

from __future__ import annotations

import logging
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskfabric.domain.card import AgentCard
from taskfabric.domain.card_file import read_card
from taskfabric.domain.errors import BadInput
from taskfabric.ports.cards import Deck

log = logging.getLogger(__name__)

_FRESH: Final = 1.0  # seconds for which a look at the folders is used again
_LARGEST: Final = 1 << 20  # bytes of a file
PERSONA: Final = "SOUL.md"

Mark = tuple[int, int, int]  # of a file: inode, time of its last change, size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    mark: Mark
    card: AgentCard | None  # the last good one
    problem: str = ""


class CardFolder:
    """``ports.cards.Cards`` over folders; of two files of one name that of the later folder counts."""

    def __init__(self, folders: Sequence[Path], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folders: Final = tuple(folders)
        self._clock = clock
        self._lock = threading.Lock()
        self._read: dict[Path, _Read] = {}
        self._looked = float("-inf")
        self._deck = Deck()

    def deck(self) -> Deck:
        """The cards as the files say them now, at most a second old."""
        with self._lock:
            if self._clock() - self._looked >= _FRESH:
                self._look()
                self._looked = self._clock()
            return self._deck

    def persona(self, card: AgentCard) -> str:
        """The text of the card's persona; "" if it names none or the file is not there."""
        if not card.persona:
            return ""
        for folder in reversed(self._folders):
            file = folder / "personas" / card.persona / PERSONA
            try:
                if file.stat().st_size <= _LARGEST:
                    return file.read_text(encoding="utf-8")
            except (OSError, ValueError):
                continue
        return ""

    def _look(self) -> None:
        before = self._read
        found: dict[str, _Read] = {}
        now: dict[Path, _Read] = {}
        for folder in self._folders:
            for file in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
                read = self._one(file, before.get(file))
                if read is None:
                    continue
                now[file] = read
                # A broken file that never was good does not hide the shipped card of its name.
                if read.card is None and file.stem in found and found[file.stem].card is not None:
                    read = _Read(mark=read.mark, card=found[file.stem].card, problem=read.problem)
                found[file.stem] = read
        if now == before:
            return
        self._read = now
        self._deck = Deck(
            cards={name: read.card for name, read in sorted(found.items()) if read.card is not None},
            problems={name: read.problem for name, read in sorted(found.items()) if read.problem},
            generation=self._deck.generation + 1,
        )

    def _one(self, file: Path, before: _Read | None) -> _Read | None:
        mark = (0, 0, 0)
        try:
            stat = file.stat()
            mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if before is not None and before.mark == mark:
                return before
            card = _parsed(file, stat.st_size)
        except FileNotFoundError:  # removed between the two looks
            return None
        except (OSError, BadInput) as error:
            problem = error.message if isinstance(error, BadInput) else f"cannot be read: {error.strerror}"
            log.warning("agent card not read file=%s reason=%r", file, problem)
            return _Read(mark=mark, card=None if before is None else before.card, problem=problem)
        if before is not None:
            log.info("agent card read anew file=%s", file)
        return _Read(mark=mark, card=card)


def _parsed(file: Path, size: int) -> AgentCard:
    """Raises BadInput, OSError."""
    if size > _LARGEST:
        raise BadInput(f"{file.name} is larger than {_LARGEST} bytes")
    try:
        shape = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{file.name} is not TOML: {str(error)[:200]}") from error
    return read_card(shape, name=file.stem)
