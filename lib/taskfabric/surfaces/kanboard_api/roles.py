"""What a procedure needs of its caller, as Kanboard has it; ``services/kanboard_rights.py`` judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskfabric.domain.principal import AppRole, ProjectRole
from taskfabric.ports.places import PlaceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Of:
    """A parameter that names something, whose project the caller's role must reach."""

    kind: PlaceKind
    param: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Who may call. Everything that is set must hold; the app token passes all but ``person``."""

    person: bool = False  # somebody's own credential: not the app token
    app_role: AppRole | None = None
    project_role: ProjectRole | None = None
    of: tuple[Of, ...] = ()


def of(kind: str, param: str) -> Of:
    """What this parameter names."""
    return Of(kind=PlaceKind(kind), param=param)


def viewer(*things: Of) -> Need:
    return Need(project_role=ProjectRole.VIEWER, of=things)


def member(*things: Of) -> Need:
    return Need(project_role=ProjectRole.MEMBER, of=things)


def manager(*things: Of) -> Need:
    return Need(project_role=ProjectRole.MANAGER, of=things)


ANYBODY: Final = Need()
PERSON: Final = Need(person=True)
APP_MANAGER: Final = Need(app_role=AppRole.MANAGER)
APP_ADMIN: Final = Need(app_role=AppRole.ADMIN)
