"""Results on disk while the server is away."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from taskfabric.domain.errors import Unavailable
from taskfabric.domain.lease import Fence
from taskfabric.domain.outcome import Done, Failed
from workers.spool import Attached, Ended, Spool


def ended(task: int, note: str = "there") -> Ended:
    return Ended(
        fence=Fence(task_id=task, epoch=1, token=2**64 - 1),
        outcome=Done(note=note),
        files=(Attached(name="a.bin", data=b"\x00\xff"),),
    )


def test_what_was_put_is_offered_whole_and_then_gone(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.put(ended(1))
    spool.put(ended(2))
    offered: list[Ended] = []
    Spool(tmp_path / "spool").offer(offered.append)
    assert offered == [ended(1), ended(2)]
    assert len(spool) == 0


def test_what_cannot_be_delivered_stays(tmp_path: Path) -> None:
    """G14: nothing is lost."""
    spool = Spool(tmp_path)
    spool.put(ended(1))
    spool.put(ended(2))

    def deliver(one: Ended) -> None:
        if one.fence.task_id == 2:
            raise Unavailable("away again")

    with pytest.raises(Unavailable):
        spool.offer(deliver)
    assert [one.fence.task_id for one in spool.waiting()] == [2]


def test_it_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """It holds a fence."""
    spool = Spool(tmp_path / "spool")
    spool.put(ended(1))
    (file,) = (tmp_path / "spool").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"task": 1}', '{"task":1,"epoch":1,"token":"x","outcome":{},"files":[]}']
)
def test_a_broken_file_is_put_aside_and_hinders_nobody(tmp_path: Path, broken: str) -> None:
    spool = Spool(tmp_path)
    (tmp_path / "0-0-0.json").write_text(broken)
    spool.put(Ended(fence=Fence(task_id=3, epoch=1, token=1), outcome=Failed(error="no")))
    assert [one.fence.task_id for one in spool.waiting()] == [3]
    assert (tmp_path / "0-0-0.bad").exists()
