"""Backup and restore: whole or not at all, and no fence is granted twice (G2)."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from taskfabric.db.backup import backup, restore
from taskfabric.db.embedded import Cluster
from taskfabric.db.migrate import migrate
from taskfabric.domain.errors import BadInput, FabricError, Unavailable
from taskfabric.testing import Ownership, TestServer, cluster_in, new_folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    owner = Ownership(new_folder())
    yield cluster_in(owner.folder)
    owner.end()


@pytest.fixture
def migrated(cluster: Cluster) -> str:
    """The cluster's own database, freshly migrated, with one note in it."""
    dsn = cluster.start()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with psycopg.connect(cluster.superuser_dsn("fabric"), autocommit=True) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm; CREATE EXTENSION IF NOT EXISTS vector")
    migrate(dsn)
    note(dsn, "first")
    return dsn


def note(dsn: str, text: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS note (text text)")
        conn.execute("INSERT INTO note VALUES (%s)", (text,))


def notes(dsn: str) -> list[object]:
    with psycopg.connect(dsn) as conn:
        return [row[0] for row in conn.execute("SELECT text FROM note ORDER BY text").fetchall()]


def databases(cluster: Cluster) -> set[object]:
    with psycopg.connect(cluster.superuser_dsn()) as conn:
        return {row[0] for row in conn.execute("SELECT datname FROM pg_database").fetchall()}


def test_what_was_saved_comes_back_and_what_came_later_is_gone(cluster: Cluster, migrated: str, tmp_path: Path) -> None:
    file = tmp_path / "fabric.backup"
    assert cluster.backup(file) == file.stat().st_size
    note(migrated, "later")
    before = databases(cluster)
    restored = cluster.restore(file)
    assert notes(migrated) == ["first"]
    assert restored.database == "fabric"
    assert databases(cluster) == before


def test_a_backup_is_readable_by_its_owner_only(cluster: Cluster, migrated: str, tmp_path: Path) -> None:
    cluster.backup(tmp_path / "fabric.backup")
    assert stat.S_IMODE((tmp_path / "fabric.backup").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["fabric.backup"]


def test_a_backup_that_cannot_be_written_leaves_no_file(cluster: Cluster, migrated: str, tmp_path: Path) -> None:
    with pytest.raises(FabricError, match="cannot be written"):
        cluster.backup(tmp_path / "missing" / "fabric.backup")
    (tmp_path / "taken").mkdir()
    with pytest.raises(FabricError, match="cannot be written"):
        cluster.backup(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_each_restore_of_the_same_file_lifts_the_epochs_further(
    cluster: Cluster, migrated: str, tmp_path: Path
) -> None:
    """G2: a restore lifts every epoch by a recorded step, and a second one of the same file by one more."""
    file = tmp_path / "fabric.backup"
    cluster.backup(file)
    assert cluster.restore(file).lifts == 1
    assert cluster.restore(file).lifts == 2
    with psycopg.connect(migrated) as conn:
        assert conn.execute("SELECT array_agg(step) FROM restores").fetchone() == ([1_000_000, 1_000_000],)


def test_a_database_in_use_is_not_replaced_unless_forced(cluster: Cluster, migrated: str, tmp_path: Path) -> None:
    file = tmp_path / "fabric.backup"
    cluster.backup(file)
    note(migrated, "later")
    user = psycopg.connect(migrated, autocommit=True, application_name="fabric server")
    with pytest.raises(FabricError, match=r"1 sessions use the database \(fabric server\)"):
        cluster.restore(file)
    assert notes(migrated) == ["first", "later"]
    cluster.restore(file, force=True)
    with pytest.raises(psycopg.OperationalError):
        user.execute("SELECT 1")
    user.close()
    assert notes(migrated) == ["first"]


def test_a_file_that_is_no_backup_is_refused(cluster: Cluster, migrated: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for file in (tmp_path / "text", tmp_path / "missing"):
        with pytest.raises(BadInput):
            cluster.restore(file)


def test_a_backup_that_was_cut_off_changes_nothing(cluster: Cluster, migrated: str, tmp_path: Path) -> None:
    file = tmp_path / "fabric.backup"
    cluster.backup(file)
    for kept in (2000, file.stat().st_size - 200):
        (tmp_path / "half").write_bytes(file.read_bytes()[:kept])
        before = databases(cluster)
        with pytest.raises(FabricError):
            cluster.restore(tmp_path / "half")
        assert notes(migrated) == ["first"]
        assert databases(cluster) == before


def test_a_given_database_needs_the_right_to_make_databases_and_says_so(server: TestServer, tmp_path: Path) -> None:
    with server.database() as database:
        backup(database.dsn, tmp_path / "fabric.backup")
        with pytest.raises(FabricError, match="may not make databases") as refusal:
            restore(database.dsn, tmp_path / "fabric.backup", admin_dsn=None)
    assert "CREATEDB" in refusal.value.next


def test_a_given_database_is_saved_and_restored_like_the_embedded_one(
    own_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    given = own_cluster()
    dsn = given.start()
    migrate(dsn)
    note(dsn, "first")
    backup(dsn, tmp_path / "fabric.backup")
    note(dsn, "later")
    with psycopg.connect(given.superuser_dsn(), autocommit=True) as conn:
        conn.execute("ALTER ROLE fabric CREATEDB")
        conn.execute("GRANT CONNECT ON DATABASE postgres TO fabric")
    restore(dsn, tmp_path / "fabric.backup")
    assert notes(dsn) == ["first"]


def test_a_backup_of_a_database_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        backup("host=127.0.0.1 port=1 dbname=none user=nobody", tmp_path / "fabric.backup")
