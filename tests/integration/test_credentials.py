"""Accounts, tokens and PINs: who comes in, as whom, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, FabricError, NotFound, Refused
from taskfabric.domain.principal import AppRole, Kind, Principal, RunRef, Stamp, Trust, Via
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.stores.credentials import PostgresCredentials
from taskfabric.testing import TestDatabase

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
STAMP = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


class Monotonic:
    """The process' own clock, set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pool(database: TestDatabase) -> Iterator[Database]:
    opened = Database(database.dsn, size=4, name="test")
    yield opened
    opened.close()


@pytest.fixture
def monotonic() -> Monotonic:
    return Monotonic()


@pytest.fixture
def store(pool: Database, monotonic: Monotonic) -> PostgresCredentials:
    return PostgresCredentials(pool, clock=monotonic)


@pytest.fixture
def alice(store: PostgresCredentials) -> Principal:
    return store.add_principal(
        NewPrincipal(name="alice", kind=Kind.HUMAN, trust=Trust.HUMAN, role=AppRole.ADMIN, capabilities=None), STAMP
    )


@pytest.fixture
def kimi(store: PostgresCredentials, alice: Principal) -> Principal:
    return store.add_principal(
        NewPrincipal(
            name="kimi",
            kind=Kind.AGENT,
            trust=Trust.SANDBOXED,
            owner_id=alice.id,
            tiers=("small",),
            capabilities=("tools",),
            concurrency=2,
        ),
        STAMP,
    )


def make(store: PostgresCredentials, of: Principal, **more: object) -> str:
    token, _ = store.create_token(of.id, name="a test", via=Via.TOKEN, stamp=STAMP, **more)  # type: ignore[arg-type]
    return token


def test_a_token_brings_its_principal_in_as_it_was_made(store: PostgresCredentials, kimi: Principal) -> None:
    caller = store.authenticate(make(store, kimi, queues=[7, 5]))
    assert caller is not None
    assert caller.principal == kimi
    assert (caller.via, caller.run, caller.queues) == (Via.TOKEN, None, frozenset({5, 7}))


@pytest.mark.parametrize("token", ["", "fab_", "fab_" + "x" * 43, "\udcff", "x" * 100_000, "\x00"])
def test_a_wrong_token_brings_nobody_in(store: PostgresCredentials, alice: Principal, token: str) -> None:
    make(store, alice)
    assert store.authenticate(token) is None


def test_a_token_has_the_agreed_form(store: PostgresCredentials, alice: Principal) -> None:
    token = make(store, alice)
    assert token.startswith("fab_")
    assert len(token) == 4 + 43


def test_no_secret_is_stored(store: PostgresCredentials, alice: Principal, database: TestDatabase) -> None:
    token = make(store, alice)
    store.set_pin(alice.id, "471100", STAMP)
    rows = database.connect().execute(
        "SELECT to_jsonb(c)::text FROM credentials c UNION ALL SELECT to_jsonb(u)::text FROM users u"
        " UNION ALL SELECT to_jsonb(j)::text FROM journal j"
    )
    text = "\n".join(str(row[0]) for row in rows)
    assert token not in text
    assert token[4:] not in text
    assert "471100" not in text


def test_an_expired_token_brings_nobody_in(
    store: PostgresCredentials, alice: Principal, database: TestDatabase, monotonic: Monotonic
) -> None:
    database.clock.set(NOON)
    token = make(store, alice, expires=NOON + timedelta(seconds=2))
    assert store.authenticate(token) is not None
    database.clock.advance(timedelta(seconds=2))
    monotonic.now += 2.1
    assert store.authenticate(token) is None


def test_a_revoked_token_is_worth_nothing_at_once(store: PostgresCredentials, alice: Principal) -> None:
    token, credential = store.create_token(alice.id, name="", via=Via.LOCAL, stamp=STAMP)
    assert store.authenticate(token) is not None
    assert store.revoke_token(credential.id, STAMP)
    assert store.authenticate(token) is None
    assert not store.revoke_token(credential.id, STAMP)


def test_a_revocation_by_another_process_acts_within_seconds(
    store: PostgresCredentials, pool: Database, alice: Principal, monotonic: Monotonic
) -> None:
    token = make(store, alice)
    assert store.authenticate(token) is not None
    PostgresCredentials(pool).revoke_all(alice.id, STAMP)
    monotonic.now += 5.1
    assert store.authenticate(token) is None


def test_a_known_token_costs_no_round_trip(
    store: PostgresCredentials, pool: Database, alice: Principal, monotonic: Monotonic
) -> None:
    token = make(store, alice)
    first = store.authenticate(token)
    before = pool.stats()["requests_num"]
    assert store.authenticate(token) == first
    assert pool.stats()["requests_num"] == before


def test_revoking_all_tokens_leaves_those_of_others(
    store: PostgresCredentials, alice: Principal, kimi: Principal
) -> None:
    hers, its = [make(store, alice), make(store, alice)], make(store, kimi)
    assert store.revoke_all(alice.id, STAMP) == 2
    assert [store.authenticate(token) for token in hers] == [None, None]
    assert store.authenticate(its) is not None


def test_a_disabled_account_answers_nobody_until_it_is_enabled(store: PostgresCredentials, kimi: Principal) -> None:
    token = make(store, kimi)
    assert store.authenticate(token) is not None
    store.set_active(kimi.id, False, STAMP)
    assert store.authenticate(token) is None
    store.set_active(kimi.id, True, STAMP)
    assert store.authenticate(token) is not None


def test_an_account_that_is_not_there_cannot_be_disabled(store: PostgresCredentials) -> None:
    with pytest.raises(NotFound):
        store.set_active(4711, False, STAMP)


def _lease(database: TestDatabase, holder: Principal) -> RunRef:
    """A task that this principal holds at epoch 1."""
    row = (
        database.connect()
        .execute(
            "INSERT INTO tasks (project_id, column_id, swimlane_id, lane_id, creator_id, title, role, status, epoch,"
            " token, owner_id, lease_until)"
            " VALUES (1, 1, 1, 1, 0, 'x', 'working', 'working', 1, 99, %s, fabric_now()) RETURNING id",
            (holder.id,),
        )
        .fetchone()
    )
    assert row is not None
    assert isinstance(row[0], int)
    return RunRef(task_id=row[0], epoch=1)


@pytest.mark.parametrize(
    "end",
    [
        "UPDATE tasks SET token = NULL, lease_until = NULL, owner_id = NULL",
        "UPDATE tasks SET epoch = 2, token = 100",
    ],
)
def test_a_runs_token_ends_with_its_lease(
    store: PostgresCredentials, kimi: Principal, database: TestDatabase, end: str
) -> None:
    run = _lease(database, kimi)
    token = make(store, kimi, run=run)
    caller = store.authenticate(token)
    assert caller is not None
    assert caller.run == run
    database.connect().execute(end)
    assert store.authenticate(token) is None


def test_a_runs_token_is_in_no_list(store: PostgresCredentials, kimi: Principal, database: TestDatabase) -> None:
    make(store, kimi, run=_lease(database, kimi))
    assert store.tokens(kimi.id) == []


def test_a_list_shows_what_a_token_is_for_and_when_it_was_used(
    store: PostgresCredentials, kimi: Principal, database: TestDatabase
) -> None:
    database.clock.set(NOON)
    token = make(store, kimi, expires=NOON + timedelta(days=1))
    (fresh,) = store.tokens(kimi.id)
    assert (fresh.principal, fresh.name, fresh.last_used, fresh.queues) == ("kimi", "a test", None, None)
    store.authenticate(token)
    (used,) = store.tokens(None)
    assert (used.created, used.expires, used.last_used, used.revoked) == (NOON, NOON + timedelta(days=1), NOON, False)


def test_the_last_use_is_written_once_a_minute(
    store: PostgresCredentials, kimi: Principal, database: TestDatabase, monotonic: Monotonic
) -> None:
    database.clock.set(NOON)
    token = make(store, kimi)
    store.authenticate(token)
    monotonic.now += 10
    database.clock.advance(timedelta(seconds=50))
    store.authenticate(token)
    assert store.tokens(kimi.id)[0].last_used == NOON
    monotonic.now += 20
    database.clock.advance(timedelta(seconds=20))
    store.authenticate(token)
    assert store.tokens(kimi.id)[0].last_used == NOON + timedelta(seconds=70)


def test_a_name_is_taken_once(store: PostgresCredentials, alice: Principal) -> None:
    with pytest.raises(BadInput):
        store.add_principal(NewPrincipal(name="alice", kind=Kind.AGENT, trust=Trust.SANDBOXED), STAMP)


def test_a_principal_is_found_by_name_and_by_number(store: PostgresCredentials, kimi: Principal) -> None:
    assert store.principal("kimi") == store.principal(kimi.id) == kimi
    assert store.principal("nobody") is None
    assert kimi in store.principals()


def test_a_human_is_known_for_minutes_while_the_database_is_away(
    store: PostgresCredentials, pool: Database, alice: Principal, monotonic: Monotonic
) -> None:
    """G14: only principals authenticated in the last five minutes."""
    token = make(store, alice)
    caller = store.authenticate(token)
    pool.close()
    monotonic.now += 299
    assert store.recent(token) == caller
    monotonic.now += 2
    assert store.recent(token) is None
    assert store.recent("fab_other") is None


def test_a_revoked_token_is_not_known_while_the_database_is_away(
    store: PostgresCredentials, pool: Database, alice: Principal
) -> None:
    """G14"""
    token = make(store, alice)
    store.authenticate(token)
    store.revoke_all(alice.id, STAMP)
    pool.close()
    assert store.recent(token) is None


def test_every_change_of_an_account_is_in_the_journal(
    store: PostgresCredentials, kimi: Principal, database: TestDatabase
) -> None:
    _, credential = store.create_token(kimi.id, name="", via=Via.TOKEN, stamp=STAMP)
    store.revoke_token(credential.id, STAMP)
    store.set_active(kimi.id, False, STAMP)
    store.set_pin(kimi.id, "471100", STAMP)
    kinds = [row[0] for row in database.connect().execute("SELECT kind FROM journal ORDER BY id")]
    assert kinds == ["user-added", "user-added", "token-created", "token-revoked", "user-disabled", "pin-set"]


def test_only_the_right_pin_is_right(store: PostgresCredentials, alice: Principal) -> None:
    assert not store.has_pin(alice.id)
    assert not store.check_pin(alice.id, "471100")
    store.set_pin(alice.id, "471100", STAMP)
    assert store.has_pin(alice.id)
    assert store.check_pin(alice.id, "471100")
    assert not store.check_pin(alice.id, "471101")


def test_five_wrong_pins_lock_it_for_a_quarter_of_an_hour_also_for_the_right_one(
    store: PostgresCredentials, alice: Principal, database: TestDatabase
) -> None:
    """G10: guessing decides nothing."""
    database.clock.set(NOON)
    store.set_pin(alice.id, "471100", STAMP)
    assert [store.check_pin(alice.id, "wrong!") for _ in range(5)] == [False] * 5
    with pytest.raises(Refused) as caught:
        store.check_pin(alice.id, "471100")
    assert caught.value.facts["rule"] == "pin-locked"
    database.clock.advance(timedelta(minutes=15))
    assert store.check_pin(alice.id, "471100")


def test_a_right_pin_forgives_the_wrong_ones_before_it(store: PostgresCredentials, alice: Principal) -> None:
    store.set_pin(alice.id, "471100", STAMP)
    for _ in range(3):
        assert [store.check_pin(alice.id, "wrong!") for _ in range(4)] == [False] * 4
        assert store.check_pin(alice.id, "471100")


def test_guesses_made_side_by_side_are_all_counted(store: PostgresCredentials, alice: Principal) -> None:
    store.set_pin(alice.id, "471100", STAMP)

    def guess(n: int) -> bool | None:
        try:
            return store.check_pin(alice.id, f"wrong{n}")
        except FabricError:
            return None

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(guess, range(12)))
    assert found.count(False) == 5
    assert found.count(None) == 7
