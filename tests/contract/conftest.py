"""One household for the contract: people, agents and queues on a fresh board, and access as each of them.

Each test that calls the fabric runs both ways in: in this process, and over HTTP with tokens against a real server.
"""

from __future__ import annotations

import contextlib
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
from tests.integration.board_api import APP_TOKEN, board_api

# The boards on which the contract is tested: our own; the adapter for Kanboards on our own /jsonrpc.php; and the
# adapter on a real Kanboard, whose address and app token come from the environment.
KANBOARDS: Final = ("served", *(("kanboard",) if os.environ.get("KANBOARD_URL") else ()))
BOARDS: Final = ("native", *KANBOARDS)
# The adapter is under the port, and the port's own tests in this process are what every run can afford of it. With
# CONTRACT_WHOLE=1 it is all of them.
_OF_THE_PORT: Final = ("test_board_", "test_stock_")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("CONTRACT_WHOLE") != "1":
        left_out = [item for item in items if isinstance(item, pytest.Function) and _beyond_every_run(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _beyond_every_run(item: pytest.Function) -> bool:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return given.get("ground") == "served" and not (
        given.get("way") is Way.LOCAL and item.path.name.startswith(_OF_THE_PORT)
    )


@pytest.fixture(scope="session", params=BOARDS)
def ground(
    request: pytest.FixtureRequest, server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """The database of all contract tests of this process, for each board."""
    home = Path(tmp_path_factory.mktemp("contract"))
    with contextlib.ExitStack() as stack:
        tested = stack.enter_context(server.database())
        if request.param == "native":
            made = Ground(tested, home)
        elif request.param == "served":
            there = stack.enter_context(server.database())
            api = stack.enter_context(board_api(there.dsn, Path(tmp_path_factory.mktemp("served"))))
            made = StockGround(tested, home, f"{api.served.url}/jsonrpc.php", APP_TOKEN)
        else:
            made = StockGround(tested, home, os.environ["KANBOARD_URL"], os.environ.get("KANBOARD_TOKEN", ""))
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
