"""What runs between the network and the hallway: the threads, the wait room, the pulse of the streams, the health."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import orjson
from starlette.types import Receive, Scope, Send

from taskfabric import __version__
from taskfabric.domain.errors import Unavailable
from taskfabric.domain.principal import Caller
from taskfabric.services.verbs import Awaited, Wait
from taskfabric.surfaces.answers import send_bytes
from taskfabric.surfaces.auth import Door
from taskfabric.surfaces.events import Pulse
from taskfabric.surfaces.fabric_rpc.endpoint import Pools
from taskfabric.surfaces.fabric_rpc.waiters import WaitRoom
from taskfabric.surfaces.threads import Pool
from taskfabric.wiring import House

log = logging.getLogger(__name__)

AGENTS: Final = 4  # connections that the runs of agents in this server use at once, one of them for their renewals
_QUEUE: Final = 256  # calls that may wait for a thread
_HEALTH_AGE: Final = 1.0  # seconds for which a health answer is given again


class Edge:
    """Everything between the network and the hallway, for one event loop."""

    def __init__(self, house: House) -> None:
        server, board = house.settings.server, house.settings.board
        # Each kind of thread holds one connection at a time, so that together they never wait for one: a renewal that
        # waits behind other work for its connection is a lease lost under load.
        renewing, looking = server.renew_threads, 2
        agents = 0 if house.a2a is None else AGENTS
        working = max(1, min(server.threads, board.pool_size - renewing - looking - agents))
        if working < server.threads:
            log.info("fewer threads than set threads=%d pool_size=%d", working, board.pool_size)
        self.house = house
        self.pools = Pools(
            work=Pool("work", threads=working, queue=_QUEUE), renewals=Pool("renew", threads=renewing, queue=_QUEUE)
        )
        self.looks = Pool("look", threads=looking, queue=8 * _QUEUE)
        self.door = Door(
            house.credentials,
            failures=house.settings.auth.failures_before_delay,
            delay=house.settings.auth.delay,
            foreign=house.foreign,
        )
        interval = board.poll_interval.total_seconds()
        self.room = WaitRoom(look=self._look, pool=self.looks, interval=interval)
        self.pulse = Pulse(journal=house.journal, pool=self.looks, interval=interval)
        self.health = Health(house)
        self.dismissed: list[Callable[[], None]] = []  # who else is told that the server stops

    def start(self) -> None:
        """Begin, on the running loop."""
        for pool in (self.pools.work, self.pools.renewals, self.looks, self.health.pool):
            pool.start()
        self.room.start(self.house.signal)
        self.pulse.start(self.house.signal)

    def dismiss(self) -> None:
        """Whoever waits or listens gets an end of it: the server stops."""
        self.room.dismiss()
        self.pulse.end()
        for tell in self.dismissed:
            tell()

    async def stop(self) -> None:
        """Nothing of this runs any more; the house still stands."""
        await self.room.stop()
        await self.pulse.stop()
        for pool in (self.pools.work, self.pools.renewals, self.looks, self.health.pool):
            pool.stop()

    def _look(self, caller: Caller, verb: Wait) -> Awaited | None:
        return self.house.hallway.waiting.check(caller, verb)

    def concerned(self, caller: Caller, verb: Wait) -> frozenset[int]:
        """A hint only, nobody is let in by it: whose changes are worth a look before the next interval."""
        if verb.task is not None:
            return frozenset()
        projects = self.house.projects
        if verb.queue is not None:
            named = projects.queue(verb.queue)
            return frozenset() if named is None else frozenset({named.project_id})
        return frozenset(queue.project_id for queue in projects.queues_of(caller.principal.id))


class Health:
    """GET /healthz, for everybody: whether the board answers. Asked of the database at most once a second."""

    def __init__(self, house: House) -> None:
        self.pool = Pool("health", threads=1, queue=_QUEUE)
        self._database = house.database
        self._seen = float("-inf")
        self._up = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        up = await self.pool.run(self._look)
        body = {"ok": up, "board": "up" if up else "away", "version": __version__}
        await send_bytes(send, 200 if up else 503, orjson.dumps(body))

    def _look(self) -> bool:
        if time.monotonic() - self._seen >= _HEALTH_AGE:
            try:
                self._database.check()
                self._up = True
            except Unavailable:
                self._up = False
            self._seen = time.monotonic()
        return self._up
