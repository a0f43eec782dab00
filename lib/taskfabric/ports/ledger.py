"""The ledger: what a provider's account may still do. Several processes share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from taskfabric.domain.account import Account
from taskfabric.domain.availability import Part
from taskfabric.domain.limit import Learned
from taskfabric.domain.principal import Stamp
from taskfabric.domain.quota import Span, Used

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A run about to start: what it puts aside."""

    account: str
    principal_id: int
    units: int
    interactive: bool = False
    task_id: int | None = None
    epoch: int | None = None


class Ledger(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def accounts(self) -> dict[str, Account]:
        """Those of which something is known."""

    def account(self, name: str) -> Account:
        """One of which nothing is known is open."""

    def change(self, name: str, decide: Callable[[Account], Account], stamp: Stamp) -> tuple[Account, Account]:
        """The account is what ``decide`` makes of it, while nobody else changes it; before and after. That it was
        closed or opened is in the journal."""

    def used(self, account: str, spans: Sequence[Span]) -> list[Used]:
        """What was spent and reserved in each span."""

    def reserve(
        self, new: Spending, spans: Sequence[Span], decide: Callable[[Account, Sequence[Used]], Account | Part]
    ) -> int | Part:
        """The number of the reservation, or the part that refuses; nobody else reserves of the account meanwhile, and
        where it is granted the account is what ``decide`` made of it."""

    def settle(
        self, reservation: int, principal_id: int, *, units: int, tokens: int, cents: int, usage: dict[str, int]
    ) -> str | None:
        """What the run cost in truth is in the ledger; the account's name. None: no open reservation of this caller."""

    def learn(self, account: str, windows: Sequence[Learned]) -> None:
        """The latest that the provider said of each of these windows is kept."""

    def learned(self) -> dict[str, tuple[Learned, ...]]:
        """What providers said of windows that have not been reset since, by account."""
