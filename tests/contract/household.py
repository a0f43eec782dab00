"""A household on a fresh board, made by the ports alone; a surface may stand between it and the tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from taskfabric.boards.native.board import NativeBoard
from taskfabric.boards.native.journal import NativeJournal
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db.pool import Database
from taskfabric.domain.principal import (
    AppRole,
    Caller,
    Kind,
    Principal,
    ProjectRole,
    RunRef,
    Stamp,
    Trust,
    Via,
)
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.task import Claimed
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric
from taskfabric.ports.signal import Change, Signal
from taskfabric.services.hallway import Hallway, Rules
from taskfabric.services.verbs import FenceArg, RunToken
from taskfabric.stores.credentials import PostgresCredentials
from taskfabric.stores.files import FileStore
from taskfabric.testing import TestClock, TestDatabase

SYSTEM = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


class Here:
    """A signal within this process alone; what another process does is found by looking."""

    def __init__(self) -> None:
        self._hearers: list[Callable[[Change], None]] = []

    def subscribe(self, hear: Callable[[Change], None]) -> Callable[[], None]:
        self._hearers.append(hear)
        return lambda: self._hearers.remove(hear)

    def publish(self, change: Change) -> None:
        for hear in list(self._hearers):
            hear(change)

    def may_notify(self, project_id: int) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Household:
    """The hallway, who lives there, and what a test does beside it."""

    database: Database
    tested: TestDatabase
    board: NativeBoard
    projects: NativeProjects
    credentials: PostgresCredentials
    journal: NativeJournal
    files: FileStore
    hallway: Hallway
    people: dict[str, Principal] = field(default_factory=dict)

    @property
    def clock(self) -> TestClock:
        return self.tested.clock

    def caller(
        self,
        name: str,
        *,
        via: Via = Via.TOKEN,
        run: RunRef | None = None,
        queues: frozenset[int] | None = None,
    ) -> Caller:
        principal = self.credentials.principal(name)
        assert principal is not None
        return Caller(principal=principal, via=via, run=run, queues=queues)

    def fabric_as(
        self,
        name: str,
        *,
        via: Via = Via.TOKEN,
        run: RunRef | None = None,
        queues: frozenset[int] | None = None,
    ) -> Fabric:
        """One caller's access to the fabric."""
        return self.hallway.for_caller(self.caller(name, via=via, run=run, queues=queues))

    def with_token(self, token: str) -> Fabric:
        """Access as whoever this token stands for."""
        caller = self.credentials.authenticate(token)
        assert caller is not None
        return self.hallway.for_caller(caller)

    def in_run(self, name: str, claimed: Claimed) -> Fabric:
        """Access from inside the run of this claim."""
        answer = self.fabric_as(name).call(RunToken(fence=FenceArg.of(claimed.fence)))
        return self.with_token(answer["token"])

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The data of all events of this kind, whoever may see them."""
        rows = self.tested.connect().execute("SELECT data FROM journal WHERE kind = %s ORDER BY id", (kind,))
        return [dict(row[0] or {}) for row in rows.fetchall()]  # type: ignore[call-overload]

    def tasks(self) -> int:
        """How many tasks there are."""
        row = self.tested.connect().execute("SELECT count(*) FROM tasks").fetchone()
        assert row is not None
        return int(str(row[0]))

    def agent(self, name: str, *, owner: str = "alice", pool: bool = True, **more: object) -> Principal:
        """One more agent, of the pool unless told otherwise."""
        owner_id = self.people[owner].id
        new = NewPrincipal(name=name, kind=Kind.AGENT, trust=Trust.SANDBOXED, owner_id=owner_id)
        made = self.credentials.add_principal(replace(new, **more), SYSTEM)  # type: ignore[arg-type]
        self.people[name] = made
        if pool:
            queue = self.projects.queue("pool")
            assert queue is not None
            self.projects.set_member(queue.project_id, made.id, ProjectRole.MEMBER, SYSTEM)
        return made

    def project_id(self, queue: str) -> int:
        found = self.projects.queue(queue)
        assert found is not None
        return found.project_id


def make_hallway(
    database: Database, folder: Path, *, signal: Signal | None = None, rules: Rules | None = None
) -> tuple[Hallway, NativeBoard, NativeProjects, PostgresCredentials, NativeJournal, FileStore]:
    """The hallway over the native board, and the parts that it was made from."""
    signal = signal or Here()
    board = NativeBoard(database, signal)
    projects = NativeProjects(database, changed=board.names.forget_layout)
    credentials = PostgresCredentials(database)
    journal = NativeJournal(database)
    files = FileStore(folder / "files")
    hallway = Hallway(
        board=board,
        projects=projects,
        credentials=credentials,
        journal=journal,
        files=files,
        signal=signal,
        rules=rules or Rules(),
        version="0",
    )
    return hallway, board, projects, credentials, journal, files


@contextlib.contextmanager
def settle_in(tested: TestDatabase, folder: Path, *, rules: Rules | None = None) -> Iterator[Household]:
    """alice (administrator) and bob with their inboxes, the agents kimi and qwen of alice with their own queues, and
    the pool in which all of them work."""
    database = Database(tested.dsn, size=4, name="test")
    try:
        hallway, board, projects, credentials, journal, files = make_hallway(database, folder, rules=rules)
        home = Household(
            database=database,
            tested=tested,
            board=board,
            projects=projects,
            credentials=credentials,
            journal=journal,
            files=files,
            hallway=hallway,
        )
        pool, _ = projects.make_queue("pool", QueueKind.POOL, SYSTEM)
        for name, role in (("alice", AppRole.ADMIN), ("bob", AppRole.USER)):
            human = NewPrincipal(name=name, kind=Kind.HUMAN, trust=Trust.HUMAN, role=role, capabilities=None)
            made = home.people[name] = credentials.add_principal(human, SYSTEM)
            projects.make_queue(name, QueueKind.INBOX, SYSTEM, owner_id=made.id)
            projects.set_member(pool.project_id, made.id, ProjectRole.MEMBER, SYSTEM)
        for name in ("kimi", "qwen"):
            agent = home.agent(name)
            projects.make_queue(name, QueueKind.AGENT, SYSTEM, owner_id=agent.id)
        yield home
    finally:
        database.close()
