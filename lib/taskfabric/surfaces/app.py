"""The one ASGI application, and the process that serves it.

    python -m taskfabric.surfaces.app            # settings and database as the environment says

The supervisor starts this process; it writes nothing but its log, and ends within seconds of a SIGTERM whatever
streams are open.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskfabric import __version__, logs, runtimes
from taskfabric.domain.card import AgentCard
from taskfabric.domain.errors import BadInput, FabricError, NotFound, Unavailable
from taskfabric.ports.runtime import Runtime
from taskfabric.settings import Settings, fabric_home, load
from taskfabric.surfaces.a2a.gateway import CARD, Gateway
from taskfabric.surfaces.answers import header, send_error
from taskfabric.surfaces.auth import Presented, Sites, missing, presented
from taskfabric.surfaces.edge import Edge, Health
from taskfabric.surfaces.events import EventStream
from taskfabric.surfaces.fabric_rpc.endpoint import JsonRpc
from taskfabric.surfaces.fabric_rpc.procedures import fabric_procedures, incident
from taskfabric.surfaces.kanboard_api.dispatch import KanboardApi
from taskfabric.surfaces.kanboard_api.table import procedures as kanboard_procedures
from taskfabric.surfaces.metrics import MetricsPage
from taskfabric.surfaces.postman import follower, postman
from taskfabric.surfaces.push_postman import PushPostman
from taskfabric.surfaces.schemes import Schemes
from taskfabric.surfaces.web.site import Site
from taskfabric.wiring import House, app_token, build, check_guarded, open_cluster

log = logging.getLogger(__name__)

_GRACE: Final = 3  # seconds that open requests have when the server stops
_UNREAD: Final = 60_000  # milliseconds for which what was sent may stay unread: then the connection is given up
_KEEP_ALIVE: Final = 75  # seconds that an idle connection stays open; longer than clients pause


class Guard:
    """What every request passes first: its Host and Origin, that it shows a credential, and that no fault gets out."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        sites: Sites,
        health: Health,
        web: Site,
        public: Callable[[Scope], bool] | None = None,
        schemes: Schemes | None = None,
    ) -> None:
        """``public``: which requests need no credential; ``schemes``: how else than by bearer tokens one is shown."""
        self._schemes = schemes or Schemes()
        self._app = app
        self._sites = sites
        self._health = health
        self._open = public
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        began = False

        async def watched(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._checked(scope, receive, watched)
        except FabricError as error:
            await send_error(send, error)
        except Exception as error:
            fault = incident(error, scope["path"])
            if not began:
                await send_error(send, fault.error)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":  # says nothing that needs a door
            await self._health(scope, receive, send)
            return
        host = header(scope, b"host")
        if not self._sites.knows(host):
            error = BadInput(
                "this server does not go by that name",
                next="use the URL that `fabric status` shows, or set server.public_url to this one",
            )
            await send_error(send, error, status=421)
            return
        if scope["method"] not in ("GET", "HEAD"):
            self._sites.check_origin(header(scope, b"origin"), host)
        if self._web.expects(scope):  # has a sign-in of its own
            await self._web(scope, receive, send)
            return
        client = scope.get("client")
        shown = presented(scope["headers"], client[0] if client else "", schemes=self._schemes, path=scope["path"])
        if shown is None and self._open is not None and self._open(scope):
            await self._app(scope, receive, send)
            return
        if shown is None:
            refused = missing(scope["headers"], self._schemes)
            if scope["path"] != Application.calls_path:
                raise refused
            scope["fabric.refused"] = refused  # each call is refused in the words of those who make it
            shown = Presented(token="", user=None, address=client[0] if client else "", instance="")
        scope["fabric.presented"] = shown
        await self._app(scope, receive, send)


class Application(Starlette):
    """The routes, and before them the endpoint that nearly every request is for: Starlette's own layers cost such a
    call as much as its work in the hallway."""

    calls_path: Final = "/jsonrpc.php"
    calls: ASGIApp
    agents: ASGIApp | None = None  # callers over A2A

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self.calls_path:
            await self.calls(scope, receive, send)
        elif self.agents is not None and scope["type"] == "http" and scope["path"].startswith(("/agents/", CARD)):
            await self.agents(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(
    house: House, *, make: Callable[[AgentCard], Runtime] | None = None, keep: Path | None = None
) -> Application:
    """The application over a house. Its lifespan starts and ends the threads; the house is closed by who built it.
    ``make`` makes the runtimes of agents that run in the server, which keep what must outlive them below ``keep``."""
    edge = Edge(house)
    server = house.settings.server
    gateway = (
        None
        if house.a2a is None
        else Gateway(house, edge, make=make or partial(runtimes.make, clock=house.board.now, keep=keep), keep=keep)
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        edge.start()
        if gateway is not None:
            gateway.start()
        try:
            yield
        finally:
            if gateway is not None:
                await gateway.stop()
            await edge.stop()

    async def unknown(scope: Scope, receive: Receive, send: Send) -> None:
        await edge.pools.work.run(lambda: edge.door.admit(scope["fabric.presented"]))
        raise NotFound("there is no such page", next="calls go to /jsonrpc.php, the journal is at /events")

    calls = JsonRpc(
        fabric_procedures(house.hallway, edge.room, edge.concerned),
        door=edge.door,
        pools=edge.pools,
        room=edge.room,
        body_limit=server.body_limit,
        wait_cap=server.wait_cap.total_seconds(),
        # Where the board is a Kanboard, its clients go there.
        kanboard=None
        if house.settings.board.kanboard
        else KanboardApi(kanboard_procedures(house.hallway), house.hallway),
        public_url=server.public_url,
    )
    stream = EventStream(house.hallway, door=edge.door, pool=edge.looks, pulse=edge.pulse)
    numbers = MetricsPage(house.hallway, door=edge.door, pool=edge.looks)
    sites = Sites(host=server.host, public_url=server.public_url, allow_remote=server.allow_remote)
    web = Site(
        house.hallway,
        pool=edge.pools.work,
        pulse=edge.pulse,
        sites=sites,
        public_url=server.public_url,
        body_limit=server.body_limit,
        version=__version__,
    )
    app = Application(
        routes=[Route("/events", stream), Route("/metrics", numbers)],
        middleware=[Middleware(Guard, sites=sites, health=edge.health, web=web)],
        lifespan=lifespan,
    )
    app.calls = Guard(calls, sites=sites, health=edge.health, web=web)
    if gateway is not None:
        public = Gateway.is_public if house.settings.a2a.public_cards else None
        app.agents = Guard(
            gateway, sites=sites, health=edge.health, web=web, public=public, schemes=Schemes.of(house.settings)
        )
        edge.dismissed.append(gateway.dismiss)
    app.router.redirect_slashes = False
    app.router.default = unknown
    app.state.edge = edge
    app.state.gateway = gateway
    return app


# ---------------------------------------------------------------- the process


class _Server(uvicorn.Server):
    """Ends the streams before it waits for open requests, for they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, edge: Edge) -> None:
        super().__init__(config)
        self._edge = edge

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._edge.dismiss()
        await super().shutdown(sockets)


def serve(settings: Settings, *, home: Path, leash: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT, or until the file ``leash`` (a pipe of the supervisor's) ends.

    Raises Unavailable when the database or the port cannot be had, BadInput for a server that nobody guards.
    """
    ground = open_cluster(home, settings)
    sock = listening(settings.server.host, settings.server.port)
    with contextlib.closing(sock), contextlib.closing(build(settings, ground.dsn, home=home)) as house:
        app_token(house, settings.auth.app_token)
        check_guarded(house)
        app = create_app(house, keep=home / "runs")
        server = _Server(configuration(app), app.state.edge)
        # uvicorn raises the signal that ended it once more, for whoever came before it: that is the end we want.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        if leash is not None:
            threading.Thread(target=_hold, args=(leash, server), name="leash", daemon=True).start()
        host, port = sock.getsockname()[:2]
        log.info("serving host=%s port=%d version=%s", host, port, __version__)
        with (
            postman(house.hallway.post),
            follower(house.hallway.following, house.signal),
            PushPostman(house.push_delivery, house.signal),
        ):
            server.run(sockets=[sock])
    log.info("stopped")


def server_of(config: uvicorn.Config, app: Application) -> uvicorn.Server:
    """A server that ends what would never end by itself when it stops."""
    return _Server(config, app.state.edge)


def configuration(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn serves us."""
    return uvicorn.Config(
        app,
        http="httptools",
        loop="auto",  # uvloop where there is one
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=65536,
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises Unavailable when the port is taken."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # elsewhere the system's own patience counts
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD)
        sock.bind((host, port))
        sock.listen(2048)
    except OSError as cause:
        raise Unavailable(
            f"the server cannot listen on {host} port {port}: {(cause.strerror or str(cause)).lower()}",
            next="stop what uses that port, or choose another one with --port",
            host=host,
            port=port,
        ) from cause
    sock.setblocking(False)
    return sock


def _hold(leash: int, server: uvicorn.Server) -> None:
    with contextlib.suppress(OSError):
        while os.read(leash, 4096):
            pass
    log.info("the supervisor is gone")
    server.should_exit = True


def main() -> int:
    """Serve the fabric of this environment; the exit code. With ``--leash``, until standard input ends."""
    env = os.environ
    home = fabric_home(env, Path.cwd())
    try:
        settings = load(env=env, home=home)
        logs.configure(settings.log.level, settings.log.format)
        serve(settings, home=home, leash=0 if "--leash" in sys.argv[1:] else None)
    except FabricError as error:
        log.error("not serving reason=%r next=%r", error.message, error.next)  # noqa: TRY400 (an expected end)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
