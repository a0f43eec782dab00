"""The port by which a board moves in and out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from taskfabric.domain.principal import Stamp

Row = Mapping[str, Any]  # a record as it travels: JSON values by column, ``table``, and ``id`` where it has one


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something that did not come along, or came otherwise, and why."""

    what: str
    why: str


@dataclass(slots=True, kw_only=True)
class Brought:
    """What became of the rows of one call, by table."""

    made: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)  # here already, or come before
    left_out: list[LeftOut] = field(default_factory=list)
    changed: list[LeftOut] = field(default_factory=list)  # what came otherwise than it was
    renumbered: Counter[str] = field(default_factory=Counter)  # of those made, under another number than theirs
    notes: Counter[str] = field(default_factory=Counter)  # what was changed on the way, and how often


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A source that has come whole: its tasks here, and the people of it who have no inbox yet."""

    tasks: int
    people: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of an export. ``next`` is None after the last."""

    rows: list[dict[str, Any]]
    next: str | None


class Moving(Protocol):
    """Rows of whole boards, in and out; each call one transaction."""

    def identity(self) -> str:
        """What this fabric is called as a source."""
        ...

    def highest(self) -> dict[str, int]:
        """The highest ids of what moves, by table."""
        ...

    def bring(self, source: str, rows: Sequence[Row], stamp: Stamp, *, highest: Mapping[str, int] = {}) -> Brought:
        """The rows of this source are here, as far as they fit; what came before comes no second time. An id that is
        taken here is exchanged for one above the ``highest`` of the source, by table.

        Raises BadInput, with nothing done, for a row that is none: an unknown table or column, a value of another
        type."""
        ...

    def look(self, source: str, rows: Sequence[Row], stamp: Stamp) -> Brought:
        """What ``bring`` would do with these rows, of which nothing is kept. What hangs on a row that would have to
        come first counts as if that had come. Raises as ``bring`` does."""
        ...

    def finish(self, source: str) -> Finished:
        """What the tasks of this source count (blockers, children) agrees with their rows, and claims find them."""
        ...

    def page(self, cursor: str | None) -> Page:
        """The rows after this place, in the order in which they can be brought."""
        ...
