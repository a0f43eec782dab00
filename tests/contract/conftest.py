"""One household for the contract: people, agents and queues on a fresh board, and access as each of them.

Each test that calls the fabric runs both ways in: in this process, and over HTTP with tokens against a real server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from taskfabric.ports.fabric import Fabric
from taskfabric.testing import TestServer
from tests.contract.acts import NOON
from tests.contract.ground import Ground, Server, StockGround
from tests.contract.household import Household, Way, settle_in

# The boards on which the contract is tested. A real Kanboard's own address and app token come from the environment.
KANBOARDS: Final = (
    {"kanboard": (os.environ["KANBOARD_URL"], os.environ.get("KANBOARD_TOKEN", ""))}
    if os.environ.get("KANBOARD_URL")
    else {}
)
BOARDS: Final = ("native", *KANBOARDS)


@pytest.fixture(scope="session", params=BOARDS)
def ground(
    request: pytest.FixtureRequest, server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """The database of all contract tests of this process, for each board."""
    home = Path(tmp_path_factory.mktemp("contract"))
    with server.database() as tested:
        made = (
            Ground(tested, home) if request.param == "native" else StockGround(tested, home, *KANBOARDS[request.param])
        )
        try:
            settle_in(made)
            yield made
        finally:
            made.close()


@pytest.fixture(scope="session")
def front() -> Iterator[Server]:
    """The server of all contract tests of this process."""
    running = Server()
    yield running
    running.close()


@pytest.fixture(params=list(Way))
def way(request: pytest.FixtureRequest) -> Way:
    """How the test's callers reach the fabric."""
    chosen: Way = request.param
    return chosen


@pytest.fixture
def household(way: Way, ground: Ground, front: Server) -> Iterator[Household]:
    """alice (administrator), bob, the agents kimi and qwen, their queues, the pool."""
    ground.reset()
    with Household(ground, front if way is Way.REMOTE else None).open() as home:
        yield home


@pytest.fixture
def noon(household: Household) -> Household:
    """The household, its board's clock standing at noon of the first day."""
    household.at(NOON)
    return household


@pytest.fixture
def alice(noon: Household) -> Fabric:
    """Access as alice: a human, administrator."""
    return noon.fabric_as("alice")


@pytest.fixture
def bob(noon: Household) -> Fabric:
    """Access as bob: a human."""
    return noon.fabric_as("bob")


@pytest.fixture
def kimi(noon: Household) -> Fabric:
    """Access as kimi: an agent of alice, sandboxed, without capabilities."""
    return noon.fabric_as("kimi")


@pytest.fixture
def qwen(noon: Household) -> Fabric:
    """Access as qwen: another such agent."""
    return noon.fabric_as("qwen")
