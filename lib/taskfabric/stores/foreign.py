"""Foreign identities: tokens of an identity provider and certificates, and the accounts that they are here.

A token counts for one agent only: its audience is that agent's address. Which algorithms count is a setting, never the
token's own word, and keys come from the provider alone.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskfabric.domain.errors import NotAuthenticated, Refused
from taskfabric.domain.principal import Caller, Via
from taskfabric.ports.credentials import Credentials
from taskfabric.stores.identities import IdentityFile
from taskfabric.stores.jwks import Jwk, KeySet

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LONGEST: Final = 8192  # characters of a token


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Which tokens count. ``leeway`` in seconds is how far two clocks may differ."""

    issuer: str
    algorithms: tuple[str, ...]
    scope: str  # that a token must have; "" = none
    leeway: float
    keys: KeySet


class ForeignCallers:
    """Implements ``ports.foreign.Foreign``; ``tokens`` None: no token counts."""

    def __init__(self, credentials: Credentials, names: IdentityFile, tokens: TokenRules | None) -> None:
        self._credentials = credentials
        self._names = names
        self._tokens = tokens

    def of_token(self, token: str, audience: str) -> Caller:
        if self._tokens is None or len(token) > _LONGEST:
            raise _unknown()
        claims = _checked(self._tokens, token, audience)
        caller = self._caller("jwt", str(claims["sub"]))
        if self._tokens.scope and self._tokens.scope not in _scopes(claims):
            raise Refused(
                f"this token has not the scope {self._tokens.scope}", next="ask for one that has it", rule="scope"
            )
        return caller

    def of_certificate(self, subject: str) -> Caller:
        return self._caller("mtls", subject)

    def _caller(self, section: str, subject: str) -> Caller:
        name = self._names.name_of(section, subject)
        found = None if name is None else self._credentials.principal(name)
        if found is None or not found.active:
            log.info("foreign identity unknown section=%s known=%s", section, name is not None)
            raise _unknown()
        return Caller(principal=found, via=Via.TOKEN)


def _unknown() -> NotAuthenticated:
    return NotAuthenticated("the credential is not, or no longer, valid")


def _checked(rules: TokenRules, token: str, audience: str) -> Mapping[str, Any]:
    """The claims of a token that counts. Raises NotAuthenticated for every other one, alike."""
    # Loaded by the first foreign token: most fabrics see none.
    jwt = importlib.import_module("jwt")
    try:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        # "crit" names extensions without which a token must not be accepted; we know none.
        if algorithm not in rules.algorithms or "crit" in header or not isinstance(kid, str | None):
            raise _unknown()
        key: Jwk | None = rules.keys.find(kid, algorithm)
        if key is None:
            raise _unknown()
        claims: Mapping[str, Any] = jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm=algorithm),
            algorithms=[algorithm],
            audience=[audience, f"{audience}/"],
            issuer=rules.issuer,
            leeway=rules.leeway,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        log.info("foreign token refused reason=%s", type(error).__name__)
        raise _unknown() from error
    return claims


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """What it may be used for, in either of the two usual forms."""
    for name in ("scope", "scp"):
        said = claims.get(name)
        if isinstance(said, str):
            return frozenset(said.split())
        if isinstance(said, list):
            return frozenset(str(one) for one in said)
    return frozenset()
