"""One household for the contract: people, agents and queues on a fresh board, and access as each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskfabric.testing import TestDatabase
from tests.contract.household import Household, settle_in


@pytest.fixture
def household(database: TestDatabase, tmp_path: Path) -> Iterator[Household]:
    """alice (administrator), bob, the agents kimi and qwen, their queues, the pool."""
    with settle_in(database, tmp_path) as home:
        yield home
