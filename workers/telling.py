"""What a run tells while it goes: its output, a piece at a time, into the journal; and that it moves at all."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.services import a2a_text
from workers import clock

log = logging.getLogger(__name__)

Stream = Literal["out", "err", "trace"]
Chunk = tuple[int, Stream, str]  # number from 0, stream, text

_PIECE: Final = 65_536  # characters of one chunk
_BATCH: Final = 100  # chunks of one call
_STREAMS: Final[dict[str, Stream]] = {"out": "out", "err": "err", "trace": "trace"}


class Telling:
    """The ``Progress`` of one run. Threads of the run tell; ``flush`` is called by the one that watches it.

    ``cap`` is in characters: what comes after it is counted and not kept. ``wake`` is called when something new waits.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Chunk]], None],
        *,
        cap: int,
        wake: Callable[[], None] = lambda: None,
        now: Callable[[], float] = clock.now,
    ) -> None:
        self._send = send
        self._left = cap
        self._wake = wake
        self._now = now
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Stream, str]] = deque()
        self._number = 0
        self._sealed = False  # what waits may have arrived already: nothing is added to it
        self.dropped = 0  # characters beyond the cap
        self.moved = now()  # when the run last gave a sign

    def chunk(self, text: str, *, stream: str = "out") -> None:
        """A piece of output. Never blocks and never fails."""
        with self._lock:
            self.moved = self._now()
            if not text:
                return
            kept, rest = text[: self._left], len(text) - self._left
            self._left -= len(kept)
            first = not self._waiting
            if kept:
                self._join(_STREAMS.get(stream, "out"), kept)
            if rest > 0:
                if not self.dropped:
                    self._waiting.append(("trace", "… more output than is kept; the rest is only counted"))
                self.dropped += rest
        if first:
            self._wake()

    def artifact(self, update: Mapping[str, Any]) -> None:
        """A piece of the result that is more than text: its words are output."""
        self.chunk(a2a_text.words_of(update))

    def touch(self) -> None:
        """Something moved."""
        self.moved = self._now()

    def flush(self) -> None:
        """Send what waits. While the server is away it goes on waiting; what the server refuses is given up."""
        while True:
            with self._lock:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            if not batch:
                return
            numbered = [(self._number + place, stream, text) for place, (stream, text) in enumerate(batch)]
            try:
                self._send(numbered)
            except Unavailable:
                with self._lock:
                    self._waiting.extendleft(reversed(batch))
                    self._sealed = True
                return
            except FabricError as error:
                log.warning("output not kept pieces=%d reason=%s", len(batch), error.message)
            self._number += len(batch)

    def _join(self, stream: Stream, text: str) -> None:
        """Many small pieces of one stream become few; a large one becomes several."""
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
        if self._waiting and self._waiting[-1][0] == stream and not self._sealed:
            text = self._waiting.pop()[1] + text
        self._sealed = False
        self._waiting.extend((stream, text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))
