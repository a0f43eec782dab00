"""The fabric over HTTP: the same calls, for the command line, workers and agents. Needs a URL and a token.

    fabric = RemoteFabric("http://127.0.0.1:8420", token)
    fabric.call(Submit(title="tidy the attic", to="bob"))

A call is repeated only when repeating is harmless: reads, renewals, submissions with a key, and whatever a busy server
did not begin. Of all else that breaks off the outcome is unknown; the error's fact ``sent`` says so.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic_core import from_json as parse_json

from taskfabric.domain.errors import FabricError
from taskfabric.domain.journal import Event
from taskfabric.ports.fabric import Verb
from taskfabric.remote.line import Line, error_of, is_repeatable
from taskfabric.services import verbs

R = TypeVar("R")

_LONGEST_WAIT: Final = 45.0  # seconds that one request waits; below the silence that proxies allow


class RemoteFabric(Line):
    """One caller's access to a fabric elsewhere; implements ``ports.fabric.Fabric``. Threads may share it.

    ``timeout`` is in seconds, for one answer; waiting for work or for a task comes on top. ``instance`` names the
    program and host that call, for people.
    """

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
            raise error_of(shape)
        answers = {entry.get("id"): entry for entry in shape if isinstance(entry, dict)}
        return [self._element(verb, answers.get(number)) for number, verb in enumerate(calls)]

    def events(
        self, cursor: str = "", *, task: int | None = None, queue: str | None = None, follow: bool = False
    ) -> Generator[Event, None, None]:
        """The journal from ``cursor`` on ("" = its beginning, "end" = what is new), as far as the caller may see.

        With ``follow`` it goes on for ever, across lost connections, and skips nothing. Raises Unavailable when the
        server stays away.
        """
        return self._following(cursor, task, queue) if follow else self._pages(cursor, task, queue)

    # ------------------------------------------------------------ one request

    def _once(self, verb: Verb[R], timeout: float) -> R:
        return self._decoded(verb, self._result(_request(verb, 1), timeout, repeatable=_repeatable(verb)))

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

    # ---------------------------------------------------------------- answers

    def _parse(self, text: bytes | str) -> Any:
        return parse_json(text)

    def _element(self, verb: Verb[R], shape: Mapping[str, Any] | None) -> R | FabricError:
        if shape is None:
            return self._foreign("no answer to one call of a batch")
        if "result" not in shape:
            return error_of(shape)
        return self._decoded(verb, shape["result"])

    def _decoded(self, verb: Verb[R], shape: Any) -> R:
        try:
            result: R = verb.result.decode(shape)
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            raise self._foreign(f"a result of {verb.method} that this version cannot read") from cause
        return result

    def _following(self, cursor: str, task: int | None, queue: str | None) -> Generator[Event, None, None]:
        for shape in self.follow(cursor, task=task, queue=queue):
            yield Event.from_json(shape)

    def _pages(self, cursor: str, task: int | None, queue: str | None) -> Generator[Event, None, None]:
        while True:
            page = self.call(verbs.Events(cursor=cursor, task=task, queue=queue, limit=1000))
            if not page.events:
                return
            yield from page.events
            cursor = str(page.cursor)


def _request(verb: Verb[Any], number: int) -> bytes:
    params = verb.model_dump_json(exclude_unset=True).encode()
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (number, verb.method.encode(), params)


def _repeatable(verb: Verb[Any]) -> bool:
    if isinstance(verb, verbs.SubmitMany):
        return all(task.key is not None for task in verb.tasks)
    return is_repeatable(verb.method, {"key": verb.key} if isinstance(verb, verbs.Submit) else {})
