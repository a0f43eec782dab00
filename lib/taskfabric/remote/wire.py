"""One HTTP connection to a fabric: a socket and the parser that the server uses too.

Measured as CPU time of an import: ``requests`` 140 ms, ``urllib3`` 105 ms, ``http.client`` 43 ms, the parser 19 ms. A
command of the command line has 200 ms for everything.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httptools

from taskfabric.domain.errors import BadInput, NotAuthenticated

if TYPE_CHECKING:
    import ssl

_CONNECT: Final = 5.0  # seconds for a connection


class Broken(Exception):
    """No complete answer. ``sent``: the request may have been carried out."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Address:
    """Where a URL leads."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        plain = url.isascii() and url.isprintable() and " " not in url
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or not plain:
            raise BadInput(f"{url[:80]!r} is not the URL of a fabric", next="write it as http://127.0.0.1:8420")
        self.host = parts.hostname
        self.port = port or (443 if parts.scheme == "https" else 80)
        self.secure = parts.scheme == "https"
        self.path = parts.path.encode()
        self.host_header = parts.netloc.rpartition("@")[2].encode()
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def connect(self) -> socket.socket:
        """A connection. Raises OSError."""
        sock = socket.create_connection((self.host, self.port), timeout=_CONNECT)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._wrapped(sock) if self.secure else sock
        except BaseException:
            sock.close()
            raise

    def _wrapped(self, sock: socket.socket) -> socket.socket:
        import ssl  # only who speaks TLS pays for it

        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context()
        return self._context.wrap_socket(sock, server_hostname=self.host)


def common_head(address: Address, token: str, instance: str) -> bytes:
    """What every request says after its path."""
    if not (token.isascii() and token.isprintable() and token and " " not in token):
        raise NotAuthenticated("there is no token, or it holds characters that no token has")
    lines = [
        b" HTTP/1.1",
        b"Host: " + address.host_header,
        b"Authorization: Bearer " + token.encode(),
        b"Accept: application/json, text/event-stream",
    ]
    shown = "".join(c for c in instance if c.isprintable() and c not in "()").strip()[:80]
    if shown:
        lines.append(b"X-Fabric-Instance: " + shown.encode("utf-8", "replace"))
    return b"\r\n".join(lines) + b"\r\n"


class Answer:
    """An answer as the parser finds it."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.headed = False
        self.complete = False
        self.reusable = False
        self.parser = httptools.HttpResponseParser(self)

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.headed = True

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.complete = True
        self.reusable = self.parser.should_keep_alive()


class Connection:
    """One connection to the server, used by one thread at a time."""

    def __init__(self, address: Address) -> None:
        try:
            self._sock = address.connect()
        except OSError as cause:
            raise Broken(_why(cause), sent=False) from cause

    def close(self) -> None:
        self._sock.close()

    def __del__(self) -> None:
        # A client that is simply dropped, as a command of the command line does, leaves nothing open.
        with contextlib.suppress(AttributeError):
            self._sock.close()

    def is_fresh(self) -> bool:
        """Whether an idle connection still stands: a server says nothing on it but that it ends it."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def exchange(self, request: bytes, timeout: float) -> Answer:
        """The whole answer. Raises Broken."""
        answer: Answer | None = None
        for answer in self.pieces(request, timeout):  # noqa: B007 (the last one is the whole)
            pass
        assert answer is not None
        return answer

    def pieces(self, request: bytes, silence: float) -> Iterator[Answer]:
        """The same answer again whenever more of it has come, first when its head is there. Raises Broken."""
        answer = Answer()
        try:
            self._sock.settimeout(silence)
            self._sock.sendall(request)
            while not answer.complete:
                got = self._sock.recv(262_144)
                if not got:
                    raise Broken("it closed the connection", sent=True)
                answer.parser.feed_data(got)
                if answer.headed:
                    yield answer
        except OSError as cause:
            raise Broken(_why(cause), sent=True) from cause
        except httptools.HttpParserError as cause:
            raise Broken("what came is not HTTP", sent=True) from cause


def _why(cause: OSError) -> str:
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return (cause.strerror or str(cause)).lower()
