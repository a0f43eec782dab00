"""procrastinate: its own worker with one slot, the library's defaults otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
from typing import Any

from tests.bench import databases
from tests.bench.ruler import Slot
from tests.bench.system import System


class Procrastinate(System):
    """A task is a job of one queue."""

    name = "procrastinate"

    def __init__(self) -> None:
        self.library: Any = importlib.import_module("procrastinate")
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)

    def _app(self, slot: Slot | None = None, size: int = 4) -> tuple[Any, Any]:
        connector = self.library.PsycopgConnector(conninfo=databases.url(self.dsn), min_size=1, max_size=size)
        app = self.library.App(connector=connector)

        @app.task(name="job", queue="q")  # type: ignore[untyped-decorator,unused-ignore]
        async def job(ts: float) -> None:
            if slot is not None:
                slot.taken(ts)
                slot.done()

        return app, job

    def setup(self) -> None:
        self.fresh()

        async def apply() -> None:
            app, _ = self._app()
            async with app.open_async():
                await app.schema_manager.apply_schema_async()

        asyncio.run(apply())

    def clear(self) -> None:
        self.run("TRUNCATE procrastinate_jobs, procrastinate_workers RESTART IDENTITY CASCADE")

    def fill(self, n: int) -> None:
        self.run(
            "SET session_replication_role = replica;"
            " INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
            f" SELECT 'q', 'job', jsonb_build_object('ts', 0.0) FROM generate_series(1, {n}) g"
        )

    def finished(self) -> int:
        return self.ask("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")

    def open_client(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.app, self.job = self._app(size=1)
        self.loop.run_until_complete(self.app.open_async())

    def close_client(self) -> None:
        self.loop.run_until_complete(self.app.close_async())
        self.loop.close()

    def submit(self, submitted: float) -> None:
        self.loop.run_until_complete(self.job.defer_async(ts=submitted))

    def submit_many(self, n: int) -> None:
        self.loop.run_until_complete(self.job.batch_defer_async(*[{"ts": 0.0}] * n))

    def work(self, slot: Slot) -> None:
        app, _ = self._app(slot)

        async def go() -> None:
            async with app.open_async():
                slot.ready()
                worker = asyncio.create_task(
                    app.run_worker_async(queues=["q"], concurrency=1, install_signal_handlers=False)
                )
                when_stopped(slot, asyncio.get_running_loop(), worker.cancel)
                with contextlib.suppress(asyncio.CancelledError):
                    await worker

        asyncio.run(go())


def when_stopped(slot: Slot, loop: asyncio.AbstractEventLoop, stop: Any) -> None:
    """``stop`` is called on the loop once the bench says so."""

    def watch() -> None:
        slot.wait_stop()
        loop.call_soon_threadsafe(stop)

    threading.Thread(target=watch, daemon=True).start()
