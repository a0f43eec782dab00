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
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskfabric import __version__, logs
from taskfabric.domain.errors import BadInput, FabricError, NotAuthenticated, NotFound, Unavailable
from taskfabric.settings import Settings, fabric_home, load
from taskfabric.surfaces.answers import header, send_error
from taskfabric.surfaces.auth import Sites, presented
from taskfabric.surfaces.edge import Edge, Health
from taskfabric.surfaces.events import EventStream
from taskfabric.surfaces.fabric_rpc.endpoint import JsonRpc
from taskfabric.surfaces.fabric_rpc.procedures import fabric_procedures, incident
from taskfabric.surfaces.metrics import MetricsPage
from taskfabric.surfaces.postman import Postman
from taskfabric.surfaces.web.site import Site
from taskfabric.wiring import House, build, open_cluster

log = logging.getLogger(__name__)

_GRACE: Final = 3  # seconds that open requests have when the server stops
_KEEP_ALIVE: Final = 75  # seconds that an idle connection stays open; longer than clients pause


class Guard:
    """What every request passes first: its Host and Origin, that it shows a credential, and that no fault gets out."""

    def __init__(self, app: ASGIApp, *, sites: Sites, health: Health, web: Site) -> None:
        self._app = app
        self._sites = sites
        self._health = health
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
        if self._web.owns(scope["path"]):  # has a sign-in of its own
            await self._web(scope, receive, send)
            return
        client = scope.get("client")
        shown = presented(scope["headers"], client[0] if client else "")
        if shown is None:
            raise NotAuthenticated("this needs a token")
        scope["fabric.presented"] = shown
        await self._app(scope, receive, send)


class Application(Starlette):
    """The routes, and before them the endpoint that nearly every request is for: Starlette's own layers cost such a
    call as much as its work in the hallway."""

    calls_path: Final = "/jsonrpc.php"
    calls: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self.calls_path:
            await self.calls(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(house: House) -> Application:
    """The application over a house. Its lifespan starts and ends the threads; the house is closed by who built it."""
    edge = Edge(house)
    server = house.settings.server

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        edge.start()
        try:
            yield
        finally:
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
    app.router.redirect_slashes = False
    app.router.default = unknown
    app.state.edge = edge
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

    Raises Unavailable when the database or the port cannot be had.
    """
    ground = open_cluster(home, settings)
    sock = listening(settings.server.host, settings.server.port)
    with contextlib.closing(sock), contextlib.closing(build(settings, ground.dsn, home=home)) as house:
        app = create_app(house)
        server = _Server(configuration(app), app.state.edge)
        # uvicorn raises the signal that ended it once more, for whoever came before it: that is the end we want.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        if leash is not None:
            threading.Thread(target=_hold, args=(leash, server), name="leash", daemon=True).start()
        host, port = sock.getsockname()[:2]
        log.info("serving host=%s port=%d version=%s", host, port, __version__)
        with Postman(house.hallway.post):
            server.run(sockets=[sock])
    log.info("stopped")


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
