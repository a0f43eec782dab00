"""The outbox: letters that are to be delivered, kept until they are or until it was tried often enough."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from taskfabric.domain.journal import Cursor
from taskfabric.domain.letter import Happening, Letter, NewLetter


class Outbox(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def happenings(self, limit: int) -> tuple[list[Happening], Cursor, Cursor]:
        """What the journal tells since the cursor, which is the second value; the third is the place after it."""

    def write(self, letters: Sequence[NewLetter], before: Cursor | None = None, after: Cursor | None = None) -> bool:
        """The letters are kept, each event once for each person, and the cursor stands ``after``, in one transaction.
        False, and nothing: somebody else has moved the cursor from ``before``."""

    def due(self, limit: int) -> list[Letter]:
        """Pending letters whose time has come, oldest first, kept from other drainers for five minutes."""

    def sent(self, letter_id: int) -> None: ...
    def failed(self, letter_id: int, error: str, again: datetime | None, taken: Sequence[str]) -> None:
        """One more attempt failed; the next is at ``again``, None = it is given up. ``taken``: what has it already."""

    def of(self, principal_id: int, limit: int) -> list[Letter]:
        """This person's letters, newest first."""
