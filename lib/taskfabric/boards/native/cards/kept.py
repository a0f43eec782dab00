"""Cards as JSON text, kept in memory for as long as what they show stays the same.

A list of a thousand cards is asked for far more often than a thousand cards change. Nothing has to be told to forget:
each look names what it wants by all that the text depends on, and what nobody asks for any more falls out.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Final

_ROOM: Final = 24 << 20  # bytes of text; about the same again is kept until it was not used for a while


class Kept:
    """Texts by all that they depend on, at most about two rooms full. Threads may share it: what gets lost is made
    again."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._young: dict[Hashable, bytes] = {}
        self._old: dict[Hashable, bytes] = {}
        self._size = 0
        self._last: dict[int, tuple[object, int]] = {}
        self._numbers = itertools.count()

    def number(self, id: int, version: object) -> int:
        """A short name of this version of something: another one after each change, the same as long as it is equal."""
        last = self._last.get(id)
        if last is None or last[0] != version:
            self._last[id] = last = (version, next(self._numbers))
        return last[1]

    def find(self, wanted: Sequence[Hashable]) -> list[bytes | None]:
        """What is kept of each, in this order."""
        found = list(map(self._young.get, wanted))  # without a step of Python for each: lists are long
        if self._old and None in found:
            for place, text in enumerate(found):
                if text is None and (older := self._old.get(wanted[place])) is not None:
                    found[place] = older
                    self.put(wanted[place], older)
        return found

    def put(self, key: Hashable, text: bytes) -> None:
        if self._size > self._room:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[key] = text
        self._size += len(text)
