"""POST /jsonrpc.php: one HTTP request in, its answers out. The fabric's own procedures and Kanboard's, also mixed.

The loop reads and writes; everything between is one bounded call in a thread: who is it, what does he want, the
verbs, the answer's bytes. Renewals have threads of their own, so that load never costs a lease. What waits goes on as
a future on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from taskfabric.domain.errors import BadInput, FabricError, NotAuthenticated, Unavailable
from taskfabric.domain.principal import Caller
from taskfabric.services.verbs import Awaited, Renew, Wait
from taskfabric.surfaces.answers import (
    TooLarge,
    content_length,
    error_headers,
    header,
    read_body,
    send_bytes,
    send_error,
    until_gone,
)
from taskfabric.surfaces.auth import Door, Presented
from taskfabric.surfaces.fabric_rpc.procedures import Pending, Procedure, answer, incident
from taskfabric.surfaces.fabric_rpc.protocol import Body, Id, ProtocolError, Request, encoded, parse, refusal, result
from taskfabric.surfaces.fabric_rpc.waiters import WaitRoom
from taskfabric.surfaces.kanboard_api.dispatch import KanboardApi
from taskfabric.surfaces.kanboard_api.errors import FORBIDDEN, unauthorized
from taskfabric.surfaces.threads import Pool

_SMALL: Final = 64 * 1024  # bytes that are read from somebody whose credential was not looked at yet

PREFIX: Final = "fabric."  # what begins otherwise is a procedure of Kanboard's

_SENDING: Final = 60.0  # seconds that a client has to send its body

_Answer = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The threads of the server: for work, and a few that only renew."""

    work: Pool
    renewals: Pool


class JsonRpc:
    """The endpoint, as an ASGI application. ``body_limit`` in bytes, ``wait_cap`` in seconds."""

    def __init__(
        self,
        procedures: Mapping[str, Procedure],
        *,
        door: Door,
        pools: Pools,
        room: WaitRoom,
        body_limit: int,
        wait_cap: float,
        kanboard: KanboardApi | None = None,
        public_url: str = "",
    ) -> None:
        self._procedures = procedures
        self._kanboard = kanboard
        self._public_url = public_url
        self._door = door
        self._pools = pools
        self._room = room
        self._body_limit = body_limit
        self._wait_cap = wait_cap

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown: Presented = scope["fabric.presented"]
        raw: bytes | None = None
        try:
            if scope["method"] != "POST":
                await self._pools.work.run(lambda: self._door.admit(shown))
                wrong = BadInput(
                    "calls are sent by POST", next="POST a JSON-RPC 2.0 call to /jsonrpc.php", allow="POST"
                )
                await send_error(send, wrong, status=405)
                return
            announced = content_length(scope)
            if announced is None or announced > _SMALL:
                await self._pools.work.run(lambda: self._door.admit(shown))
            async with asyncio.timeout(_SENDING):
                raw = await read_body(scope, receive, self._body_limit)
            await self._serve(shown, raw, scope, receive, send)
        except TooLarge:
            error = BadInput(f"the request is larger than {self._body_limit} bytes", next="send less at once")
            await _send_refusal(send, error, status=413)
        except TimeoutError:
            await _send_refusal(send, BadInput(f"the body did not come within {_SENDING:g} s"), status=408)
        except ConnectionError:  # nobody is there to be answered
            return
        except NotAuthenticated as refused:
            # A large body is not read before its credential: who shows one as Kanboard's clients do, or none, is
            # answered as one of them.
            if raw is None and (shown.user is not None or not shown.token) and self._kanboard is not None:
                await send_bytes(send, 401, encoded(unauthorized()), error_headers(refused, 401))
            else:
                await _send_refusal(send, scope.get("fabric.refused", refused))
        except (ProtocolError, FabricError) as refused:
            await _send_refusal(send, refused)

    async def _serve(self, shown: Presented, raw: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        # A small body is read here, to see where it goes; a large one would stop the loop.
        try:
            body = parse(raw) if len(raw) <= _SMALL else await self._pools.work.run(lambda: parse(raw))
        except ProtocolError:  # nobody is told what is wrong with it who may not call at all
            await self._pools.work.run(lambda: self._door.admit(shown))
            raise
        renews = all(request.method == Renew.method for request in body.requests)
        pool = self._pools.renewals if renews else self._pools.work
        base = self._base(scope)
        try:
            answers = await pool.run(lambda: self._answers(shown, body, base))
        except NotAuthenticated as refused:
            if not self._is_kanboards(body):
                raise
            await send_bytes(send, 401, encoded(unauthorized()), error_headers(refused, 401))
            return
        if isinstance(answers, bytes):
            await send_bytes(send, 200 if answers else self._silent(body), answers)
            return
        if any(isinstance(one, Pending) for one in answers):
            done = await self._waited(body, answers, receive)
            if done is None:
                return
        else:
            done = [one for one in answers if not isinstance(one, Pending)]
        await self._send(send, body, done)

    def _answers(self, shown: Presented, body: Body, base: str) -> bytes | list[_Answer | Pending]:
        """In a thread: the answers, ready to be sent where that is possible."""
        caller = self._door.admit(shown)
        answers = [self._answer(caller, request, base) for request in body.requests]
        if body.batch or isinstance(answers[0], Pending) or "error" in answers[0]:
            return answers
        return encoded(answers[0]) if self._wants(body.requests[0]) else b""

    def _answer(self, caller: Caller, request: Request, base: str) -> _Answer | Pending:
        """Run one call, of the fabric's own or of Kanboard's. Never raises: what goes wrong is its answer."""
        if self._kanboard is None or not self._of_kanboard(request):
            return answer(self._procedures, caller, request)
        try:
            return self._kanboard.answer(caller, request.id, request.method, request.params, base)
        except FabricError as error:
            return refusal(request.id, error)
        except Exception as error:
            return refusal(request.id, incident(error, request.method))

    def _of_kanboard(self, request: Request) -> bool:
        return self._kanboard is not None and request.wrong is None and not request.method.startswith(PREFIX)

    def _is_kanboards(self, body: Body) -> bool:
        return any(self._of_kanboard(request) for request in body.requests)

    def _wants(self, request: Request) -> bool:
        """Whether the call gets an answer: to Kanboard an id that is null is none."""
        return request.answered and not (request.id is None and self._of_kanboard(request))

    def _silent(self, body: Body) -> int:
        return 200 if self._is_kanboards(body) else 204

    def _base(self, scope: Scope) -> str:
        """The server's own URL, with a slash at its end, as the client knows it."""
        if self._public_url:
            return self._public_url.rstrip("/") + "/"
        host = header(scope, b"host") or b""
        return f"{scope['scheme']}://{host.decode('latin-1')}/"

    async def _waited(self, body: Body, answers: list[_Answer | Pending], receive: Receive) -> list[_Answer] | None:
        """The answers with what was waited for; None when the client has gone."""
        waits = asyncio.create_task(self._all(body, answers))
        gone = asyncio.create_task(until_gone(receive))
        try:
            await asyncio.wait((waits, gone), return_when=asyncio.FIRST_COMPLETED)
            return waits.result() if waits.done() else None
        finally:
            waits.cancel()
            gone.cancel()

    async def _all(self, body: Body, answers: list[_Answer | Pending]) -> list[_Answer]:
        return await asyncio.gather(
            *(
                self._wait(request.id, one) if isinstance(one, Pending) else _there(one)
                for request, one in zip(body.requests, answers, strict=True)
            )
        )

    async def _wait(self, id: Id, pending: Pending) -> _Answer:
        timeout = min(pending.verb.timeout, self._wait_cap)
        try:
            got = await self._room.wait(
                pending.caller, pending.verb, queues=pending.queues, heard=pending.heard, timeout=timeout
            )
            return result(id, Wait.result.encode(got or Awaited(happened=False)))
        except FabricError as error:
            return refusal(id, error)
        except Exception as error:
            return refusal(id, incident(error, Wait.method))

    async def _send(self, send: Send, body: Body, answers: list[_Answer]) -> None:
        wanted = [one for request, one in zip(body.requests, answers, strict=True) if self._wants(request)]
        if not wanted:
            await send_bytes(send, self._silent(body), b"")
        elif body.batch:
            await send_bytes(send, 200, encoded(wanted))
        else:
            status = _status(wanted[0])
            if status == FORBIDDEN:
                wanted[0] = {**wanted[0], "id": None}
            await send_bytes(send, status, encoded(wanted[0]), error_headers(None, status))


async def _there(answer: _Answer) -> _Answer:
    return answer


def _status(shape: _Answer) -> int:
    error: Any = shape.get("error")
    if error is None:
        return 200
    if error["code"] == FORBIDDEN:
        return FORBIDDEN
    data = error.get("data")
    match data["name"] if isinstance(data, dict) else None:
        case NotAuthenticated.name:
            return 401
        case Unavailable.name:
            return 503
        case _:
            return 200


async def _send_refusal(send: Send, refused: FabricError | ProtocolError, *, status: int | None = None) -> None:
    """The answer to a body as a whole: nobody knows which call it belongs to."""
    shape = refusal(None, refused)
    status = status or _status(shape)
    error = refused if isinstance(refused, FabricError) else None
    await send_bytes(send, status, encoded(shape), error_headers(error, status))
