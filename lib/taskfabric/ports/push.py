"""Push: an owner of a task is told by a call to an address of his, in order and until he has heard it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

Shape = Mapping[str, Any]  # of A2A's ProtoJSON


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig:
    """Where to tell of one task, as it may be shown: without the secrets."""

    id: str
    a2a_id: str
    owner_id: int
    url: str
    scheme: str = ""  # how the credentials are shown there
    has_token: bool = False
    has_credentials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """What the receiver knows us by."""

    token: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The next thing to be told at one address."""

    number: int  # of the config
    config: PushConfig
    n: int  # of the event
    attempts: int  # failed so far
    owner_active: bool  # who is switched off hears nothing more
    secrets: Secrets | None  # None: they cannot be read any more
    body: Shape


class PushConfigs(Protocol):
    """The addresses of the tasks of one owner. That the task is his was asked before.

    Configs are ProtoJSON: ``{id, taskId, url, token, authentication: {scheme, credentials}}``; what is secret in them
    comes back masked.
    """

    def check(self, config: Shape) -> None:
        """It could be created, as far as can be known now. Raises BadInput."""

    def create(self, a2a_id: str, owner_id: int, config: Shape, *, after: int | None = None) -> dict[str, Any]:
        """It is kept, under its id or a new one; what happens from now on is told there, or what has happened after
        this event. Raises BadInput."""

    def get(self, a2a_id: str, owner_id: int, config_id: str) -> dict[str, Any] | None: ...
    def list(self, a2a_id: str, owner_id: int) -> list[dict[str, Any]]:
        """By creation."""

    def delete(self, a2a_id: str, owner_id: int, config_id: str) -> bool:
        """Whether it was there; what was not sent yet is not sent any more."""


class PushStore(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def put(self, config: PushConfig, secrets: Secrets, most: int, after: int | None = None) -> bool:
        """The config is kept, in the place of one of its id, and hears what happened ``after`` this event. False, and
        nothing: the task has ``most`` already."""

    def find(self, a2a_id: str, owner_id: int) -> list[PushConfig]:
        """By creation."""

    def drop(self, a2a_id: str, owner_id: int, config_id: str) -> bool: ...
    def due(self, limit: int, telling: Sequence[PushConfig] = (), share: int | None = None) -> list[Delivery]:
        """The first thing to be told of each address whose time has come, kept from others for a minute.

        At most ``share`` for one owner, and at one host; what is being told now, ``telling``, counts as well."""

    def told(self, delivery: Delivery) -> None:
        """It arrived; what comes after it is due."""

    def failed(self, delivery: Delivery, again: datetime) -> None:
        """It did not; the whole address rests until then."""

    def give_up(self, delivery: Delivery, why: str) -> None:
        """Nothing is sent to this address any more."""
