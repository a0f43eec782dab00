"""The house: everything built over one migrated database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taskfabric import __version__
from taskfabric.boards.native.a2a import NativeA2A
from taskfabric.boards.native.board import NativeBoard
from taskfabric.boards.native.journal import NativeJournal
from taskfabric.boards.native.keeping import NativeKeeping
from taskfabric.boards.native.moving import NativeMoving
from taskfabric.boards.native.overview import NativeOverview
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput
from taskfabric.ports.board import Board
from taskfabric.ports.credentials import Credentials
from taskfabric.ports.files import Files
from taskfabric.ports.foreign import Foreign
from taskfabric.ports.journal import Journal
from taskfabric.ports.keeping import Keeping
from taskfabric.ports.projects import Projects
from taskfabric.services.a2a import A2A
from taskfabric.services.hallway import Hallway
from taskfabric.services.push import Push, PushDelivery
from taskfabric.settings import Settings
from taskfabric.stores.credentials import PostgresCredentials
from taskfabric.stores.files import FileStore
from taskfabric.stores.signal import Bus
from taskfabric.wiring.ports import (
    board_rules,
    fleet,
    foreign,
    inbox,
    kanboard,
    pushing,
    rules,
    upkeep,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """One process' fabric: the hallway, and what stands behind it."""

    settings: Settings
    database: Database
    board: Board
    projects: Projects
    credentials: Credentials
    journal: Journal
    files: Files
    signal: Bus
    hallway: Hallway
    pool: Database | None = None  # the board's own, where it has one
    a2a: A2A | None = None  # a board that callers over A2A can see
    foreign: Foreign | None = None  # somebody else may vouch for callers
    push: Push
    push_delivery: PushDelivery

    def close(self) -> None:
        """Stop listening and close the connections."""
        self.signal.close()
        if self.pool is not None:
            self.pool.close()
        self.database.close()


def build(settings: Settings, dsn: str, *, home: Path, name: str = "server") -> House:
    """The house over a migrated database. ``name`` is what the database calls this process.

    Raises BadInput if the board is a Kanboard whose token is missing."""
    if settings.board.kanboard and not settings.board.kanboard_token:
        raise BadInput(
            "the board is a Kanboard, and its token is not set",
            next="set KANBOARD_TOKEN to the app token of its settings page, 'API'",
            setting="board.kanboard_token",
        )
    database = Database(dsn, size=settings.board.pool_size, name=name)
    signal = Bus(dsn, per_second=settings.board.notify_per_second)
    store = _store(settings, dsn, database, signal)
    board, projects = store.board, store.projects
    credentials = PostgresCredentials(
        database,
        remember=settings.auth.cache,
        pin_tries=settings.auth.pin_tries,
        pin_lock=settings.auth.pin_lock,
    )
    journal = NativeJournal(database)
    files = FileStore(home / "files")
    hallway = Hallway(
        board=board,
        projects=projects,
        credentials=credentials,
        journal=journal,
        files=files,
        signal=signal,
        upkeep=upkeep(settings, database, signal, home, store.keeping),
        moving=store.moving,
        fleet=fleet(database, home, settings),
        kanboard=kanboard(database, board, projects, credentials, signal, settings.webhook),
        inbox=inbox(database, home),
        overview=NativeOverview(database, board.names),
        rules=rules(settings),
        version=__version__,
    )
    a2a = hallway.over_a2a(store.a2a)
    push, push_delivery = pushing(settings, database, board, a2a, home)
    return House(
        settings=settings,
        database=database,
        board=board,
        projects=projects,
        credentials=credentials,
        journal=journal,
        files=files,
        signal=signal,
        hallway=hallway,
        pool=store.pool,
        a2a=a2a,
        foreign=foreign(settings, credentials, home),
        push=push,
        push_delivery=push_delivery,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """The board with what belongs to it, and a pool of its own if it has one."""

    board: NativeBoard
    projects: NativeProjects
    keeping: Keeping
    moving: NativeMoving
    a2a: NativeA2A
    pool: Database | None = None


def _store(settings: Settings, dsn: str, database: Database, signal: Bus) -> _Store:
    """The board that the settings name: our own, or a stock Kanboard with our database beside it."""
    if settings.board.kanboard:
        return _stock_store(settings, dsn, database, signal)
    board = NativeBoard(database, signal, board_rules(settings))
    projects = NativeProjects(database, changed=board.names.forget_layout)
    return _Store(
        board=board,
        projects=projects,
        keeping=NativeKeeping(database, signal),
        moving=NativeMoving(database, changed=projects.forget),
        a2a=NativeA2A(database, board, signal),
    )


def _stock_store(settings: Settings, dsn: str, database: Database, signal: Bus) -> _Store:
    # Imported here: the client it needs costs every other process time and memory.
    from taskfabric.boards.kanboard.a2a import KanboardA2A
    from taskfabric.boards.kanboard.board import KanboardBoard
    from taskfabric.boards.kanboard.client import Kanboard
    from taskfabric.boards.kanboard.ground import StockDatabase
    from taskfabric.boards.kanboard.keeping import KanboardKeeping
    from taskfabric.boards.kanboard.leases import Locks
    from taskfabric.boards.kanboard.moving import KanboardMoving
    from taskfabric.boards.kanboard.projects import KanboardProjects

    kanboard = Kanboard(settings.board.kanboard, settings.board.kanboard_token)
    stock = StockDatabase(dsn, kanboard, Locks(kanboard), size=settings.board.pool_size, name="kanboard")
    score = settings.board.score
    board = KanboardBoard(stock, signal, board_rules(settings), thresholds=(score.small, score.medium))
    projects = KanboardProjects(database, kanboard, board.people, changed=board.names.forget_layout)
    keeping = KanboardKeeping(stock, signal, board, projects)
    return _Store(
        board=board,
        projects=projects,
        keeping=keeping,
        moving=KanboardMoving(database, changed=projects.forget),
        a2a=KanboardA2A(stock, board, signal),
        pool=stock,
    )
