"""Codes for people whom nobody but himself may represent, where whoever keeps the server can read them."""

from __future__ import annotations

from typing import Protocol


class Codes(Protocol):
    """Raises ``Unavailable`` where nothing can be written."""

    def keep(self, name: str, code: str) -> str:
        """The code of this person is kept, an earlier one is not; where that is, in words for whoever keeps the
        server."""

    def drop(self, name: str) -> None:
        """Nothing is kept for this person."""
