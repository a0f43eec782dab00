"""Pages that follow what happens: server-sent events that carry small pieces of HTML, for one board, task or inbox.

A stream goes on from a cursor of the journal, and each event has its cursor for an id, so that a browser that was away
resumes where it was. Whose session it is is asked again at each look; a revoked one ends its streams.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import unquote

import orjson
from starlette.types import Receive, Scope, Send

from taskfabric.domain.errors import FabricError, NotAuthenticated, NotFound, Unavailable
from taskfabric.services.fleet_verbs import ReadChunks
from taskfabric.services.hallway import Hallway
from taskfabric.services.inbox_verbs import Inbox
from taskfabric.services.overview_verbs import Standing
from taskfabric.services.verbs import Events, Show
from taskfabric.surfaces.answers import header, send_error, until_gone
from taskfabric.surfaces.events import HEARTBEAT, Pulse
from taskfabric.surfaces.fabric_rpc.procedures import incident
from taskfabric.surfaces.threads import Pool
from taskfabric.surfaces.web.looks import Looks
from taskfabric.surfaces.web.pages.board import read_numbers, wanted
from taskfabric.surfaces.web.pages.inbox import fingerprint
from taskfabric.surfaces.web.session import Gate
from taskfabric.surfaces.web.visit import Visit, cookies, query

_PAGE: Final = 200  # events read at once
_ANYWAY: Final = 5.0  # seconds after which a stream looks without a reason
_GAP: Final = 0.2  # seconds between two looks: what happens meanwhile is seen in one
_SOON: Final = 1.0  # the same while a run may be writing output, which is not in the journal
_CURSOR: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,19}")
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One server-sent event."""

    kind: str
    data: str
    id: str = ""

    def encoded(self) -> bytes:
        lines = [f"event: {self.kind}", *([f"id: {self.id}"] if self.id else [])]
        return "\n".join([*lines, *(f"data: {line}" for line in self.data.splitlines() or [""])]).encode() + b"\n\n"


class Feed(Protocol):
    """What one stream is about."""

    rest: float  # seconds until the next look, if nothing happens before

    def look(self, visit: Visit) -> Iterator[Piece]:
        """What is new since the last look."""


class BoardFeed:
    """A queue's board: each changed card once, as it now is, and which of the shown ones have left.

    The journal tells what changes on the board. What left it, for another board or for good, is no longer this board's
    to tell, and renewals are in no journal: both are found by asking for the shown cards themselves.
    """

    def __init__(self, looks: Looks, queue: str, cursor: str, shown: Sequence[int]) -> None:
        self.rest = _ANYWAY
        self._looks = looks
        self._queue = queue
        self._cursor = cursor
        self._shown: dict[int, datetime | None] = dict.fromkeys(shown)  # with the end of each lease
        self._began = False

    def look(self, visit: Visit) -> Iterator[Piece]:
        page = visit.fabric.call(Events(queue=self._queue, cursor=self._cursor, limit=_PAGE))
        changed = dict.fromkeys(e.task_id for e in page.events if e.task_id is not None)
        stands = visit.fabric.call(Standing(queue=self._queue, tasks=tuple(self._shown))) if self._shown else {}
        shown = dict(self._shown) if self._began else {**self._shown, **stands}
        renewed = [id_ for id_, until in stands.items() if until != shown[id_]]
        left = shown.keys() - stands.keys()
        yield from self._pieces(visit, shown, [*changed, *renewed], {*left, *changed}, str(page.cursor))
        self._cursor, self._shown, self._began = str(page.cursor), shown, True  # what could not be read is read again
        self.rest = _ANYWAY if len(page.events) < _PAGE else 0.0

    def _pieces(
        self, visit: Visit, shown: dict[int, datetime | None], news: Sequence[int], left: set[int], cursor: str
    ) -> Iterator[Piece]:
        """``left``: what is gone, unless it is found to stand there; ``shown`` is brought up to date."""
        moved = bool(left)
        if news:
            wall = visit.fabric.call(wanted(visit.query, self._queue, per_column=1000, tasks=news[:1000]))
            values = {"now": wall.view.now, "zone": visit.zone}
            for column in wall.view.columns:
                for task, rank in zip(column.cards, column.ranks, strict=True):
                    left.discard(task.id)
                    shown[task.id] = task.lease_until
                    card = self._looks.part("parts.html", "card", values, task, rank, wall.may_move)
                    yield Piece(kind="card", data=card, id=cursor)
        for task_id in sorted(left):
            shown.pop(task_id, None)
            yield Piece(kind="gone", data=str(task_id), id=cursor)
        if moved:
            counts = visit.fabric.call(wanted(visit.query, self._queue, per_column=1)).view.columns
            yield Piece(kind="counts", data=orjson.dumps({str(c.id): c.total for c in counts}).decode())


class TaskFeed:
    """A task: its journal and the output of its run, piece by piece; and that its state is another one now."""

    def __init__(self, looks: Looks, task: int, cursor: str, *, epoch: int, after: int) -> None:
        self.rest = _SOON
        self._looks = looks
        self._task = task
        self._cursor = cursor
        self._epoch = epoch
        self._after = after

    def look(self, visit: Visit) -> Iterator[Piece]:
        before = self._epoch, self._after
        try:
            yield from self._pieces(visit)
        except Exception:  # nothing of it was sent: all of it is read again
            self._epoch, self._after = before
            raise

    def _pieces(self, visit: Visit) -> Iterator[Piece]:
        page = visit.fabric.call(Events(task=self._task, cursor=self._cursor, limit=_PAGE))
        values = {"now": visit.now, "zone": visit.zone}
        yield from self._output(visit, values)
        for event in page.events:
            entry = self._looks.part("parts.html", "entry", values, event)
            yield Piece(kind="entry", data=entry, id=str(event.cursor))
        if page.events:
            task = visit.fabric.call(Show(task=self._task)).task
            self.rest = _SOON if task.lease_until is not None else _ANYWAY
            yield Piece(kind="face", data=self._looks.part("face.html", "face_of", values, task))
            yield Piece(kind="changed", data=task.status.value)
        if len(page.events) == _PAGE:
            self.rest = 0.0
        self._cursor = str(page.cursor)

    def _output(self, visit: Visit, values: Mapping[str, Any]) -> Iterator[Piece]:
        found = visit.fabric.call(ReadChunks(task=self._task, limit=1000))
        if found["epoch"] is not None and found["epoch"] != self._epoch:
            self._epoch, self._after = found["epoch"], -1
            yield Piece(kind="run", data=str(self._epoch))
        if self._after >= 0 and self._epoch:
            found = visit.fabric.call(ReadChunks(task=self._task, epoch=self._epoch, after=self._after, limit=1000))
        for chunk in found["chunks"]:
            self._after = chunk["n"]
            yield Piece(kind="chunk", data=self._looks.part("parts.html", "piece", values, chunk))


class InboxFeed:
    """The inbox: only that something in it changed."""

    rest = _ANYWAY

    def __init__(self, seen: str) -> None:
        self._seen = seen  # what the page shows

    def look(self, visit: Visit) -> Iterator[Piece]:
        found = visit.fabric.call(Inbox(snoozed=visit.query.get("snoozed") == "1"))
        seen = fingerprint(found)
        if seen != self._seen:
            yield Piece(kind="changed", data="inbox")
        self._seen = seen


class Live:
    """The endpoint of all streams."""

    def __init__(self, hallway: Hallway, gate: Gate, looks: Looks, *, pool: Pool, pulse: Pulse) -> None:
        self._hallway = hallway
        self._gate = gate
        self._looks = looks
        self._pool = pool
        self._pulse = pulse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        beat = self._pulse.next()  # taken before each look, so that nothing falls between the look and the wait
        try:
            feed = self._feed(scope)
            pieces = await self._pool.run(lambda: list(feed.look(self._visit(scope))))
        except FabricError as error:
            await send_error(send, error)
            return
        except Exception as error:
            await send_error(send, incident(error, "live").error)
            return
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        stream = asyncio.create_task(self._stream(scope, feed, pieces, beat, send))
        gone = asyncio.create_task(until_gone(receive))
        try:
            await asyncio.wait({stream, gone}, return_when=asyncio.FIRST_COMPLETED)
            if stream.done():
                stream.result()
                await send({"type": "http.response.body", "body": b""})
        finally:
            stream.cancel()
            gone.cancel()

    def _visit(self, scope: Scope) -> Visit:
        admitted = self._gate.admitted(cookies(scope))
        if admitted is None:
            raise NotAuthenticated("you are signed out", next="sign in again")
        return Visit(
            caller=admitted.caller,
            fabric=self._hallway.for_caller(admitted.caller),
            session=admitted.session,
            csrf=admitted.csrf,
            path=scope["path"],
            query=query(scope),
            now=datetime.now(UTC),
        )

    def _feed(self, scope: Scope) -> Feed:
        asked = query(scope)
        resumed = (header(scope, b"last-event-id") or b"").decode("latin-1")
        cursor = next((c for c in (resumed, asked.get("cursor", "")) if _CURSOR.fullmatch(c)), "end")
        kind, _, name = scope["path"].removeprefix("/live/").partition("/")
        match kind:
            case "board" if name:
                return BoardFeed(self._looks, unquote(name), cursor, read_numbers(asked.get("shown", "")))
            case "task" if name.isascii() and name.isdigit() and len(name) < 19:
                numbers = {key: _number(asked.get(key, "")) for key in ("epoch", "after")}
                return TaskFeed(self._looks, int(name), cursor, epoch=max(0, numbers["epoch"]), after=numbers["after"])
            case "inbox":
                return InboxFeed(asked.get("seen", ""))
            case _:
                raise NotFound("there is no such stream", next="reload the page")

    async def _stream(
        self, scope: Scope, feed: Feed, pieces: list[Piece], beat: asyncio.Future[None], send: Send
    ) -> None:
        with self._pulse.watching():
            said = time.monotonic()
            await _send(send, b": here\n\n")
            while True:
                if pieces:
                    await _send(send, b"".join(piece.encoded() for piece in pieces))
                    said = time.monotonic()
                elif time.monotonic() - said >= HEARTBEAT - _ANYWAY:
                    await _send(send, b": still here\n\n")
                    said = time.monotonic()
                await asyncio.sleep(_GAP)
                await asyncio.wait([beat], timeout=feed.rest)
                if self._pulse.stopped:
                    return
                beat = self._pulse.next()
                try:
                    pieces = await self._pool.run(lambda: list(feed.look(self._visit(scope))))
                except Unavailable:
                    pieces = []  # it goes on when the board is back
                except FabricError:
                    return  # signed out, or no longer his to see


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
