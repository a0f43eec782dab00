"""DBOS queues: the library's defaults (a poll a second that claims every queued row), or a 20 ms poll."""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

from tests.bench import databases
from tests.bench.ruler import Slot
from tests.bench.system import System


class Dbos(System):
    """A task is a workflow in a queue."""

    def __init__(self, *, tuned: bool = False) -> None:
        self.tuned = tuned
        self.name = "dbos_tuned" if tuned else "dbos"
        self.library: Any = importlib.import_module("dbos")
        logging.getLogger("dbos").setLevel(logging.CRITICAL)

    def _launch(self, slot: Slot | None = None) -> None:
        dbos = self.library.DBOS
        dbos(
            config={
                "name": "bench",
                "system_database_url": databases.url(self.dsn),
                "run_admin_server": False,
                "log_level": "CRITICAL",
                "application_version": "v1",
            }
        )

        @dbos.workflow(name="job")  # type: ignore[untyped-decorator,unused-ignore]
        def job(ts: float) -> None:
            if slot is not None:
                slot.taken(ts)
                slot.done()

    def setup(self) -> None:
        self.fresh()
        child = os.fork()  # launched once in a process of its own: that makes the schema
        if child == 0:
            code = 1
            try:
                self._launch()
                self.library.DBOS.launch()
                tuning = {"worker_concurrency": 32, "polling_interval_sec": 0.02} if self.tuned else {}
                self.library.DBOS.register_queue("q", **tuning)
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            raise RuntimeError("dbos did not make its schema")
        self.open_client()  # one row as a pattern for fill()
        self.submit(0.0)
        self.close_client()
        self.run(
            "CREATE TABLE pattern AS SELECT * FROM dbos.workflow_status;"
            " CREATE TABLE pattern_input AS SELECT * FROM dbos.workflow_input"
        )

    def clear(self) -> None:
        self.run("TRUNCATE dbos.workflow_input; TRUNCATE dbos.workflow_status CASCADE")

    def fill(self, n: int) -> None:
        with_id = f"""DO $$ DECLARE names text; picked text; BEGIN
            SELECT string_agg(column_name, ', '),
                   string_agg(CASE column_name WHEN 'workflow_uuid' THEN 'ids.u' ELSE 'p.' || column_name END, ', ')
              INTO names, picked FROM information_schema.columns
             WHERE table_schema = 'dbos' AND table_name = 'workflow_status' AND is_generated = 'NEVER';
            CREATE TEMP TABLE ids AS SELECT gen_random_uuid()::text AS u FROM generate_series(1, {n});
            INSERT INTO dbos.workflow_input SELECT u, i.inputs, i.retention_timestamp FROM ids, pattern_input i;
            EXECUTE 'INSERT INTO dbos.workflow_status (' || names || ') SELECT ' || picked || ' FROM pattern p, ids';
            DROP TABLE ids;
        END $$"""
        self.run(with_id)

    def finished(self) -> int:
        return self.ask("SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'")

    def open_client(self) -> None:
        self.client = self.library.DBOSClient(system_database_url=databases.url(self.dsn))

    def close_client(self) -> None:
        self.client.destroy()

    def submit(self, submitted: float) -> None:
        self.client.enqueue({"queue_name": "q", "workflow_name": "job"}, submitted)

    def work(self, slot: Slot) -> None:
        os.environ["DBOS__VMID"] = f"w{os.getpid()}"
        self._launch(slot)
        slot.ready()
        self.library.DBOS.launch()
        slot.wait_stop()
