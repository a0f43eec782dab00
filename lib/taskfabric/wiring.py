"""Putting the fabric together, once, by calling constructors: this file is the whole of it.

ground = open_cluster(home, settings)            # a migrated database: the embedded one, or yours
house = build(settings, ground.dsn, home=home)
token = first_human(house, "alice")              # None when there was a human before
...
house.close()
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskfabric import __version__, assets
from taskfabric.boards.native.board import BoardRules, NativeBoard
from taskfabric.boards.native.journal import NativeJournal
from taskfabric.boards.native.keeping import NativeKeeping
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db import backup as saving
from taskfabric.db.backup import Restored
from taskfabric.db.embedded import Cluster, ClusterStatus
from taskfabric.db.migrate import migrate
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import Backoff, Bounds
from taskfabric.domain.principal import AppRole, Kind, Principal, ProjectRole, Stamp, Trust, Via
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.target import checked_name
from taskfabric.ports.board import Board
from taskfabric.ports.credentials import Credentials, NewPrincipal
from taskfabric.ports.files import Files
from taskfabric.ports.journal import Journal
from taskfabric.ports.keeping import Keeping
from taskfabric.ports.projects import Projects
from taskfabric.services.desk import FleetPorts, Rules
from taskfabric.services.hallway import Hallway
from taskfabric.services.upkeep import Upkeep
from taskfabric.settings import Settings
from taskfabric.stores.cards import CardFolder
from taskfabric.stores.credentials import PostgresCredentials
from taskfabric.stores.files import FileStore
from taskfabric.stores.ledger import PostgresLedger
from taskfabric.stores.notifier import AppriseNotifier
from taskfabric.stores.outbox import OutboxStore
from taskfabric.stores.signal import Bus
from taskfabric.stores.slots import SlotStore
from taskfabric.stores.standing import PostgresStanding

WORKER_TOKEN: Final = "worker of the fabric's machine"
SYSTEM: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


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
        upkeep=upkeep(database, signal, home, store.keeping),
        fleet=fleet(database, home),
        rules=rules(settings),
        version=__version__,
    )
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
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """The board with what belongs to it, and a pool of its own if it has one."""

    board: Board
    projects: Projects
    keeping: Keeping
    pool: Database | None = None


def _store(settings: Settings, dsn: str, database: Database, signal: Bus) -> _Store:
    """The board that the settings name: our own, or a stock Kanboard with our database beside it."""
    if settings.board.kanboard:
        return _stock_store(settings, dsn, database, signal)
    board = NativeBoard(database, signal, board_rules(settings))
    projects = NativeProjects(database, changed=board.names.forget_layout)
    return _Store(board=board, projects=projects, keeping=NativeKeeping(database, signal))


def _stock_store(settings: Settings, dsn: str, database: Database, signal: Bus) -> _Store:
    # Imported here: the client it needs costs every other process time and memory.
    from taskfabric.boards.kanboard.board import KanboardBoard
    from taskfabric.boards.kanboard.client import Kanboard
    from taskfabric.boards.kanboard.ground import StockDatabase
    from taskfabric.boards.kanboard.keeping import KanboardKeeping
    from taskfabric.boards.kanboard.leases import Locks
    from taskfabric.boards.kanboard.projects import KanboardProjects

    kanboard = Kanboard(settings.board.kanboard, settings.board.kanboard_token)
    stock = StockDatabase(dsn, kanboard, Locks(kanboard), size=settings.board.pool_size, name="kanboard")
    score = settings.board.score
    board = KanboardBoard(stock, signal, board_rules(settings), thresholds=(score.small, score.medium))
    projects = KanboardProjects(database, kanboard, board.people, changed=board.names.forget_layout)
    keeping = KanboardKeeping(stock, signal, board, projects)
    return _Store(board=board, projects=projects, keeping=keeping, pool=stock)


def fleet(database: Database, home: Path) -> FleetPorts:
    """What the verbs about agents stand on: the cards that ship and over them those of ``home``, and the tables."""
    shipped = assets.root() / "cards"
    return FleetPorts(
        cards=CardFolder([shipped, home / "cards"]),
        ledger=PostgresLedger(database),
        standing=PostgresStanding(database),
    )


def sync_cards(house: House) -> dict[str, str]:
    """Every enabled card of an agent has its principal and its queue; what could not be done, by card."""
    return house.hallway.manning.man()


def upkeep(database: Database, signal: Bus, home: Path, keeping: Keeping | None = None) -> Upkeep:
    """What the keeper, the schedules and the notifications stand on; ``home`` has their files."""
    return Upkeep(
        keeping=keeping or NativeKeeping(database, signal),
        slots=SlotStore(database),
        outbox=OutboxStore(database),
        notifier=AppriseNotifier(home / "notify.toml"),
        schedules=lambda: schedules_text(home),
    )


def schedules_text(home: Path) -> tuple[str, str]:
    """``schedules.toml`` of this home, else the one that ships (which runs nothing); and its name."""
    file = home / "schedules.toml"
    try:
        return file.read_text(encoding="utf-8"), file.name
    except FileNotFoundError:
        return assets.read_text("config/schedules.toml"), "config/schedules.toml"
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file.name} cannot be read: {type(error).__name__}", source=file.name) from error


def service_token(house: House, name: str, kept: str = "") -> str:
    """A token of the fabric's own service of this name, which is made if it is missing; ``kept`` if that still works.

    Raises BadInput if the name belongs to somebody else."""
    caller = house.credentials.authenticate(kept) if kept else None
    if caller is not None and caller.principal.name == name and caller.principal.kind is Kind.SERVICE:
        return kept
    found = house.credentials.principal(name)
    if found is None:
        new = NewPrincipal(name=name, kind=Kind.SERVICE, trust=Trust.TRUSTED)
        found = house.credentials.add_principal(new, SYSTEM)
    if found.kind is not Kind.SERVICE:
        raise BadInput(f"{name} is a service of the fabric, and the account of that name is none", name=name)
    house.credentials.revoke_all(found.id, SYSTEM)
    token, _ = house.credentials.create_token(found.id, name="this machine", via=Via.TOKEN, stamp=SYSTEM)
    return token


def worker_token(house: House, name: str, kept: str = "") -> str:
    """A token for the worker of this agent on this machine; ``kept`` if that still works, else one in its place.

    Other tokens of the agent stay as they are. Raises BadInput if there is no such agent."""
    caller = house.credentials.authenticate(kept) if kept else None
    if caller is not None and caller.principal.name == name and caller.run is None:
        return kept
    agent = house.credentials.principal(name)
    if agent is None or agent.kind is not Kind.AGENT or not agent.active:
        raise BadInput(f"there is no agent called {name[:63]!r}", next="`fabric agents check` tells why", name=name)
    for old in house.credentials.tokens(agent.id):
        if old.name == WORKER_TOKEN and not old.revoked:
            house.credentials.revoke_token(old.id, SYSTEM)
    token, _ = house.credentials.create_token(agent.id, name=WORKER_TOKEN, via=Via.TOKEN, stamp=SYSTEM)
    return token


def rules(settings: Settings) -> Rules:
    """What of the settings the hallway goes by."""
    board, limits = settings.board, settings.limits
    return Rules(
        lease=board.lease,
        human_lease=board.human_lease,
        max_lease=board.max_lease,
        max_attempts=board.max_attempts,
        limits=Limits(
            per_hour=limits.per_hour,
            open_per_agent=limits.open_per_agent,
            depth=limits.depth,
            fan_out=limits.fan_out,
        ),
        take_order=board.take_order,
        aging=board.aging,
        thresholds=(board.score.small, board.score.medium),
        title=limits.title,
        description=limits.description,
        note=limits.note,
        tags=limits.tags,
        tag_length=limits.tag_length,
        needs=limits.needs,
        refs=limits.refs,
        attachment=limits.attachment,
        wait_cap=settings.server.wait_cap,
        poll_interval=board.poll_interval,
    )


def board_rules(settings: Settings) -> BoardRules:
    """What of the settings the board itself goes by."""
    board = settings.board
    return BoardRules(
        backoff=Backoff(
            base=board.retry_backoff.base, factor=board.retry_backoff.factor, ceiling=board.retry_backoff.max
        ),
        bounds=Bounds(parks=board.bounds.parks, waits=board.bounds.waits, releases=board.bounds.releases),
        sweep_per_claim=board.sweep_per_claim,
        late_result=board.late_result_limit,
    )


# ---------------------------------------------------------------- the first people and queues


def first_human(house: House, name: str, *, zone: str = "UTC") -> str | None:
    """The first human is an administrator and has an inbox; the default pool exists and he works in it.

    Returns his local token, or None when there was a human before; then only what is missing is made.
    Raises BadInput for a name that cannot be one.
    """
    owner = _first_administrator(house)
    if owner is not None:
        ensure_queues(house, owner)
        return None
    owner = house.credentials.add_principal(
        NewPrincipal(
            name=checked_name(name, "user"),
            kind=Kind.HUMAN,
            trust=Trust.HUMAN,
            role=AppRole.ADMIN,
            zone=zone,
            capabilities=None,
        ),
        SYSTEM,
    )
    ensure_queues(house, owner)
    return local_token(house, owner.name)


def ensure_queues(house: House, owner: Principal) -> list[Queue]:
    """This human's inbox and the default pool exist, and he manages the pool."""
    inbox, _ = house.projects.make_queue(owner.name, QueueKind.INBOX, SYSTEM, owner_id=owner.id)
    pool, made = house.projects.make_queue(rules(house.settings).default_pool, QueueKind.POOL, SYSTEM)
    if made or house.projects.role_of(pool.project_id, owner.id) is None:
        house.projects.set_member(pool.project_id, owner.id, ProjectRole.MANAGER, SYSTEM)
    return [inbox, pool]


def local_token(house: House, name: str) -> str:
    """A new token for the credentials file on this human's machine: it may do all but decide.

    Raises BadInput if there is no such human.
    """
    owner = house.credentials.principal(name)
    if owner is None or not owner.is_human or not owner.active:
        raise BadInput(
            f"there is no human called {name[:63]!r} here", next="`fabric user list` shows who is", name=name
        )
    token, _ = house.credentials.create_token(owner.id, name="this machine", via=Via.LOCAL, stamp=SYSTEM)
    return token


def first_administrator(house: House) -> str | None:
    """The name of the first human administrator; None on a fresh board."""
    found = _first_administrator(house)
    return None if found is None else found.name


def _first_administrator(house: House) -> Principal | None:
    people = (p for p in house.credentials.principals() if p.is_human and p.is_admin and p.active)
    return min(people, key=lambda p: p.id, default=None)


# ---------------------------------------------------------------- the database it stands on


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A migrated database, and the embedded server if it is that one."""

    dsn: str
    cluster: Cluster | None  # None: a server of yours, whose life is not ours
    applied: tuple[str, ...]  # migrations that were missing


def cluster_of(home: Path, settings: Settings) -> Cluster | None:
    """The embedded server of this home, started or not; None when the settings name another database."""
    return None if settings.board.dsn else Cluster(home)


def cluster_at(home: Path, place: Path) -> Cluster:
    """The embedded server of this home that lives in ``place``, whatever this process's settings say."""
    return Cluster(home, place=place)


def open_cluster(home: Path, settings: Settings) -> Ground:
    """Start or join the database and bring it to this version's schema.

    The order is: what the settings name (``FABRIC_BOARD``, ``DATABASE_URL``), the embedded server from the wheel, from
    the system. Raises Unavailable with the reason.
    """
    cluster = cluster_of(home, settings)
    dsn = settings.board.dsn if cluster is None else cluster.start()
    return Ground(dsn=dsn, cluster=cluster, applied=tuple(migrate(dsn)))


def backup(home: Path, settings: Settings, file: Path) -> int:
    """Save the database to ``file``; its size in bytes. Raises Unavailable, FabricError."""
    cluster = cluster_of(home, settings)
    return saving.backup(settings.board.dsn if cluster is None else cluster.start(), file)


def restore(home: Path, settings: Settings, file: Path, *, force: bool = False) -> Restored:
    """Put a saved database in the place of the present one, lift every epoch, and bring it to this version's schema.

    Raises FabricError while somebody uses the database, unless ``force`` ends their sessions.
    """
    cluster = cluster_of(home, settings)
    dsn = settings.board.dsn if cluster is None else cluster.start()
    done = saving.restore(dsn, file, admin_dsn=None if cluster is None else cluster.superuser_dsn(), force=force)
    migrate(dsn)
    return done


__all__ = [
    "SYSTEM",
    "Cluster",
    "ClusterStatus",
    "Ground",
    "House",
    "Restored",
    "backup",
    "build",
    "cluster_at",
    "cluster_of",
    "ensure_queues",
    "first_administrator",
    "first_human",
    "fleet",
    "local_token",
    "open_cluster",
    "restore",
    "rules",
    "service_token",
    "sync_cards",
    "upkeep",
    "worker_token",
]
