"""A real server for tests: our application under uvicorn in a thread, on a free port, over a test database."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from taskfabric.domain.card import AgentCard
from taskfabric.domain.principal import Kind, ProjectRole, Trust, Via
from taskfabric.domain.queue import QueueKind
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.runtime import Runtime
from taskfabric.remote import RemoteFabric
from taskfabric.settings import load
from taskfabric.surfaces.app import configuration, create_app, listening
from taskfabric.wiring import SYSTEM, House, build, first_human
from tests.horizon import caught_up


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body read as JSON."""
        return orjson.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running server, its house, and tokens by name: ``alice`` is the administrator, ``kimi`` an agent."""

    url: str
    port: int
    house: House
    app: Any
    tokens: dict[str, str] = field(default_factory=dict)

    def fabric(self, name: str, **options: Any) -> RemoteFabric:
        """A client in this one's name."""
        return RemoteFabric(self.url, self.tokens[name], **options)

    def caught_up(self) -> None:
        """All that is committed now can be read in the journal."""
        with self.house.database.connection() as conn:
            caught_up(conn)

    def rpc(self, body: object, *, name: str | None = "alice", headers: Mapping[str, str] | None = None) -> Reply:
        """POST a body to the endpoint: bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        return self.request("POST", "/jsonrpc.php", raw, name=name, headers=headers)

    def call(self, method: str, params: object = None, *, name: str = "alice") -> Any:
        """One call; its whole answer."""
        shape = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {} if params is None else params}
        return self.rpc(shape, name=name).json

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        name: str | None = "alice",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One HTTP request on a connection of its own."""
        given = dict(headers or {})
        if name is not None and "Authorization" not in given:
            given["Authorization"] = f"Bearer {self.tokens[name]}"
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as conn:
            conn.request(method, path, body, given)
            got = conn.getresponse()
            return Reply(status=got.status, headers={k.lower(): v for k, v in got.getheaders()}, body=got.read())

    def add(self, name: str, kind: Kind, trust: Trust) -> int:
        """One more principal with a token; its number."""
        made = self.house.credentials.add_principal(NewPrincipal(name=name, kind=kind, trust=trust), SYSTEM)
        self.tokens[name], _ = self.house.credentials.create_token(made.id, name="test", via=Via.TOKEN, stamp=SYSTEM)
        return made.id

    def add_person(self, name: str) -> str:
        """One more human, with an inbox, who belongs to nothing else; his name."""
        made = self.add(name, Kind.HUMAN, Trust.HUMAN)
        self.house.projects.make_queue(name, QueueKind.INBOX, SYSTEM, owner_id=made)
        return name


@contextlib.contextmanager
def serving(
    dsn: str, home: Path, *, make: Callable[[AgentCard], Runtime] | None = None, fresh: bool = True, **overrides: object
) -> Iterator[Served]:
    """A server over this database, with alice (administrator), bob (human), kimi and qwen (sandboxed agents, members
    of the pool). ``make`` makes the runtimes of the server's own runs; ``overrides`` are settings, with ``__`` for the
    dot. Not ``fresh``: it was there before, with the same people."""
    settings = load(
        env={}, home=home, overrides={"server.port": 0, **{k.replace("__", "."): v for k, v in overrides.items()}}
    )
    with contextlib.closing(build(settings, dsn, home=home, name="test")) as house:
        token = first_human(house, "alice")
        assert (token is not None) == fresh
        sock = listening("127.0.0.1", 0)
        port = sock.getsockname()[1]
        app = create_app(house, make=make, keep=home / "runs")
        server = uvicorn.Server(configuration(app))
        thread = threading.Thread(target=lambda: server.run(sockets=[sock]), name="server")
        served = Served(url=f"http://127.0.0.1:{port}", port=port, house=house, app=app, tokens={"alice": token or ""})
        if fresh:
            _people(served)
        thread.start()
        try:
            yield served
        finally:
            app.state.edge.dismiss()
            server.should_exit = True
            thread.join(15)
            sock.close()
            assert not thread.is_alive()


def _people(served: Served) -> None:
    house = served.house
    bob = served.add("bob", Kind.HUMAN, Trust.HUMAN)
    house.projects.make_queue("bob", QueueKind.INBOX, SYSTEM, owner_id=bob)
    pool = house.projects.queue("pool")
    assert pool is not None
    for name in ("kimi", "qwen"):
        agent = served.add(name, Kind.AGENT, Trust.SANDBOXED)
        house.projects.make_queue(name, QueueKind.AGENT, SYSTEM, owner_id=agent)
        house.projects.set_member(pool.project_id, agent, ProjectRole.MEMBER, SYSTEM)
