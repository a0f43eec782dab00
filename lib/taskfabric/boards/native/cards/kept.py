"""Cards as JSON text, kept in memory for as long as what they show stays the same.

A list of a thousand cards is asked for far more often than a thousand cards change. Nothing has to be told to forget:
each look names the version of what it wants, and what is kept of another version counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Version = tuple[object, ...]  # equal only while a card looks the same
_ROOM: Final = 24 << 20  # bytes of text; about the same again is kept until it was not used for a while


class Kept:
    """Texts by number, at most about two rooms full. Threads may share it: what gets lost is made again."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._young: dict[int, tuple[Version, bytes]] = {}
        self._old: dict[int, tuple[Version, bytes]] = {}
        self._size = 0
        self._last: dict[int, Version] = {}

    def same(self, id: int, version: Version) -> Version:
        """The version, as the very object that it was before: of equal ones, the same one is found equal at once."""
        if self._last.get(id) != version:
            self._last[id] = version
        return self._last[id]

    def find(self, wanted: Mapping[int, Version]) -> tuple[dict[int, bytes], list[int]]:
        """What is kept of these versions, and of which cards nothing is."""
        young, old = self._young, self._old
        texts: dict[int, bytes] = {}
        missing: list[int] = []
        for id_, version in wanted.items():
            found = young.get(id_)
            if found is None and (found := old.get(id_)) is not None:
                self.put(id_, *found)
            if found is not None and found[0] == version:
                texts[id_] = found[1]
            else:
                missing.append(id_)
        return texts, missing

    def put(self, id: int, version: Version, text: bytes) -> None:
        if self._size > self._room:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[id] = (version, text)
        self._size += len(text)
