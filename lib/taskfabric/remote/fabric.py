"""The fabric over HTTP: the same calls, for the command line, workers and agents. Needs a URL and a token.

    fabric = RemoteFabric("http://127.0.0.1:8420", token)
    fabric.call(Submit(title="tidy the attic", to="bob"))

A call is repeated only when repeating is harmless: reads, renewals, submissions with a key, and whatever a busy server
did not begin. Of all else that breaks off the outcome is unknown; the error's fact ``sent`` says so.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlencode

from pydantic_core import from_json as parse_json

from taskfabric.domain.errors import BadInput, FabricError, Unavailable, from_json
from taskfabric.domain.journal import Event
from taskfabric.ports.fabric import Verb
from taskfabric.remote.wire import Address, Broken, Connection, common_head
from taskfabric.services import verbs

R = TypeVar("R")

_TRIES: Final = 3
_PATIENCE: Final = 30.0  # seconds for one answer
_LONGEST_WAIT: Final = 45.0  # seconds that one request waits; below the silence that proxies allow
_SILENCE: Final = 50.0  # seconds without a sign of life after which a stream is given up; the server gives one every 15
_LOST_STREAMS: Final = 6  # reconnections in a row that brought nothing
_IDLE_CONNECTIONS: Final = 16
_REPEATABLE: Final[tuple[type[Verb[Any]], ...]] = (
    verbs.Hello,
    verbs.Renew,
    verbs.Download,
    verbs.Show,
    verbs.List,
    verbs.Events,
    verbs.Tree,
    verbs.Why,
    verbs.Wait,
    verbs.ListQueues,
    verbs.ListUsers,
    verbs.ListTokens,
    verbs.Doctor,
)


class RemoteFabric:
    """One caller's access to a fabric elsewhere; implements ``ports.fabric.Fabric``. Threads may share it.

    ``timeout`` is in seconds, for one answer; waiting for work or for a task comes on top. ``instance`` names the
    program and host that call, for people.
    """

    def __init__(self, url: str, token: str, *, timeout: float = _PATIENCE, instance: str = "") -> None:
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

    def call(self, verb: Verb[R]) -> R:
        """The verb's result. Raises the errors of ``domain.errors``; Unavailable when nobody answers."""
        if isinstance(verb, verbs.Wait):
            return self._wait(verb)  # type: ignore[no-any-return]  # a Wait's R is what _wait returns
        return self._once(verb, self._timeout)

    def call_many(self, calls: Sequence[Verb[Any]]) -> list[Any | FabricError]:
        """The result or the error of each, in their order, asked for in one request (100 at most)."""
        if not calls:
            return []
        body = b"[" + b",".join(_request(verb, number) for number, verb in enumerate(calls)) + b"]"
        timeout = self._timeout + max((verb.timeout for verb in calls if isinstance(verb, verbs.Wait)), default=0.0)
        shape = self._exchange(body, timeout, repeatable=all(map(_repeatable, calls)))
        if isinstance(shape, dict):  # the batch as a whole was refused
            raise _error(shape)
        answers = {entry.get("id"): entry for entry in shape}
        return [self._element(verb, answers.get(number)) for number, verb in enumerate(calls)]

    def events(
        self, cursor: str = "", *, task: int | None = None, queue: str | None = None, follow: bool = False
    ) -> Iterator[Event]:
        """The journal from ``cursor`` on ("" = its beginning, "end" = what is new), as far as the caller may see.

        With ``follow`` it goes on for ever, across lost connections, and skips nothing. Raises Unavailable when the
        server stays away.
        """
        return self._follow(cursor, task, queue) if follow else self._pages(cursor, task, queue)

    # ------------------------------------------------------------ one request

    def _once(self, verb: Verb[R], timeout: float) -> R:
        shape = self._exchange(_request(verb, 1), timeout, repeatable=_repeatable(verb))
        if not isinstance(shape, dict):
            raise self._foreign("a list")
        if "error" in shape:
            raise _error(shape)
        return self._decoded(verb, shape)

    def _wait(self, verb: verbs.Wait) -> Any:
        """Ask again until it happened or the verb's own time is over: a server answers a long wait in pieces."""
        deadline = time.monotonic() + verb.timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            piece = min(left, _LONGEST_WAIT)
            got = self._once(verb.model_copy(update={"timeout": piece}), self._timeout + piece)
            if got.happened or time.monotonic() >= deadline:
                return got
            time.sleep(min(left, random.uniform(0.0, 0.05)))  # a server that stops answers all its waiters at once

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

    def _parsed(self, status: int, answer: bytes) -> Any:
        try:
            shape = parse_json(answer) if answer else None
        except ValueError:
            shape = None
        if isinstance(shape, list) or (isinstance(shape, dict) and ("result" in shape or "error" in shape)):
            return shape
        if status in (502, 503, 504):
            raise self._away(f"a proxy on the way says HTTP {status}", sent=status != 503)
        raise self._foreign(f"HTTP {status}")

    def _element(self, verb: Verb[R], shape: Mapping[str, Any] | None) -> R | FabricError:
        if shape is None:
            return self._foreign("no answer to one call of a batch")
        if "error" in shape:
            return _error(shape)
        return self._decoded(verb, shape)

    def _decoded(self, verb: Verb[R], shape: Mapping[str, Any]) -> R:
        try:
            result: R = verb.result.decode(shape["result"])
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            raise self._foreign(f"a result of {verb.method} that this version cannot read") from cause
        return result

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

    def _pages(self, cursor: str, task: int | None, queue: str | None) -> Iterator[Event]:
        while True:
            page = self.call(verbs.Events(cursor=cursor, task=task, queue=queue, limit=1000))
            if not page.events:
                return
            yield from page.events
            cursor = str(page.cursor)

    def _follow(self, cursor: str, task: int | None, queue: str | None) -> Iterator[Event]:
        fruitless = 0
        while True:
            reason = "the stream ended"
            try:
                with contextlib.closing(Connection(self._address)) as conn:
                    for name, data, mark in self._stream(conn, cursor, task, queue):
                        cursor = mark or cursor
                        fruitless = 0
                        if name == "error":
                            raise from_json(parse_json(data))
                        if data:
                            yield Event.from_json(parse_json(data))
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
            raise _error(self._parsed(answer.status, bytes(answer.body)))
        rest = ""
        for _ in pieces:
            rest += answer.body.decode()  # the server sends whole events, so a piece never ends within a character
            answer.body.clear()
            *whole, rest = rest.split("\n\n")
            yield from map(_stream_event, whole)


def _stream_event(block: str) -> tuple[str, str, str]:
    """(event, data, id) of one block of the stream; a comment has none of them."""
    fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
    return fields.get("event", ""), fields.get("data", ""), fields.get("id", "")


def _request(verb: Verb[Any], number: int) -> bytes:
    params = verb.model_dump_json(exclude_unset=True).encode()
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (number, verb.method.encode(), params)


def _repeatable(verb: Verb[Any]) -> bool:
    if isinstance(verb, verbs.Submit):
        return verb.key is not None
    if isinstance(verb, verbs.SubmitMany):
        return all(task.key is not None for task in verb.tasks)
    return isinstance(verb, _REPEATABLE)


def _is_busy(shape: Any) -> bool:
    return isinstance(shape, dict) and "error" in shape and bool(_error(shape).facts.get("busy"))


def _error(shape: Mapping[str, Any]) -> FabricError:
    error = shape.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    if isinstance(data, dict):
        return from_json(data)
    return FabricError(str(error.get("message") if isinstance(error, dict) else error))
