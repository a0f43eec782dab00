"""Callers for whom somebody else vouches: by an identity provider's token, or a certificate seen before us."""

from __future__ import annotations

from typing import Protocol

from taskfabric.domain.principal import Caller


class Foreign(Protocol):
    """Raises ``Unavailable`` while what it needs cannot be reached."""

    def of_token(self, token: str, audience: str) -> Caller:
        """The caller whose token this is, made for this audience. Raises NotAuthenticated, and Refused when only a
        scope is missing."""

    def of_certificate(self, subject: str) -> Caller:
        """The caller with this certificate. Raises NotAuthenticated."""
