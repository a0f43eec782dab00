"""Our board at the port, in process: one task at a time, or ten at a time."""

from __future__ import annotations

import tempfile
import threading
from datetime import timedelta
from pathlib import Path
from typing import Final

import psycopg

from taskfabric.boards.native.board import NativeBoard
from taskfabric.db.migrate import migrate
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.outcome import Done
from taskfabric.domain.principal import Caller
from taskfabric.domain.task import NewTask
from taskfabric.ports.board import Want
from taskfabric.ports.signal import Change
from taskfabric.services import verbs
from taskfabric.settings import Settings, load
from taskfabric.stores.signal import Bus
from taskfabric.wiring import House, build, first_human
from tests.bench.ruler import Slot
from tests.bench.system import System

LEASE: Final = timedelta(minutes=10)
NOTE: Final = "done, the result is attached"
# What submit writes, without going through it ``n`` times: copies of the tasks that were submitted, and their events.
_PATTERN: Final = """
DROP TABLE IF EXISTS pattern_task, pattern_event;
CREATE TABLE pattern_task AS SELECT row_number() OVER (ORDER BY id) - 1 AS nth, * FROM tasks;
CREATE TABLE pattern_event AS SELECT p.nth, j.* FROM journal j JOIN pattern_task p ON p.id = j.task_id
"""
_COPY: Final = """
WITH new AS (SELECT nextval('tasks_id_seq') AS id, g % (SELECT count(*) FROM pattern_task) AS nth
               FROM generate_series(1, {n}) g),
t AS (INSERT INTO tasks (id, {task}) SELECT new.id, {task_values} FROM new JOIN pattern_task p USING (nth))
INSERT INTO journal (task_id, {event}) SELECT new.id, {event} FROM new JOIN pattern_event p USING (nth)
"""


class Fabric(System):
    """The native board; a worker is an agent with a process, a pool and a bus of its own."""

    def __init__(self, batch: int = 1) -> None:
        self.batch = batch
        self.name = "fabric" if batch == 1 else "fabric_tens"

    # -- the house -----------------------------------------------------------------------------------

    def setup(self) -> None:
        self.fresh()
        migrate(self.dsn)
        self.home = tempfile.TemporaryDirectory(prefix="fabric-bench-home-")
        house = self.house()
        try:
            token = first_human(house, "alice")
            assert token is not None
            self.human_token = token
            self.human = self._caller(house, token)
            made = house.hallway.call(self.human, verbs.CreateToken(name="kimi"))
            self.agent_token: str = made["token"]
            self.agent = self._caller(house, self.agent_token)
            queues = house.hallway.call(self.human, verbs.ListQueues())
            self.project = next(queue.project_id for queue in queues if queue.name == "pool")
        finally:
            house.close()
        self.pattern([NewTask(project_id=self.project, title="a task of the bench", priority=1)])

    def settings(self) -> Settings:
        """The product's defaults."""
        return load(env={}, home=Path(self.home.name))

    def house(self) -> House:
        """One process' fabric over this database."""
        return build(self.settings(), self.dsn, home=Path(self.home.name), name="bench")

    @staticmethod
    def _caller(house: House, token: str) -> Caller:
        caller = house.credentials.authenticate(token)
        assert caller is not None
        return caller

    # -- tasks ---------------------------------------------------------------------------------------

    def pattern(self, tasks: list[NewTask]) -> None:
        """From now on ``fill`` makes copies of these, in turn."""
        self.clear()
        self.open_client()
        try:
            self.client.submit(tasks, self.human.stamp(), Limits())
        finally:
            self.close_client()
        self.run(_PATTERN)
        task, event = self._columns("tasks", "id"), self._columns("journal", "id", "task_id", "xid")
        values = ["nextval('task_rank') * 1048576" if name == "rank" else f"p.{name}" for name in task]
        self._copy = _COPY.format(n="{n}", task=", ".join(task), task_values=", ".join(values), event=", ".join(event))
        self.clear()

    def _columns(self, table: str, *without: str) -> list[str]:
        """The columns of a table that can be written."""
        with psycopg.connect(self.dsn) as conn:
            found = conn.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
                " AND attgenerated = '' ORDER BY attnum",
                (table,),
            ).fetchall()
        return [name for (name,) in found if name not in without]

    def clear(self) -> None:
        self.run("TRUNCATE tasks, task_texts, comments, journal, submissions CASCADE")

    def fill(self, n: int) -> None:
        self.run(self._copy.replace("{n}", str(n)))

    # -- the submitter -------------------------------------------------------------------------------

    def open_client(self) -> None:
        self.client_db = Database(self.dsn, size=2, name="bench")
        self.client_bus = Bus(self.dsn)
        self.client = NativeBoard(self.client_db, self.client_bus)

    def close_client(self) -> None:
        self.client_bus.close()
        self.client_db.close()

    def submit(self, submitted: float) -> None:
        new = NewTask(project_id=self.project, title="a task", reference=repr(submitted), priority=1)
        self.client.submit([new], self.human.stamp(), Limits())

    def submit_many(self, n: int) -> None:
        new = [NewTask(project_id=self.project, title=f"task {i}", priority=1) for i in range(n)]
        self.client.submit(new, self.human.stamp(), Limits())

    # -- the worker ----------------------------------------------------------------------------------

    def want(self) -> Want:
        """What a worker of the bench asks for."""
        return Want(queues=(self.project,), lease=LEASE)

    def work(self, slot: Slot) -> None:
        database = Database(self.dsn, size=2, name="bench")
        bus = Bus(self.dsn)
        board = NativeBoard(database, bus)
        woken = Woken(bus)
        want, me = self.want(), self.agent.stamp()
        slot.ready()
        while not slot.stopping:
            woken.before_look()
            got = board.claim(want, self.batch, me)
            if not got:
                woken.wait()
                continue
            slot.taken(got[0].task.reference)
            if self.batch == 1:
                board.settle(got[0].fence, Done(note=NOTE), me)
            else:
                board.settle_many([(claimed.fence, Done(note=NOTE)) for claimed in got], me)
            slot.done(len(got))


class Woken:
    """An idle worker's sleep: until the bus says that there is ready work, or until it is time to poll."""

    def __init__(self, bus: Bus, poll: float = 1.0) -> None:
        self._event = threading.Event()
        self._poll = poll
        bus.subscribe(self._hear)

    def _hear(self, change: Change) -> None:
        if change.project_id is not None or change.task_id is None:
            self._event.set()

    def before_look(self) -> None:
        """What is announced from now on will end the next ``wait``."""
        self._event.clear()

    def wait(self) -> None:
        self._event.wait(self._poll)
