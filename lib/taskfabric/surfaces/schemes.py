"""The ways to show who one is: which of them are on, where they stand in a request, how a card tells of them."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from taskfabric.settings import Settings

Headers = Iterable[tuple[bytes, bytes]]

_SUBJECT: Final = 1024  # characters
_AGENT: Final = re.compile(r"/agents/([a-z0-9][a-z0-9._-]{0,62})(?:/.*)?")
_DISCOVERY: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schemes:
    """What is on beside bearer tokens; b"" = that one is off. Names of headers in lower case."""

    api_key_header: bytes = b""
    identity_header: bytes = b""
    secret_header: bytes = b""
    secret: bytes = b""
    peers: frozenset[str] = frozenset()  # addresses of the TLS terminators
    public_url: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Schemes:
        auth = settings.auth
        return cls(
            api_key_header=auth.api_key_header.lower().encode(),
            identity_header=auth.mtls.header.lower().encode(),
            secret_header=auth.mtls.secret_header.lower().encode(),
            secret=auth.mtls.secret.encode(),
            peers=frozenset(normal(peer) for peer in auth.mtls.peers),
            public_url=settings.server.public_url,
        )

    def identity(self, headers: Headers, address: str) -> str:
        """The subject of the certificate that a terminator has seen; "" when there is none, or when whoever says so
        is not one of ours: anybody can write a header."""
        if not self.identity_header or not self.secret or normal(address) not in self.peers:
            return ""
        subjects = [value for name, value in headers if name == self.identity_header]
        secrets = [value for name, value in headers if name == self.secret_header]
        if len(subjects) != 1 or len(secrets) != 1 or not hmac.compare_digest(secrets[0], self.secret):
            return ""
        subject = subjects[0].decode("latin-1").strip()
        return subject if len(subject) <= _SUBJECT and subject.isprintable() else ""

    def audience(self, path: str) -> str:
        """What a foreign token must be made for here; "" where none counts: they are for agents only."""
        match = _AGENT.fullmatch(path) if self.public_url else None
        return f"{self.public_url}/agents/{match[1]}" if match else ""


def normal(address: str) -> str:
    """One spelling of an address, whatever kind of socket it was seen on."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    inside = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(inside or found)


def told(settings: Settings) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """``securitySchemes`` and ``securityRequirements`` of an agent card, in ProtoJSON; any one of them is enough."""
    auth = settings.auth
    schemes: dict[str, Any] = {
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "a token of the fabric"}}
    }
    scopes: dict[str, list[str]] = {}
    if auth.api_key_header:
        schemes["apiKey"] = {"apiKeySecurityScheme": {"location": "header", "name": auth.api_key_header}}
    if auth.jwt.issuer:
        if auth.jwt.keys:
            schemes["jwt"] = {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}}
        else:
            url = auth.jwt.issuer.rstrip("/") + _DISCOVERY
            schemes["jwt"] = {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}
        scopes["jwt"] = [auth.jwt.scope] if auth.jwt.scope else []
    if auth.mtls.header:
        schemes["mtls"] = {"mtlsSecurityScheme": {"description": "a client certificate"}}
    return schemes, [{"schemes": {name: {"list": scopes.get(name, [])}}} for name in schemes]
