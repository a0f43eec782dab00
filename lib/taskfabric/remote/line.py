"""A line to a fabric elsewhere: a procedure's name and its arguments out, a JSON value in.

It knows no verb and loads no model, which is most of what a short command would cost; ``RemoteFabric`` is the typed
form. A request is repeated only when that is harmless: when it only reads, or when the server did not begin it.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import urlencode

from taskfabric.domain.errors import BadInput, FabricError, Unavailable, from_json
from taskfabric.remote.wire import Address, Broken, Connection, common_head

_TRIES: Final = 3
PATIENCE: Final = 30.0  # seconds for one answer
_SILENCE: Final = 50.0  # seconds without a sign of life after which a stream is given up; the server gives one every 15
_LOST_STREAMS: Final = 6  # reconnections in a row that brought nothing
_IDLE_CONNECTIONS: Final = 16
# What may be asked twice: the readers, and renewals. A submission may too if it has a key.
_READERS: Final = ("hello", "download", "show", "list", "events", "tree", "why", "wait", "doctor")
_LISTS: Final = ("queue.list", "user.list", "token.list")
REPEATABLE: Final = frozenset(f"fabric.{name}" for name in (*_READERS, *_LISTS, "renew"))


class Line:
    """One caller's connections to a fabric elsewhere. Threads may share it.

    ``timeout`` is in seconds, for one answer; what a procedure waits comes on top. ``instance`` names the program and
    host that call, for people.
    """

    def __init__(self, url: str, token: str, *, timeout: float = PATIENCE, instance: str = "") -> None:
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._address = Address(self.url)
        self._head = common_head(self._address, token, instance)
        self._idle: deque[Connection] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; a later call opens a new one."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def ask(self, method: str, params: Mapping[str, object]) -> Any:
        """The procedure's result as it came. Raises the errors of ``domain.errors``; Unavailable if nobody answers."""
        try:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, allow_nan=False).encode()
        except ValueError as cause:  # a number that is none
            raise BadInput(f"an argument cannot be sent: {cause}") from cause
        waits = params.get("timeout") if method == "fabric.wait" else None
        patience = self._timeout + (waits if isinstance(waits, int | float) else 0.0)
        return self._result(body, patience, repeatable=is_repeatable(method, params))

    def follow(
        self, cursor: str = "", *, task: int | None = None, queue: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """The journal's events after ``cursor`` as they happen, for ever, across lost connections; none is skipped.

        Raises Unavailable when the server stays away.
        """
        return self._follow(cursor, task, queue)

    # ------------------------------------------------------------ one request

    def _result(self, body: bytes, timeout: float, *, repeatable: bool) -> Any:
        shape = self._exchange(body, timeout, repeatable=repeatable)
        if not isinstance(shape, dict):
            raise self._foreign("a list")
        if "result" not in shape:
            raise error_of(shape)
        return shape["result"]

    def _exchange(self, body: bytes, timeout: float, *, repeatable: bool) -> Any:
        for attempt in range(1, _TRIES + 1):
            try:
                status, answer = self._post(body, timeout)
            except Broken as broken:
                if attempt < _TRIES and repeatable and broken.sent:
                    time.sleep(random.uniform(0.05, 0.2) * attempt)
                    continue
                raise self._away(str(broken), sent=broken.sent) from broken
            shape = self._parsed(status, answer)
            if attempt < _TRIES and status == 503 and _is_busy(shape):
                time.sleep(random.uniform(0.1, 0.5) * attempt)
                continue
            return shape
        raise AssertionError("the last attempt returns or raises")

    def _post(self, body: bytes, timeout: float) -> tuple[int, bytes]:
        request = b"POST %b/jsonrpc.php%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            self._address.path,
            self._head,
            len(body),
            body,
        )
        conn = self._connection()
        try:
            answer = conn.exchange(request, timeout)
        except BaseException:
            conn.close()
            raise
        if answer.reusable and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(conn)
        else:
            conn.close()
        return answer.status, bytes(answer.body)

    def _connection(self) -> Connection:
        with contextlib.suppress(IndexError):
            while True:
                conn = self._idle.pop()
                if conn.is_fresh():
                    return conn
                conn.close()
        return Connection(self._address)

    # ---------------------------------------------------------------- answers

    def _parse(self, text: bytes | str) -> Any:
        """JSON as a value. Who asks much brings a faster parser. Raises ValueError."""
        return json.loads(text)

    def _parsed(self, status: int, answer: bytes) -> Any:
        try:
            shape = self._parse(answer) if answer else None
        except ValueError:
            shape = None
        if isinstance(shape, list) or (isinstance(shape, dict) and ("result" in shape or "error" in shape)):
            return shape
        if status in (502, 503, 504):
            raise self._away(f"a proxy on the way says HTTP {status}", sent=status != 503)
        raise self._foreign(f"HTTP {status}")

    def _away(self, reason: str, *, sent: bool) -> Unavailable:
        return Unavailable(
            f"the fabric at {self.url} does not answer: {reason}",
            next="look whether it was done before you repeat it"
            if sent
            else "start it with `fabric up`, or let FABRIC_URL name a running one",
            url=self.url,
            sent=sent,
        )

    def _foreign(self, what: str) -> BadInput:
        return BadInput(
            f"{self.url} answers, but not as a fabric does ({what})",
            next="check FABRIC_URL, and that client and server are of the same version",
            url=self.url,
        )

    # ---------------------------------------------------------------- streams

    def _follow(self, cursor: str, task: int | None, queue: str | None) -> Iterator[dict[str, Any]]:
        fruitless = 0
        while True:
            reason = "the stream ended"
            try:
                with contextlib.closing(Connection(self._address)) as conn:
                    for name, data, mark in self._stream(conn, cursor, task, queue):
                        cursor = mark or cursor
                        fruitless = 0
                        if name == "error":
                            raise from_json(self._parse(data))
                        if data:
                            yield self._parse(data)
            except Broken as broken:
                reason = str(broken)
            fruitless += 1
            if fruitless > _LOST_STREAMS:
                raise self._away(reason, sent=False)
            time.sleep(min(5.0, 0.1 * 2**fruitless) * random.uniform(0.5, 1.0))

    def _stream(
        self, conn: Connection, cursor: str, task: int | None, queue: str | None
    ) -> Iterator[tuple[str, str, str]]:
        asked = {"cursor": cursor, "task": task, "queue": queue}
        query = urlencode({key: value for key, value in asked.items() if value is not None}).encode()
        pieces = conn.pieces(b"GET %b/events?%b%b\r\n" % (self._address.path, query, self._head), _SILENCE)
        answer = next(pieces)
        if answer.status != 200:
            for _ in pieces:
                pass
            shape = self._parsed(answer.status, bytes(answer.body))
            raise error_of(shape) if isinstance(shape, dict) else self._foreign("a list")
        more = True
        while more:  # what came together with the head counts as well
            *whole, rest = bytes(answer.body).split(b"\n\n")
            answer.body[:] = rest
            yield from map(_stream_event, whole)
            more = next(pieces, None) is not None


def _stream_event(block: bytes) -> tuple[str, str, str]:
    """(event, data, id) of one block of the stream; a comment has none of them."""
    fields = dict(
        line.split(": ", 1)
        for line in block.decode("utf-8", "replace").split("\n")
        if ": " in line and not line.startswith(":")
    )
    return fields.get("event", ""), fields.get("data", ""), fields.get("id", "")


def is_repeatable(method: str, params: Mapping[str, object]) -> bool:
    """Whether asking twice does no more than asking once."""
    return method in REPEATABLE or (method == "fabric.submit" and params.get("key") is not None)


def _is_busy(shape: Any) -> bool:
    return isinstance(shape, dict) and "error" in shape and bool(error_of(shape).facts.get("busy"))


def error_of(shape: Mapping[str, Any]) -> FabricError:
    """The error of an answer, as the class that the server raised."""
    error = shape.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    if isinstance(data, dict):
        return from_json(data)
    if isinstance(error, dict) and "name" in error:  # from a page that is no procedure
        return from_json(error)
    return FabricError(str(error.get("message") if isinstance(error, dict) else error))
