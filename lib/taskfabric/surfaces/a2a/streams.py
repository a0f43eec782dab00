"""What is told of a task, as server-sent events with numbers: whoever was cut off goes on where he was."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import orjson
from starlette.types import Receive, Send

from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.status import A2AState
from taskfabric.ports.a2a import INTERRUPTED, TERMINAL, Seen, Told
from taskfabric.services import a2a_text
from taskfabric.services.a2a import A2A
from taskfabric.surfaces.a2a import wire
from taskfabric.surfaces.a2a.operations import Visit
from taskfabric.surfaces.a2a.watch import Watch
from taskfabric.surfaces.answers import until_gone
from taskfabric.surfaces.events import HEADERS, HEARTBEAT
from taskfabric.surfaces.threads import Pool

log = logging.getLogger(__name__)

_SLOW: Final = 60.0  # seconds that a reader may take for one piece


class Streams:
    """The open streams; ``most`` of one principal at once."""

    def __init__(self, a2a: A2A, *, pool: Pool, watch: Watch, most: int) -> None:
        self._a2a = a2a
        self._pool = pool
        self._watch = watch
        self._most = most
        self._open: Counter[int] = Counter()  # by principal

    async def serve(
        self,
        id_: wire.Id,
        let_in: Callable[[], Visit],
        seen: Seen,
        after: int | None,
        receive: Receive,
        send: Send,
        *,
        sending: bool,
        history: int | None = None,
    ) -> None:
        """Until the task has ended, for a sender also until it asks. To be called within ``place``. ``history``: with
        how many of its latest messages the task is shown; None = all."""
        task = partial(self._a2a.task, seen, history=history)
        stream = asyncio.create_task(self._events(id_, let_in, seen, after, send, task, sending=sending))
        gone = asyncio.create_task(until_gone(receive))
        try:
            await asyncio.wait({stream, gone}, return_when=asyncio.FIRST_COMPLETED)
            if stream.done():
                stream.result()
        except (TimeoutError, ConnectionError):
            log.info("stream ended: its reader is too slow task=%s", seen.id)
        finally:
            stream.cancel()
            gone.cancel()

    @contextlib.contextmanager
    def place(self, me: int) -> Iterator[None]:
        """One more stream of this principal. Raises Unavailable beyond the bound, so before anything is begun."""
        if self._open[me] >= self._most:
            raise Unavailable(f"{self._most} streams are open already", next="close one", busy=True, sent=False)
        self._open[me] += 1
        try:
            yield
        finally:
            self._open[me] -= 1
            if not self._open[me]:
                del self._open[me]

    async def _events(
        self,
        id_: wire.Id,
        let_in: Callable[[], Visit],
        seen: Seen,
        after: int | None,
        send: Send,
        task: Callable[[], Mapping[str, Any]],
        *,
        sending: bool,
    ) -> None:
        """The task as it is, then what is told of it; from ``after`` on where a reader resumes. Who he is is asked
        again for each piece: a revoked credential ends its streams."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        with self._watch.looking(seen.id, seen.task_id, seen.seq) as lookout:
            last = seen.seq if after is None or sending else after
            if seen.state is None:  # it was answered with a message before: there is no task
                last = 0
            elif after is None or sending:
                await _write(send, _event(id_, last, {"task": await self._pool.run(task)}))
            over = _over(seen.state, sending=sending)  # before it was looked at: then only what was told since is left
            while True:
                try:
                    told = await self._pool.run(partial(self._news, let_in, seen.id, last))
                except Unavailable:
                    told = []  # it goes on when the board is back
                except FabricError as error:
                    await _write(send, b"event: error\ndata: " + orjson.dumps(error.to_json()) + b"\n\n", more=False)
                    return
                ended = False
                for some in _gathered(told):
                    block, ended = await self._block(id_, some, sending=sending)
                    if block:
                        await _write(send, block)
                last = told[-1].n if told else last
                lookout.seq = last
                if ended or (over and not told) or self._watch.stopped:
                    await _write(send, b"", more=False)
                    return
                if not await lookout.news(HEARTBEAT):
                    await _write(send, b": still here\n\n")

    def _news(self, let_in: Callable[[], Visit], a2a_id: str, after: int) -> list[Told]:
        told = self._a2a.told(a2a_id, after)
        let_in()  # afterwards: what happened after he was switched off he does not see
        return told

    async def _block(self, id_: wire.Id, told: list[Told], *, sending: bool) -> tuple[bytes, bool]:
        """The events of one piece, and whether it is the last one. Files are read in a thread."""
        if any(a2a_text.has_file(one.body) for one in told):
            return await self._pool.run(lambda: self._written(id_, told, sending=sending))
        return self._written(id_, told, sending=sending)

    def _written(self, id_: wire.Id, told: list[Told], *, sending: bool) -> tuple[bytes, bool]:
        pieces: list[bytes] = []
        over = False
        for one in told:
            if one.kind == "message":
                if one.body["message"]["role"] == "ROLE_AGENT":  # a direct message: there is no task
                    pieces.append(_event(id_, one.n, one.body))
                    over = True
                continue
            body = one.body
            if "artifactUpdate" in body:
                update = body["artifactUpdate"]
                body = {"artifactUpdate": {**update, "artifact": a2a_text.filled(update["artifact"], self._a2a.fill)}}
            pieces.append(_event(id_, one.n, body))
            if "statusUpdate" in body:
                state = A2AState(body["statusUpdate"]["status"]["state"])
                over = _over(state, sending=sending)
        return b"".join(pieces), over


def _over(state: A2AState | None, *, sending: bool) -> bool:
    """Whether there is nothing to wait for; a subscriber waits on while his task asks."""
    return state in TERMINAL or (sending and state in INTERRUPTED)


def _gathered(told: list[Told]) -> Iterator[list[Told]]:
    """In pieces that are written at once: what has a file goes by itself, for it may be large."""
    some: list[Told] = []
    for one in told:
        if a2a_text.has_file(one.body):
            yield from ([some] if some else [])
            yield [one]
            some = []
        else:
            some.append(one)
    yield from ([some] if some else [])


def _event(id_: wire.Id, n: int, body: Mapping[str, Any]) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (n, wire.result(id_, body))


async def _write(send: Send, body: bytes, *, more: bool = True) -> None:
    """Raises TimeoutError for a reader who does not read."""
    async with asyncio.timeout(_SLOW):
        await send({"type": "http.response.body", "body": body, "more_body": more})
