"""A household on a fresh board, and access to the fabric as each who lives there, by one of the ways in."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from http.client import HTTPConnection
from typing import Any, Final

from taskfabric.boards.kanboard.a2a import KanboardA2A
from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.keeping import KanboardKeeping
from taskfabric.boards.kanboard.projects import KanboardProjects
from taskfabric.boards.native.a2a import NativeA2A
from taskfabric.boards.native.board import NativeBoard
from taskfabric.boards.native.journal import NativeJournal
from taskfabric.boards.native.keeping import NativeKeeping
from taskfabric.boards.native.moving import NativeMoving
from taskfabric.boards.native.overview import NativeOverview
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.domain.principal import (
    AppRole,
    Caller,
    Kind,
    Principal,
    ProjectRole,
    RunRef,
    Trust,
    Via,
)
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric, R, Verb
from taskfabric.remote import RemoteFabric
from taskfabric.services.desk import Rules
from taskfabric.services.hallway import Hallway
from taskfabric.services.verbs import FenceArg, RunToken
from taskfabric.stores.credentials import PostgresCredentials
from taskfabric.stores.files import FileStore
from taskfabric.testing import TestClock
from taskfabric.wiring import SYSTEM, House, fleet, inbox, kanboard, pushing, upkeep
from tests.contract.ground import Ground, Server, StockGround
from tests.horizon import caught_up

POOL: Final = "pool"
_PATIENCE: Final = 20.0  # seconds before a test gives up; nothing here takes that long


class Way(StrEnum):
    """How a caller reaches the hallway."""

    LOCAL = "local"  # in this process
    REMOTE = "remote"  # over HTTP, with a token


class Household:
    """The hallway, who lives there, and what a test does beside it.

    alice (administrator) and bob have inboxes; kimi and qwen are agents of alice with queues of their own; all four
    work in the pool.
    """

    def __init__(self, ground: Ground, server: Server | None, *, rules: Rules | None = None) -> None:
        self.ground = ground
        self.way = Way.LOCAL if server is None else Way.REMOTE
        self.people: dict[str, Principal] = {}
        self._server = server
        self._clients: dict[str, RemoteFabric] = {}
        self._tokens: dict[tuple[str, Via, RunRef | None, frozenset[int] | None], str] = {}
        self.board, self.projects, self.keeping = _built(ground)
        self.credentials = PostgresCredentials(ground.database)
        self.journal = NativeJournal(ground.database)
        self.files = FileStore(ground.home / "files")
        self.hallway = self._hallway(rules or Rules())

    @property
    def clock(self) -> TestClock:
        return self.ground.tested.clock

    @contextlib.contextmanager
    def open(self) -> Iterator[Household]:
        """It can be reached its way within."""
        for principal in self.credentials.principals():
            self.people[principal.name] = principal
        try:
            with self._served():
                yield self
        finally:
            for client in self._clients.values():
                client.close()

    @contextlib.contextmanager
    def ruled_by(self, rules: Rules) -> Iterator[None]:
        """Other rules of the house, within."""
        before, self.hallway = self.hallway, self._hallway(rules)
        try:
            with self._served():
                yield
        finally:
            self.hallway = before

    def _hallway(self, rules: Rules) -> Hallway:
        return Hallway(
            board=self.board,
            projects=self.projects,
            credentials=self.credentials,
            journal=self.journal,
            files=self.files,
            signal=self.ground.bus,
            upkeep=upkeep(self.ground.settings, self.ground.database, self.ground.bus, self.ground.home, self.keeping),
            moving=NativeMoving(self.ground.database, changed=self.projects.forget),
            fleet=fleet(self.ground.database, self.ground.home, self.ground.settings),
            kanboard=kanboard(
                self.ground.database,
                self.board,
                self.projects,
                self.credentials,
                self.ground.bus,
                self.ground.settings.webhook,
            ),
            inbox=inbox(self.ground.database, self.ground.home),
            overview=NativeOverview(self.ground.database, self.board.names),
            rules=rules,
            version="0",
        )

    def _served(self) -> contextlib.AbstractContextManager[None]:
        if self._server is None:
            return contextlib.nullcontext()
        a2a = self.hallway.over_a2a(_over_a2a(self.ground, self.board))
        push, delivery = pushing(self.ground.settings, self.ground.database, self.board, a2a, self.ground.home)
        house = House(
            settings=self.ground.settings,
            database=self.ground.database,
            board=self.board,
            projects=self.projects,
            credentials=self.credentials,
            journal=self.journal,
            files=self.files,
            signal=self.ground.bus,
            hallway=self.hallway,
            a2a=a2a,
            push=push,
            push_delivery=delivery,
        )
        return self._server.serving(house)

    # -- who calls ---------------------------------------------------------------------------------------

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
        if self._server is None:
            return _Here(self, self.caller(name, via=via, run=run, queues=queues))
        who = (name, via, run, queues)
        if who not in self._tokens:
            caller = self.caller(name)
            self._tokens[who], _ = self.credentials.create_token(
                caller.principal.id,
                name="the test's",
                via=via,
                stamp=SYSTEM,
                queues=None if queues is None else sorted(queues),
                run=run,
            )
        return self.with_token(self._tokens[who])

    def with_token(self, token: str) -> Fabric:
        """Access as whoever this token stands for."""
        if self._server is None:
            caller = self.credentials.authenticate(token)
            assert caller is not None
            return _Here(self, caller)
        if token not in self._clients:
            self._clients[token] = RemoteFabric(self._server.url, token)
        return self._clients[token]

    def in_run(self, name: str, claimed: Claimed) -> Fabric:
        """Access from inside the run of this claim."""
        answer = self.fabric_as(name).call(RunToken(fence=FenceArg.of(claimed.fence)))
        return self.with_token(answer["token"])

    def post(self, name: str, body: object) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body of the server's whole answer to this caller's request; over HTTP only."""
        assert self._server is not None
        self.fabric_as(name)
        head = {"Authorization": f"Bearer {self._tokens[name, Via.TOKEN, None, None]}"}
        with contextlib.closing(HTTPConnection("127.0.0.1", self._server.port, timeout=_PATIENCE)) as conn:
            conn.request("POST", "/jsonrpc.php", json.dumps(body).encode(), head)
            answer = conn.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    # -- the clock ---------------------------------------------------------------------------------------

    def at(self, moment: datetime) -> None:
        """The board's clock stands at this instant."""
        self.clock.set(moment)

    def later(self, **by: float) -> datetime:
        """The board's clock goes on by this much, and stands; the new instant."""
        return self.clock.advance(timedelta(**by))

    # -- what the test does beside the fabric --------------------------------------------------------------

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The data of all events of this kind, whoever may see them."""
        rows = self.ground.rows("SELECT data FROM journal WHERE kind = %s ORDER BY id", kind)
        return [dict(row[0] or {}) for row in rows]

    def tasks(self) -> int:
        """How many tasks there are."""
        return int(self.ground.rows("SELECT count(*) FROM tasks")[0][0])

    def caught_up(self) -> None:
        """All that is committed now can be read in the journal."""
        with self.ground.database.connection() as conn:
            caught_up(conn)

    @contextlib.contextmanager
    def late_event(self, task: Task) -> Iterator[None]:
        """A transaction with an event of this task in it, which is committed at the end of the block."""
        with self.ground.tested.connect() as conn, conn.transaction():
            conn.execute(
                "INSERT INTO journal (task_id, project_id, actor_id, kind, via) VALUES (%s, %s, 0, 'late', 'system')",
                (task.id, task.project_id),
            )
            yield

    def agent(self, name: str, *, owner: str = "alice", pool: bool = True, **more: object) -> Principal:
        """One more agent, of the pool unless told otherwise."""
        owner_id = self.people[owner].id
        new = NewPrincipal(name=name, kind=Kind.AGENT, trust=Trust.SANDBOXED, owner_id=owner_id)
        made = self.credentials.add_principal(replace(new, **more), SYSTEM)  # type: ignore[arg-type]
        self.people[name] = made
        if pool:
            self.projects.set_member(self.project_id(POOL), made.id, ProjectRole.MEMBER, SYSTEM)
        return made

    def project_id(self, queue: str) -> int:
        found = self.projects.queue(queue)
        assert found is not None
        return found.project_id


def _built(ground: Ground) -> tuple[NativeBoard, NativeProjects, NativeKeeping]:
    """The board of this ground, its projects, and what the keeper needs of it."""
    if isinstance(ground, StockGround):
        stock = KanboardBoard(ground.stock, ground.bus, look_every=0.0)
        changed = stock.names.forget_layout
        there = KanboardProjects(ground.database, stock.kanboard, stock.people, changed=changed)
        return stock, there, KanboardKeeping(ground.stock, ground.bus, stock, there)
    board = NativeBoard(ground.database, ground.bus)
    projects = NativeProjects(ground.database, changed=board.names.forget_layout)
    return board, projects, NativeKeeping(ground.database, ground.bus)


def _over_a2a(ground: Ground, board: NativeBoard) -> NativeA2A:
    if isinstance(ground, StockGround) and isinstance(board, KanboardBoard):
        return KanboardA2A(ground.stock, board, ground.bus)
    return NativeA2A(ground.database, board, ground.bus)


class _Here:
    """One caller's access in this process, to whatever hallway the household has at the moment of the call."""

    def __init__(self, household: Household, caller: Caller) -> None:
        self._household = household
        self._caller = caller

    def call(self, verb: Verb[R]) -> R:
        return self._household.hallway.for_caller(self._caller).call(verb)


def settle_in(ground: Ground) -> None:
    """The first day: everybody moves in, and the ground remembers it."""
    home = Household(ground, None)
    projects, credentials = home.projects, home.credentials
    pool, _ = projects.make_queue(POOL, QueueKind.POOL, SYSTEM)
    for name, role in (("alice", AppRole.ADMIN), ("bob", AppRole.USER)):
        human = NewPrincipal(name=name, kind=Kind.HUMAN, trust=Trust.HUMAN, role=role, capabilities=None)
        made = home.people[name] = credentials.add_principal(human, SYSTEM)
        projects.make_queue(name, QueueKind.INBOX, SYSTEM, owner_id=made.id)
        projects.set_member(pool.project_id, made.id, ProjectRole.MEMBER, SYSTEM)
    for name in ("kimi", "qwen"):
        agent = home.agent(name)
        projects.make_queue(name, QueueKind.AGENT, SYSTEM, owner_id=agent.id)
    ground.remember()
    ground.reset()
