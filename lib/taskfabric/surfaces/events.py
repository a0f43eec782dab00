"""GET /events: the journal as a stream of server-sent events, from a cursor on, as far as the caller may see.

``?cursor=…&task=…&queue=…``; the header Last-Event-ID goes before the cursor, so that a browser resumes where it was.
Each event has its cursor for an id. A comment every fifteen seconds shows that the server is alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from taskfabric.domain.errors import BadInput, FabricError, Unavailable
from taskfabric.domain.journal import Cursor
from taskfabric.ports.journal import Journal
from taskfabric.ports.signal import Change, Signal
from taskfabric.services.hallway import Hallway
from taskfabric.services.verbs import EventPage, Events
from taskfabric.surfaces.answers import header, send_error, until_gone
from taskfabric.surfaces.auth import Door, Presented
from taskfabric.surfaces.fabric_rpc.arguments import verb_of
from taskfabric.surfaces.fabric_rpc.procedures import incident
from taskfabric.surfaces.fabric_rpc.protocol import ProtocolError
from taskfabric.surfaces.threads import Pool

log = logging.getLogger(__name__)

HEARTBEAT: Final = 15.0  # seconds
_PAGE: Final = 200  # events that are read at once
_GATHER: Final = 0.05  # seconds in which changes are folded together
_ANYWAY: Final = 5.0  # seconds after which a stream looks without a reason: an event may become visible late
HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),  # a proxy that gathers the stream makes it useless
]


class Pulse:
    """Tells all streams at once that the journal has grown: by the signal, and by one look an interval."""

    def __init__(self, *, journal: Journal, pool: Pool, interval: float) -> None:
        self._journal = journal
        self._pool = pool
        self._interval = interval
        self._beat: asyncio.Future[None] | None = None
        self._end: Cursor | None = None
        self._told = False
        self._watched = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self.stopped = False

    def start(self, signal: Signal) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._beat = self._loop.create_future()
        self._unsubscribe = signal.subscribe(self._hear)
        self._runner = asyncio.create_task(self._run(), name="pulse")

    def end(self) -> None:
        """Every stream ends now."""
        self.stopped = True
        self._strike()

    async def stop(self) -> None:
        """Look no more."""
        self._unsubscribe()
        self.end()
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Somebody watches: only then is it worth looking."""
        self._watched += 1
        try:
            yield
        finally:
            self._watched -= 1

    def next(self) -> asyncio.Future[None]:
        """Done at the next growth. Shared by all: shield it before it is cancelled."""
        assert self._beat is not None
        return self._beat

    def _hear(self, change: Change) -> None:
        if self._told or not self._watched or self._loop is None:
            return
        self._told = True
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._soon)

    def _soon(self) -> None:
        assert self._loop is not None
        self._loop.call_later(_GATHER, self._strike)

    def _strike(self) -> None:
        self._told = False
        if self._beat is not None and self._loop is not None:
            beat, self._beat = self._beat, self._loop.create_future()
            if not beat.done():
                beat.set_result(None)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if not self._watched:
                continue
            try:
                end = await self._pool.run(self._journal.end)
            except Unavailable:
                continue
            except Exception:  # the streams still look by themselves
                log.exception("look at the journal failed")
                continue
            if end != self._end:
                self._end = end
                self._strike()


class EventStream:
    """The endpoint, as an ASGI application."""

    def __init__(self, hallway: Hallway, *, door: Door, pool: Pool, pulse: Pulse) -> None:
        self._hallway = hallway
        self._door = door
        self._pool = pool
        self._pulse = pulse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown: Presented = scope["fabric.presented"]
        beat = self._pulse.next()  # taken before each look, so that nothing falls between the look and the wait
        try:
            if scope["method"] != "GET":
                await self._pool.run(lambda: self._door.admit(shown))
                await send_error(send, BadInput("events are read by GET", allow="GET"), status=405)
                return
            verb = await self._pool.run(lambda: self._asked(shown, scope))
            page = await self._read(shown, verb)
        except FabricError as error:
            await send_error(send, error)
            return
        except ProtocolError as refused:
            await send_error(send, refused.error)
            return
        except Exception as error:
            await send_error(send, incident(error, "events").error)
            return
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        stream = asyncio.create_task(self._stream(shown, verb, page, beat, send))
        gone = asyncio.create_task(until_gone(receive))
        try:
            await asyncio.wait({stream, gone}, return_when=asyncio.FIRST_COMPLETED)
            if stream.done():
                stream.result()
                await send({"type": "http.response.body", "body": b""})
        finally:
            stream.cancel()
            gone.cancel()

    def _asked(self, shown: Presented, scope: Scope) -> Events:
        self._door.admit(shown)  # before a word about the arguments
        asked: dict[str, object] = dict(_query(scope))
        resumed = header(scope, b"last-event-id")
        if resumed:
            asked["cursor"] = resumed.decode("latin-1")
        return verb_of(Events, {**asked, "limit": _PAGE})

    async def _read(self, shown: Presented, verb: Events) -> EventPage:
        # Who it is is asked again for each page: a revoked credential ends its streams.
        return await self._pool.run(lambda: self._hallway.call(self._door.admit(shown), verb))

    async def _stream(
        self, shown: Presented, verb: Events, page: EventPage, beat: asyncio.Future[None], send: Send
    ) -> None:
        with self._pulse.watching():
            said = time.monotonic()
            await _send(send, _block(page) or _mark(page))
            while True:
                if len(page.events) < _PAGE:
                    await asyncio.wait([beat], timeout=_ANYWAY)
                if self._pulse.stopped:
                    return
                beat = self._pulse.next()
                verb = verb.model_copy(update={"cursor": str(page.cursor)})
                try:
                    page = await self._read(shown, verb)
                except Unavailable:
                    page = EventPage(events=(), cursor=page.cursor)  # it goes on when the board is back
                except FabricError as error:
                    await _send(send, b"event: error\ndata: " + orjson.dumps(error.to_json()) + b"\n\n")
                    return
                if block := _block(page):
                    await _send(send, block)
                    said = time.monotonic()
                elif time.monotonic() - said >= HEARTBEAT - _ANYWAY:
                    await _send(send, b": still here\n\n")
                    said = time.monotonic()


def _query(scope: Scope) -> Mapping[str, str]:
    try:
        return dict(parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=10))
    except ValueError as cause:
        raise BadInput(f"the query cannot be read: {cause}") from None


def _block(page: EventPage) -> bytes:
    return b"".join(
        b"id: %b\ndata: %b\n\n" % (str(event.cursor).encode(), orjson.dumps(event.to_json())) for event in page.events
    )


def _mark(page: EventPage) -> bytes:
    """The cursor alone, so that whoever began at the end can resume there."""
    return b"id: %b\n\n" % str(page.cursor).encode()


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
