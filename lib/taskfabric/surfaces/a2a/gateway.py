"""A2A in the one application: which path is whose, the public cards, and what starts and ends with the server.

The SDK's messages cost a second and 50 MB to load, so that happens with the first call, in a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Scope, Send

from taskfabric.domain.card import AgentCard
from taskfabric.domain.errors import BadInput, FabricError, not_found
from taskfabric.ports.runtime import Runtime
from taskfabric.surfaces import schemes
from taskfabric.surfaces.a2a.cards import Cards
from taskfabric.surfaces.a2a.returning import Returning
from taskfabric.surfaces.a2a.runs import Runs
from taskfabric.surfaces.a2a.watch import Watch
from taskfabric.surfaces.answers import Header, header, send_error
from taskfabric.surfaces.auth import Door
from taskfabric.surfaces.edge import Edge
from taskfabric.surfaces.threads import Pool
from taskfabric.wiring import House

if TYPE_CHECKING:
    from taskfabric.surfaces.a2a.endpoint import Endpoint

CARD: Final = "/.well-known/agent-card.json"
BELOW: Final = "/agents/"
_INTERVAL: Final = 2.0  # seconds between two looks at what is watched, for signals that were lost


class Gateway:
    """``/agents/NAME`` and the cards, as an ASGI application. ``make`` makes a card's runtime."""

    def __init__(self, house: House, edge: Edge, *, make: Callable[[AgentCard], Runtime], keep: Path | None) -> None:
        assert house.a2a is not None
        self._house = house
        self._a2a = house.a2a
        self._rules = house.settings.a2a
        self._door: Door = edge.door
        self._pool: Pool = edge.pools.work
        server = house.settings.server
        self._public = server.public_url
        known, required = schemes.told(house.settings)
        self.cards: Final = Cards(self._rules, schemes=known, requirements=required)
        self.runs: Final = Runs(
            house,
            self._a2a,
            make,
            threads=self._rules.threads,
            spool=None if keep is None else keep / "a2a-spool",
            url=server.public_url or f"http://{server.host}:{server.port}",
        )
        self.returning: Final = Returning(self._a2a, self.runs)
        self.watch: Final = Watch(self._a2a.ends, pool=edge.looks, interval=_INTERVAL)
        self._lock = threading.Lock()
        self._endpoint: Endpoint | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        self.runs.start()
        self.returning.start(self._house.signal)
        self.watch.start(self._house.signal)

    def dismiss(self) -> None:
        """The server stops: streams end, and runs are told to."""
        self.watch.dismiss()
        self.runs.dismiss()

    async def stop(self) -> None:
        """Nothing of this runs any more."""
        await self.watch.stop()
        await self._pool.run(self.returning.close)
        await self._pool.run(self.runs.close)

    def forget(self) -> None:
        """What was seen of the agents is looked at again with the next call."""
        self._a2a.forget()

    @staticmethod
    def is_public(scope: Scope) -> bool:
        """Whether it asks for a card: those have no door of their own."""
        path: str = scope["path"]
        return scope["method"] in ("GET", "HEAD") and (path == CARD or (path.startswith(BELOW) and path.endswith(CARD)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == CARD:
            await self._card(self._rules.default_agent, scope, send)
            return
        name, _, rest = path.removeprefix(BELOW).partition("/")
        if rest and f"/{rest}" == CARD:
            await self._card(name, scope, send)
        elif not name or scope.get("fabric.presented") is None:
            await self._nobody(scope, send)
        else:
            endpoint = self._endpoint
            if endpoint is None:
                endpoint = await self._pool.run(self._loaded)
            await endpoint(scope, receive, send, name=name, url=self._url(name, scope), below=rest)

    async def _nobody(self, scope: Scope, send: Send) -> None:
        shown = scope.get("fabric.presented")
        if shown is not None:
            await self._pool.run(lambda: self._door.admit(shown))
        await send_error(send, not_found("agent"))

    async def _card(self, name: str, scope: Scope, send: Send) -> None:
        """The card of an agent; for everybody, unless the house shows them to none."""
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, BadInput("cards are read by GET", allow="GET, HEAD"), status=405)
            return
        try:
            if not self._rules.public_cards:
                shown = scope["fabric.presented"]
                await self._pool.run(lambda: self._a2a.agent(self._door.admit(shown), name))
            card = self._a2a.card(name) if name else None
            if card is None:
                raise not_found("agent")
        except FabricError as error:
            await send_error(send, error)
            return
        served = self.cards.served(card, self._url(name, scope))
        age = round(self._rules.card_max_age.total_seconds())
        kept = b"public" if self._rules.public_cards else b"private"
        headers: list[Header] = [(b"etag", served.etag), (b"last-modified", served.modified), (b"vary", b"host")]
        headers.append((b"cache-control", b"%b, max-age=%d" % (kept, age)))
        if _unchanged(header(scope, b"if-none-match"), served.etag):
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        length = (b"content-length", b"%d" % len(served.body))
        all_headers = [
            (b"content-type", b"application/json"),
            length,
            *headers,
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": all_headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else served.body})

    def _url(self, name: str, scope: Scope) -> str:
        """The agent's address as its callers know it."""
        base = self._public
        if not base:
            host = (header(scope, b"host") or b"localhost").decode("latin-1")
            base = f"{scope.get('scheme', 'http')}://{host}"
        return f"{base}{BELOW}{name}"

    def _loaded(self) -> Endpoint:
        with self._lock:
            if self._endpoint is None:
                from taskfabric.surfaces.a2a.endpoint import Endpoint
                from taskfabric.surfaces.a2a.operations import Operations

                self._endpoint = Endpoint(
                    self._a2a,
                    self._house.hallway,
                    door=self._door,
                    pool=self._pool,
                    runs=self.runs,
                    watch=self.watch,
                    operations=Operations(self._a2a, self._rules, self.cards, self._house.push, self.runs.stop),
                    rules=self._rules,
                )
            return self._endpoint


def _unchanged(wanted: bytes | None, etag: bytes) -> bool:
    if wanted is None:
        return False
    tags = [tag.strip().removeprefix(b"W/") for tag in wanted.split(b",")]
    return b"*" in tags or etag in tags
