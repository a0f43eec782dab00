"""A page by its URL, for cards that are granted the web. Never one of this machine or of the house's own network."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
from typing import Final
from urllib.parse import urljoin, urlsplit

from taskfabric.domain.errors import BadInput

_TIME: Final = 20.0  # seconds
_REDIRECTS: Final = 3


def fetch(url: str, most: int) -> str:
    """The text at the URL, ``most`` bytes of it. Raises BadInput with the reason when there is none to be had."""
    for _ in range(_REDIRECTS + 1):
        try:
            parts = urlsplit(url)
        except ValueError:
            raise BadInput("that is no address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise BadInput("only plain http and https addresses are fetched")
        try:
            with contextlib.closing(_connection(parts.scheme, parts.hostname, parts.port)) as conn:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                conn.request("GET", path, headers={"Accept": "text/*, application/json", "User-Agent": "taskfabric"})
                answer = conn.getresponse()
                if 300 <= answer.status < 400 and (target := answer.headers.get("Location")):
                    url = urljoin(url, target)
                    continue
                if answer.status != 200:
                    raise BadInput(f"it answers with HTTP {answer.status}")
                data = answer.read(most)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise BadInput(f"it cannot be fetched: {error}") from error
        if b"\0" in data[:8192]:
            raise BadInput("it is not a text")
        return data.decode(answer.headers.get_content_charset("utf-8"), "replace")
    raise BadInput("it redirects too often")


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_global and not found.is_multicast


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    """Connected to an address that was looked at, so that no second look-up can bring another one."""
    number = port or (443 if scheme == "https" else 80)
    found = [entry[4][0] for entry in socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)]
    public = [str(address) for address in found if is_public(str(address))]
    if not public:
        raise BadInput("it is an address of this machine or this network")
    sock = socket.create_connection((public[0], number), timeout=_TIME)
    conn = http.client.HTTPConnection(host, number, timeout=_TIME)
    if scheme == "https":
        try:
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise
    conn.sock = sock
    return conn
