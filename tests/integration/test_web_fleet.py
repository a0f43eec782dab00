"""The fleet's page: who is open and why not, what quotas are left, what is in memory, what runs, waits, and is dead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from taskfabric.domain.limit import Confidence, LimitClass
from taskfabric.remote import RemoteFabric
from taskfabric.services.fleet_verbs import LearnedArg, LimitArg, Limited, Report, Reserve, Spent
from taskfabric.services.overview_verbs import ListLater
from taskfabric.services.verbs import Fail, FenceArg, Submit, Take
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving
from tests.integration.surfing import Surfer

_CARD = """
kind = "model"
enabled = true
tiers = ["large"]
concurrency = 3
queues = []
[model]
model = "openai/toy"
[[windows]]
name = "five_hour"
length = "5h"
limit = 60
[residency]
gpu_mb = 4096
ram_mb = 512
"""


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    (home / "cards").mkdir()
    for name in ("muse", "sage"):
        (home / "cards" / f"{name}.toml").write_text(_CARD)
    with server.database() as database, serving(database.dsn, home) as running:
        database.clock.run()
        yield running


@pytest.fixture(scope="module")
def alice(served: Served) -> Surfer:
    surfer = Surfer(served=served)
    surfer.sign_in_by_link("alice")
    surfer.get("/fleet")  # the cards' accounts are made
    return surfer


def _worker(served: Served, alice: Surfer, name: str) -> RemoteFabric:
    shown = alice.act("token-create", name=name)
    token = shown.text.partition("<code>fab_")[2].partition("</code>")[0]
    return RemoteFabric(served.url, f"fab_{token}")


def _box(alice: Surfer, name: str) -> str:
    """What the page says of this agent."""
    return alice.get("/fleet").text.partition(f'aria-label="{name}"')[2].partition("</section>")[0]


def test_quotas_are_bars_with_the_instant_of_their_reset(served: Served, alice: Surfer) -> None:
    muse = _worker(served, alice, "muse")
    reset = datetime.now(UTC) + timedelta(days=3)
    for _ in range(3):
        granted = muse.call(Reserve(units=1))
        learned = (LearnedArg(window="weekly", used=0.42, reset=reset),)
        muse.call(Spent(reservation=granted["reservation"], units=1, learned=learned))
    shown = _box(alice, "muse")
    assert "five_hour: 3 of 60" in shown
    assert 'max="60" high="48.0" value="3"' in shown
    assert "weekly: 42 % used, says the provider, again at <time" in shown


def test_what_is_in_memory_and_what_runs_is_told(served: Served, alice: Surfer) -> None:
    assert "not loaded" in _box(alice, "muse")
    muse = _worker(served, alice, "muse")
    muse.call(Report(instance="muse@box", state="running", running=2, facts={"loaded": True}))
    shown = _box(alice, "muse")
    assert "GPU 4.0 GiB" in shown
    assert "RAM 512.0 MiB" in shown
    assert "not loaded" not in shown
    assert "running 2 of 3" in shown


def test_a_closed_agent_says_why_until_when_and_that_its_queue_stands_still(served: Served, alice: Surfer) -> None:
    sage = _worker(served, alice, "sage")
    reset = datetime.now(UTC) + timedelta(hours=2)
    limit = LimitArg(cls=LimitClass.EXHAUSTED, window="five_hour", reset=reset, confidence=Confidence.EXACT)
    sage.call(Limited(limit=limit, instance="sage@box"))
    served.fabric("alice").call(Submit(title="Think", to="sage"))
    shown = _box(alice, "sage")
    assert "<b>closed</b>" in shown
    assert "until <time" in shown
    assert "stands still while it is closed" in shown
    alice.fill(alice.get("/fleet").form("open-sage"))
    assert 'id="open-sage"' not in _box(alice, "sage"), "nothing but a worker is missing"


def test_an_agent_is_paused_and_resumed(alice: Surfer) -> None:
    alice.fill(alice.get("/fleet").form("pause-muse"), until="+2h", note="holiday")
    shown = _box(alice, "muse")
    assert "holiday" in shown
    assert "until <time" in shown
    alice.fill(alice.get("/fleet").form("resume-muse"))
    assert "holiday" not in _box(alice, "muse")


def test_what_is_parked_and_dead_is_counted_and_listed_soonest_first(served: Served, alice: Surfer) -> None:
    fabric, now = served.fabric("alice"), datetime.now(UTC)
    for hours in (3, 1, 2):
        fabric.call(Submit(title=f"In {hours} hours", to="pool", not_before=now + timedelta(hours=hours)))
    task = fabric.call(Submit(title="Fail for good", to="pool")).task.id
    fence = FenceArg.of(served.fabric("kimi").call(Take(task=task)).fence)
    served.fabric("kimi").call(Fail(fence=fence, note="no", final=True))
    shown = alice.get("/fleet").text
    assert 'Parked <span class="count">3</span>' in shown
    assert shown.index("In 1 hours") < shown.index("In 2 hours") < shown.index("In 3 hours")
    assert 'Dead letters <span class="count">1</span>' in shown
    found = fabric.call(ListLater(limit=2))
    assert (found.total, [task.title for task in found.tasks]) == (3, ["In 1 hours", "In 2 hours"])
    assert served.fabric("bob").call(ListLater()).total == 0, "G13"
