"""The line to a Kanboard: the public client's class over a connection that is kept, with batches and one error tree.

A Kanboard answers with ``false`` where something is refused and with an error where its database gave up. An error does
not mean that nothing was done: whoever wrote must look (``Doubtful``).
"""

from __future__ import annotations

import base64
import json
import logging
import random
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

import requests
from kanboard import Client

from taskfabric.domain.errors import Unavailable

log = logging.getLogger(__name__)

_TIMEOUT: Final = (5.0, 45.0)  # seconds to connect, to answer; Kanboard's SQLite waits 30 s for a writer
_BATCH: Final = 40  # calls in one request
_TRIES: Final = 5  # of a call that may be repeated
_REPEATABLE: Final = ("get", "save", "update", "set", "open", "close", "enable", "disable", "change")
_AWAY: Final = 5.0  # seconds for which a board that did not answer counts as away


class Doubtful(Unavailable):
    """Kanboard answered with an error: it may or may not have done it."""

    def __init__(self, method: str, says: str) -> None:
        super().__init__(f"Kanboard answered {method} with an error ({says[:200]})", sent=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One procedure and its named arguments."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


class _Line(Client):
    """The client package's class; only its transport is ours. Its asynchronous half is not used, so it gets no loop."""

    def __init__(self, url: str, username: str, password: str) -> None:
        super().__init__(url, username, password, user_agent="taskfabric", loop=cast(AbstractEventLoop, _NO_LOOP))
        self.sessions = threading.local()
        self.skew = timedelta(0)  # the board's clock minus ours; resolution one second

    def _do_request(self, headers: dict[str, str], body: dict[str, Any]) -> Any:
        return self.send(headers, body)

    def send(self, headers: Mapping[str, str], body: object) -> Any:
        """The decoded answer. Raises Unavailable."""
        session: requests.Session | None = getattr(self.sessions, "session", None)
        if session is None:
            session = self.sessions.session = requests.Session()
        try:
            answer = session.post(self._url, data=json.dumps(body).encode(), headers=dict(headers), timeout=_TIMEOUT)
        except requests.RequestException as error:
            unsent = isinstance(error, requests.exceptions.ConnectTimeout)
            raise Unavailable(f"Kanboard does not answer ({type(error).__name__})", sent=not unsent) from error
        if answer.status_code in (401, 403):
            raise Unavailable(
                "Kanboard refuses the token",
                next="set KANBOARD_TOKEN to the token of its settings page, 'API'",
                sent=False,
            )
        if answer.status_code != 200:
            raise Unavailable(f"Kanboard answered with HTTP {answer.status_code}", sent=True)
        date = answer.headers.get("Date")
        if date is not None:
            self.skew = parsedate_to_datetime(date) - datetime.now(UTC)
        try:
            return answer.json()
        except ValueError as error:
            raise Unavailable("Kanboard's answer is not JSON: is this the address of its jsonrpc.php?") from error


_NO_LOOP: Final = object()


class Kanboard:
    """Calls to one Kanboard as its app token; safe to use from any thread.

    Raises Unavailable while it cannot be reached, Doubtful for an error that it answered."""

    def __init__(self, url: str, token: str) -> None:
        self.url = address(url)
        self._line = _Line(self.url, "jsonrpc", token)
        basic = base64.b64encode(f"jsonrpc:{token}".encode()).decode()
        self._headers = {"Content-Type": "application/json", "Authorization": f"Basic {basic}"}
        self._silent_since: float | None = None

    def call(self, method: str, **params: Any) -> Any:
        """The procedure's result, ``False`` and ``None`` included."""
        for attempt in range(1, _TRIES):
            (result,) = self.many([Call(method=method, params=params)])
            if not isinstance(result, Doubtful):
                return result
            if not method.startswith(_REPEATABLE):
                raise result
            time.sleep(random.uniform(0.02, 0.1) * attempt)  # its SQLite refuses at once who comes in between
        (result,) = self.many([Call(method=method, params=params)])
        if isinstance(result, Doubtful):
            raise result
        return result

    def many(self, calls: Sequence[Call]) -> list[Any]:
        """The results in order, in as few requests as may be; an error is an element, not a failure of the rest.

        They run one after another, in no transaction."""
        results: list[Any] = []
        for begin in range(0, len(calls), _BATCH):
            results += self._batch(calls[begin : begin + _BATCH])
        return results

    def _batch(self, calls: Sequence[Call]) -> list[Any]:
        bodies = [
            {"jsonrpc": "2.0", "id": n, "method": c.method, "params": dict(c.params)} for n, c in enumerate(calls)
        ]
        try:
            answers = self._line.send(self._headers, bodies[0] if len(bodies) == 1 else bodies)
        except Unavailable:
            self._silent_since = time.monotonic()
            raise
        self._silent_since = None
        if isinstance(answers, dict):
            answers = [answers]
        if not isinstance(answers, list) or len(answers) != len(calls):
            message = answers[0].get("error") if isinstance(answers, list) and answers else answers
            raise Unavailable(f"Kanboard did not understand the calls ({str(message)[:200]})", sent=True)
        return [_result(call, answer) for call, answer in zip(calls, answers, strict=True)]

    def must_answer(self) -> None:
        """Raises Unavailable if it did not answer a moment ago: then nothing new is begun."""
        if self._silent_since is not None and time.monotonic() - self._silent_since < _AWAY:
            self.call("getVersion")

    @property
    def skew(self) -> timedelta:
        """The clock of the Kanboard, by the Date of its answers, minus this machine's; exact to a second."""
        return self._line.skew


def _result(call: Call, answer: Mapping[str, Any]) -> Any:
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    message = str(error.get("message") if isinstance(error, Mapping) else error)
    log.info("kanboard error method=%s message=%r", call.method, message[:200])
    return Doubtful(call.method, message[:500])


def address(url: str) -> str:
    """The address of the API: ``jsonrpc.php`` may be left out."""
    return url if url.endswith(".php") else url.rstrip("/") + "/jsonrpc.php"


def say(method: str, **params: Any) -> Call:
    """A call, said shortly."""
    return Call(method=method, params=params)
