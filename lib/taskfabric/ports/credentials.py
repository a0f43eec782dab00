"""Accounts and credentials: who may come in, and as whom. Secrets are stored hashed, always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from taskfabric.domain.principal import AppRole, Caller, Kind, Principal, RunRef, Stamp, Trust, Via


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrincipal:
    """An account to be made."""

    name: str
    kind: Kind
    trust: Trust
    role: AppRole = AppRole.USER
    full_name: str = ""
    email: str = ""
    zone: str = "UTC"
    owner_id: int | None = None
    tiers: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] | None = ()
    concurrency: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token as it may be shown: never the secret."""

    id: int
    principal: str
    name: str  # what it is for
    via: Via
    queues: tuple[str, ...] | None
    created: datetime
    expires: datetime | None
    last_used: datetime | None
    revoked: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "principal": self.principal,
            "name": self.name,
            "via": self.via.value,
            "queues": None if self.queues is None else list(self.queues),
            "created": self.created.isoformat().replace("+00:00", "Z"),
            "expires": None if self.expires is None else self.expires.isoformat().replace("+00:00", "Z"),
            "last_used": None if self.last_used is None else self.last_used.isoformat().replace("+00:00", "Z"),
            "revoked": self.revoked,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSet:
    """When somebody's PIN was last set, by whom and through which door."""

    at: datetime
    by: str
    via: Via
    first: bool  # it was the first one: nothing had to be proved


class Credentials(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def authenticate(self, token: str) -> Caller | None:
        """The caller whose token this is, or None: unknown, expired, revoked, its run over, or its owner disabled.
        Takes the same time for every wrong token."""

    def recent(self, token: str) -> Caller | None:
        """The caller if this token was good in the last minutes; for use only while the store is away (G14)."""

    def principal(self, name_or_id: str | int) -> Principal | None: ...
    def principals(self) -> list[Principal]:
        """All but those that were removed."""

    def add_principal(self, new: NewPrincipal, stamp: Stamp) -> Principal:
        """Raises BadInput if the name is taken."""

    def describe(
        self,
        principal_id: int,
        *,
        trust: Trust,
        tiers: Sequence[str] | None,
        capabilities: Sequence[str],
        concurrency: int,
        stamp: Stamp,
    ) -> bool:
        """The agent is as its card says; whether that is a change. In the journal. Raises NotFound for another kind of
        account."""

    def set_active(self, principal_id: int, active: bool, stamp: Stamp) -> None:
        """A disabled principal's tokens answer nobody; its leases run out by themselves."""

    def create_token(
        self,
        principal_id: int,
        *,
        name: str,
        via: Via,
        stamp: Stamp,
        queues: Sequence[int] | None = None,
        expires: datetime | None = None,
        run: RunRef | None = None,
        secret: str | None = None,
    ) -> tuple[str, Credential]:
        """The secret, shown this once, and what is stored of it. ``secret``: one that a setting has, instead of a new
        one."""

    def revoke_token(self, credential_id: int, stamp: Stamp) -> bool: ...
    def revoke_all(self, principal_id: int, stamp: Stamp) -> int: ...
    def tokens(self, principal_id: int | None) -> list[Credential]: ...
    def set_pin(self, principal_id: int, pin: str, stamp: Stamp, code: str = "") -> None:
        """Stored with scrypt. Raises Refused while a code is needed and this is not it; afterwards none is."""

    def forget_pin(self, principal_id: int, stamp: Stamp) -> str:
        """There is no PIN any more, and no lock; the next one is set with the code that is returned."""

    def needs_code(self, principal_id: int) -> bool:
        """Whether the next PIN takes the code of a reset."""

    def check_pin(self, principal_id: int, pin: str) -> bool:
        """True for the right PIN. Five wrong ones lock it for 15 minutes: then raises Refused, also for the right."""

    def has_pin(self, principal_id: int) -> bool: ...
    def pins_set(self) -> dict[int, PinSet]:
        """For each account the last setting of its PIN, as far as the journal goes back."""
