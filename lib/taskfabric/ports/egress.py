"""The way out: requests to addresses that a caller named, which must not reach what only this machine can reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Egress(Protocol):
    """One policy for every address that comes from outside: webhooks of A2A, webhooks of the board's API."""

    def check(self, url: str) -> None:
        """The address may be asked, as far as can be known now. Raises BadInput that says what is wrong with it."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer to one POST. The policy is asked again, about the very address that is connected
        to; redirects are not followed.

        Raises BadInput for an address that may not be asked, Unavailable when nobody answers in time."""
