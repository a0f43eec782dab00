"""What the command line prints: one JSON document, or text for people that no task can abuse.

A task's words come from anybody. On their way to a terminal their control characters, escape sequences and marks that
turn the direction of writing are shown, not obeyed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Final, TextIO

from taskfabric.domain.errors import FabricError

# C0 without tab and line feed, DEL and C1, marks of direction, separators of lines, halves of surrogate pairs.
_UNSAFE: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_BREAKS: Final = re.compile(r"[\t\n]")
_INSTANT: Final = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|\+00:00)")
_COLOURS: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def clean(text: object) -> str:
    """The text with everything that a terminal would obey shown as an escape; line breaks and tabs stay."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def one_line(text: object) -> str:
    """As ``clean``, in one line."""
    return clean(_BREAKS.sub(" ", str(text)))


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """The text in at most so many columns, with … where something is missing."""
    if width(text) <= columns:
        return text
    kept, used = "", 0
    for char in text:
        used += _columns(char)
        if used > columns - 1:
            break
        kept += char
    return f"{kept}…" if columns > 0 else ""


def dumps(value: object) -> str:
    """One line of JSON in which nothing is left that a terminal would obey."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class OutputLost(OSError):
    """The result cannot be written: a full disk, a closed stream. (A reader that has gone is a BrokenPipeError.)"""


class _Closed(io.TextIOBase):
    """Stands for a standard stream that the process was started without."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "the stream is closed")


def prepare_streams() -> None:
    """The standard streams exist, and a narrow encoding shows what it cannot say instead of failing."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = nowhere()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def nowhere() -> TextIO:
    """A stream that forgets. It lives until the process ends."""
    return open(os.devnull, "w")  # noqa: PTH123


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Around whatever writes the result. Raises BrokenPipeError when the reader has gone, else OutputLost."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.errno, error.strerror or str(error)) from error


class Out:
    """The printer of one command: stdout for the result, stderr for errors and progress."""

    def __init__(self, *, as_json: bool, env: Mapping[str, str], stdout: TextIO, stderr: TextIO) -> None:
        self.as_json = as_json
        self._env = env
        self._stdout = stdout
        self._stderr = stderr

    @classmethod
    def standard(cls, *, as_json: bool, env: Mapping[str, str] = os.environ) -> Out:
        """The process's own streams."""
        return cls(as_json=as_json, env=env, stdout=sys.stdout, stderr=sys.stderr)

    @cached_property
    def zone(self) -> tzinfo:
        """``FABRIC_ZONE``, else the machine's zone. Raises BadInput for a FABRIC_ZONE that is none."""
        from taskfabric.surfaces.cli.zone import local_zone

        return local_zone(self._env)

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    # ------------------------------------------------------------------ results

    def json(self, value: object) -> None:
        """The one JSON document (or one line of a stream)."""
        with writing():
            self._stdout.write(dumps(value) + "\n")
            self._stdout.flush()

    def line(self, text: str = "") -> None:
        """A line for people; the caller has cleaned what others wrote."""
        with writing():
            self._stdout.write(text + "\n")

    def text(self, text: object) -> None:
        """Text that somebody else wrote, cleaned on a terminal and byte for byte elsewhere."""
        shown = clean(text) if self._stdout.isatty() else str(text)
        with writing():
            self._stdout.write(shown if shown.endswith("\n") else shown + "\n")

    def flush(self) -> None:
        with writing():
            self._stdout.flush()

    def progress(self, text: str) -> None:
        """What is going on, for people who wait; never part of the result."""
        self._aside(f"{clean(text)}\n")

    def _aside(self, text: str) -> None:
        """To stderr; where that takes nothing, nobody can be told so."""
        try:
            self._stderr.write(text)
            self._stderr.flush()
        except OSError:
            self._stderr = sys.stderr = nowhere()

    # -------------------------------------------------------------------- style

    @cached_property
    def _colours(self) -> bool:
        wanted = not self._env.get("NO_COLOR") and self._env.get("TERM") != "dumb"
        return wanted and self._stdout.isatty()

    def paint(self, text: str, *styles: str) -> str:
        """The text in colour, on a terminal that wants it."""
        if not self._colours or not styles:
            return text
        return f"\x1b[{';'.join(_COLOURS[style] for style in styles)}m{text}\x1b[0m"

    @cached_property
    def columns(self) -> int:
        """The terminal's width; wide where the output is not a terminal, so that nothing is cut for a program."""
        if self._stdout.isatty() or self._env.get("COLUMNS"):
            return max(40, shutil.get_terminal_size().columns)
        return 10_000

    def table(self, rows: Sequence[Sequence[str]], *, head: Sequence[str], stretch: int) -> None:
        """Rows in columns that fit the terminal; the column ``stretch`` gives way. Cells are cleaned here."""
        cells = [[one_line(cell) for cell in row] for row in rows]
        widths = [max(width(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
        room = self.columns - sum(widths) + widths[stretch] - 2 * (len(head) - 1)
        widths[stretch] = min(widths[stretch], max(room, 8))
        self.line(self.paint(_row(list(head), widths), "dim"))
        for row in cells:
            self.line(_row(row, widths))

    # -------------------------------------------------------------------- times

    def when(self, moment: datetime | str | None, *, zone: bool = False) -> str:
        """An instant as the caller says it, with the zone's name if asked for; "" for None."""
        if moment is None:
            return ""
        from taskfabric.domain.times import abbreviation, show

        at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        shown = show(at, self.zone, self.now)
        return f"{shown} ({abbreviation(at, self.zone)})" if zone else shown

    def ago(self, moment: datetime | str) -> str:
        """How long ago, or how soon."""
        from taskfabric.domain.times import ago

        at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        return ago(at, self.now)

    def local(self, text: str) -> str:
        """The text with the instants in it as the caller says them."""

        def said(match: re.Match[str]) -> str:
            try:
                return self.when(match[0], zone=True)
            except ValueError:
                return match[0]

        return _INSTANT.sub(said, text)

    # ------------------------------------------------------------------- errors

    def error(self, error: FabricError) -> None:
        """With ``--json`` the error document on stdout, else the sentence and the next step on stderr."""
        if self.as_json:
            self.json({"error": error.to_json()})
            return
        try:
            message, next_step = self.local(error.message), self.local(error.next)
        except FabricError:  # the caller's zone itself is wrong
            message, next_step = error.message, error.next
        step = f"  next: {clean(next_step)}\n" if next_step else ""
        self._aside(f"fabric: {clean(message)}\n{step}")

    def lost(self, error: OutputLost) -> None:
        """The result could not be written; what the command did stands."""
        self._stdout = sys.stdout = nowhere()
        self._aside(
            f"fabric: the output cannot be written: {error.strerror}\n"
            "  next: what the command did is done; make room or name another output, then look with `fabric show`\n"
        )


def _row(cells: list[str], widths: list[int]) -> str:
    padded = [fit(cell, room) for cell, room in zip(cells, widths, strict=True)]
    return "  ".join(cell + " " * (room - width(cell)) for cell, room in zip(padded, widths, strict=True)).rstrip()


def plural(count: int, noun: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
