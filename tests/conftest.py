"""Fixtures of the whole suite: one throw-away PostgreSQL a session, one fresh database a test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from taskfabric.db.embedded import Cluster
from taskfabric.testing import Ownership, TestDatabase, TestServer, cluster_in, new_folder, remove_leftovers

# Tells the workers of a parallel run, and a pytest inside a test, whose server to use.
_FOLDER: Final = "FABRIC_TEST_FOLDER"
_owned: list[Ownership] = []

# How long an example takes says something of the machine and of who else is on it, and nothing of what is tested.
settings.register_profile("taskfabric", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("taskfabric")


def pytest_configure(config: pytest.Config) -> None:
    if _FOLDER not in os.environ:
        remove_leftovers()
        owned = Ownership(new_folder())
        os.environ[_FOLDER] = str(owned.folder)
        _owned.append(owned)


def pytest_unconfigure(config: pytest.Config) -> None:
    for owned in _owned:
        os.environ.pop(_FOLDER, None)
        owned.end()
    _owned.clear()


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    """The session's server; started by the first test that asks for it."""
    shared = TestServer(Path(os.environ[_FOLDER]))
    shared.start()
    yield shared
    shared.close()


@pytest.fixture
def database(server: TestServer) -> Iterator[TestDatabase]:
    """A migrated database of the test's own, with a clock that the test sets."""
    with server.database() as fresh:
        yield fresh


@pytest.fixture
def empty_database(server: TestServer) -> Iterator[str]:
    """The connection string of a database without any table."""
    with server.empty_database() as dsn:
        yield dsn


@pytest.fixture
def own_cluster() -> Iterator[Callable[..., Cluster]]:
    """Makes servers of the test's own, for tests that stop, break or restart one; all are gone afterwards."""
    owned: list[Ownership] = []

    def make(*, tcp_port: int | None = None, options: Mapping[str, str] | None = None) -> Cluster:
        owned.append(Ownership(new_folder()))
        return cluster_in(owned[-1].folder, tcp_port=tcp_port, options=options)

    yield make
    for owner in owned:
        owner.end()
