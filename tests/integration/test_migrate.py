"""Migrations: forward only, once, by one at a time, and never behind anybody's back."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import psycopg
import pytest

from taskfabric.db.migrate import migrate, read_migrations, schema_dump
from taskfabric.domain.errors import FabricError, Unavailable


def folder(path: Path, **files: str) -> Path:
    """A migration folder with these files; `a0001_one="..."` becomes 0001_one.sql."""
    for name, text in files.items():
        (path / f"{name[1:]}.sql").write_text(text)
    return path


def names(dsn: str) -> list[object]:
    with psycopg.connect(dsn) as conn:
        return [row[0] for row in conn.execute("SELECT name FROM schema_migration ORDER BY number").fetchall()]


def test_the_migrations_of_this_version_apply_once(empty_database: str) -> None:
    applied = migrate(empty_database)
    assert applied == [str(migration) for migration in read_migrations()]
    assert migrate(empty_database) == []


def test_the_schema_is_the_one_that_was_written_down(empty_database: str) -> None:
    migrate(empty_database)
    written = resources.files("taskfabric.db") / "schema.sql"
    assert schema_dump(empty_database) == written.read_text(encoding="utf-8"), (
        "schema.sql is old: run `python -m taskfabric.db.migrate --write-schema` and read the difference"
    )


def test_two_dumps_of_one_schema_are_equal_and_say_nothing_about_the_server(empty_database: str) -> None:
    migrate(empty_database)
    dump = schema_dump(empty_database)
    assert dump == schema_dump(empty_database)
    assert "restrict" not in dump.splitlines()[0]
    assert not [line for line in dump.splitlines() if line.startswith(("--", "SET ", "\\"))]


def test_eight_processes_migrating_at_once_apply_each_file_once(empty_database: str) -> None:
    code = "import sys; from taskfabric.db.migrate import migrate; print(len(migrate(sys.argv[1])))"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, empty_database],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    counts = sorted(int(worker.communicate(timeout=120)[0]) for worker in workers)
    assert counts == [0] * 7 + [len(read_migrations())]
    assert len(names(empty_database)) == len(read_migrations())


def test_threads_of_one_process_do_not_trip_over_each_other(empty_database: str, tmp_path: Path) -> None:
    files = folder(tmp_path, a0001_one="CREATE TABLE one (v integer)", a0002_two="CREATE TABLE two (v integer)")
    with ThreadPoolExecutor(8) as pool:
        applied = list(pool.map(lambda _: migrate(empty_database, folder=files), range(8)))
    assert sorted(map(len, applied)) == [0] * 7 + [2]


def test_a_later_version_adds_only_what_is_new(empty_database: str, tmp_path: Path) -> None:
    files = folder(tmp_path, a0001_one="CREATE TABLE one (v integer)")
    migrate(empty_database, folder=files)
    folder(tmp_path, a0002_two="ALTER TABLE one ADD w integer; CREATE INDEX ON one (w)")
    assert migrate(empty_database, folder=files) == ["0002_two"]


def test_a_failing_migration_is_undone_and_those_before_it_stay(empty_database: str, tmp_path: Path) -> None:
    files = folder(tmp_path, a0001_one="CREATE TABLE one (v integer)", a0002_two="CREATE TABLE two (v integer); SELEC")
    with pytest.raises(FabricError, match="0002_two failed and was undone"):
        migrate(empty_database, folder=files)
    assert names(empty_database) == ["one"]
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("SELECT to_regclass('two')").fetchone() == (None,)


def test_an_edited_applied_migration_is_refused(empty_database: str, tmp_path: Path) -> None:
    files = folder(tmp_path, a0001_one="CREATE TABLE one (v integer)")
    migrate(empty_database, folder=files)
    folder(tmp_path, a0001_one="CREATE TABLE one (v bigint)")
    with pytest.raises(FabricError, match="0001_one differs from what was applied"):
        migrate(empty_database, folder=files)


def test_other_line_ends_are_no_edit(empty_database: str, tmp_path: Path) -> None:
    files = folder(tmp_path, a0001_one="CREATE TABLE one\n(v integer)\n")
    migrate(empty_database, folder=files)
    (tmp_path / "0001_one.sql").write_bytes(b"CREATE TABLE one\r\n(v integer)\r\n")
    assert migrate(empty_database, folder=files) == []


def test_a_database_newer_than_the_program_is_refused_and_left_alone(empty_database: str, tmp_path: Path) -> None:
    files = folder(tmp_path, a0001_one="CREATE TABLE one (v integer)", a0002_two="CREATE TABLE two (v integer)")
    migrate(empty_database, folder=files)
    (tmp_path / "0002_two.sql").unlink()
    with pytest.raises(FabricError, match="newer than this program") as refusal:
        migrate(empty_database, folder=files)
    assert "install the newer version" in refusal.value.next
    assert names(empty_database) == ["one", "two"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a0001_one": "", "a0003_three": ""}, "without gaps"),
        ({"a0001_one": "", "a0001_other": ""}, "without gaps"),
        ({"aone": ""}, "not named NNNN_words.sql"),
    ],
)
def test_a_folder_with_a_gap_a_double_or_a_bad_name_is_refused(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    with pytest.raises(FabricError, match=said):
        read_migrations(folder(tmp_path, **files))


def test_a_database_that_is_away_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        migrate("host=127.0.0.1 port=1 dbname=none user=nobody")
