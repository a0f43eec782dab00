"""The pool: configured connections, honest errors, quick recovery."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from taskfabric.db.embedded import Cluster
from taskfabric.db.pool import Connection, Database
from taskfabric.domain.errors import Unavailable
from taskfabric.testing import Relay, TestDatabase

MakeCluster = Callable[..., Cluster]


@pytest.fixture
def pool(database: TestDatabase) -> Iterator[Database]:
    opened = Database(database.dsn, size=4, name="test")
    yield opened
    opened.close()


def value(conn: Connection, question: str) -> object:
    row = conn.execute(question).fetchone()
    return row[0] if row else None


def test_every_connection_is_configured_alike(pool: Database) -> None:
    with pool.connection() as conn:
        assert value(conn, "SHOW plan_cache_mode") == "force_generic_plan"
        assert value(conn, "SHOW jit") == "off"
        assert value(conn, "SHOW timezone") == "UTC"
        assert value(conn, "SHOW application_name") == "fabric test"
        assert value(conn, "SHOW synchronous_commit") == "on"
        assert conn.autocommit
        assert conn.prepare_threshold == 0


def test_options_of_the_connection_string_are_kept(database: TestDatabase) -> None:
    dsn = psycopg.conninfo.make_conninfo(database.dsn, options="-c work_mem=7MB")
    pool = Database(dsn, size=1, name="test")
    with pool.connection() as conn:
        assert value(conn, "SHOW work_mem") == "7MB"
        assert value(conn, "SHOW plan_cache_mode") == "force_generic_plan"
    pool.close()


def test_a_transaction_is_all_or_nothing(pool: Database, database: TestDatabase) -> None:
    database.connect().execute("CREATE TABLE t (v integer)")

    def fail_half_way() -> None:
        with pool.transaction() as conn:
            conn.execute("INSERT INTO t VALUES (1)")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    with pool.transaction() as conn:
        conn.execute("INSERT INTO t VALUES (2)")
    assert database.connect().execute("SELECT array_agg(v) FROM t").fetchone() == ([2],)


def test_an_error_of_the_statement_stays_what_it_is(pool: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable), pool.connection() as conn:
        conn.execute("SELECT * FROM no_such_table")
    with pool.connection() as conn:
        assert value(conn, "SELECT 1") == 1


def test_no_connection_within_the_patience_says_that_all_are_busy(database: TestDatabase) -> None:
    pool = Database(database.dsn, size=1, name="test", patience=0.1)
    with (
        pool.connection(),
        pytest.raises(Unavailable, match="1 database connections are busy") as refusal,
        pool.connection(),
    ):
        pass
    assert refusal.value.facts["sent"] is False
    pool.close()


def test_an_unreachable_database_is_unavailable_and_nothing_was_sent() -> None:
    pool = Database("host=127.0.0.1 port=1 dbname=none user=nobody", size=1, name="test", patience=0.1)
    with pytest.raises(Unavailable, match="cannot be reached") as refusal:
        pool.check()
    assert refusal.value.facts["sent"] is False
    assert refusal.value.next
    pool.close()


def test_a_closed_pool_is_unavailable(database: TestDatabase) -> None:
    pool = Database(database.dsn, size=1, name="test")
    pool.close()
    with pytest.raises(Unavailable):
        pool.check()


def test_a_terminated_session_is_unavailable_with_an_unknown_outcome_and_replaced(
    pool: Database, database: TestDatabase
) -> None:
    def die_while_at_work() -> None:
        with pool.connection() as conn:
            database.connect().execute("SELECT pg_terminate_backend(%s, 5000)", (conn.info.backend_pid,))
            conn.execute("SELECT 1")

    with pytest.raises(Unavailable, match="went away") as refusal:
        die_while_at_work()
    assert refusal.value.facts["sent"] is True
    pool.check()


def test_idle_connections_that_died_are_never_handed_out(pool: Database, database: TestDatabase) -> None:
    pool.check()
    database.connect().execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'fabric test'"
        " AND datname = current_database()"
    )
    for _ in range(8):
        pool.check()


def test_a_read_only_database_is_unavailable_in_its_own_words(database: TestDatabase) -> None:
    database.connect().execute("CREATE TABLE t (v integer)")
    read_only = psycopg.conninfo.make_conninfo(database.dsn, options="-c default_transaction_read_only=on")
    pool = Database(read_only, size=1, name="test")
    with pytest.raises(Unavailable, match="read-only") as refusal, pool.connection() as conn:
        conn.execute("INSERT INTO t VALUES (1)")
    pool.close()
    assert refusal.value.facts["sent"] is False


def test_a_full_disk_is_unavailable_in_its_own_words(pool: Database) -> None:
    with pytest.raises(Unavailable, match="disk is full"), pool.connection() as conn:
        conn.execute("DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$")


def test_a_deadlock_is_repeated_until_it_works(pool: Database, database: TestDatabase) -> None:
    conn = database.connect()
    conn.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer); INSERT INTO t VALUES (1, 0), (2, 0)")
    both = threading.Barrier(2, timeout=10)
    first_try = {1: True, 2: True}

    def work(mine: int, other: int) -> None:
        def transaction(conn: Connection) -> None:
            conn.execute("UPDATE t SET v = v + 1 WHERE id = %s", (mine,))
            if first_try[mine]:
                first_try[mine] = False
                both.wait()
            conn.execute("UPDATE t SET v = v + 1 WHERE id = %s", (other,))

        pool.retrying(transaction)

    threads = [threading.Thread(target=work, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert conn.execute("SELECT sum(v) FROM t").fetchone() == (4,)


def test_a_transaction_that_never_settles_is_given_up_after_three_tries(pool: Database) -> None:
    tries: list[int] = []

    def work(conn: Connection) -> None:
        tries.append(1)
        raise psycopg.errors.SerializationFailure

    with pytest.raises(Unavailable, match="3 tries"):
        pool.retrying(work)
    assert len(tries) == 3


def test_other_errors_are_not_repeated(pool: Database) -> None:
    tries: list[int] = []

    def work(conn: Connection) -> None:
        tries.append(1)
        raise KeyError

    with pytest.raises(KeyError):
        pool.retrying(work)
    assert len(tries) == 1


def test_a_database_that_stops_answering_costs_an_error_and_not_a_thread(database: TestDatabase) -> None:
    with Relay.to_database(database.dsn) as relay:
        pool = Database(relay.dsn(database.dsn), size=1, name="test", limit=0.3, patience=5)
        pool.check()
        relay.stall()
        with pytest.raises(Unavailable, match="did not answer in time") as refusal, pool.connection() as conn:
            conn.execute("SELECT 1")
        assert refusal.value.facts["sent"] is True
        relay.forward()
        pool.check()
        pool.close()


def test_a_lost_answer_leaves_the_outcome_unknown_though_the_write_was_done(database: TestDatabase) -> None:
    """G5: an error answer may hide a write, and says so."""
    database.connect().execute("CREATE TABLE t (v integer)")
    with Relay.to_database(database.dsn) as relay:
        pool = Database(relay.dsn(database.dsn), size=1, name="test", limit=0.3)
        pool.check()
        relay.drop_replies()
        with pytest.raises(Unavailable) as refusal, pool.connection() as conn:
            conn.execute("INSERT INTO t VALUES (1)", prepare=False)
        assert refusal.value.facts["sent"] is True
        assert database.connect().execute("SELECT count(*) FROM t").fetchone() == (1,)
        relay.forward()
        pool.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_pool_under_load_recovers_from_a_restart_within_seconds(own_cluster: MakeCluster, mode: str) -> None:
    cluster = own_cluster()
    pool = Database(cluster.start(), size=4, name="test")
    stop = threading.Event()
    errors: list[BaseException] = []

    def load() -> None:
        while not stop.is_set():
            try:
                pool.check()
            except Unavailable:
                continue
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=load) for _ in range(6)]
    for thread in threads:
        thread.start()
    cluster.stop("immediate" if mode == "immediate" else "fast")
    cluster.start()
    began = time.monotonic()
    served = 0
    while served < 20 and time.monotonic() - began < 30:
        try:
            pool.check()
            served += 1
        except Unavailable:
            served = 0
    took = time.monotonic() - began
    stop.set()
    for thread in threads:
        thread.join()
    pool.close()
    assert not errors
    assert served == 20
    assert took < 10


def test_while_the_database_is_away_nobody_queues_for_it_and_it_is_found_again_by_itself(
    own_cluster: MakeCluster,
) -> None:
    """G14: refused at once, so that every caller can be told to come again."""
    cluster = own_cluster()
    pool = Database(cluster.start(), size=4, name="test", patience=5.0)
    pool.check()
    cluster.stop("immediate")
    with contextlib.suppress(Unavailable):  # the session that died
        pool.check()

    def refused() -> float:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            pool.check()
        return time.monotonic() - began

    with ThreadPoolExecutor(8) as callers:
        took = [task.result() for task in [callers.submit(refused) for _ in range(80)]]
    assert max(took) < 2.5
    assert sum(took) / len(took) < 0.5

    cluster.start()
    deadline = time.monotonic() + 10
    while True:
        with contextlib.suppress(Unavailable):
            pool.check()
            break
        assert time.monotonic() < deadline
    pool.close()


def test_a_pool_may_be_opened_before_its_database_runs(own_cluster: MakeCluster) -> None:
    """G14: the board comes back by itself."""
    cluster = own_cluster()
    dsn = cluster.start()
    cluster.stop()
    pool = Database(dsn, size=2, name="test", patience=0.1)
    with pytest.raises(Unavailable):
        pool.check()
    cluster.start()
    deadline = time.monotonic() + 15
    while True:
        try:
            pool.check()
            break
        except Unavailable:
            assert time.monotonic() < deadline
    pool.close()


def test_a_pool_from_before_a_fork_refuses_to_work(database: TestDatabase) -> None:
    pool = Database(database.dsn, size=1, name="test")
    pool._pid = 1  # what a forked child sees: a pool of another process
    with pytest.raises(RuntimeError, match="before the fork"):
        pool.check()
    pool.close()
