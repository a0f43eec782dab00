"""Moving, where the board is a Kanboard: it can be carried out, and nothing can be brought past it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskfabric.boards.native.moving import NativeMoving
from taskfabric.domain.errors import Refused
from taskfabric.domain.principal import Stamp
from taskfabric.ports.moving import Brought, Row


class KanboardMoving(NativeMoving):
    """Implements ``ports.moving.Moving``."""

    def bring(self, source: str, rows: Sequence[Row], stamp: Stamp, *, highest: Mapping[str, int] = {}) -> Brought:
        """Raises Refused."""
        raise _refused()

    def look(self, source: str, rows: Sequence[Row], stamp: Stamp) -> Brought:
        """Raises Refused."""
        raise _refused()


def _refused() -> Refused:
    return Refused(
        "the board is a Kanboard: what is brought in here would have no card there",
        next="import into a fabric with a board of its own, or into the Kanboard itself",
        rule="stock-kanboard",
    )
