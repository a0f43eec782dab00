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
from taskfabric.boards.native.a2a import NativeA2A
from taskfabric.boards.native.board import BoardRules, NativeBoard
from taskfabric.boards.native.cards.store import NativeAnnex, NativeFaces
from taskfabric.boards.native.dossier import NativeDossiers
from taskfabric.boards.native.furniture import NativeFurniture
from taskfabric.boards.native.groups import NativeGroups
from taskfabric.boards.native.journal import NativeJournal
from taskfabric.boards.native.keeping import NativeKeeping
from taskfabric.boards.native.labels import NativeLabels
from taskfabric.boards.native.moving import NativeMoving
from taskfabric.boards.native.overview import NativeOverview
from taskfabric.boards.native.places import NativePlaces
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db import backup as saving
from taskfabric.db.backup import Restored
from taskfabric.db.embedded import Cluster, ClusterStatus
from taskfabric.db.migrate import migrate
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import Backoff, Bounds
from taskfabric.domain.principal import APP_TOKEN, AppRole, Kind, Principal, ProjectRole, Stamp, Trust, Via
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.target import checked_name
from taskfabric.ports.board import Board
from taskfabric.ports.credentials import Credentials, NewPrincipal
from taskfabric.ports.files import Files
from taskfabric.ports.foreign import Foreign
from taskfabric.ports.journal import Journal
from taskfabric.ports.keeping import Keeping
from taskfabric.ports.projects import Projects
from taskfabric.router.judge import Judge
from taskfabric.services.a2a import A2A
from taskfabric.services.desk import FleetPorts, InboxPorts, KanboardPorts, Rules
from taskfabric.services.hallway import Hallway
from taskfabric.services.push import Push, PushDelivery, with_files
from taskfabric.services.upkeep import Upkeep
from taskfabric.settings import Settings, Webhook
from taskfabric.stores.approvals import PostgresApprovals
from taskfabric.stores.away import PostgresAway
from taskfabric.stores.cards import CardFolder
from taskfabric.stores.credentials import PostgresCredentials
from taskfabric.stores.egress import WebEgress
from taskfabric.stores.files import FileStore
from taskfabric.stores.followers import FollowerStore
from taskfabric.stores.foreign import ForeignCallers, TokenRules
from taskfabric.stores.hooks import WebhookSender
from taskfabric.stores.identities import IdentityFile
from taskfabric.stores.jwks import KeySet
from taskfabric.stores.ledger import PostgresLedger
from taskfabric.stores.notifier import AppriseNotifier
from taskfabric.stores.outbox import OutboxStore
from taskfabric.stores.push import PushRows
from taskfabric.stores.register import PostgresRegister
from taskfabric.stores.sessions import PostgresSessions
from taskfabric.stores.signal import Bus
from taskfabric.stores.slots import SlotStore
from taskfabric.stores.standing import PostgresStanding
from taskfabric.stores.vault import Vault

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
        upkeep=upkeep(database, signal, home, store.keeping),
        moving=NativeMoving(database, changed=projects.forget),
        fleet=fleet(database, home, settings),
        kanboard=kanboard(database, board, projects, credentials, signal, settings.webhook),
        inbox=inbox(database, home),
        overview=NativeOverview(database, board.names),
        rules=rules(settings),
        version=__version__,
    )
    a2a = hallway.over_a2a(NativeA2A(database, board, signal))
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


def pushing(settings: Settings, database: Database, board: Board, a2a: A2A, home: Path) -> tuple[Push, PushDelivery]:
    """Where events are to be sent, and what sends them there."""
    addresses = PushRows(database, Vault(home / "push.key"))
    egress = WebEgress(allow_hosts=settings.push.allow_hosts, timeout=settings.push.timeout.total_seconds())
    delivery = PushDelivery(
        store=addresses,
        egress=egress,
        now=board.now,
        fill=lambda body: with_files(body, a2a.fill),
        tries=settings.push.tries,
    )
    return Push(addresses, egress, most=settings.push.per_task), delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """The board with what belongs to it, and a pool of its own if it has one."""

    board: NativeBoard
    projects: NativeProjects
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


def fleet(database: Database, home: Path, settings: Settings) -> FleetPorts:
    """What the verbs about agents stand on: the cards that ship and over them those of ``home``, the tables, and the
    router behind ``auto``."""
    shipped, journal, router = assets.root() / "cards", settings.journal, settings.router
    return FleetPorts(
        cards=CardFolder([shipped, home / "cards"]),
        ledger=PostgresLedger(database, keep=journal.spending_retention),
        standing=PostgresStanding(database, keep=journal.chunk_retention, reports=journal.report_retention),
        router=Judge(lambda: routes_text(home), threshold=router.threshold, encoder=router.encoder),
    )


def kanboard(
    database: Database,
    board: NativeBoard,
    projects: NativeProjects,
    credentials: PostgresCredentials,
    signal: Bus,
    webhook: Webhook,
) -> KanboardPorts:
    """What Kanboard's API stands on besides the board itself."""
    layout = board.names.forget_layout

    def members(project_id: int | None) -> None:
        projects.forget()
        layout(project_id)

    return KanboardPorts(
        places=NativePlaces(database),
        dossiers=NativeDossiers(database, changed=members),
        furniture=NativeFurniture(database, changed=layout),
        groups=NativeGroups(database, changed=members),
        labels=NativeLabels(database),
        register=PostgresRegister(database, changed=credentials.forget),
        faces=NativeFaces(database, board.names, signal),
        annex=NativeAnnex(database, board.names, signal),
        followers=FollowerStore(database),
        hooks=WebhookSender(webhook.url, webhook.token, allow_private=webhook.allow_private),
    )


def foreign(settings: Settings, credentials: Credentials, home: Path) -> Foreign | None:
    """Who else may vouch for callers; None when nobody may."""
    jwt = settings.auth.jwt
    if not jwt.issuer and not settings.auth.mtls.header:
        return None
    tokens = TokenRules(
        issuer=jwt.issuer,
        algorithms=jwt.algorithms,
        scope=jwt.scope,
        leeway=jwt.leeway.total_seconds(),
        keys=KeySet(jwt.keys, issuer=jwt.issuer, fresh=jwt.keys_for.total_seconds()),
    )
    return ForeignCallers(credentials, IdentityFile(home / "identities.toml"), tokens if jwt.issuer else None)


def check_guarded(house: House) -> None:
    """Raises BadInput for a server that other machines would reach and that has nobody to let in: whoever sets it up
    later would do so before everybody's eyes."""
    settings = house.settings
    if not settings.server.allow_remote or house.foreign is not None:
        return
    now = house.board.now()
    if not any(
        not token.revoked and (token.expires is None or token.expires > now) for token in house.credentials.tokens(None)
    ):
        raise BadInput(
            f"other machines would reach this server at {settings.server.host}, and nobody has a token for it",
            next="start it once on this machine (`fabric up`), which makes the first one",
        )


def inbox(database: Database, home: Path) -> InboxPorts:
    """What people's decisions stand on; ``home`` may have a policy of its own."""
    return InboxPorts(
        approvals=PostgresApprovals(database),
        away=PostgresAway(database),
        sessions=PostgresSessions(database),
        policy=lambda: _house_file(home, "policy.toml"),
        shipped_policy=lambda: assets.read_text("config/policy.toml"),
    )


def sign_in_link(house: House, name: str) -> str:
    """The secret of a link that signs this human's browser in, once, within a quarter of an hour. For whoever starts
    the server on its machine. Raises BadInput if there is no such human."""
    person = house.credentials.principal(name)
    if person is None or not person.is_human or not person.active:
        raise BadInput(f"there is no human called {name[:63]!r} here", next="`fabric user list` shows who is")
    secret, _ = house.hallway.sessions.link_for(person, SYSTEM)
    return secret


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
    return _house_file(home, "schedules.toml")


def routes_text(home: Path) -> tuple[str, str]:
    """``routes.toml`` of this home, else the one that ships; and its name."""
    return _house_file(home, "routes.toml")


def _house_file(home: Path, name: str) -> tuple[str, str]:
    file = home / name
    try:
        return file.read_text(encoding="utf-8"), file.name
    except FileNotFoundError:
        return assets.read_text(f"config/{name}"), f"config/{name}"
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


def app_token(house: House, secret: str) -> None:
    """The app token of Kanboard's API is this one; with "" there is none, and an earlier one is worth nothing.

    Raises BadInput if somebody else is called ``jsonrpc``, or the secret is somebody's token."""
    found = house.credentials.principal(APP_TOKEN)
    if found is not None and found.kind is not Kind.SERVICE:
        raise BadInput(f"{APP_TOKEN} is the app token's name, and there is an account of that name", name=APP_TOKEN)
    known = house.credentials.authenticate(secret) if secret else None
    if known is not None and known.principal.is_app:
        return
    if known is not None:
        raise BadInput("auth.app_token is a token of an account here", next="choose another secret")
    if found is not None:
        house.credentials.revoke_all(found.id, SYSTEM)
    if not secret:
        return
    if found is None:
        new = NewPrincipal(name=APP_TOKEN, kind=Kind.SERVICE, trust=Trust.TRUSTED)
        found = house.credentials.add_principal(new, SYSTEM)
    house.credentials.create_token(found.id, name="auth.app_token", via=Via.TOKEN, stamp=SYSTEM, secret=secret)


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
    "app_token",
    "backup",
    "build",
    "check_guarded",
    "cluster_at",
    "cluster_of",
    "ensure_queues",
    "first_administrator",
    "first_human",
    "fleet",
    "inbox",
    "local_token",
    "open_cluster",
    "pushing",
    "restore",
    "rules",
    "service_token",
    "sign_in_link",
    "sync_cards",
    "upkeep",
    "worker_token",
]
