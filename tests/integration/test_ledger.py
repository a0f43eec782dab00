"""Several processes share the ledger: what they reserve together never passes the limit, and one of them tries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from taskfabric.db.pool import Database
from taskfabric.domain.account import Account, begin_probe, met, start_run
from taskfabric.domain.availability import Part
from taskfabric.domain.card import Window
from taskfabric.domain.limit import Learned, Limit, LimitClass
from taskfabric.domain.quota import Span, Used, governed, span_of
from taskfabric.ports.ledger import Spending
from taskfabric.ports.standing import Chunk, WorkerState
from taskfabric.stores.ledger import PostgresLedger
from taskfabric.stores.standing import PostgresStanding
from taskfabric.wiring import SYSTEM
from tests.integration.conftest import Rig

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
WINDOW = Window(name="five_hour", length=timedelta(hours=5), limit=20, reserve=0.0)


@pytest.fixture
def two(rig: Rig) -> Iterator[list[PostgresLedger]]:
    """The ledger as two processes see it."""
    rig.test_database.clock.set(NOON)
    pools = [Database(rig.test_database.dsn, size=4, name=f"process {n}") for n in (1, 2)]
    yield [PostgresLedger(pool) for pool in pools]
    for pool in pools:
        pool.close()


def together(work: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def spans() -> list[Span]:
    return [span_of(WINDOW, "UTC", NOON)]


def strict(account: Account, used: Sequence[Used]) -> Account | Part:
    part = governed(used[0], NOON)
    return account if part.open or part.background else part


def test_many_reservations_at_once_never_pass_the_limit(rig: Rig, two: list[PostgresLedger]) -> None:
    got: list[int | Part] = []
    new = Spending(account="acme", principal_id=rig.people["kimi"].principal_id, units=1, interactive=True)

    def work(ledger: PostgresLedger) -> Callable[[], None]:
        return lambda: got.extend(ledger.reserve(new, spans(), strict) for _ in range(8))

    together([work(two[n % 2]) for n in range(4)])
    assert (sum(isinstance(one, int) for one in got), len(got)) == (20, 32)
    assert [used.amount for used in two[0].used("acme", spans())] == [20]


def test_of_many_that_would_try_a_closed_account_one_does(rig: Rig, two: list[PostgresLedger]) -> None:
    wall = Limit(cls=LimitClass.EXHAUSTED)
    two[0].change("acme", lambda account: met(account, wall, NOON, timedelta(0)).account, SYSTEM)
    later = NOON + timedelta(minutes=15)
    chosen: list[str] = []

    def work(ledger: PostgresLedger, who: str) -> Callable[[], None]:
        def decide(account: Account) -> Account:
            return begin_probe(account, who, later) if account.may_probe(who, later) else account

        return lambda: chosen.append(ledger.change("acme", decide, SYSTEM)[1].prober)

    together([work(two[n % 2], f"worker {n}") for n in range(6)])
    assert len(set(chosen)) == 1
    assert len(chosen) == 6


def test_what_was_reserved_and_never_settled_counts_as_spent(rig: Rig, two: list[PostgresLedger]) -> None:
    me = rig.people["kimi"].principal_id
    number = two[0].reserve(Spending(account="acme", principal_id=me, units=3), spans(), strict)
    assert isinstance(number, int)
    assert two[1].used("acme", spans())[0].amount == 3
    assert two[1].settle(number, me, units=1, tokens=9, cents=0, usage={}) == "acme"
    assert two[0].used("acme", spans())[0].amount == 1
    assert two[0].settle(number, me, units=1, tokens=9, cents=0, usage={}) is None


def test_what_no_window_reaches_back_to_is_removed(rig: Rig) -> None:
    ticks = iter([0.0, 4000.0, 4000.0])
    ledger = PostgresLedger(rig.database, clock=lambda: next(ticks))
    me = rig.people["kimi"].principal_id
    rig.test_database.clock.set(NOON - timedelta(days=101))
    ledger.reserve(Spending(account="acme", principal_id=me, units=1), spans(), strict)
    rig.test_database.clock.set(NOON)
    number = ledger.reserve(Spending(account="acme", principal_id=me, units=1), spans(), strict)
    assert isinstance(number, int)
    ledger.settle(number, me, units=1, tokens=0, cents=0, usage={})
    with rig.database.connection() as conn:
        assert conn.execute("SELECT id FROM spendings").fetchall() == [(number,)]


def test_a_refused_reservation_changes_nothing(rig: Rig, two: list[PostgresLedger]) -> None:
    def refuse(account: Account, used: Sequence[Used]) -> Part:
        start_run(account, NOON)
        return Part(name="quota", open=False, reason="no")

    new = Spending(account="acme", principal_id=rig.people["kimi"].principal_id, units=1)
    assert isinstance(two[0].reserve(new, spans(), refuse), Part)
    assert two[0].account("acme") == Account(name="acme")
    assert two[0].used("acme", spans())[0].amount == 0


def test_an_account_comes_back_as_it_was_written(two: list[PostgresLedger]) -> None:
    known = Account(
        name="acme",
        closed_until=NOON,
        closed_since=NOON - timedelta(hours=1),
        known=True,
        window="weekly",
        evidence="limit reached",
        probes=3,
        prober="a@box",
        probe_until=NOON,
        warned_until=NOON,
        overloads=2,
        told=True,
    )
    two[0].change("acme", lambda _: known, SYSTEM)
    assert two[1].account("acme") == known
    assert two[1].accounts() == {"acme": known}
    assert two[1].account("other") == Account(name="other")


# -- how workers stand -------------------------------------------------------------------------------------


def test_a_worker_is_in_a_state_since_it_changed(rig: Rig) -> None:
    standing, clock = PostgresStanding(rig.database), rig.test_database.clock
    me = rig.people["kimi"].principal_id
    clock.set(NOON)
    standing.report(WorkerState(principal_id=me, instance="a@box", state="idle"))
    clock.advance(timedelta(minutes=1))
    standing.report(WorkerState(principal_id=me, instance="a@box", state="idle", facts={"version": "1"}))
    assert [(w.since, w.seen, w.facts, w.agent) for w in standing.workers()] == [
        (NOON, NOON + timedelta(minutes=1), {"version": "1"}, "kimi")
    ]
    standing.report(WorkerState(principal_id=me, instance="a@box", state="running"))
    assert standing.workers()[0].since == NOON + timedelta(minutes=1)
    clock.advance(timedelta(days=2))
    assert standing.workers() == []


def test_old_output_is_removed_by_whoever_writes_some(rig: Rig) -> None:
    ticks = iter([0.0, 1.0, 10_000.0])
    standing = PostgresStanding(rig.database, keep=timedelta(days=1), clock=lambda: next(ticks))
    rig.test_database.clock.set(NOON)
    rig.submit()
    old = rig.claimed("kimi")
    me = rig.people["kimi"].principal_id
    assert standing.add_chunks(old.fence, me, [Chunk(n=0, stream="out", text="old")]) == 1
    rig.test_database.clock.advance(timedelta(days=2))
    assert standing.add_chunks(old.fence, me, [Chunk(n=1, stream="out", text="new")]) == 1
    assert len(standing.chunks(old.task.id, None, -1, 10)[1]) == 2
    assert standing.add_chunks(old.fence, me, [Chunk(n=2, stream="out", text="newer")]) == 1
    assert [chunk.text for chunk in standing.chunks(old.task.id, 1, -1, 10)[1]] == ["new", "newer"]


def test_what_a_run_says_is_one_comment_in_five_seconds_at_most(rig: Rig) -> None:
    """Pieces of text stay in the journal; the card gets what was said since the last comment, of the text alone."""
    standing, clock = PostgresStanding(rig.database), rig.test_database.clock
    clock.set(NOON)
    rig.submit()
    got, me = rig.claimed("kimi"), rig.people["kimi"].principal_id

    def say(n: int, text: str, stream: str = "out") -> list[str]:
        standing.add_chunks(got.fence, me, [Chunk(n=n, stream=stream, text=text)])
        entries = rig.board.thread(got.task.id, rig.viewer("kimi")).entries
        return [entry.text for entry in entries if entry.kind == "said" and entry.author == "kimi"]

    assert say(0, "One ") == []
    clock.advance(timedelta(seconds=5))
    assert say(1, "two ") == ["💭 One two "]
    for n in range(2, 500):
        clock.advance(timedelta(milliseconds=9))
        assert len(say(n, f"{n} ")) == 1
    clock.advance(timedelta(seconds=1))
    assert len(say(500, "a trace", "trace")) == 1
    assert say(501, "501")[1:] == [f"💭 {' '.join(map(str, range(2, 500)))} 501"]
    clock.advance(timedelta(seconds=10))
    assert len(say(502, " \n")) == 2  # nothing to read


def test_a_long_run_comments_less_often_and_each_comment_is_bounded(rig: Rig) -> None:
    standing, clock = PostgresStanding(rig.database), rig.test_database.clock
    clock.set(NOON)
    rig.submit()
    got, me = rig.claimed("kimi"), rig.people["kimi"].principal_id
    for n in range(600):
        clock.advance(timedelta(minutes=1))
        standing.add_chunks(got.fence, me, [Chunk(n=n, stream="out", text=f"{n} " * 2000)])
    said = [entry.text for entry in rig.board.thread(got.task.id, rig.viewer("kimi")).entries if entry.kind == "said"]
    assert 20 < len(said) < 100
    assert max(map(len, said)) < 2100
    assert all(text.startswith("💭 … ") for text in said)


def test_what_a_provider_says_of_its_windows_counts_until_their_reset(rig: Rig, two: list[PostgresLedger]) -> None:
    now = rig.board.now()
    weekly = Learned(window="weekly", used=0.25, amount=100, reset=now + timedelta(days=2))
    two[0].learn("plan", [Learned(window="weekly", used=0.1), Learned(window="tokens", used=0.5)])
    two[1].learn("plan", [weekly])
    found = two[0].learned()["plan"]
    assert [(one.window, one.used, one.amount) for one in found] == [("tokens", 0.5, None), ("weekly", 0.25, 100)]
    rig.test_database.clock.advance(timedelta(hours=2))
    assert [one.window for one in two[0].learned()["plan"]] == ["weekly"], "a short window has been reset since"
    rig.test_database.clock.advance(timedelta(days=2))
    assert two[0].learned() == {}
