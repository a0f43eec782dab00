"""The output of a running program: passed on while it comes, kept up to a cap, its end kept as well.

A program may print without end; what is neither the beginning nor the end is counted and forgotten.
"""

from __future__ import annotations

import codecs
import threading
from collections.abc import Callable
from typing import IO, Final

from taskfabric.ports.runtime import Progress

_READ: Final = 1 << 16  # bytes
_TAIL: Final = 1 << 18  # bytes of the end: an answer in one line, or the last words of a failure
_LINE: Final = 1 << 16  # characters; a longer line is passed on in pieces


class Output:
    """One stream of one program, read by a thread of its own. ``show`` turns a line into what a watcher sees."""

    def __init__(
        self, pipe: IO[bytes], progress: Progress, *, stream: str, cap: int, show: Callable[[str], str]
    ) -> None:
        self.size = 0  # bytes that came
        self._pipe = pipe
        self._progress = progress
        self._stream = stream
        self._cap = cap
        self._show = show
        self._head = bytearray()
        self._tail = bytearray()
        self._shown = 0
        self._thread = threading.Thread(target=self._read, name=f"output-{stream}", daemon=True)
        self._thread.start()

    def finish(self, patience: float) -> None:
        """Nothing more is read; called when the program and all that it started have ended."""
        self._thread.join(patience)
        if not self._thread.is_alive():
            self._pipe.close()

    @property
    def text(self) -> str:
        """The whole, or its beginning and its end with a line between them that says what is missing."""
        if not self._tail:
            return self._head.decode("utf-8", "replace")
        missing = self.size - len(self._head) - len(self._tail)
        gap = f"\n[cut: {missing} bytes are not kept]\n" if missing else ""
        return self._head.decode("utf-8", "replace") + gap + self._tail.decode("utf-8", "replace")

    @property
    def end(self) -> str:
        """Its last words."""
        return (self._head + self._tail)[-_TAIL:].decode("utf-8", "replace")

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        line = ""
        while True:
            try:
                piece = self._pipe.read1(_READ)  # type: ignore[attr-defined]
            except (OSError, ValueError):  # closed under us: the run is over
                break
            if not piece:
                break
            self._keep(piece)
            if self._shown >= self._cap:
                self._progress.touch()
                continue
            line += decoder.decode(piece)
            whole, newline, line = line.rpartition("\n")
            if newline:
                self._pass_on(whole + newline)
            if len(line) > _LINE:
                self._pass_on(line)
                line = ""
        self._pass_on(line)

    def _keep(self, piece: bytes) -> None:
        self.size += len(piece)
        room = self._cap - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        self._tail += piece
        if len(self._tail) > 2 * _TAIL:
            del self._tail[:-_TAIL]

    def _pass_on(self, lines: str) -> None:
        self._progress.touch()
        said = "".join(self._show(line) for line in lines.splitlines(keepends=True))
        said = said[: self._cap - self._shown]
        if said:
            self._shown += len(said)
            self._progress.chunk(said, stream=self._stream)
