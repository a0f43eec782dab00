"""How the agents stand: who is paused, what each worker last said of itself, and the output of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A human has stopped an agent."""

    name: str
    by: str
    at: datetime
    until: datetime | None = None  # None = until resumed
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """What a worker last said of itself."""

    principal_id: int
    instance: str
    state: str  # idle | running | closed | draining | gone
    since: datetime | None = None  # when the state began
    seen: datetime | None = None
    reason: str = ""
    until: datetime | None = None
    running: int = 0
    facts: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    agent: str = ""  # the principal's name, when it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a run's output."""

    n: int
    stream: str  # out | err | trace
    text: str
    at: datetime | None = None


class Standing(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def pause(self, name: str, until: datetime | None, note: str, stamp: Stamp) -> None: ...
    def resume(self, name: str, stamp: Stamp) -> bool:
        """Whether it was paused."""

    def pauses(self) -> dict[str, Paused]:
        """Those in force by the board's clock."""

    def report(self, state: WorkerState) -> None: ...
    def workers(self) -> list[WorkerState]:
        """Those heard of in the last day, by agent and instance."""

    def add_chunks(self, fence: Fence, principal_id: int, chunks: Sequence[Chunk]) -> int:
        """How many were new; the card has a comment of what was said, at most one in five seconds. Raises LeaseLost
        unless the caller holds the task by this fence."""

    def chunks(
        self, task_id: int, epoch: int | None, after: int, limit: int, *, stream: str | None = None
    ) -> tuple[int | None, list[Chunk]]:
        """The run's epoch (None = it said nothing) and its output after this number; ``stream``: of this one only."""
