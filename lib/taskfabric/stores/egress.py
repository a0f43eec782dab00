"""Requests to addresses that callers named, kept away from the networks that only this machine can reach.

An address is checked when it is registered, and again when it is used: then the name is resolved once, every address
behind it is judged, and the connection goes to the judged address itself, so a name cannot point elsewhere in
between. Redirects are answers like others. Nothing goes through a proxy of the environment.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from taskfabric.domain.errors import BadInput, Unavailable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]

_LONGEST: Final = 2048  # characters of an address
_RESOLVERS: Final = 8  # names that are resolved at once; a resolver that hangs holds up no more threads than these
_ANSWER: Final = 65_536  # bytes of an answer that are read
_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?")
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\.?")
_QUAD: Final = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]{0,8192}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What an address means."""

    secure: bool
    host: str  # a name in lower case, or an address without brackets
    port: int
    target: str  # path and query

    @property
    def authority(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS["https" if self.secure else "http"]
        return shown if self.port == usual else f"{shown}:{self.port}"


class WebEgress:
    """Implements ``ports.egress.Egress``. ``allow_hosts`` are exempt: names, addresses, or either with ``:port``.

    ``timeout`` in seconds bounds a whole request, however slowly the other side speaks.
    """

    def __init__(
        self, *, allow_hosts: Sequence[str] = (), timeout: float = 10.0, resolve: Resolve | None = None
    ) -> None:
        self._allowed = frozenset(host.strip().lower().strip("[]") for host in allow_hosts if host.strip())
        self._timeout = timeout
        self._resolve = resolve or _resolved
        self._resolving = threading.Semaphore(_RESOLVERS)

    def check(self, url: str) -> None:
        place = read(url)
        # A host that its owner has named needs no name server, so that it can be registered before it exists.
        if not self._is_allowed(place):
            self._addresses(place)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        place = read(url)
        for name, value in headers.items():
            check_header(name, value)
        addresses = self._addresses(place)
        try:
            with _connected(place, addresses, self._timeout) as connection:
                connection.request("POST", place.target, body, {"Host": place.authority, **headers})
                answer = connection.getresponse()
                answer.read(_ANSWER)
                return answer.status
        except (OSError, http.client.HTTPException, ValueError) as cause:
            raise Unavailable(
                f"{place.authority} does not answer: {_reason(cause)}", next="it is tried again"
            ) from cause

    def _is_allowed(self, place: _Place) -> bool:
        return place.host in self._allowed or f"{place.host}:{place.port}" in self._allowed

    def _addresses(self, place: _Place) -> Sequence[str]:
        """Where it leads, every one of them judged. Raises BadInput, Unavailable for a name server that hangs."""
        if not self._resolving.acquire(timeout=self._timeout):
            raise Unavailable("too many names are being looked up", next="try again shortly")
        try:
            found = self._resolve(place.host, place.port)
        except (OSError, UnicodeError) as cause:
            raise BadInput(f"{place.host} is no host that can be found", next="check the address") from cause
        finally:
            self._resolving.release()
        if not found:
            raise BadInput(f"{place.host} is no host that can be found", next="check the address")
        if not self._is_allowed(place):
            for address in found:
                if not is_public(address):
                    raise BadInput(
                        f"{place.host} leads into a network that is not public",
                        next="name a public host, or have it added to push.allow_hosts",
                        field="url",
                    )
        return found


def read(url: str) -> _Place:
    """The parts of an address, none of them ambiguous. Raises BadInput."""
    if len(url) > _LONGEST:
        raise BadInput(f"an address has at most {_LONGEST} characters", field="url")
    if not url.isascii() or any(c <= " " or c == "\x7f" or c in '\\"<>^`{|}' for c in url):
        raise BadInput(
            "the address contains characters that belong into none", next="write them percent-encoded", field="url"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as cause:
        raise BadInput("the address cannot be read", field="url") from cause
    if parts.scheme not in _PORTS:
        raise BadInput("the address must begin with https:// or http://", field="url")
    if parts.username is not None or parts.password is not None:
        raise BadInput("the address holds a user name; use credentials for that", field="url")
    if parts.fragment or url.endswith("#"):
        raise BadInput("the address has a fragment, which is never sent", next="leave it out", field="url")
    if port == 0:
        raise BadInput("port 0 is none", field="url")
    if ("[" in parts.netloc) != (":" in host):
        raise BadInput("only an IPv6 address stands in brackets", field="url")
    _check_host(host)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return _Place(secure=parts.scheme == "https", host=host, port=port or _PORTS[parts.scheme], target=target)


def _check_host(host: str) -> None:
    """Raises BadInput for a host that two readers could read differently: 2130706433, 127.1, 0x7f.1, 0177.0.0.1."""
    if ":" in host:
        with contextlib.suppress(ValueError):
            if "%" not in host:
                ipaddress.IPv6Address(host)
                return
        raise BadInput("the address in brackets is no IPv6 address", field="url")
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        if _QUAD.fullmatch(host) is None:
            raise BadInput(
                f"{host[:60]} is a number written in an unusual way", next="write it as 192.0.2.1", field="url"
            )
    elif len(host) > 253 or _NAME.fullmatch(host) is None:
        raise BadInput("the address names no host", field="url")


def is_public(text: str) -> bool:
    """Whether this address is one of the public internet, whatever address of the older kind is inside it."""
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:  # with a zone: it belongs to a link
        return False
    return all(_is_public(one) for one in _meant(address))


def _meant(address: Address) -> Iterator[Address]:
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        for inside in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
            if inside is not None:
                yield inside
        if address in _NAT64:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped is not None or address in _NAT64):
        return True  # what is inside is judged on its own
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)
    )


def check_header(name: str, value: str) -> None:
    """Raises BadInput for what would end a header and begin another one."""
    if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
        raise BadInput(
            f"the value of {name[:40]!r} cannot be sent in a header",
            next="use printable ASCII characters, at most 8192 of them, without line breaks",
        )


def _resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, in the resolver's order. Raises OSError, Unavailable after five seconds."""
    found: list[str] = []
    failure: list[Exception] = []

    def look() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(dict.fromkeys(str(info[4][0]) for info in infos))
        except (OSError, UnicodeError) as error:
            failure.append(error)

    # getaddrinfo has no time-out of its own.
    thread = threading.Thread(target=look, name="resolve", daemon=True)
    thread.start()
    thread.join(5.0)
    if thread.is_alive():
        raise Unavailable(f"the name server does not answer for {host}", next="try again shortly")
    if failure:
        raise failure[0]
    return found


@contextlib.contextmanager
def _connected(place: _Place, addresses: Sequence[str], timeout: float) -> Iterator[http.client.HTTPConnection]:
    """A connection to one of these very addresses; it ends after ``timeout`` seconds whatever happens."""
    plain = _dialled(addresses, place.port, timeout)
    # Each read has a time-out of its own; somebody who sends a byte now and then would never meet it.
    twin = plain.dup()
    ending = threading.Timer(timeout, _shut, (twin,))
    ending.daemon = True
    ending.start()
    sock: socket.socket = plain
    try:
        if place.secure:
            sock = ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
        connection = http.client.HTTPConnection(place.host, place.port, timeout=timeout)
        connection.sock = sock
        yield connection
    finally:
        ending.cancel()
        _shut(twin)
        sock.close()


def _dialled(addresses: Sequence[str], port: int, timeout: float) -> socket.socket:
    until = time.monotonic() + timeout
    failure: OSError = TimeoutError()
    for address in addresses:
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            return socket.create_connection((address, port), timeout=left)
        except OSError as error:
            failure = error
    raise failure


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _reason(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "it took too long"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted ({error.verify_message})"
        case OSError():
            return (error.strerror or type(error).__name__).lower()
        case _:
            return type(error).__name__


__all__ = ["WebEgress", "check_header", "is_public", "read"]
