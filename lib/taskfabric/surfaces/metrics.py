"""GET /metrics: the numbers in Prometheus' text form, for whoever shows a credential; what he gets depends on it."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from taskfabric.domain.errors import BadInput
from taskfabric.services.hallway import Hallway
from taskfabric.services.metrics import CONTENT_TYPE
from taskfabric.services.verbs import Metrics
from taskfabric.surfaces.answers import send_error
from taskfabric.surfaces.auth import Door, Presented
from taskfabric.surfaces.threads import Pool


class MetricsPage:
    """The endpoint, as an ASGI application."""

    def __init__(self, hallway: Hallway, *, door: Door, pool: Pool) -> None:
        self._hallway = hallway
        self._door = door
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown: Presented = scope["fabric.presented"]
        text = await self._pool.run(lambda: self._hallway.call(self._door.admit(shown), Metrics()))
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, BadInput("metrics are read by GET", allow="GET, HEAD"), status=405)
            return
        body = text.encode()
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
