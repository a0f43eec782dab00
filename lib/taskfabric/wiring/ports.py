"""What the rooms of the hallway stand on, each made from its settings and its tables."""

from __future__ import annotations

from pathlib import Path

from taskfabric import assets
from taskfabric.boards.native.board import BoardRules, NativeBoard
from taskfabric.boards.native.cards.store import NativeAnnex, NativeFaces
from taskfabric.boards.native.dossier import NativeDossiers
from taskfabric.boards.native.furniture import NativeFurniture
from taskfabric.boards.native.groups import NativeGroups
from taskfabric.boards.native.keeping import NativeKeeping
from taskfabric.boards.native.labels import NativeLabels
from taskfabric.boards.native.places import NativePlaces
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import Backoff, Bounds
from taskfabric.ports.board import Board
from taskfabric.ports.credentials import Credentials
from taskfabric.ports.foreign import Foreign
from taskfabric.ports.keeping import Keeping
from taskfabric.router.judge import Judge
from taskfabric.services.a2a import A2A
from taskfabric.services.desk import FleetPorts, InboxPorts, KanboardPorts, Rules
from taskfabric.services.push import Push, PushDelivery, with_files
from taskfabric.services.upkeep import Upkeep
from taskfabric.settings import Settings, Webhook
from taskfabric.stores.approvals import PostgresApprovals
from taskfabric.stores.away import PostgresAway
from taskfabric.stores.cards import CardFolder
from taskfabric.stores.channels import PostgresChannels
from taskfabric.stores.codes import CodeFiles
from taskfabric.stores.credentials import PostgresCredentials
from taskfabric.stores.egress import WebEgress
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


def pushing(settings: Settings, database: Database, board: Board, a2a: A2A, home: Path) -> tuple[Push, PushDelivery]:
    """Where events are to be sent, and what sends them there."""
    addresses, egress = PushRows(database, _vault(home)), _egress(settings)
    delivery = PushDelivery(
        store=addresses,
        egress=egress,
        now=board.now,
        fill=lambda body: with_files(body, a2a.fill),
        tries=settings.push.tries,
    )
    return Push(addresses, egress, most=settings.push.per_task), delivery


def _vault(home: Path) -> Vault:
    return Vault(home / "push.key")


def _egress(settings: Settings) -> WebEgress:
    """The one policy for every address that a caller names."""
    return WebEgress(allow_hosts=settings.push.allow_hosts, timeout=settings.push.timeout.total_seconds())


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


def inbox(database: Database, home: Path) -> InboxPorts:
    """What people's decisions stand on; ``home`` may have a policy of its own."""
    return InboxPorts(
        approvals=PostgresApprovals(database),
        away=PostgresAway(database),
        sessions=PostgresSessions(database),
        codes=CodeFiles(home / "codes"),
        policy=lambda: _house_file(home, "policy.toml"),
        shipped_policy=lambda: assets.read_text("config/policy.toml"),
    )


def upkeep(settings: Settings, database: Database, signal: Bus, home: Path, keeping: Keeping | None = None) -> Upkeep:
    """What the keeper, the schedules and the notifications stand on; ``home`` has their files."""
    channels, push = PostgresChannels(database, _vault(home)), settings.push
    return Upkeep(
        keeping=keeping or NativeKeeping(database, signal),
        slots=SlotStore(database),
        outbox=OutboxStore(database),
        notifier=AppriseNotifier(home / "notify.toml", channels.urls, _egress(settings), allow_hosts=push.allow_hosts),
        channels=channels,
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
