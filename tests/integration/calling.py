"""Callers over A2A for tests: a server with agents that do what their task says, and requests in few words."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from taskfabric.domain.card import AgentCard
from taskfabric.domain.outcome import Declined, Done, Failed, Parked, Waiting
from taskfabric.ports.runtime import Job, Progress, Result
from tests.integration.hiring import employ, hired, until
from tests.integration.serving import Reply, Served, serving

PATIENCE: Final = 20.0  # seconds before a test gives up
HEADERS: Final = {"A2A-Version": "1.0", "Content-Type": "application/json"}


@dataclass(kw_only=True)
class Gate:
    """Where runs of the test's agent wait, and what they have seen."""

    open: threading.Event = field(default_factory=threading.Event)
    begun: list[Job] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def close(self) -> None:
        """As new, for the next test."""
        self.open = threading.Event()
        self.begun.clear()
        self.stopped.clear()

    def begins(self, count: int = 1) -> Job:
        """The job of the latest run, once so many have begun."""
        until(lambda: len(self.begun) >= count, what=f"{count} run(s) begin")
        return self.begun[count - 1]


class Obeying:
    """A runtime that does what the first word of the message says."""

    def __init__(self, card: AgentCard, gate: Gate) -> None:
        self._gate = gate

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        self._gate.begun.append(job)
        message = job.message or {}
        words = " ".join(part["text"] for part in message.get("parts", ()) if "text" in part)
        order, _, rest = words.partition(" ")
        match order:
            case "ask":
                return Result(outcome=Waiting(question=rest or "What next?"))
            case "login":
                return Result(outcome=Waiting(question="Sign in first", auth=True))
            case "refuse":
                return Result(outcome=Declined(reason=rest or "not for me"))
            case "fail":
                return Result(outcome=Failed(error=rest or "it broke"))
            case "raise":
                raise RuntimeError(rest)
            case "park":
                return Result(outcome=Parked(until=datetime.now(UTC) + timedelta(hours=1), reason="a limit"))
            case "nothing":
                return None  # type: ignore[return-value]
            case "message":
                return Result(outcome=Done(note=rest), reply={"messageId": "m", "parts": [{"text": rest}]})
            case "file":
                path = job.workspace / "result.txt"
                path.write_text(rest)
                return Result(outcome=Done(note="see the file"), attachments=(path,))
            case "large":
                size, _, count = rest.partition(" ")
                paths = [job.workspace / f"large-{n}.bin" for n in range(int(count or 1))]
                for n, path in enumerate(paths):
                    path.write_bytes(bytes([n]) * int(size))
                return Result(outcome=Done(note="see the files"), attachments=tuple(paths))
            case "long":
                return Result(outcome=Done(note="x" * int(rest)))
            case "chunks":
                for piece in rest.split("|"):
                    progress.chunk(piece)
                return Result(outcome=Done(note=rest.replace("|", "")))
            case "drip":
                first, second = rest.split("|")
                progress.chunk(first)
                self._gate.open.wait(PATIENCE)
                progress.chunk(second)
                return Result(outcome=Done(note=first + second))
            case "wait":
                opened = self._gate.open
                while not opened.wait(0.02):
                    progress.touch()
                    if why := stopped():
                        self._gate.stopped.append(why)
                        return Result(outcome=Failed(error=why))
                return Result(outcome=Done(note="waited"))
            case _:
                return Result(outcome=Done(note=words))

    def close(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A server with the agent ``helper``, and calls to it."""

    served: Served
    gate: Gate
    home: Path

    def clean(self) -> None:
        """Nothing is on the board, and nothing runs."""
        self.gate.open.set()
        until(lambda: not self.served.app.state.gateway.runs.crew.busy, what="runs end")
        with self.served.house.database.transaction() as conn:
            for table in (
                "a2a_tasks",
                "task_has_files",
                "comments",
                "submissions",
                "chunks",
                "pauses",
                "journal",
                "tasks",
            ):
                conn.execute(f"DELETE FROM {table}")
        self.served.app.state.gateway.forget()
        self.gate.close()

    def post(
        self,
        body: object,
        *,
        name: str | None = "alice",
        agent: str = "helper",
        headers: Mapping[str, str | None] | None = None,
        path: str = "",
    ) -> Reply:
        """One request: bytes as they are, anything else as JSON. A header of None is left out."""
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        given = {k: v for k, v in {**HEADERS, **(headers or {})}.items() if v is not None}
        return self.served.request("POST", path or f"/agents/{agent}", raw, name=name, headers=given)

    def speak(
        self,
        binding: str,
        method: str,
        params: Mapping[str, Any],
        *,
        name: str | None = "alice",
        agent: str = "helper",
        headers: Mapping[str, str | None] | None = None,
    ) -> Reply:
        """The same call in one of the protocol's bindings."""
        if binding == "JSONRPC":
            return self.post(shape(method, params), name=name, agent=agent, headers=headers)
        verb, path, body = rest_of(method, params)
        given = {k: v for k, v in {**HEADERS, **(headers or {})}.items() if v is not None}
        return self.served.request(verb, f"/agents/{agent}/{path}", body, name=name, headers=given)

    def call(self, method: str, params: object, *, name: str = "alice", agent: str = "helper", **headers: str) -> Any:
        """The result. Fails for an error."""
        answer = self.post(shape(method, params), name=name, agent=agent, headers=headers).json
        assert "result" in answer, answer
        return answer["result"]

    def code(self, method: str, params: object, *, name: str = "alice", agent: str = "helper", **headers: str) -> int:
        """The error's code. Fails for a result."""
        answer = self.post(shape(method, params), name=name, agent=agent, headers=headers).json
        assert "error" in answer, answer
        code: int = answer["error"]["code"]
        return code

    def send(self, text: str, *, name: str = "alice", agent: str = "helper", at_once: bool = False, **more: Any) -> Any:
        """The task (or the message) that this text became."""
        params = {"message": message(text, **more), "configuration": {"returnImmediately": at_once}}
        result = self.call("SendMessage", params, name=name, agent=agent)
        return result.get("task") or result["message"]

    def get(self, task_id: str, *, name: str = "alice", agent: str = "helper") -> Any:
        return self.call("GetTask", {"id": task_id}, name=name, agent=agent)

    def state(self, task_id: str, *, name: str = "alice", agent: str = "helper") -> str:
        return str(self.get(task_id, name=name, agent=agent)["status"]["state"]).removeprefix("TASK_STATE_")

    def becomes(self, task_id: str, state: str, **who: str) -> Any:
        """The task, once it is in this state."""
        until(lambda: self.state(task_id, **who) == state, what=f"the task becomes {state}")
        return self.get(task_id, **who)

    def row(self, task_id: str) -> int:
        """The number of the board's row."""
        with self.served.house.database.connection() as conn:
            found = conn.execute("SELECT task_id FROM a2a_tasks WHERE id = %s", (task_id,)).fetchone()
        assert found is not None
        return int(found[0])

    def rows(self) -> int:
        """How many tasks there are on the board."""
        with self.served.house.database.connection() as conn:
            found = conn.execute("SELECT count(*) FROM tasks").fetchone()
        assert found is not None
        return int(found[0])

    @contextlib.contextmanager
    def stream(
        self, method: str, params: object, *, name: str = "alice", agent: str = "helper", **headers: str
    ) -> Iterator[Iterator[Any]]:
        """The events of a stream, each as (id, result); the connection is cut at the end of the block."""
        conn = http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=PATIENCE)
        given = {**HEADERS, "Authorization": f"Bearer {self.served.tokens[name]}", **headers}
        try:
            conn.request("POST", f"/agents/{agent}", json.dumps(shape(method, params)), given)
            answer = conn.getresponse()
            assert answer.headers["content-type"].startswith("text/event-stream"), answer.read()
            yield _events(answer)
        finally:
            conn.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[Any]:
    number = None
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text.startswith("id: "):
            number = int(text[4:])
        elif text.startswith("event: error"):
            return
        elif text.startswith("data: "):
            yield number, json.loads(text[6:])["result"]


_REST: Final = {
    "SendMessage": "POST message:send",
    "SendStreamingMessage": "POST message:stream",
    "GetTask": "GET tasks/{id}",
    "ListTasks": "GET tasks",
    "CancelTask": "POST tasks/{id}:cancel",
    "SubscribeToTask": "POST tasks/{id}:subscribe",
    "CreateTaskPushNotificationConfig": "POST tasks/{taskId}/pushNotificationConfigs",
    "GetTaskPushNotificationConfig": "GET tasks/{taskId}/pushNotificationConfigs/{id}",
    "ListTaskPushNotificationConfigs": "GET tasks/{taskId}/pushNotificationConfigs",
    "DeleteTaskPushNotificationConfig": "DELETE tasks/{taskId}/pushNotificationConfigs/{id}",
    "GetExtendedAgentCard": "GET extendedAgentCard",
}


def rest_of(method: str, params: Mapping[str, Any]) -> tuple[str, str, bytes]:
    """The HTTP method, the path below the agent's address, and the body that stand for this call."""
    verb, _, path = _REST[method].partition(" ")
    left = {key: value for key, value in params.items() if f"{{{key}}}" not in path}
    path = path.format(**params)
    if verb == "POST":
        return verb, path, orjson.dumps(left)
    words = {key: str(value).lower() if isinstance(value, bool) else value for key, value in left.items()}
    return verb, f"{path}?{urlencode(words)}" if words else path, b""


def shape(method: str, params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **more}


@contextlib.contextmanager
def exchange(
    dsn: str, home: Path, *, concurrency: int = 16, fresh: bool = True, **overrides: object
) -> Iterator[Exchange]:
    """A server whose agent ``helper`` runs in it and obeys; at the end the server stops while its runs still wait. Not
    ``fresh``: it was there before, with the same people."""
    gate = Gate()
    try:
        with serving(dsn, home, make=lambda card: Obeying(card, gate), fresh=fresh, **overrides) as served:
            if fresh:
                hire(served, home, "helper", concurrency=concurrency)
            yield Exchange(served=served, gate=gate, home=home)
    finally:
        gate.open.set()


def idle_but_gone(agents: Exchange, home: Path) -> None:
    """The worker of ``coder`` says that it is idle, and no longer comes for anything."""

    def seen() -> bool:
        agents.served.app.state.gateway.forget()
        with agents.served.house.database.connection() as conn:
            return conn.execute("SELECT 1 FROM worker_reports WHERE state = 'idle'").fetchone() is not None

    with hired(agents.served, "coder", home, poll=20.0) as one:
        until(seen, what="the worker is known")
        one.worker.drain()
        one.thread.join(20)
    with agents.served.house.database.connection() as conn:
        conn.execute("UPDATE worker_reports SET state = 'idle', seen = fabric_now()")
    agents.served.app.state.gateway.forget()


def hire(served: Served, home: Path, name: str, **more: object) -> None:
    """One more agent that runs in the server."""
    (home / "cards").mkdir(exist_ok=True)
    employ(served, home, name, kind="model", queues=[], **{"model.model": "none/none", **more})  # type: ignore[arg-type]
