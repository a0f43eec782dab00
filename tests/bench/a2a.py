"""What a blocking send over A2A costs, in CPU of the server's process, against the SDK alone.

    .venv/bin/python -m tests.bench.a2a [--calls 300] [--rounds 5]

Three servers in this process, called in turns through ASGI without a socket, each with one reader after the other:

wire    the SDK's dispatcher over a handler that keeps tasks in a dictionary: the least that the protocol costs with it
engine  the SDK's own engine with its in-memory store
fabric  ours, on a real PostgreSQL, everything journaled; the agent does nothing

A token is checked in each. CPU is that of this process; what PostgreSQL uses stands beside it. Then memory:
1,000 tasks that wait for an answer, and 200 open streams, with the time that an agent card takes meanwhile. Then 200
sends at once while 50 readers follow the journal: none is lost, and how long they waited.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import hmac
import json
import logging
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import uvloop
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, RequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import UnsupportedOperationError
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskfabric.domain.card import AgentCard
from taskfabric.domain.outcome import Done, Waiting
from taskfabric.ports.runtime import Job, Progress, Result
from taskfabric.settings import load
from taskfabric.surfaces.app import create_app
from taskfabric.testing import Ownership, TestServer, new_folder
from taskfabric.wiring import build, first_human, sync_cards

TEXT: Final = "x" * 120
TOKEN: Final = "bench"
CARD: Final = 'kind = "model"\nconcurrency = 1000\nqueues = []\n[model]\nmodel = "none/none"\n'


class Nothing:
    """An agent that answers at once, or, if it is told to, asks."""

    def __init__(self, card: AgentCard) -> None:
        pass

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        text = (job.message or {})["parts"][0]["text"]
        return Result(outcome=Waiting(question="What next?") if text == "ask" else Done(note=text))

    def close(self) -> None:
        pass


def _finished(message: pb.Message) -> pb.Task:
    task_id, context = str(uuid.uuid4()), message.context_id or str(uuid.uuid4())
    artifact = pb.Artifact(artifact_id="result", name="result", parts=[pb.Part(text=message.parts[0].text)])
    task = pb.Task(id=task_id, context_id=context, artifacts=[artifact], history=[message])
    task.status.state = pb.TASK_STATE_COMPLETED
    task.status.timestamp.GetCurrentTime()
    return task


class InMemory(RequestHandler):
    """The least that a handler can do."""

    def __init__(self) -> None:
        self.tasks: dict[str, pb.Task] = {}

    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task:
        task = _finished(params.message)
        self.tasks[task.id] = task
        return task

    async def on_get_task(self, params: Any, context: ServerCallContext) -> Any:
        return self.tasks.get(params.id)

    async def on_message_send_stream(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any]:
        yield await self.on_message_send(params, context)

    async def on_subscribe_to_task(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any]:
        yield self.tasks[params.id]

    async def _none(self, params: Any, context: ServerCallContext) -> Any:
        raise UnsupportedOperationError

    on_list_tasks = on_cancel_task = on_create_task_push_notification_config = _none
    on_get_task_push_notification_config = on_list_task_push_notification_configs = _none
    on_delete_task_push_notification_config = on_get_extended_agent_card = _none


class Executor(AgentExecutor):
    """The same work for the SDK's engine: a task, an artifact, completed."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = pb.Task(id=context.task_id, context_id=context.context_id, history=[context.message])
        task.status.state = pb.TASK_STATE_SUBMITTED
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([pb.Part(text=context.message.parts[0].text)], name="result")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise UnsupportedOperationError


def _card() -> pb.AgentCard:
    shape = {
        "name": "bench",
        "description": "bench",
        "version": "1",
        "supportedInterfaces": [{"url": "http://x/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "a", "name": "a", "description": "a", "tags": ["a"]}],
    }
    card = pb.AgentCard()
    ParseDict(shape, card)
    return card


def guarded(app: ASGIApp) -> ASGIApp:
    """The app behind a token."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if not hmac.compare_digest(shown, b"Bearer " + TOKEN.encode()):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return checked


async def ask(app: ASGIApp, path: str, token: str, body: dict[str, Any] | None) -> Any:
    """One call through ASGI; its JSON."""
    pieces: list[bytes] = []
    await call(app, path, token, body, pieces.append)
    return json.loads(b"".join(pieces))


async def call(
    app: ASGIApp, path: str, token: str, body: dict[str, Any] | None, take: Callable[[bytes], None], query: bytes = b""
) -> None:
    """One call through ASGI; ``take`` gets its answer piece by piece."""
    raw = b"" if body is None else json.dumps(body).encode()
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Message) -> None:
        take(message.get("body", b""))

    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(raw)).encode()),
        (b"a2a-version", b"1.0"),
        (b"authorization", f"Bearer {token}".encode()),
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET" if body is None else "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)


def send_of(text: str, *, method: str = "SendMessage") -> dict[str, Any]:
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


async def measured(call: Callable[[], Awaitable[Any]], calls: int) -> float:
    """CPU of this process for one call, in ms."""
    gc.collect()
    began = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - began) / calls * 1000


def _cpu_of(pids: list[int]) -> float:
    """Seconds of CPU that these processes and what they started have used."""
    total = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / tick
    return total


def _backends(house: Any) -> list[int]:
    with house.database.connection() as conn:
        return [row[0] for row in conn.execute("SELECT pid FROM pg_stat_activity WHERE pid IS NOT NULL")]


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@contextlib.contextmanager
def fabric() -> Iterator[tuple[Any, Any, str]]:
    """Our application over a throw-away PostgreSQL, its house, and a token."""
    owned = Ownership(new_folder())
    with contextlib.ExitStack() as held:
        held.callback(owned.end)
        home = Path(held.enter_context(tempfile.TemporaryDirectory()))
        (home / "cards").mkdir()
        (home / "cards" / "bench.toml").write_text(CARD)
        databases = TestServer(owned.folder)
        databases.start()
        held.callback(databases.close)
        database = held.enter_context(databases.database())
        settings = load(env={}, home=home, overrides={"server.port": 0, "a2a.streams": 1000, "a2a.threads": 256})
        house = held.enter_context(contextlib.closing(build(settings, database.dsn, home=home, name="bench")))
        token = first_human(house, "alice")
        assert token is not None
        sync_cards(house)
        yield create_app(house, make=Nothing), house, token


async def compare(calls: int, rounds: int, app: Any, house: Any, token: str) -> None:
    wire = guarded(Starlette(routes=create_jsonrpc_routes(InMemory(), rpc_url="/")))
    handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=_card())
    engine = guarded(Starlette(routes=create_jsonrpc_routes(handler, rpc_url="/")))
    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "wire": lambda: ask(wire, "/", TOKEN, send_of(TEXT)),
        "engine": lambda: ask(engine, "/", TOKEN, send_of(TEXT)),
        "fabric": lambda: ask(app, "/agents/bench", token, send_of(TEXT)),
    }
    for name, call in ways.items():
        for _ in range(30):
            await call()
        answer = await call()
        assert "result" in answer, (name, answer)
        assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED", (name, answer)
        assert answer["result"]["task"]["artifacts"][0]["parts"][0]["text"] == TEXT
    found: dict[str, list[float]] = {name: [] for name in ways}
    pids = _backends(house)
    database = 0.0
    for _ in range(rounds):
        for name, call in ways.items():
            before = _cpu_of(pids)
            found[name].append(await measured(call, calls))
            if name == "fabric":
                database += _cpu_of(pids) - before
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, value in medians.items():
        low, high = min(found[name]), max(found[name])
        print(f"{name:8} {value:6.2f} ms CPU a blocking send   ({low:.2f} to {high:.2f} in {rounds} rounds of {calls})")
    print(f"postgres {database / rounds / calls * 1000:6.2f} ms CPU a blocking send, beside it")
    ratio, share = medians["fabric"] / medians["wire"], medians["fabric"] / medians["engine"]
    print(f"fabric / wire   {ratio:.2f}   (at most 1.5)")
    print(f"fabric / engine {share:.2f}   (below 0.5)")


async def crowd(app: Any, token: str) -> None:
    """Memory with many tasks that wait and many open streams, and what a card costs meanwhile."""

    async def call() -> Any:
        return await ask(app, "/agents/bench", token, send_of("ask"))

    for _ in range(50):
        await call()
    gc.collect()
    before = _rss()
    ids = [(await call())["result"]["task"]["id"] for _ in range(1000)]
    gc.collect()
    print(f"1,000 parked tasks: {_rss() - before} KiB more ({(_rss() - before) / 1000:.2f} KiB a task)")
    before = _rss()
    streams = [
        asyncio.create_task(
            ask(
                app,
                "/agents/bench",
                token,
                {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": id_}},
            )
        )
        for id_ in ids[:200]
    ]
    while len(app.state.gateway.watch) < 200:
        await asyncio.sleep(0.05)
    gc.collect()
    print(f"200 open streams: {_rss() - before} KiB more")
    times = []
    for _ in range(50):
        began = time.perf_counter()
        await ask(app, "/agents/bench/.well-known/agent-card.json", token, None)
        times.append((time.perf_counter() - began) * 1000)
    print(f"card meanwhile: {statistics.median(times):.2f} ms, at most {max(times):.2f} ms")
    body = send_of("ask")
    body["params"]["configuration"] = {"returnImmediately": True}
    times.clear()
    for _ in range(50):
        began = time.perf_counter()
        await ask(app, "/agents/bench", token, body)
        times.append((time.perf_counter() - began) * 1000)
    print(f"a send that returns at once: {statistics.median(times):.1f} ms, at most {max(times):.1f} ms (below 50)")
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


async def rush(app: Any, house: Any, token: str, senders: int = 200, readers: int = 50) -> None:
    """All senders at once, while everybody reads the journal: nothing is lost, and how long each waited."""
    heard = [bytearray() for _ in range(readers)]
    streams = [asyncio.create_task(call(app, "/events", token, None, piece.extend, b"cursor=end")) for piece in heard]
    await asyncio.sleep(0.5)
    waits, cards = [], []

    async def one() -> str:
        began = time.perf_counter()
        answer = await ask(app, "/agents/bench", token, send_of(TEXT))
        waits.append(time.perf_counter() - began)
        assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED", answer
        return str(answer["result"]["task"]["id"])

    sending = [asyncio.create_task(one()) for _ in range(senders)]
    while not all(task.done() for task in sending):
        began = time.perf_counter()
        await ask(app, "/agents/bench/.well-known/agent-card.json", token, None)
        cards.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)
    ids = {task.result() for task in sending}
    with house.database.connection() as conn:
        row = conn.execute(
            "SELECT array_agg(task_id) FROM a2a_tasks WHERE id = ANY (%s) AND state = 'TASK_STATE_COMPLETED'",
            (list(ids),),
        ).fetchone()
    tasks = set(row[0])
    assert len(ids) == len(tasks) == senders, (len(ids), len(tasks))
    deadline = time.monotonic() + 30
    while (least := min(finished(piece, tasks) for piece in heard)) < senders and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    waits.sort()
    print(
        f"{senders} sends at once, {readers} readers of the journal: {len(tasks)} done; a reader heard {least} at least"
    )
    print(f"  waited {waits[len(waits) // 2] * 1000:.0f} ms in the middle, at most {waits[-1] * 1000:.0f} ms")
    print(f"  card meanwhile: {statistics.median(cards) * 1000:.1f} ms, at most {max(cards) * 1000:.1f} ms")


def finished(told: bytearray, tasks: set[int]) -> int:
    """Of these tasks, how many a stream of the journal says are done."""
    events = [json.loads(line[5:]) for line in told.split(b"\n") if line.startswith(b"data:")]
    return len({event["task"] for event in events if event.get("kind") == "done"} & tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    logging.disable(logging.ERROR)

    async def run(app: Any, house: Any, token: str) -> None:
        async with app.router.lifespan_context(app):
            await compare(given.calls, given.rounds, app, house, token)
            await crowd(app, token)
            await rush(app, house, token)

    with fabric() as (app, house, token):
        uvloop.run(run(app, house, token))


if __name__ == "__main__":
    main()
