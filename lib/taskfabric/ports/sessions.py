"""Web sessions and sign-in links. A session's secret is opaque, stored hashed, and shown to its browser only."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from taskfabric.domain.principal import Principal, Stamp
from taskfabric.domain.times import iso


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A browser that is signed in, as it may be shown."""

    id: int
    principal: str
    principal_id: int
    proven: bool  # by the PIN or a sign-in link: it may decide
    agent: str  # what the browser calls itself
    created: datetime
    seen: datetime
    expires: datetime
    revoked: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "principal": self.principal,
            "proven": self.proven,
            "agent": self.agent,
            "created": iso(self.created),
            "seen": iso(self.seen),
            "expires": iso(self.expires),
            "revoked": self.revoked,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What a browser gets when it signs in: its secret, and what every form of it must carry."""

    secret: str = field(repr=False)
    csrf: str = field(repr=False)
    session: Session


class Sessions(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def begin(self, principal_id: int, *, proven: bool, agent: str, stamp: Stamp) -> Signed: ...
    def find(self, secret: str) -> tuple[Session, Principal] | None:
        """The session of this secret and whose it is; None: unknown, over, idle for too long, revoked, or the account
        is disabled."""

    def csrf(self, secret: str) -> str:
        """What a form of this session carries; follows from the secret."""

    def rotate(self, secret: str, *, proven: bool, stamp: Stamp) -> Signed | None:
        """A new secret in the place of this one, which is worth nothing any more. None: it was not worth anything."""

    def end(self, session_id: int, stamp: Stamp) -> bool: ...
    def end_all(self, principal_id: int, stamp: Stamp) -> int: ...
    def of(self, principal_id: int) -> list[Session]:
        """Those that are worth something, newest first."""

    def get(self, session_id: int) -> Session | None: ...
    def make_link(self, principal_id: int, *, proven: bool, stamp: Stamp) -> tuple[str, datetime]:
        """A secret that signs one browser in, once; and until when. ``proven``: its session may decide."""

    def use_link(self, secret: str) -> tuple[int, bool] | None:
        """Whose link this is and whether it proves him, if it was worth something; from now on it is not."""
