"""The lease folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from taskfabric.domain.errors import FabricError, LeaseLost, NoFence
from taskfabric.domain.lease import TaskRef
from taskfabric.surfaces.cli.leases import Leases, folder

URL = "http://127.0.0.1:8420"


def fence(task: int, epoch: int) -> dict[str, object]:
    return {"task": task, "epoch": epoch, "token": f"{epoch:016x}"}


@pytest.fixture
def leases(tmp_path: Path) -> Leases:
    return Leases({"FABRIC_LEASES": str(tmp_path)}, URL, "token of kimi")


def test_a_stored_fence_is_found_by_its_epoch_and_the_newest_by_its_task(leases: Leases) -> None:
    for epoch in (2, 10, 9):
        assert leases.store(fence(12, epoch), None) == f"12@{epoch}"
    leases.store(fence(120, 99), None)
    assert leases.need(TaskRef(id=12, epoch=2)).epoch == 2
    assert leases.need(TaskRef(id=12)).epoch == 10


def test_without_a_stored_fence_there_is_none_to_give(leases: Leases) -> None:
    leases.store(fence(12, 3), None)
    for ref in (TaskRef(id=12, epoch=4), TaskRef(id=13)):
        assert leases.find(ref) is None
        with pytest.raises(NoFence):
            leases.need(ref)


def test_only_its_owner_can_read_a_stored_fence(leases: Leases, tmp_path: Path) -> None:
    leases.store(fence(12, 3), None)
    (path,) = tmp_path.rglob("12@3")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_servers_do_not_see_each_others_leases(leases: Leases, tmp_path: Path) -> None:
    leases.store(fence(12, 3), None)
    assert (
        Leases({"FABRIC_LEASES": str(tmp_path)}, "http://127.0.0.1:9000", "token of kimi").find(TaskRef(id=12)) is None
    )


def test_callers_of_one_server_do_not_see_each_others_leases(leases: Leases, tmp_path: Path) -> None:
    leases.store(fence(12, 3), None)
    assert Leases({"FABRIC_LEASES": str(tmp_path)}, URL, "token of qwen").find(TaskRef(id=12)) is None
    assert "token of kimi" not in " ".join(map(str, tmp_path.rglob("*")))


def test_a_lease_that_ended_or_was_lost_is_forgotten_and_one_that_may_live_is_kept(leases: Leases) -> None:
    leases.store(fence(12, 3), None)
    held = leases.need(TaskRef(id=12))
    with pytest.raises(FabricError, match="away"), leases.ending(held):
        raise FabricError("away")
    assert leases.find(TaskRef(id=12)) == held
    with pytest.raises(LeaseLost), leases.ending(held):
        raise LeaseLost("lost")
    assert leases.find(TaskRef(id=12)) is None
    leases.store(fence(12, 4), None)
    with leases.ending(leases.need(TaskRef(id=12))):
        pass
    assert leases.find(TaskRef(id=12)) is None


@pytest.mark.parametrize("content", ["", "[]", "null", '{"token": 5}', '{"token": "xyz"}', "\0", "{"])
def test_a_damaged_file_is_no_fence_and_no_fault(leases: Leases, tmp_path: Path, content: str) -> None:
    leases.store(fence(12, 3), None)
    next(tmp_path.rglob("12@3")).write_text(content)
    assert leases.find(TaskRef(id=12)) is None


def test_a_folder_that_cannot_be_written_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FabricError, match="cannot keep its fence"):
        Leases({"FABRIC_LEASES": str(tmp_path / "file")}, URL, "x").store(fence(12, 3), None)


def test_the_folder_follows_the_state_directory(tmp_path: Path) -> None:
    assert folder({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "taskfabric" / "leases"
    assert folder({"HOME": "/home/x", "XDG_STATE_HOME": "relative"}) == Path("/home/x/.local/state/taskfabric/leases")
