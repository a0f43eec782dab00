"""Arenas for the chaos tests: on the session's server, or on a server of the test's own that it may kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskfabric.db.embedded import Cluster
from taskfabric.db.migrate import migrate
from taskfabric.testing import TestDatabase
from tests.chaos.arena import Arena, arena


@pytest.fixture
def chaos(database: TestDatabase, tmp_path: Path) -> Iterator[Arena]:
    """An arena on a database of the test's own; its clock runs."""
    folder = tmp_path / "history"
    folder.mkdir()
    with arena(database.dsn, folder) as made:
        yield made


@pytest.fixture
def mortal(own_cluster: Callable[..., Cluster]) -> Cluster:
    """A migrated server that the test may stop, kill and restart."""
    cluster = own_cluster()
    migrate(cluster.start())
    return cluster


@pytest.fixture
def mortal_chaos(mortal: Cluster, tmp_path: Path) -> Iterator[Arena]:
    """An arena on the mortal server."""
    folder = tmp_path / "history"
    folder.mkdir()
    with arena(mortal.dsn(), folder) as made:
        yield made
