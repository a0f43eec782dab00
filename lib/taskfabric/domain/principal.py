"""Who acts: principals, trust classes, roles, and the stamp that every write carries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from taskfabric.domain.lease import Fence

APP_TOKEN: Final = "jsonrpc"  # the principal behind the app token of Kanboard's API


class Trust(IntEnum):
    """human > trusted > sandboxed > untrusted; the order is the comparison."""

    UNTRUSTED = 0
    SANDBOXED = 1
    TRUSTED = 2
    HUMAN = 3

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Trust:
        """The class with this name. Raises KeyError for another word."""
        return cls[word.upper()]


class Kind(StrEnum):
    """A principal is a human, an agent, or a service of the fabric itself (the keeper, the app token ``jsonrpc``)."""

    HUMAN = "human"
    AGENT = "agent"
    SERVICE = "service"


class AppRole(StrEnum):
    """Kanboard's application roles."""

    ADMIN = "app-admin"
    MANAGER = "app-manager"
    USER = "app-user"


class ProjectRole(StrEnum):
    """Kanboard's project roles: a viewer reads, a member works, a manager also arranges."""

    MANAGER = "project-manager"
    MEMBER = "project-member"
    VIEWER = "project-viewer"


class Via(StrEnum):
    """Through which door a call came; only a proven human may decide (see ``Caller.may_decide``)."""

    LOCAL = "local"  # the credentials file on the owner's machine: may do all but decide
    TOKEN = "token"
    SESSION = "session"  # a web session, signed in by a person
    PIN = "pin"  # a call that carried the person's PIN
    SYSTEM = "system"  # the fabric itself: sweep, keeper, schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An account that can act: a human, an agent, a service."""

    id: int  # the user row's id
    name: str  # unique, what people type
    kind: Kind
    trust: Trust
    role: AppRole = AppRole.USER
    tiers: tuple[str, ...] | None = None  # tiers it offers; None = every tier
    capabilities: tuple[str, ...] | None = ()  # what it can do; None = everything (humans)
    concurrency: int | None = None  # live leases it may hold at once; None = no limit
    zone: str = "UTC"  # IANA zone for what this person reads
    active: bool = True
    owner_id: int | None = None  # the human an agent answers to

    @property
    def is_human(self) -> bool:
        return self.kind is Kind.HUMAN

    @property
    def is_admin(self) -> bool:
        return self.role is AppRole.ADMIN

    @property
    def is_app(self) -> bool:
        """True for the app token: it reaches every project, and decides, answers and verifies nothing."""
        return self.kind is Kind.SERVICE and self.name == APP_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef:
    """The run a call was made from: the task being worked and its fence's epoch."""

    task_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated principal at the door. The server makes it from the credential, never from arguments."""

    principal: Principal
    via: Via
    run: RunRef | None = None
    queues: frozenset[int] | None = None  # a token's scope (project ids); None = all that the principal may
    credential_id: int | None = None
    instance: str = ""  # the program and host that call, for people ("kimi@box-7f3a"); proves nothing

    @property
    def may_decide(self) -> bool:
        """True for a human who signed in or gave a PIN, outside any run (design invariants 4 and 5)."""
        return self.principal.is_human and self.run is None and self.via in (Via.SESSION, Via.PIN)

    def stamp(self) -> Stamp:
        return Stamp(
            principal_id=self.principal.id,
            name=self.principal.name,
            kind=self.principal.kind,
            trust=self.principal.trust,
            run=self.run,
            via=self.via,
            instance=self.instance,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a board verb writes down about who did it."""

    principal_id: int
    name: str
    kind: Kind
    trust: Trust
    run: RunRef | None = None
    via: Via = Via.TOKEN
    instance: str = ""

    @property
    def is_human(self) -> bool:
        return self.kind is Kind.HUMAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Through whose eyes the board is read: visibility is applied in the query itself."""

    principal_id: int
    kind: Kind
    queues: frozenset[int] | None = None  # a token's scope

    @classmethod
    def of(cls, caller: Caller) -> Viewer:
        return cls(principal_id=caller.principal.id, kind=caller.principal.kind, queues=caller.queues)


__all__ = [
    "APP_TOKEN",
    "AppRole",
    "Caller",
    "Fence",
    "Kind",
    "Principal",
    "ProjectRole",
    "RunRef",
    "Stamp",
    "Trust",
    "Via",
    "Viewer",
]
