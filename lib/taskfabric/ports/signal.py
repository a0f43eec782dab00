"""The signal: a hint that something changed. Losing one costs a poll, never a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What changed: ready work in a queue, or a task's state. Neither = perhaps anything (a reconnect)."""

    project_id: int | None = None
    task_id: int | None = None


class Signal(Protocol):
    """Told by the board after a commit; heard by whoever waits."""

    def subscribe(self, hear: Callable[[Change], None]) -> Callable[[], None]:
        """``hear`` is called for each change from any process, from some thread, quickly. Returns unsubscribe."""

    def may_notify(self, project_id: int) -> bool:
        """Whether the writer shall notify other processes of ready work in this queue, by its own statement."""

    def publish(self, change: Change) -> None:
        """Subscribers of this process hear it now."""
