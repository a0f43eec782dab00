"""The notifier: how a letter leaves the house."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from taskfabric.domain.letter import Quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How one person is reached."""

    urls: tuple[str, ...] = field(default=(), repr=False)  # of whoever keeps the server; they hold secrets
    own: tuple[str, ...] = field(default=(), repr=False)  # his own, which lead to public places only
    quiet: Quiet | None = None
    digest: int = 7  # local hour of the daily digest
    ping: bool = True  # letters between the digests

    @property
    def addressed(self) -> bool:
        """Whether there is an address at all."""
        return bool(self.urls or self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of one letter at its addresses."""

    by: frozenset[str]  # marks of the addresses that have it now, those that had it before among them
    problem: str = ""  # why the others do not; "" = all have it. No address is in it


class Notifier(Protocol):
    """Sends over the channels that its own configuration and the people themselves name."""

    def reach(self, name: str) -> Reach:
        """How this person is reached; without addresses he gets his digests in his inbox only."""

    def habits(self, name: str) -> Reach:
        """When this person wants to be reached; his own addresses are not read for it."""

    def shown(self, url: str) -> str:
        """This address without what is secret in it. Raises BadInput unless a person may have his letters sent there:
        to a service that is known here, at a public place."""

    def send(
        self, reach: Reach, subject: str, body: str, *, letter: int = 0, had: frozenset[str] = frozenset()
    ) -> Taken:
        """Offered to every address but those whose mark is in ``had``. ``letter`` is in the marks, so that they mean
        nothing beside it."""

    def problem(self) -> str:
        """What is wrong with its configuration; "" = nothing."""
