"""pgqueuer: asyncpg and uvloop, ten rows a query as is its default, or one."""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import Any

from tests.bench import databases
from tests.bench.ruler import Slot
from tests.bench.sys_procrastinate import when_stopped
from tests.bench.system import System


class Pgqueuer(System):
    """A task is a row of its queue; finished ones move to its log."""

    def __init__(self, batch: int = 10) -> None:
        self.batch = batch
        self.name = "pgqueuer_tens" if batch == 10 else "pgqueuer"
        self.library: Any = importlib.import_module("pgqueuer")
        self.driver: Any = importlib.import_module("pgqueuer.db").AsyncpgDriver
        self.queries: Any = importlib.import_module("pgqueuer.queries").Queries
        self.asyncpg: Any = importlib.import_module("asyncpg")
        self.uvloop: Any = importlib.import_module("uvloop")
        logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)

    def _connect(self) -> Any:
        return self.asyncpg.connect(databases.url(self.dsn))

    def setup(self) -> None:
        self.fresh()

        async def install() -> None:
            conn = await self._connect()
            await self.queries(self.driver(conn)).install()
            await conn.close()

        asyncio.run(install())

    def clear(self) -> None:
        self.run("TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics RESTART IDENTITY")

    def fill(self, n: int) -> None:
        self.run(
            "SET session_replication_role = replica;"
            " INSERT INTO pgqueuer (priority, status, entrypoint, payload)"
            f" SELECT 0, 'queued', 'fetch', '0.0'::bytea FROM generate_series(1, {n}) g"
        )

    def finished(self) -> int:
        return self.ask("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")

    def open_client(self) -> None:
        self.loop = self.uvloop.new_event_loop()
        self.conn = self.loop.run_until_complete(self._connect())
        self.client = self.queries(self.driver(self.conn))

    def close_client(self) -> None:
        self.loop.run_until_complete(self.conn.close())
        self.loop.close()

    def submit(self, submitted: float) -> None:
        self.loop.run_until_complete(self.client.enqueue("fetch", repr(submitted).encode(), 0))

    def submit_many(self, n: int) -> None:
        self.loop.run_until_complete(self.client.enqueue(["fetch"] * n, [b"0.0"] * n, [0] * n))

    def work(self, slot: Slot) -> None:
        async def go() -> None:
            queue = self.library.PgQueuer(self.driver(await self._connect()))

            @queue.entrypoint("fetch")  # type: ignore[untyped-decorator,unused-ignore]
            async def fetch(job: Any) -> None:
                slot.taken(float(job.payload))
                slot.done()

            slot.ready()
            when_stopped(slot, asyncio.get_running_loop(), queue.shutdown.set)
            await queue.run(batch_size=self.batch)

        with asyncio.Runner(loop_factory=self.uvloop.new_event_loop) as runner:
            runner.run(go())
