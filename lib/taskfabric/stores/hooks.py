"""Delivery of webhooks: one POST, no redirect, and only to an address that is meant to be reached from here."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from typing import Final
from urllib.parse import quote, urlsplit

from taskfabric.domain.errors import Refused, Unavailable

_SECONDS: Final = 10.0
_READ: Final = 4096  # bytes of an answer that are looked at


class WebhookSender:
    """Implements ``ports.followers.Hooks``. The name is resolved once for each delivery, and the very address that was
    looked at is the one that is called, so that no second answer of a name server leads inside."""

    def __init__(self, url: str, token: str, *, allow_private: bool) -> None:
        self._url = url
        self._token = token
        self._allow_private = allow_private

    @property
    def on(self) -> bool:
        return bool(self._url)

    def send(self, body: str) -> None:
        parts = urlsplit(self._url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        query = "&".join(part for part in (parts.query, f"token={quote(self._token)}" if self._token else "") if part)
        path = (parts.path or "/") + (f"?{query}" if query else "")
        try:
            address = self._address(host, port)
            conn = _Pinned(host, port, address, secure=secure)
            try:
                conn.request("POST", path, body.encode(), {"Content-Type": "application/json", "Connection": "close"})
                answer = conn.getresponse()
                answer.read(_READ)
            finally:
                conn.close()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the webhook's receiver cannot be reached: {type(error).__name__}") from error
        if not 200 <= answer.status < 300:
            raise Unavailable(f"the webhook's receiver answered {answer.status}")

    def _address(self, host: str, port: int) -> str:
        """The first address of the host. Raises Refused if one of them is private and that is not allowed."""
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        if not self._allow_private:
            for address in found:
                if not ipaddress.ip_address(address.partition("%")[0]).is_global:
                    raise Refused(
                        "the webhook's address is private, and such are not called",
                        next="set webhook.allow_private if this is meant",
                        rule="webhook",
                    )
        return found[0]


class _Pinned(http.client.HTTPConnection):
    """A connection to one address of a host, TLS checked against the host's name."""

    def __init__(self, host: str, port: int, address: str, *, secure: bool) -> None:
        super().__init__(host, port, timeout=_SECONDS)
        self._address = address
        self._secure = secure

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), _SECONDS)
        if self._secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)
