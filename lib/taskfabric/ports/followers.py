"""What follows the journal for Kanboard's sake: automatic actions, and webhooks that are kept until they arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from taskfabric.domain.card_actions import Action
from taskfabric.domain.journal import Cursor
from taskfabric.domain.principal import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """An event of a task."""

    id: int
    kind: str
    at: datetime
    task_id: int
    project_id: int
    actor_id: int
    actor: str
    via: str
    private: bool  # of a human's inbox
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A webhook to be delivered."""

    event_name: str
    body: str  # JSON
    event_id: int
    id: int = 0
    attempts: int = 0


class Followers(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def turn(self) -> AbstractContextManager[bool]:
        """True for one of several servers at a time, until the end of the block."""

    def actions(self, project_id: int | None) -> list[Action]:
        """Of one project, or all, each with when it came to be known."""

    def add_action(
        self, project_id: int, event_name: str, action_name: str, params: Mapping[str, str], stamp: Stamp
    ) -> int: ...
    def remove_action(self, action_id: int, stamp: Stamp) -> bool: ...
    def recurring(self) -> bool:
        """Whether any card is to come again."""

    def events(self, limit: int) -> tuple[list[Followed], Cursor, Cursor]:
        """What the journal tells since the cursor, which is the second value; the third is the place after it."""

    def advance(self, before: Cursor, after: Cursor, hooks: Sequence[Hook]) -> bool:
        """The hooks are kept and the cursor stands ``after``, in one transaction; False: it was moved meanwhile."""

    def skip(self) -> None:
        """The cursor stands at the present end: nobody follows."""

    def due(self, limit: int) -> list[Hook]:
        """Pending hooks whose time has come, kept from other servers for five minutes."""

    def sent(self, hook_id: int) -> None: ...
    def failed(self, hook_id: int, error: str, again: datetime | None) -> None: ...


class Hooks(Protocol):
    """The one address that webhooks go to."""

    @property
    def on(self) -> bool:
        """Whether there is an address."""

    def send(self, body: str) -> None:
        """It was taken. Raises Unavailable, Refused (an address that is not allowed)."""
