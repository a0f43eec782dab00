"""A native board on a database of its own, with a pool, two agents and two humans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from taskfabric.boards.native.board import NativeBoard
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.principal import Kind, ProjectRole, Stamp, Trust, Viewer
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.task import Claimed, NewTask, Task
from taskfabric.ports.board import Want
from taskfabric.stores.signal import Bus
from taskfabric.testing import TestDatabase, TestServer
from tests.integration.board_api import BoardApi, board_api

LEASE = timedelta(minutes=10)


@dataclass
class Rig:
    """What a board test needs, spoken shortly."""

    test_database: TestDatabase
    database: Database
    bus: Bus
    board: NativeBoard
    projects: NativeProjects
    people: dict[str, Stamp] = field(default_factory=dict)
    pool: Queue = field(init=False)

    def person(self, name: str, kind: Kind, trust: Trust) -> Stamp:
        with self.database.connection() as conn:
            row = conn.execute(
                "INSERT INTO users (username, kind, trust) VALUES (%s, %s, %s) RETURNING id",
                (name, kind.value, int(trust)),
            ).fetchone()
        assert row is not None
        self.people[name] = Stamp(principal_id=row[0], name=name, kind=kind, trust=trust, instance=f"{name}@box")
        return self.people[name]

    def want(self, *queues: Queue, **more: object) -> Want:
        chosen = queues or (self.pool,)
        base: dict[str, object] = {"queues": tuple(q.project_id for q in chosen), "lease": LEASE}
        return Want(**{**base, **more})  # type: ignore[arg-type]

    def submit(self, title: str = "a task", *, by: str = "alice", **fields: object) -> Task:
        fields.setdefault("project_id", self.pool.project_id)
        new = NewTask(title=title, **fields)  # type: ignore[arg-type]
        return self.board.submit([new], self.people[by], Limits())[0].task

    def claim(self, by: str = "kimi", want: Want | None = None) -> Claimed | None:
        got = self.board.claim(want or self.want(), 1, self.people[by])
        return got[0] if got else None

    def claimed(self, by: str = "kimi", want: Want | None = None) -> Claimed:
        got = self.claim(by, want)
        assert got is not None
        return got

    def clear(self) -> None:
        """Every task so far is out of the way."""
        with self.database.connection() as conn:
            conn.execute(
                "UPDATE tasks SET is_active = false, flags = 64, status = 'cancelled', token = NULL,"
                " lease_until = NULL, owner_id = NULL, delayed = false WHERE is_active"
            )

    def viewer(self, name: str) -> Viewer:
        return Viewer(principal_id=self.people[name].principal_id, kind=self.people[name].kind)

    def task(self, task_id: int) -> Task:
        return self.board.get(task_id, None)


@pytest.fixture(scope="session")
def shared_api(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardApi]:
    """Kanboard's API of one fabric for all tests of this process; each makes its own projects."""
    with server.database() as fresh, board_api(fresh.dsn, tmp_path_factory.mktemp("kanboard")) as api:
        yield api


@pytest.fixture
def rig(database: TestDatabase) -> Iterator[Rig]:
    pool = Database(database.dsn, size=6, name="test")
    bus = Bus(database.dsn)
    made = Rig(database, pool, bus, NativeBoard(pool, bus), NativeProjects(pool))
    alice = made.person("alice", Kind.HUMAN, Trust.HUMAN)
    made.person("bob", Kind.HUMAN, Trust.HUMAN)
    made.person("kimi", Kind.AGENT, Trust.SANDBOXED)
    made.person("qwen", Kind.AGENT, Trust.SANDBOXED)
    made.pool, _ = made.projects.make_queue("pool", QueueKind.POOL, alice)
    for name in made.people:
        made.projects.set_member(made.pool.project_id, made.people[name].principal_id, ProjectRole.MEMBER, alice)
    yield made
    bus.close()
    pool.close()
