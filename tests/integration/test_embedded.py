"""The embedded server's life cycle: it belongs to its data directory, whoever started it and whoever died."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from taskfabric.db.embedded import Cluster, StopMode
from taskfabric.db.postmaster import living, orphans
from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.testing import Ownership, cluster_in, new_folder

MakeCluster = Callable[..., Cluster]
STARTER = "import sys; from taskfabric.testing import cluster_in; from pathlib import Path; " + (
    "print(cluster_in(Path(sys.argv[1])).start())"
)


def start_elsewhere(cluster: Cluster) -> subprocess.Popen[str]:
    """Another process that starts the same cluster."""
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, str(cluster.place.parent)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )


def one(dsn: str, question: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(question).fetchone()
    return row[0] if row else None


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    """One server for the tests that only look."""
    owner = Ownership(new_folder())
    cluster = cluster_in(owner.folder)
    cluster.start()
    yield cluster
    owner.end()


def test_a_started_server_answers_and_a_stopped_one_does_not(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    dsn = cluster.start()
    assert one(dsn, "SELECT current_user::text") == "fabric"
    assert cluster.status().running
    assert cluster.stop()
    assert not cluster.status().running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)


def test_stopping_a_server_that_does_not_run_changes_nothing(own_cluster: MakeCluster) -> None:
    assert own_cluster().stop() is False


def test_a_second_start_joins_the_running_server(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    dsn = cluster.start()
    pid = cluster.status().pid
    assert cluster.start() == dsn
    assert cluster.status().pid == pid


def test_data_and_password_survive_a_restart(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    dsn = cluster.start()
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE TABLE kept (v integer)")
    assert cluster.restart() == dsn
    assert one(dsn, "SELECT count(*) FROM kept") == 0


def test_many_starts_at_once_make_one_server_and_all_get_in(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    starters = [start_elsewhere(cluster) for _ in range(6)]
    said = {starter.communicate(timeout=120)[0].strip() for starter in starters}
    assert said == {cluster.dsn()}
    assert one(cluster.dsn(), "SELECT 1") == 1


def test_the_server_outlives_the_client_that_started_it(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    starter = start_elsewhere(cluster)
    assert starter.stdout is not None
    dsn = starter.stdout.readline().strip()
    starter.kill()
    starter.communicate()
    assert one(dsn, "SELECT 1") == 1


def test_a_client_killed_while_it_starts_the_server_leaves_a_home_that_starts(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    for wanted in (cluster.place / "data.new", cluster.data / "postmaster.pid"):
        starter = start_elsewhere(cluster)
        while not wanted.exists() and starter.poll() is None:
            pass
        starter.kill()
        starter.communicate()
    assert one(cluster.start(), "SELECT 1") == 1


def test_a_killed_postmaster_comes_back_with_everything_committed(own_cluster: MakeCluster) -> None:
    """G5: what was committed survives a crash of the database."""
    cluster = own_cluster()
    dsn = cluster.start()
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS v")
    sleeper = psycopg.connect(dsn, autocommit=True)
    pid = cluster.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert cluster.start() == dsn
    assert one(dsn, "SELECT count(*) FROM kept") == 1000
    sleeper.close()


@pytest.mark.chaos  # five seconds of patience with the session that hangs
def test_a_session_that_outlives_a_killed_postmaster_is_ended_before_the_next_start(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    dsn = cluster.start()
    with psycopg.connect(dsn, autocommit=True) as hanging:
        session = hanging.info.backend_pid
        os.kill(session, signal.SIGSTOP)
        pid = cluster.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert one(cluster.start(), "SELECT 1") == 1
    assert session not in orphans(cluster.data)


def test_a_stale_lock_file_with_a_number_in_use_by_another_program_does_not_matter(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    cluster.start()
    lock = (cluster.data / "postmaster.pid").read_text().splitlines()
    owner = (cluster.data / "PG_VERSION").stat()
    cluster.stop()
    # A process of the same account that is no PostgreSQL has the old number now.
    stranger = subprocess.Popen(["sleep", "60"], user=owner.st_uid if os.geteuid() == 0 else None)
    try:
        stale = cluster.data / "postmaster.pid"
        stale.write_text("\n".join([str(stranger.pid), *lock[1:]]) + "\n")
        socket_lock = cluster.socket_folder() / ".s.PGSQL.5432.lock"
        socket_lock.write_text("\n".join([str(stranger.pid), *lock[1:5]]) + "\n")
        for path in (stale, socket_lock):
            os.chown(path, owner.st_uid, owner.st_gid)
        assert living(cluster.data) is None
        assert one(cluster.start(), "SELECT 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_lost_password_of_the_role_is_replaced_and_the_data_stays(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    with psycopg.connect(cluster.start()) as conn:
        conn.execute("CREATE TABLE kept (v integer)")
    (cluster.home / "credentials.d" / "database").unlink()
    assert one(cluster.start(), "SELECT count(*) FROM kept") == 0


def test_two_homes_do_not_disturb_each_other(own_cluster: MakeCluster) -> None:
    first, second = own_cluster(), own_cluster()
    with ThreadPoolExecutor(2) as both:
        dsns = list(both.map(Cluster.start, (first, second)))
    assert dsns[0] != dsns[1]
    second.stop("immediate")
    assert one(dsns[0], "SELECT 1") == 1


def test_a_place_of_another_home_is_neither_joined_nor_stopped(own_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = own_cluster()
    dsn = cluster.start()
    (tmp_path / "other").mkdir()
    other = Cluster(tmp_path / "other", place=cluster.place, durable=False)
    with pytest.raises(BadInput, match="belongs to the fabric of") as told:
        other.start()
    assert (told.value.facts["owner"], told.value.next != "") == (str(cluster.home), True)
    assert other.stop() is False
    with pytest.raises(BadInput):
        other.destroy()
    assert one(dsn, "SELECT 1") == 1  # the password is the old one too


def test_a_place_whose_home_was_moved_goes_on(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    cluster.start()
    moved = cluster.home.with_name("moved")
    cluster.home.rename(moved)
    dsn = Cluster(moved, place=cluster.place, durable=False).start()
    assert one(dsn, "SELECT 1") == 1
    moved.rename(cluster.home)


def test_a_stop_on_purpose_is_told_from_a_death(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    cluster.start()
    server = living(cluster.data)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    while living(cluster.data) is not None:
        pass
    assert cluster.status().stopped is False
    cluster.stop()
    assert cluster.status().stopped is True
    cluster.start()
    assert cluster.status().stopped is False
    cluster.stop("immediate")
    assert cluster.status().stopped is True


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_socket_folder_outside_the_place_goes_with_its_server(own_cluster: MakeCluster, mode: StopMode) -> None:
    usual = own_cluster()
    place = usual.place / ("x" * 90)
    usual.place.mkdir(parents=True)
    usual.place.chmod(0o755)  # the server's account must pass
    deep = Cluster(usual.home, place=place, durable=False)
    try:
        deep.start()
        folder = deep.socket_folder()
        assert (folder.parent in (Path("/run"), Path("/tmp")), folder.is_dir()) == (True, True)
        deep.stop(mode)
        assert not folder.exists()
    finally:
        deep.destroy()


def test_an_immediate_stop_leaves_no_process_behind(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    dsn = cluster.start()
    idle = psycopg.connect(dsn, autocommit=True)
    cluster.stop("immediate")
    with pytest.raises(psycopg.OperationalError):
        idle.execute("SELECT 1")
    idle.close()
    cluster.start()
    cluster.stop()
    assert orphans(cluster.data) == []


def test_the_role_cannot_become_more_than_it_is(running: Cluster) -> None:
    """A process that reads the role's password still cannot read files, run programs or make roles."""
    with psycopg.connect(running.start(), autocommit=True) as conn:
        for attempt in (
            "ALTER ROLE fabric SUPERUSER",
            "CREATE ROLE another LOGIN",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('/etc/passwd')",
            "SET ROLE postgres",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(attempt)


def test_nobody_gets_in_without_the_password(running: Cluster) -> None:
    dsn = running.start()
    for user in ("fabric", "postgres"):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(dsn, user=user, password="wrong")


def test_secrets_data_and_socket_are_for_their_owners_only(running: Cluster) -> None:
    secrets = (running.home / "credentials.d" / "database", running.place / "superuser")
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o600, 0o600]
    folders = (running.data, running.log, running.socket_folder(), running.home / "credentials.d")
    assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o700] * 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to give its server to another account")
def test_as_root_the_server_runs_as_an_account_without_rights(running: Cluster) -> None:
    pid = running.status().pid
    assert Path(f"/proc/{pid}").stat().st_uid not in {0, os.geteuid()}
    assert (running.home / "credentials.d" / "database").stat().st_uid == 0
    assert (running.place / "postgresql.conf").stat().st_uid == 0


def test_it_listens_on_no_network_unless_asked(running: Cluster) -> None:
    assert one(running.start(), "SHOW listen_addresses") == ""


def test_the_extensions_of_the_wheel_are_there(running: Cluster) -> None:
    dsn = running.start()
    assert one(dsn, "SELECT '[1,2]'::vector <-> '[1,4]'::vector") == 2
    assert one(dsn, "SELECT similarity('Grüße', 'grüße')") == 1
    assert one(dsn, "SELECT lower('ÄÖÜ')") == "äöü"


def test_a_data_directory_of_another_major_version_is_refused_with_the_way_out(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    cluster.start()
    cluster.stop()
    (cluster.data / "PG_VERSION").write_text("14\n")
    with pytest.raises(Unavailable, match=r"made by PostgreSQL 14.*are PostgreSQL \d+") as refusal:
        cluster.start()
    assert "fabric db backup" in refusal.value.next
    assert refusal.value.facts["data_version"] == "14"


def test_a_start_that_fails_shows_the_last_lines_of_the_log(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    cluster.start()
    cluster.stop()
    (cluster.place / "local.conf").write_text("shared_buffers = 'a lot'\n")
    with pytest.raises(Unavailable, match="shared_buffers"):
        cluster.start()


def test_a_taken_port_is_named_as_the_reason(own_cluster: MakeCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cluster = own_cluster(tcp_port=taken.getsockname()[1])
        with pytest.raises(Unavailable, match=r"its port on .* is taken"):
            cluster.start()


def test_an_owners_local_settings_are_obeyed(own_cluster: MakeCluster) -> None:
    cluster = own_cluster()
    cluster.start()
    (cluster.place / "local.conf").write_text("work_mem = '7MB'\n")
    assert one(cluster.restart(), "SHOW work_mem") == "7MB"


def test_a_long_path_puts_the_socket_where_it_fits(running: Cluster) -> None:
    deep = Cluster(running.home, place=running.place / ("x" * 90), durable=False)
    assert not deep.socket_folder().is_relative_to(deep.place)
    assert len(os.fsencode(deep.socket_folder() / ".s.PGSQL.65535")) <= 100


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable, match="cannot live in"):
        Cluster(tmp_path / "home", place=tmp_path / "file" / "pg").start()
