"""The journal: what happened, in an order that is the same for every reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.principal import Viewer


class Journal(Protocol):
    """Append-only; written by the board in the transaction of each verb, read here."""

    def read(
        self,
        after: Cursor,
        limit: int,
        viewer: Viewer,
        *,
        task_id: int | None = None,
        queues: Sequence[int] | None = None,
    ) -> tuple[list[Event], Cursor]:
        """Events after the cursor that the viewer may see, oldest first, and the cursor to go on from. Never skips
        an event that commits late: it stops before the oldest transaction still running."""

    def end(self) -> Cursor:
        """The present end: what is read from here is new."""
