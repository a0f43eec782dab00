"""What a run in the server says while it goes: pieces of text are gathered, artifacts pass at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from taskfabric.services import a2a_text

_GATHER: Final = 0.25  # seconds between two pieces of text on a stream
_KEPT: Final = 1 << 20  # characters of text that are streamed; the result has all

_LARGEST: Final = 8 << 20  # bytes of a run's own artifacts that are told while it goes; more comes with the result
_MOST: Final = 10_000  # of them

Update = Mapping[str, Any]


class Streaming:
    """The ``Progress`` of one run. ``tell`` writes artifact updates down, in order, and ``say`` the words in them, each
    with its number from 0; they may take their time."""

    def __init__(
        self,
        tell: Callable[[list[Update]], None],
        say: Callable[[int, str], None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._say = say
        self._pieces = 0
        self._now = now
        self._lock = threading.Lock()
        self._waiting = ""
        self._said: list[str] = []  # of the text, what was told
        self._length = 0
        self._told = float("-inf")
        self._whole = False  # the run makes artifacts itself
        self._artifacts = 0
        self._bytes = 0  # of them
        self._cut = False  # some were left out
        self.moved = now()  # when the run last gave a sign

    def chunk(self, text: str, *, stream: str = "out") -> None:
        """A piece of the result's text; what goes to other streams is a sign of life only."""
        self.moved = self._now()
        if stream != "out" or not text:
            return
        with self._lock:
            self._waiting += text.replace("\0", "")[: max(0, _KEPT - self._length - len(self._waiting))]
            if self._now() - self._told >= _GATHER:
                self._flush()

    def artifact(self, update: Update) -> None:
        """An artifact, or a piece of one."""
        self.moved = self._now()
        with self._lock:
            self._flush()
            self._whole = True
            self._artifacts += 1
            self._bytes += len(orjson.dumps(update))
            self._cut = self._cut or self._artifacts > _MOST or self._bytes > _LARGEST
            if not self._cut:
                self._write(_own(update), a2a_text.words_of(update))

    def touch(self) -> None:
        """Something moved."""
        self.moved = self._now()

    @property
    def told(self) -> bool:
        """Whether anything was told but the result itself."""
        return self._whole or bool(self._said)

    def finish(self, note: str | None) -> None:
        """What was streamed is complete; where it is not the result's text, that takes its place."""
        with self._lock:
            if self._cut and note is not None:
                self._tell([{"artifact": _text(note), "append": False, "lastChunk": True}])
                return
            if not self._said and (not self._waiting or note is not None):
                return  # nobody has seen a piece: the result tells it in one
            self._flush()
            if note is not None and not self._whole and "".join(self._said).strip() != note:
                self._tell([{"artifact": _text(note), "append": False, "lastChunk": True}])

    def _flush(self) -> None:
        if not self._waiting:
            return
        first = not self._said
        piece, self._waiting = self._waiting, ""
        self._said.append(piece)
        self._length += len(piece)
        self._told = self._now()
        self._write({"artifact": _text(piece), "append": not first, "lastChunk": False}, piece)

    def _write(self, update: Update, words: str) -> None:
        self._tell([update])
        if words:
            self._say(self._pieces, words)
            self._pieces += 1


def _text(text: str) -> dict[str, Any]:
    return {"artifactId": "result", "name": "result", "parts": [{"text": text}]}


def _own(update: Update) -> dict[str, Any]:
    """The update without words that only the fabric itself may say."""
    artifact = dict(update["artifact"])
    parts = [
        {**part, "metadata": {k: v for k, v in part["metadata"].items() if not str(k).startswith("fabric/")}}
        if "metadata" in part
        else dict(part)
        for part in artifact.get("parts", ())
    ]
    return {**update, "artifact": {**artifact, "parts": parts}}
