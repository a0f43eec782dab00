"""Files on a task: who may put them there, and that a lost lease puts none."""

from __future__ import annotations

import base64

import pytest

from taskfabric.domain.errors import BadInput, FabricError, IllegalMove, LeaseLost, NotFound
from taskfabric.domain.status import Status
from taskfabric.domain.task import Attachment, Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.verbs import FileArg
from tests.contract.acts import claim, fence, finish, look, refused, release, submit
from tests.contract.household import Household


def file(name: str = "plan.txt", data: bytes = b"dig here") -> FileArg:
    return FileArg(name=name, data=base64.b64encode(data).decode())


def files(fabric: Fabric, task: Task) -> tuple[Attachment, ...]:
    return fabric.call(verbs.Show(task=task.id)).attachments


def test_a_file_is_listed_on_its_task(alice: Fabric) -> None:
    task = submit(alice)
    made = alice.call(verbs.Attach(task=task.id, file=file()))
    assert (made.task_id, made.name, made.size, made.author) == (task.id, "plan.txt", 8, "alice")
    assert files(alice, task) == (made,)
    assert alice.call(verbs.Download(attachment=made.id)) == file()


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 1000, "grün 🦊".encode()])
def test_every_byte_comes_back(alice: Fabric, data: bytes) -> None:
    made = alice.call(verbs.Attach(task=submit(alice).id, file=file(data=data)))
    assert alice.call(verbs.Download(attachment=made.id)).bytes == data


def test_two_files_of_one_name_are_two(alice: Fabric) -> None:
    task = submit(alice)
    for data in (b"one", b"two"):
        alice.call(verbs.Attach(task=task.id, file=file(data=data)))
    assert [alice.call(verbs.Download(attachment=one.id)).bytes for one in files(alice, task)] == [b"one", b"two"]


def test_a_holder_attaches_by_its_fence(alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    made = kimi.call(verbs.Attach(task=got.task.id, file=file(), fence=fence(got)))
    assert made.author == "kimi"
    assert look(alice, got.task).status is Status.WORKING


def test_a_stale_fence_attaches_nothing(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G3"""
    got = claim(kimi, submit(alice))
    release(kimi, got)
    claim(qwen, got.task)
    with pytest.raises(LeaseLost):
        kimi.call(verbs.Attach(task=got.task.id, file=file(), fence=fence(got)))
    assert files(alice, got.task) == ()


def test_a_fence_of_another_task_attaches_nothing(alice: Fabric, kimi: Fabric) -> None:
    one, other = claim(kimi, submit(alice)), claim(kimi, submit(alice))
    with pytest.raises(BadInput):
        kimi.call(verbs.Attach(task=other.task.id, file=file(), fence=fence(one)))
    assert files(alice, other.task) == ()


def test_a_result_brings_its_files_along(alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    finish(kimi, got, attach=(file("a.txt", b"1"), file("b.txt", b"2")))
    assert [one.name for one in files(alice, got.task)] == ["a.txt", "b.txt"]


def test_a_late_result_with_files_is_kept_without_them(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G3: the words are not thrown away because files came with them."""
    got = claim(kimi, submit(alice))
    release(kimi, got)
    claim(qwen, got.task)
    with pytest.raises(LeaseLost):
        finish(kimi, got, "late, with a plan", attach=(file(),))
    thread = alice.call(verbs.Show(task=got.task.id))
    assert thread.attachments == ()
    assert [late.text for late in thread.late_results] == ["late, with a plan"]


def test_one_bad_file_and_nothing_has_happened(alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    with pytest.raises(BadInput):
        finish(kimi, got, attach=(file(), FileArg(name="b.txt", data="not base64!")))
    assert files(alice, got.task) == ()
    assert look(alice, got.task).status is Status.WORKING


def test_a_human_brings_files_with_what_he_did_by_hand(alice: Fabric, bob: Fabric) -> None:
    task = submit(alice, to="bob")
    done = bob.call(verbs.Done(task=task.id, note="here", attach=(file(),)))
    assert done.status is Status.VERIFIED
    assert [one.author for one in files(bob, task)] == ["bob"]


def test_an_act_by_hand_that_is_refused_leaves_no_file(alice: Fabric) -> None:
    task = submit(alice)
    alice.call(verbs.Cancel(task=task.id))
    with pytest.raises(IllegalMove):
        alice.call(verbs.Done(task=task.id, note="here", attach=(file(),)))
    assert files(alice, task) == ()


def test_nobody_reads_or_adds_files_of_what_is_not_his(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G13: a file that is hidden and one that is not there are the same."""
    task = submit(alice)
    made = alice.call(verbs.Attach(task=task.id, file=file()))
    told = []
    for number in (made.id, made.id + 1000):
        with pytest.raises(NotFound) as caught:
            bob.call(verbs.Download(attachment=number))
        told.append(caught.value.to_json())
    assert told[0] == told[1]
    with pytest.raises(FabricError):
        bob.call(verbs.Attach(task=task.id, file=file()))
    assert len(files(alice, task)) == 1


def test_an_ancestors_submitter_sees_no_files(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G13: state and result note only."""
    got = claim(kimi, submit(alice, to="kimi"))
    child = submit(noon.in_run("kimi", got), "inner", to="kimi")
    made = kimi.call(verbs.Attach(task=child.id, file=file()))
    assert files(alice, child) == ()
    with pytest.raises(NotFound):
        alice.call(verbs.Download(attachment=made.id))
    assert refused(alice, verbs.Attach(task=child.id, file=file())) == "restricted"
