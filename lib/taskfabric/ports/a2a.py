"""Tasks as callers over A2A see them: under public ids of their own, with what was told of them in order.

Messages, artifacts and events are ProtoJSON of A2A v1.0, as plain dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from taskfabric.domain.ancestry import Limits
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import A2AState
from taskfabric.domain.task import Claimed, NewTask, Task
from taskfabric.ports.board import NewFile, Want

TERMINAL: Final = frozenset({A2AState.COMPLETED, A2AState.FAILED, A2AState.CANCELED, A2AState.REJECTED})
INTERRUPTED: Final = frozenset({A2AState.INPUT_REQUIRED, A2AState.AUTH_REQUIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a task looks from outside at its first moment."""

    id: str  # a fresh random UUID
    context: str
    agent_id: int
    message: Mapping[str, Any]  # with its taskId and contextId
    related: tuple[int, ...] = ()  # the rows that it refers to: links of the card
    files: tuple[NewFile, ...] = ()  # attached with the row, or there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event: what is told of a task."""

    n: int
    kind: str  # message | status | artifact
    body: Mapping[str, Any]  # a StreamResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A task under its public id."""

    id: str
    task_id: int  # the board's row
    owner_id: int
    agent_id: int
    context: str
    state: A2AState | None  # None: a direct message, which is no task
    seq: int  # the number of the last event
    changed: datetime  # when the state began
    current: bool  # it still follows the row
    follows: str | None  # the id under which the row was finished before
    status: str = ""  # the board's word for the row
    verdict: str | None = None
    told: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A message that has become work: the task, its lease if it is run here at once, and whether this call made it."""

    seen: Seen
    claimed: Claimed | None
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a task that asks is told. ``key`` stands for it among all that its sender sends, ``body_hash`` for what it
    says: sent again, it is no second answer."""

    text: str
    message: Mapping[str, Any]  # with its taskId and contextId
    files: tuple[NewFile, ...] = ()
    key: str | None = None
    body_hash: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Whose leases are counted before something is left for them, and how many they may be."""

    holder: Stamp
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which tasks to list: the newest state first; ``before`` is the place to go on from."""

    owner_id: int
    agent_id: int
    context: str = ""
    state: A2AState | None = None
    since: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 50


class A2ABoard(Protocol):
    """Raises ``Unavailable`` like the board. Who may call is decided before."""

    def start(self, new: NewTask, stamp: Stamp, limits: Limits, opening: Opening, holder: Stamp, want: Want) -> Started:
        """The row stands in Work in progress under a lease of ``holder``, its events told: no worker can take it.
        With a key that was used before: the task of then, without a lease. Raises Refused (``rule=concurrency``: all
        places are taken; or the rules of a submit), KeyConflict."""

    def queue(self, new: NewTask, stamp: Stamp, limits: Limits, opening: Opening, places: Places | None) -> Started:
        """The row stands in Ready (or Backlog) for whoever works there; its events are told. Raises Refused
        (``rule=concurrency``) where all of these places are taken, and what a submit raises."""

    def proceed(
        self, seen: Seen, answer: Answer, stamp: Stamp, holder: Stamp | None, want: Want | None
    ) -> Claimed | None:
        """The open question is answered, the files are attached. With a holder the row goes straight to its lease;
        without, or when all its places are taken, it is ready, and None. An answer that was given before under its key
        changes nothing, and None. Raises IllegalMove: it has no open question; KeyConflict."""

    def answered(self, seen: Seen, answer: Answer, stamp: Stamp) -> bool:
        """Whether the task was told just this before, under its key. Raises KeyConflict."""

    def tell(self, fence: Fence, a2a_id: str, updates: Sequence[Mapping[str, Any]]) -> int:
        """These artifact updates are told, in order, if the lease still stands; the number of the last event, 0 for a
        lost lease."""

    def reply(self, fence: Fence, stamp: Stamp, a2a_id: str, message: Mapping[str, Any], note: str) -> bool:
        """The run has answered with a message and no task: the row is a closed record. False for a lost lease."""

    def finished(self, seen: Seen, task: Task) -> Seen:
        """The task as it is told after this finish of the run that has told nothing else since ``seen``."""

    def withdraw(self, task_id: int, stamp: Stamp, reason: str) -> bool:
        """A row that nobody has begun is rejected, and its key free again; False if somebody has."""

    def waiting(self) -> list[Seen]:
        """What is ready and may be begun now, the first of each queue in the order in which they are taken."""

    def find(self, a2a_id: str, owner_id: int, agent_id: int) -> Seen:
        """The task with all that was told. Raises NotFound for a missing and for a foreign one alike."""

    def told(self, a2a_id: str, after: int) -> list[Told]:
        """What was told after this number."""

    def list(self, asked: Asked) -> tuple[list[Seen], int]:
        """A page, and how many there are in all."""

    def ends(self, a2a_ids: Sequence[str]) -> dict[str, tuple[int, A2AState | None, bool]]:
        """Of each: the number of its last event, its state, whether it still follows its row."""
