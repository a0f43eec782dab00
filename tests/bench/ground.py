"""The ground that everybody stands on: one durable PostgreSQL on 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from taskfabric.db.embedded import SYSTEM_PLACE, Cluster

# As the product ships it, fsync and all; only the log has more room, so that no checkpoint falls into the window of
# one system and misses another.
_OPTIONS: Final[Mapping[str, str]] = {
    "fsync": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "log_min_duration_statement": "-1",
}


class Ground:
    """The server of one bench run. It ends, and its data goes, with the block."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self.folder = _disk_folder()
        self.cluster = Cluster(
            self.folder / "home",
            place=self.folder / "pg",
            tcp_port=free_port(),
            options={**_OPTIONS, **(options or {})},
        )

    def __enter__(self) -> Self:
        self.cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.destroy()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def admin(self) -> str:
        """The superuser's connection string over TCP, the way that all peers take as well."""
        return self.cluster.superuser_dsn(tcp=True)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _disk_folder() -> Path:
    """A fresh folder on a real disk: in memory an fsync costs nothing, and every ratio would lie."""
    base = SYSTEM_PLACE if os.geteuid() == 0 else Path("/var/tmp")
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fabric-bench-", dir=base))
    folder.chmod(0o711)  # the server's own account passes through
    return folder
