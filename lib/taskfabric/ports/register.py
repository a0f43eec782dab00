"""Accounts as people keep them: names, addresses, roles. What an account may do is ``ports/credentials.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from taskfabric.domain.principal import AppRole, Kind, Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An account's entry."""

    id: int
    username: str
    name: str
    email: str
    kind: Kind
    role: AppRole
    zone: str
    is_active: bool


class Register(Protocol):
    """Humans and agents; services of the fabric and removed accounts are in no answer.

    Raises ``Unavailable`` while the store cannot be reached, NotFound for an account that is not there."""

    def all(self, ids: Sequence[int] | None = None) -> list[Profile]:
        """These, or every one, by user name."""

    def get(self, user_id: int) -> Profile: ...
    def named(self, username: str) -> Profile | None: ...
    def change(
        self, user_id: int, stamp: Stamp, *, name: str | None, email: str | None, role: AppRole | None
    ) -> None: ...
    def remove(self, user_id: int, stamp: Stamp) -> None:
        """It answers nobody, belongs nowhere and is listed no more; what it did keeps its name."""
