"""The ground on which the contract stands: one database and one server for the whole session, as new before each test.

A database a test costs most of a second on a busy machine (its files, its connections, the plans of all statements),
and there are hundreds of tests here, each of them twice. So the rows of the first day are kept beside the board and
put back, and everything that remembers anything (the board, the hallway, the application) is made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, LiteralString

import uvicorn
from psycopg import sql
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from taskfabric.boards.kanboard.client import Kanboard, say
from taskfabric.boards.kanboard.ground import StockDatabase
from taskfabric.boards.kanboard.leases import Locks
from taskfabric.db.pool import Connection, Database
from taskfabric.settings import Settings, load
from taskfabric.stores.signal import Bus
from taskfabric.surfaces.app import configuration, create_app, listening
from taskfabric.testing import TestDatabase
from taskfabric.wiring import House

_PATIENCE: Final = 20.0  # seconds before a test gives up; nothing here takes that long
# Threads are started and ended for each test.
_SMALL: Final = {"server.port": 0, "server.threads": 2, "server.renew_threads": 1, "router.encoder": False}
# In the order in which rows may come: each table after those that it names.
_FIRST_DAY: Final = ("users", "projects", "project_has_users", "columns", "swimlanes", "queues")
_LATER: Final = (
    *("credentials", "project_has_metadata", "lanes", "tasks", "task_texts", "submissions", "comments", "tags"),
    *("task_has_tags", "task_has_links", "task_has_files", "task_has_metadata", "late_results", "journal", "restores"),
    *("accounts", "spendings", "learned_limits", "pauses", "worker_reports", "chunks"),
    *("stock_cards", "stock_dirty", "stock_leases", "stock_comments"),
    *("approvals", "approval_deciders", "grants", "policies", "absences", "user_settings", "snoozes", "sessions"),
    *("sign_in_links",),
    *("turns", "told", "digests", "schedules", "schedule_slots", "outbox", "channels", "passed_on"),
    *("task_faces", "subtasks", "subtask_time_tracking", "task_has_external_links", "actions", "action_has_params"),
    *("webhooks",),
    *("project_has_categories", "groups", "group_has_users", "project_has_groups", "project_has_files"),
    *("a2a_tasks", "a2a_events", "push_configs", "push_outbox"),
)


class _Pool(Database):
    """The session's connections, of which only the present test's board is told."""

    def greet(self, greeter: Callable[[Connection], None]) -> None:
        self._greeters.clear()
        super().greet(greeter)


class Ground:
    """The session's database. ``reset`` needs ``remember`` to have been called on the first day."""

    def __init__(self, tested: TestDatabase, home: Path) -> None:
        self.tested = tested
        self.home = home
        self.settings: Settings = load(env={}, home=home, overrides=_SMALL)
        self.database: Database = _Pool(tested.dsn, size=self.settings.board.pool_size, name="test")
        self.bus = Bus(tested.dsn)
        self._conn = tested.connect()

    def close(self) -> None:
        """Let go of the database."""
        self.bus.close()
        self.database.close()

    def remember(self) -> None:
        """What there is now is what a reset brings back."""
        self._conn.execute("CREATE SCHEMA kept")
        put: list[sql.Composable] = [sql.SQL("DELETE FROM {};").format(self._name(t)) for t in reversed(_LATER)]
        put += [sql.SQL("DELETE FROM {};").format(self._name(t)) for t in reversed(_FIRST_DAY)]
        for table in _FIRST_DAY:
            kept = sql.Identifier("kept", table)
            self._conn.execute(sql.SQL("CREATE TABLE {} AS TABLE {}").format(kept, self._name(table)))
            put.append(sql.SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE TABLE {};").format(self._name(table), kept))
        body = sql.SQL("BEGIN {} UPDATE fabric_clock SET at = NULL; END").format(sql.SQL(" ").join(put))
        self._conn.execute(
            sql.SQL("CREATE FUNCTION kept.bring_back() RETURNS void LANGUAGE plpgsql AS {}").format(
                sql.Literal(body.as_string(self._conn))
            )
        )

    def reset(self) -> None:
        """The board is as on the first day, and its clock runs."""
        self._conn.execute("SELECT kept.bring_back()")

    def rows(self, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """What the database itself says, for assertions."""
        return list(self._conn.execute(query, values).fetchall())

    def _name(self, table: str) -> sql.Identifier:
        return sql.Identifier("public", table)


class _StockPool(StockDatabase):
    """As ``_Pool``, for a board on a Kanboard."""

    def greet(self, greeter: Callable[[Connection], None]) -> None:
        self._greeters.clear()
        super().greet(greeter)


class StockGround(Ground):
    """The same on a Kanboard. A reset removes the cards of the first day's projects, and whatever a test has made."""

    def __init__(self, tested: TestDatabase, home: Path, url: str, token: str) -> None:
        super().__init__(tested, home)
        self.kanboard = Kanboard(url, token)
        self.locks = Locks(self.kanboard)
        self.stock = _StockPool(tested.dsn, self.kanboard, self.locks, size=self.settings.board.pool_size, name="test")
        self._first: set[int] = set()

    def close(self) -> None:
        self.stock.close()
        super().close()

    def remember(self) -> None:
        self._first = {row[0] for row in self.rows("SELECT id FROM projects")}
        super().remember()

    def reset(self) -> None:
        later = {row[0] for row in self.rows("SELECT id FROM projects")} - self._first
        self.kanboard.many([say("removeProject", project_id=project_id) for project_id in sorted(later)])
        lists = self.kanboard.many(
            [say("getAllTasks", project_id=p, status_id=status) for p in sorted(self._first) for status in (0, 1)]
        )
        self._remove_cards(sorted((int(card["id"]) for found in lists for card in found or []), reverse=True))
        self.kanboard.many([say("removeTag", tag_id=int(tag["id"])) for tag in self.locks.tags()])
        super().reset()

    def _remove_cards(self, cards: list[int]) -> None:
        """On our own board a card goes only after those that wait for it."""
        while cards:
            answers = self.kanboard.many([say("removeTask", task_id=card) for card in cards])
            left = [card for card, gone in zip(cards, answers, strict=True) if gone is not True]
            cards = left if len(left) < len(cards) else []


class Server:
    """One uvicorn for the session, on a thread; which application answers is exchanged for each test."""

    def __init__(self) -> None:
        self._app: Starlette | None = None
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sock = listening("127.0.0.1", 0)
        self._server = uvicorn.Server(configuration(self))
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[self._sock]), name="server")
        self.port: int = self._sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread.start()
        assert self._up.wait(_PATIENCE)

    def close(self) -> None:
        """Stop."""
        self._server.should_exit = True
        self._thread.join(_PATIENCE)
        self._sock.close()
        assert not self._thread.is_alive()

    @contextlib.contextmanager
    def serving(self, house: House) -> Iterator[None]:
        """This house is what the server serves; nothing of it runs any more afterwards."""
        app, before = create_app(house), self._app
        life = app.router.lifespan_context(app)
        self._on_loop(life.__aenter__())
        self._app = app
        try:
            yield
        finally:
            self._app = before
            app.state.edge.dismiss()
            self._on_loop(life.__aexit__(None, None, None))

    def _on_loop(self, work: Any) -> None:
        assert self._loop is not None

        async def done() -> None:
            await work

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(_PATIENCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        assert self._app is not None, "a call came between two tests"
        await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._loop = asyncio.get_running_loop()
                self._up.set()
                await send({"type": "lifespan.startup.complete"})
            else:
                await send({"type": "lifespan.shutdown.complete"})
                return
