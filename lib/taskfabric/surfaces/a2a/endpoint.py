"""``/agents/NAME``: one HTTP request of A2A in, its answer or its stream out.

A credential first, then the agent, then the call: who may not address an agent cannot tell it from one that is not
there. A send runs in a thread of the crew from the start on the board to the end; everything else is one bounded call.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from a2a.utils import errors as sdk
from starlette.types import Receive, Scope, Send

from taskfabric.domain.errors import (
    BadInput,
    FabricError,
    NotAuthenticated,
    NotFound,
    Refused,
    Unavailable,
    not_found,
)
from taskfabric.domain.status import A2AState
from taskfabric.ports.a2a import INTERRUPTED, TERMINAL, Seen, Started
from taskfabric.services import a2a, a2a_text
from taskfabric.services.a2a import A2A
from taskfabric.services.hallway import Hallway
from taskfabric.settings import A2A as Rules
from taskfabric.surfaces.a2a import headers, rest, wire
from taskfabric.surfaces.a2a.operations import Operations, Visit
from taskfabric.surfaces.a2a.runs import Runs
from taskfabric.surfaces.a2a.streams import Streams
from taskfabric.surfaces.a2a.tickets import Ticket, consumed, settle, settled
from taskfabric.surfaces.a2a.watch import Watch
from taskfabric.surfaces.answers import (
    Header,
    TooLarge,
    content_length,
    error_headers,
    header,
    read_body,
    send_bytes,
    send_error,
    status_of,
    until_gone,
)
from taskfabric.surfaces.auth import Door, Presented
from taskfabric.surfaces.fabric_rpc.procedures import incident
from taskfabric.surfaces.threads import Pool

log = logging.getLogger(__name__)

_SMALL: Final = 64 * 1024  # bytes that are read from somebody whose credential was not looked at yet
_SENDING: Final = 60.0  # seconds that a client has to send its body
_QUICK: Final = 0.25  # seconds for which a wait looks at nothing but the run's own end


class _Sending(NamedTuple):
    """A message on its way: the call, who shows what at which agent's door, and its key."""

    call: wire.Call
    who: tuple[Presented, str]
    let_in: Callable[[], Visit]
    key: str | None


class Endpoint:
    """The calls of all agents, as an ASGI application below ``/agents``."""

    def __init__(
        self,
        a2a: A2A,
        hallway: Hallway,
        *,
        door: Door,
        pool: Pool,
        runs: Runs,
        watch: Watch,
        operations: Operations,
        rules: Rules,
    ) -> None:
        self._a2a = a2a
        self._hallway = hallway
        self._door = door
        self._pool = pool
        self._runs = runs
        self._watch = watch
        self._operations = operations
        self._rules = rules
        self._modes = [mode.strip().lower() for mode in rules.input_modes.split(",")]
        self._left: set[asyncio.Task[None]] = set()
        self._streams = Streams(a2a, pool=pool, watch=watch, most=rules.streams)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, *, name: str, url: str, below: str) -> None:
        """``below``: what follows the agent's address; "" = JSON-RPC, else HTTP+JSON."""
        shown: Presented = scope["fabric.presented"]

        def let_in() -> Visit:
            caller = self._door.admit(shown)
            return Visit(caller=caller, agent=self._a2a.agent(caller, name), url=url)

        id_: wire.Id = wire.PLAIN if below else None
        try:
            taken = rest.verbs(below) if below else ["POST"]
            if scope["method"] not in taken:
                await self._pool.run(let_in)
                if not taken:
                    raise not_found("agent")
                await send_error(
                    send, BadInput(f"this is called by {' or '.join(taken)}", allow=", ".join(taken)), status=405
                )
                return
            call = await self._read(scope, receive, let_in, name, below)
            id_ = call.id
            if not call.answered:
                await self._pool.run(let_in)
                await send_bytes(send, 204, b"")
            elif call.method in wire.SENDING:
                await self._send(call, (shown, name), let_in, headers.key(scope), receive, send)
            elif call.method in wire.STREAMING:
                await self._subscribe(call, let_in, scope, receive, send)
            else:
                answer = await self._pool.run(lambda: self._answered(let_in(), call))
                await send_bytes(send, 200, answer)
        except wire.WireError as refused:
            await self._refuse(let_in, refused, id_, send)
        except TooLarge:
            error = sdk.InvalidRequestError(f"The request is larger than {self._rules.body_limit} bytes")
            await send_bytes(send, 413, wire.refusal(id_, error), error_headers(None, 413))
        except TimeoutError:
            await send_error(send, BadInput(f"the body did not come within {_SENDING:g} s"), status=408)
        except ConnectionError:  # nobody is there to be answered
            return
        except sdk.A2AError as error:
            await send_bytes(send, wire.status(id_, error), wire.refusal(id_, error))
        except FabricError as error:
            await _send_fabric(send, id_, error)

    async def _read(
        self, scope: Scope, receive: Receive, let_in: Callable[[], Visit], name: str, below: str
    ) -> wire.Call:
        version, depth = headers.version(scope), self._rules.depth
        if not below:
            return wire.read(await self._body(scope, receive, let_in), version, name, depth=depth)
        verb: str = scope["method"]
        raw = await self._body(scope, receive, let_in) if verb == "POST" else b""
        return rest.read(verb, below, scope["query_string"], raw, version, name, depth=depth)

    async def _body(self, scope: Scope, receive: Receive, let_in: Callable[[], Visit]) -> bytes:
        announced = content_length(scope)
        if announced is None or announced > _SMALL:
            await self._pool.run(let_in)
        async with asyncio.timeout(_SENDING):
            raw = await read_body(scope, receive, self._rules.body_limit)
        kind = (header(scope, b"content-type") or b"").partition(b";")[0].strip().lower()
        if raw and kind not in (b"application/json", b"application/a2a+json"):
            raise wire.WireError(sdk.ContentTypeNotSupportedError("Send application/json"), status=415)
        return raw

    async def _refuse(self, let_in: Callable[[], Visit], refused: wire.WireError, id_: wire.Id, send: Send) -> None:
        """Nobody learns anything about his call before he has shown who he is."""
        try:
            await self._pool.run(let_in)
        except FabricError as error:
            await _send_fabric(send, None, error)
            return
        id_ = refused.id if id_ is None else id_
        status = wire.status(id_, refused.error) if refused.status == 200 else refused.status
        await send_bytes(send, status, wire.refusal(id_, refused.error))

    def _answered(self, visit: Visit, call: wire.Call) -> bytes:
        """In a thread: the answer to a call that is neither a send nor a stream."""
        try:
            got = self._hallway.noted(visit.caller, f"a2a.{call.method}", lambda: self._operations.answer(visit, call))
            return wire.result(call.id, got)
        except (sdk.A2AError, Refused, Unavailable, NotAuthenticated):
            raise
        except FabricError as error:
            raise (wire.translated(error) or sdk.InternalError()) from error
        except Exception as error:
            raise _incident(error, call.method) from error

    # -- sending -------------------------------------------------------------------------------------

    async def _send(
        self,
        call: wire.Call,
        who: tuple[Presented, str],
        let_in: Callable[[], Visit],
        key: str | None,
        receive: Receive,
        send: Send,
    ) -> None:
        streams = call.method in wire.STREAMING
        if streams and not self._rules.streaming:
            await self._pool.run(let_in)
            raise sdk.UnsupportedOperationError("This agent does not stream")
        with contextlib.ExitStack() as held:
            if streams:  # one too many begins nothing
                visit = await self._pool.run(let_in)
                held.enter_context(self._streams.place(visit.caller.principal.id))
            await self._sent(_Sending(call, who, let_in, key), receive, send)

    async def _sent(self, sending: _Sending, receive: Receive, send: Send) -> None:
        call, who, let_in, key = sending
        streams = call.method in wire.STREAMING
        wish = call.params.configuration
        ticket = self._begin(call, who, let_in, key, wanted=streams or wish.return_immediately)
        history = wish.history_length if wish.HasField("history_length") else None
        if not streams and not wish.return_immediately:
            # Most runs of this kind are short: then there is nothing else to look at.
            await settled(ticket.ended, _QUICK)
            if ticket.ended.done() and (quick := ticket.ended.result()) is not None and _over(quick):
                await send_bytes(send, 200, wire.result(call.id, await self._shape(quick, history)))
                return
        ticket.wanted = True
        if not ticket.is_there:
            both = (ticket.begun, ticket.ended)
            cap = self._rules.wait_cap.total_seconds()
            await asyncio.wait(both, timeout=cap, return_when=asyncio.FIRST_COMPLETED)
            if not ticket.is_there:  # the board is away, and the agent answers without it
                if not ticket.ended.done() or (alone := ticket.ended.result()) is None:
                    raise Unavailable("the board is away, and the agent has not answered in time")
                await send_bytes(send, 200, wire.result(call.id, await self._shape(alone, history)))
                return
        visit, started = ticket.noted or await ticket.begun
        if streams:
            self._leave(visit, started)
            await self._streams.serve(call.id, let_in, started.seen, 0, receive, send, sending=True, history=history)
            return
        if wish.return_immediately:
            self._leave(visit, started)
            seen = started.seen if started.created else await self._pool.run(lambda: self._a2a.again(started.seen))
        else:
            gone = asyncio.create_task(until_gone(receive))
            ended = asyncio.create_task(self._waited(visit, started))
            await asyncio.wait((gone, ended), return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if not ended.done():  # whoever hangs up does not stop the work
                ended.cancel()
                self._leave(visit, started)
                return
            seen = ended.result()
            await self._pool.run(let_in)  # the wait was long: who was switched off meanwhile hears nothing
        await send_bytes(send, 200, wire.result(call.id, await self._shape(seen, history)))

    async def _shape(self, seen: Seen, history: int | None) -> dict[str, Any]:
        """The answer of a send: the task, or the message that an agent gave instead."""
        if seen.state is None:
            return {"message": seen.told[-1].body["message"]}
        if any(a2a_text.has_file(told.body) for told in seen.told):
            return {"task": await self._pool.run(lambda: self._a2a.task(seen, history=history))}
        return {"task": self._a2a.task(seen, history=history)}

    def _begin(
        self,
        call: wire.Call,
        who: tuple[Presented, str],
        let_in: Callable[[], Visit],
        key: str | None,
        *,
        wanted: bool,
    ) -> Ticket:
        loop = asyncio.get_running_loop()
        ticket = Ticket(begun=loop.create_future(), wanted=wanted, ended=loop.create_future())
        for future in (ticket.begun, ticket.ended):
            future.add_done_callback(consumed)
        message = wire.said(call)
        inline = call.params.configuration.task_push_notification_config
        push = wire.shape(inline) if inline.url else None

        def job() -> None:
            try:
                visit = let_in()
                self._check_modes(call)

                def start() -> Started:
                    return self._hallway.noted(visit.caller, "a2a.send", lambda: self._start(visit, message, key, push))

                def told(started: Started) -> None:
                    ticket.noted = (visit, started)
                    if ticket.wanted:
                        settle(loop, ticket.begun, ticket.noted)

                got = self._runs.begin(visit.agent, start, told)
                settle(loop, ticket.ended, got if isinstance(got, Seen) else None)
            except BaseException as error:
                if isinstance(error, Unavailable) and not wanted and ticket.noted is None and push is None:
                    alone = self._without_the_board(*who, message, key, error)
                    if alone is not None:
                        settle(loop, ticket.ended, alone)
                        return
                fault = error if isinstance(error, FabricError | sdk.A2AError) else _incident(error, call.method)
                settle(loop, ticket.begun, fault)
                settle(loop, ticket.ended, fault)

        self._runs.crew.do(job)
        return ticket

    def _without_the_board(
        self, shown: Presented, name: str, message: Mapping[str, Any], key: str | None, error: Unavailable
    ) -> Seen | None:
        """The agent's answer while the board is away; None where there may be none (G14)."""
        if error.facts.get("busy") or error.facts.get("sent") is not False:
            return None  # closed, or perhaps begun: then a second run would be one too many
        caller = self._door.recent(shown)
        if caller is None or key or message.get("taskId") or a2a.key_of(message):
            return None
        agent = self._a2a.without_the_board(caller, name)
        if agent is None:
            return None
        try:
            return self._runs.without_the_board(agent, caller, message)
        except FabricError as refused:
            log.info("no answer without the board agent=%s reason=%s", name, refused.message)
            return None

    def _start(self, visit: Visit, message: Mapping[str, Any], key: str | None, push: dict[str, Any] | None) -> Started:
        """In a thread. What is wrong with the push config is found before anything is done."""
        owner = visit.caller.principal.id
        if push is not None and message.get("taskId"):
            goes_on = self._a2a.find(visit.caller, visit.agent, str(message["taskId"]))
            self._operations.pushing().create(goes_on.id, owner, push)
        elif push is not None:
            self._operations.pushing().check(push)
        started = self._a2a.send(visit.caller, visit.agent, message, key)
        if push is not None and started.created:
            # A worker may have been quicker: what it has told already is told there as well.
            self._operations.pushing().create(started.seen.id, owner, push, after=started.seen.seq)
        return started

    def _check_modes(self, call: wire.Call) -> None:
        """Raises ContentTypeNotSupported for a part of a kind that is not taken."""
        if len(call.given["parts"]) > self._rules.parts:
            raise sdk.InvalidParamsError(f"A message has at most {self._rules.parts} parts")
        for part in call.params.message.parts:
            kind = part.media_type.partition(";")[0].strip().lower()
            if kind and not any(
                mode in ("*/*", kind) or (mode.endswith("/*") and kind.startswith(mode[:-1])) for mode in self._modes
            ):
                raise sdk.ContentTypeNotSupportedError("A part is of a kind that this agent does not take")

    async def _waited(self, visit: Visit, started: Started) -> Seen:
        """The task when it has ended or asks, or as it is when the wait is over."""
        deadline = time.monotonic() + self._rules.wait_cap.total_seconds()
        reserved = _reserves(visit, started)
        pickup = min(deadline, time.monotonic() + self._rules.pickup.total_seconds()) if reserved else deadline
        seen = started.seen
        with self._watch.looking(seen.id, seen.task_id, seen.seq) as lookout:
            while True:
                seen = await self._pool.run(lambda: self._a2a.again(started.seen))
                if _over(seen) or self._watch.stopped or time.monotonic() >= deadline:
                    return seen
                waits = reserved and seen.state is A2AState.SUBMITTED
                if waits and time.monotonic() >= pickup:
                    if await self._pool.run(lambda: self._a2a.withdraw(visit.caller, visit.agent, started.seen)):
                        raise Unavailable(
                            f"{visit.agent.card.name} has no idle place",
                            next="come again later, or let it wait in its queue",
                            busy=True,
                            sent=False,
                        )
                    pickup = deadline
                lookout.seq = seen.seq
                await lookout.news(max(0.01, (pickup if waits else deadline) - time.monotonic()))

    def _leave(self, visit: Visit, started: Started) -> None:
        """Nobody waits for its beginning: what no worker begins in time is rejected all the same."""

        async def later() -> None:
            await asyncio.sleep(self._rules.pickup.total_seconds())
            with contextlib.suppress(FabricError):  # the board is away: then it waits for a worker
                await self._pool.run(lambda: self._a2a.withdraw(visit.caller, visit.agent, started.seen))

        if _reserves(visit, started):
            task = asyncio.create_task(later())
            self._left.add(task)
            task.add_done_callback(self._left.discard)

    # -- streams -------------------------------------------------------------------------------------

    async def _subscribe(
        self, call: wire.Call, let_in: Callable[[], Visit], scope: Scope, receive: Receive, send: Send
    ) -> None:
        visit = await self._pool.run(let_in)
        if not self._rules.streaming:
            raise sdk.UnsupportedOperationError("This agent does not stream")
        seen = await self._pool.run(lambda: self._a2a.find(visit.caller, visit.agent, call.params.id))
        after = headers.last_event(scope)
        if seen.state in TERMINAL and after is None:
            raise sdk.UnsupportedOperationError("That task has ended")
        with self._streams.place(visit.caller.principal.id):
            await self._streams.serve(call.id, let_in, seen, after, receive, send, sending=False)


# ---------------------------------------------------------------- helpers


def _over(seen: Seen) -> bool:
    return seen.state is None or seen.state in TERMINAL or seen.state in INTERRUPTED


def _reserves(visit: Visit, started: Started) -> bool:
    """Whether the row is only for an idle place of a worker, and not for a queue: its sender did not ask for that."""
    if started.claimed is not None or visit.agent.direct or not started.created:
        return False
    message: Mapping[str, Any] = next((t.body["message"] for t in started.seen.told if t.kind == "message"), {})
    return started.seen.state is A2AState.SUBMITTED and not a2a.is_patient(message)


def _incident(error: BaseException, method: str) -> sdk.A2AError:
    """A fault of ours: the log has the whole, the caller a number to ask for."""
    return sdk.InternalError(incident(error, f"a2a {method}").error.message)


async def _send_fabric(send: Send, id_: wire.Id, error: FabricError) -> None:
    """An error that is a matter of HTTP, or the protocol's own for it."""
    match error:
        case NotAuthenticated():
            await send_error(send, error)
        case NotFound() if error.message == not_found("agent").message:
            await send_error(send, error)
        case Refused():
            await send_error(send, error)
        case Unavailable():
            after: list[Header] = [(b"retry-after", b"%d" % _seconds(error))]
            await send_bytes(send, 503, wire.busy(id_, error), after)
        case _:
            translated = wire.translated(error)
            if translated is None:
                await send_error(send, error, status=status_of(error))
            else:
                await send_bytes(send, wire.status(id_, translated), wire.refusal(id_, translated))


def _seconds(error: Unavailable) -> int:
    """Until when it is worth coming again, in seconds."""
    from datetime import UTC, datetime

    until = error.facts.get("until")
    if not isinstance(until, str):
        return 5
    left = (datetime.fromisoformat(until) - datetime.now(UTC)).total_seconds()
    return max(1, min(86_400, round(left)))
