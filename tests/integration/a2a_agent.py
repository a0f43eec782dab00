"""An A2A agent of the official SDK's own make, on the loopback: what it does is said by the first word it is sent."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from taskfabric.surfaces.app import listening


@dataclass
class Agent(AgentExecutor):
    """The agent, and what it was asked."""

    url: str = ""
    token: str = ""
    header: str = "authorization"
    asked: list[str] = field(default_factory=list)  # the first line of every message that began or continued a task
    seen: list[tuple[str, str]] = field(default_factory=list)  # (method and path, credential)
    cancelled: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)  # "hold" goes on when it is set
    begun: threading.Event = field(default_factory=threading.Event)
    drop: int = 0  # so many answers to calls are cut off
    busy: Response | None = None  # answered to every call

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        message = context.message
        assert message is not None
        self.asked.append(text)
        self.keys.append(dict(message.metadata).get("idempotencyKey", ""))
        word = next((w for w in ("direct", *_ACTS) if w in text), "done")
        if word == "direct":
            await event_queue.enqueue_event(new_text_message("a word", role=a2a.Role.ROLE_AGENT))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        self.begun.set()
        await _ACTS[word](self, updater, text)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def _said(updater: TaskUpdater, text: str) -> a2a.Message:
    return updater.new_agent_message([a2a.Part(text=text)])


async def _done(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.start_work(_said(updater, "reading it"))
    await updater.add_artifact([a2a.Part(text="It is ")], artifact_id="r", name="result")
    await updater.add_artifact([a2a.Part(text="fixed.")], artifact_id="r", name="result", append=True, last_chunk=True)
    await updater.complete()


async def _files(agent: Agent, updater: TaskUpdater, text: str) -> None:
    part = a2a.Part(raw=b"a,b\n1,2\n", filename="../../etc/table.csv", media_type="text/csv")
    await updater.add_artifact([part, a2a.Part(url="https://example.org/plan.pdf", filename="plan.pdf")], name="files")
    data = a2a.Part()
    data.data.struct_value.update({"count": 42})
    await updater.add_artifact([data], name="numbers")
    await updater.complete(_said(updater, "three things"))


async def _ask(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.requires_input(_said(updater, "Which of the two?"))


async def _ponder(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.start_work(_said(updater, "at it"))
    while not agent.hold.is_set():
        await asyncio.sleep(0.02)
    await updater.requires_input(_said(updater, "And which then?"))


async def _auth(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.requires_auth(_said(updater, "Sign in at the bank."))


async def _hold(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.start_work(_said(updater, "at it"))
    while not agent.hold.is_set():
        await asyncio.sleep(0.02)
    await updater.complete(_said(updater, "held and done"))


async def _fail(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.failed(_said(updater, "the disk is full"))


async def _refuse(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.reject(_said(updater, "not my trade"))


async def _cancel(agent: Agent, updater: TaskUpdater, text: str) -> None:
    await updater.cancel(_said(updater, "the owner said stop"))


_ACTS: Any = {
    "files": _files,
    "needs-auth": _auth,
    "question": _ask,
    "ponder": _ponder,
    "hold": _hold,
    "fail": _fail,
    "refuse": _refuse,
    "stop": _cancel,
    "done": _done,
}


class _Gate:
    """Who shows the token comes in; and the troubles that a test wants."""

    def __init__(self, app: ASGIApp, agent: Agent) -> None:
        self._app = app
        self._agent = agent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        shown = headers.get(self._agent.header, "")
        self._agent.seen.append((f"{scope['method']} {scope['path']}", shown))
        if scope["method"] == "POST" and self._agent.busy is not None:
            await self._agent.busy(scope, receive, send)
        elif scope["method"] == "POST" and self._agent.token and self._agent.token not in shown:
            await JSONResponse({}, status_code=401)(scope, receive, send)
        elif scope["method"] == "POST" and self._agent.drop > 0:
            self._agent.drop -= 1
            await self._app(scope, receive, _nowhere)
            raise ConnectionAbortedError
        else:
            await self._app(scope, receive, send)


async def _nowhere(message: Any) -> None:
    """The reply gets lost."""


def card_of(url: str, *, streaming: bool = True, elsewhere: str = "") -> a2a.AgentCard:
    return a2a.AgentCard(
        name="far",
        description="An agent for tests.",
        version="1.0",
        supported_interfaces=[
            a2a.AgentInterface(url=elsewhere or f"{url}/", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=a2a.AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a.AgentSkill(id="any", name="anything", description="anything", tags=["any"])],
    )


@contextlib.contextmanager
def agent_served(*, token: str = "", streaming: bool = True, elsewhere: str = "", prefix: str = "") -> Iterator[Agent]:
    """The agent under a real server, until the block ends."""
    sock = listening("127.0.0.1", 0)
    agent = Agent(url=f"http://127.0.0.1:{sock.getsockname()[1]}{prefix}", token=token)
    card = card_of(agent.url, streaming=streaming, elsewhere=elsewhere)
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), card)
    app = Starlette(
        routes=[
            *create_jsonrpc_routes(handler, f"{prefix}/"),
            *create_agent_card_routes(card, card_url=f"{prefix}/.well-known/agent-card.json"),
        ]
    )
    server = uvicorn.Server(
        uvicorn.Config(_Gate(app, agent), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=lambda: server.run(sockets=[sock]), name="a2a-agent")
    thread.start()
    try:
        yield agent
    finally:
        agent.hold.set()
        server.should_exit = True
        thread.join(15)
        sock.close()
        assert not thread.is_alive()
