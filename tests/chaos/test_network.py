"""A network that stalls without closing, or swallows the answers: what is unknown is asked again and never doubled."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskfabric.boards.native.board import NativeBoard
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import LeaseLost, Unavailable
from taskfabric.domain.outcome import Done
from taskfabric.domain.task import NewTask, Submitted
from taskfabric.remote import RemoteFabric
from taskfabric.services import verbs
from taskfabric.stores.signal import Bus
from taskfabric.testing import Relay, TestDatabase
from tests.chaos.arena import Arena, arena, pause, until
from tests.chaos.checker import check
from tests.chaos.history import read_board
from tests.chaos.nursery import Hand
from tests.integration.serving import Served, serving

pytestmark = pytest.mark.chaos

LIMIT = 1.0  # seconds for one call


class Far:
    """A board that is reached through a relay."""

    def __init__(self, chaos: Arena, relay: Relay) -> None:
        dsn = relay.dsn(chaos.dsn)
        self.database = Database(dsn, size=1, name="far", patience=LIMIT, limit=LIMIT)
        self.bus = Bus(dsn)
        self.board = NativeBoard(self.database, self.bus)

    def close(self) -> None:
        self.bus.close()
        self.database.close()


@pytest.fixture
def relay(chaos: Arena) -> Iterator[Relay]:
    with Relay.to_database(chaos.dsn) as made:
        yield made


@pytest.fixture
def far(chaos: Arena, relay: Relay) -> Iterator[Far]:
    made = Far(chaos, relay)
    made.board.now()
    yield made
    relay.forward()
    made.close()


def _once(chaos: Arena, board: NativeBoard) -> Submitted:
    item = NewTask(project_id=chaos.pool.project_id, title="once", key="k", body_hash=b"x")
    return board.submit([item], chaos.alice, Limits())[0]


def test_a_submit_whose_answer_is_lost_is_unknown_and_its_retry_makes_no_second_task(
    chaos: Arena, relay: Relay, far: Far
) -> None:
    """Situation 5. G11."""
    far.database.check()
    relay.drop_replies()
    with pytest.raises(Unavailable) as unknown:
        _once(chaos, far.board)
    assert unknown.value.facts["sent"] is True
    relay.forward()
    until(lambda: _reachable(far), within=10, what="it is reachable again")
    again = _once(chaos, far.board)
    assert chaos.left("ready") == 1
    assert _once(chaos, far.board).created is False
    assert again.task.key == "k"
    assert chaos.verdict_of_board() == []


def test_a_finish_whose_answer_is_lost_is_done_and_its_retry_is_refused(chaos: Arena, relay: Relay, far: Far) -> None:
    """Situation 5. G3: whoever asks again learns how the task stands."""
    chaos.submit_many(2)
    kimi, want = chaos.agents["kimi"], chaos.want(lease=timedelta(minutes=5))
    # Once before: a statement new to its connection is prepared first, and then it is that answer which is lost.
    for got in far.board.claim(want, 1, kimi):
        far.board.settle(got.fence, Done(note="there"), kimi)
    (got,) = far.board.claim(want, 1, kimi)
    relay.drop_replies()
    with pytest.raises(Unavailable) as unknown:
        far.board.settle(got.fence, Done(note="there"), kimi)
    assert unknown.value.facts["sent"] is True
    relay.forward()
    until(lambda: _reachable(far), within=10, what="it is reachable again")
    with pytest.raises(LeaseLost) as lost:
        far.board.settle(got.fence, Done(note="there"), kimi)
    assert lost.value.facts["status"] == "done"
    assert chaos.board.get(got.task.id, None).note == "there"
    assert chaos.verdict_of_board() == []


def test_a_network_that_stalls_costs_an_error_and_not_a_thread(chaos: Arena, relay: Relay, far: Far) -> None:
    """Situation 5: nothing is closed, nothing gets through."""
    chaos.submit("a task")
    kimi = chaos.agents["kimi"]
    relay.stall()
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        far.board.claim(chaos.want(), 1, kimi)
    assert time.monotonic() - begun < 10
    relay.forward()
    until(lambda: _reachable(far), within=10, what="it is reachable again")
    # What was held back may have arrived and been carried out: then the lease runs out, as that of any dead worker.
    until(lambda: bool(far.board.claim(chaos.want(), 1, kimi)), within=15, what="the task can be had")
    assert chaos.verdict_of_board() == []


def test_a_result_finished_behind_a_partition_is_offered_refused_and_kept(chaos: Arena, relay: Relay, far: Far) -> None:
    """Situation 6. G3."""
    task = chaos.submit("a task")
    kimi, qwen = chaos.agents["kimi"], chaos.agents["qwen"]
    (got,) = far.board.claim(chaos.want(lease=timedelta(seconds=1)), 1, kimi)
    relay.stall()
    until(lambda: bool(chaos.board.claim(chaos.want(), 1, qwen)), within=10, what="another takes it over")
    relay.cut()
    relay.forward()
    until(lambda: _reachable(far), within=10, what="it is reachable again")
    with pytest.raises(LeaseLost) as lost:
        far.board.settle(got.fence, Done(note="my work of an hour"), kimi)
    assert lost.value.facts["holder"] == "qwen"
    with chaos.database.connection() as conn:
        kept = conn.execute("SELECT task_id, epoch, text FROM late_results").fetchall()
    assert kept == [(task.id, 1, "my work of an hour")]
    assert chaos.verdict_of_board() == []


def _reachable(far: Far) -> bool:
    try:
        far.board.now()
    except Unavailable:
        return False
    return True


def test_workers_behind_a_network_that_comes_and_goes_lose_nothing_and_double_nothing(
    chaos: Arena, relay: Relay
) -> None:
    """Situation 5, at random for twenty-five seconds. G1 to G6."""
    dice = random.Random(5)
    chaos.submit_many(400, max_attempts=50)
    for number in range(4):
        chaos.hire(
            "kimi" if number % 2 else "qwen",
            dsn=relay.dsn(chaos.dsn),
            lease=2.0,
            work=0.05,
            poll=0.1,
            limit=LIMIT,
            mixed=True,
        )
    begun = time.monotonic()
    while time.monotonic() - begun < 25:
        pause(dice.uniform(0.3, 1.0))
        dice.choice([relay.stall, relay.drop_replies, relay.cut])()
        pause(dice.uniform(0.2, 2.5))
        relay.forward()
    until(lambda: chaos.left("ready", "working") == 0, within=60, what="every task ended")
    chaos.dismiss()
    assert any(call.state == "unknown" and call.verb == "done" for call in chaos.history())
    assert chaos.left("done") == 400
    assert chaos.verdict() == []


# ---------------------------------------------------------------- over HTTP


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    with serving(database.dsn, tmp_path) as made:
        yield made


def test_over_http_a_lost_answer_to_submit_or_done_doubles_nothing(served: Served, database: TestDatabase) -> None:
    """Situation 5, between a client and the server. G3, G11."""
    with Relay(("127.0.0.1", served.port)) as relay:
        url = f"http://{relay.host}:{relay.port}"
        alice = RemoteFabric(url, served.tokens["alice"], timeout=LIMIT)
        kimi = RemoteFabric(url, served.tokens["kimi"], timeout=LIMIT)
        alice.call(verbs.Hello())
        kimi.call(verbs.Hello())
        submit = verbs.Submit(title="once", to="pool", key="k")
        relay.drop_replies()
        with pytest.raises(Unavailable) as unknown:
            alice.call(submit)  # it has a key, so the client itself repeats it three times
        assert unknown.value.facts["sent"] is True
        relay.forward()
        answer = alice.call(submit)
        assert not answer.created
        (got,) = kimi.call(verbs.Claim())
        assert got.task.id == answer.task.id
        fence = verbs.FenceArg(task=got.fence.task_id, epoch=got.fence.epoch, token=got.fence.hex)
        relay.drop_replies()
        with pytest.raises(Unavailable):
            kimi.call(verbs.Done(fence=fence, note="there"))
        relay.forward()
        with pytest.raises(LeaseLost) as lost:
            kimi.call(verbs.Done(fence=fence, note="there"))
        assert lost.value.facts["status"] == "done"
        assert kimi.call(verbs.Claim()) == []
    assert check((), read_board(database.dsn)) == []


def test_workers_over_http_behind_a_bad_network_that_are_killed_double_nothing(
    served: Served, database: TestDatabase, tmp_path: Path
) -> None:
    """Situations 1 and 5 with real clients of the server, for fifteen seconds. G1 to G6."""
    dice = random.Random(6)
    folder = tmp_path / "history"
    folder.mkdir()
    with Relay(("127.0.0.1", served.port)) as relay, arena(database.dsn, folder) as chaos:
        chaos.submit_many(200, max_attempts=50)
        url = f"http://{relay.host}:{relay.port}"

        def hire(name: str) -> Hand:
            return chaos.hire(
                name, url=url, token=served.tokens[name], lease=5.0, work=0.1, poll=0.1, limit=LIMIT, mixed=True
            )

        names = ["kimi", "qwen", "kimi", "qwen"]
        hands = [hire(name) for name in names]
        begun = time.monotonic()
        while time.monotonic() - begun < 15:
            pause(dice.uniform(0.2, 0.6))
            dice.choice([relay.stall, relay.drop_replies, relay.cut])()
            chosen = dice.randrange(len(hands))
            hands[chosen].send(signal.SIGKILL)
            hands[chosen] = hire(names[chosen])
            pause(dice.uniform(0.2, 1.5))
            relay.forward()
        until(lambda: chaos.left("ready", "working") == 0, within=90, what="every task ended")
        chaos.dismiss()
        assert any(call.state == "unknown" for call in chaos.history())
        assert chaos.left("done") == 200
        assert chaos.verdict() == []
