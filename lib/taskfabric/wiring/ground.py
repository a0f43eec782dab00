"""The database that the house stands on: found, started, migrated, saved and restored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taskfabric.db import backup as saving
from taskfabric.db.backup import Restored
from taskfabric.db.embedded import Cluster
from taskfabric.db.migrate import migrate
from taskfabric.settings import Settings


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
