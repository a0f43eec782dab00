"""Waiting: woken by what happens, told how it stands, and never for what is not the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from taskfabric.domain.errors import NotFound
from taskfabric.domain.status import FINISHED, Status
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.verbs import Awaited
from tests.contract.acts import HOUR, NOON, ask, claim, finish, park, release, submit, wait_for_children
from tests.contract.household import Household
from tests.contract.standing import STATUSES, stand

LONG = 30.0  # seconds: nothing here takes that long, so that only the event itself can have ended the wait
Beside = Callable[[Fabric, verbs.Wait], "Future[Awaited]"]


@pytest.fixture
def beside() -> Iterator[Beside]:
    """A wait on another thread."""
    with ThreadPoolExecutor(2) as threads:
        yield lambda fabric, verb: threads.submit(fabric.call, verb)


@pytest.mark.parametrize("status", STATUSES)
def test_a_wait_for_a_task_is_over_when_the_task_is_or_asks(noon: Household, status: Status) -> None:
    task = stand(noon, status).task
    got = noon.fabric_as("alice").call(verbs.Wait(task=task.id, timeout=0))
    assert got.happened is (status in FINISHED or status is Status.WAITING)
    if got.happened:
        assert got.task is not None
        assert (got.task.id, got.task.status) == (task.id, status)


def test_a_wait_goes_on_while_a_task_waits_for_its_children(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice, to="kimi"))
    submit(alice, parent=got.task.id)
    wait_for_children(kimi, got)
    assert not alice.call(verbs.Wait(task=got.task.id, timeout=0)).happened


def test_who_waits_for_a_task_is_told_the_moment_it_is_done(alice: Fabric, kimi: Fabric, beside: Beside) -> None:
    got = claim(kimi, submit(alice))
    waiting = beside(alice, verbs.Wait(task=got.task.id, timeout=LONG))
    finish(kimi, got, "painted")
    awaited = waiting.result(20)
    assert awaited.task is not None
    assert (awaited.happened, awaited.task.status, awaited.task.note) == (True, Status.DONE, "painted")


def test_who_waits_for_work_gets_it(alice: Fabric, kimi: Fabric, beside: Beside) -> None:
    """G6"""
    waiting = beside(kimi, verbs.Wait(timeout=LONG))
    submit(alice)
    assert waiting.result(20).happened


@pytest.mark.parametrize("how", ["released", "answered", "unblocked", "moved", "redriven"])
def test_work_that_comes_back_wakes_who_waits(
    alice: Fabric, kimi: Fabric, qwen: Fabric, beside: Beside, how: str
) -> None:
    """G6"""
    blocker = submit(alice, to="qwen")
    task = submit(alice, backlog=how == "moved", after=(blocker.id,) if how in ("unblocked", "redriven") else ())
    got = claim(qwen, task) if how in ("released", "answered") else None
    if got is not None and how == "answered":
        ask(qwen, got)
    if how == "redriven":
        alice.call(verbs.Cancel(task=blocker.id))
    waiting = beside(kimi, verbs.Wait(timeout=LONG))
    match how:
        case "released":
            assert got is not None
            release(qwen, got)
        case "answered":
            alice.call(verbs.Answer(task=task.id, note="blue"))
        case "unblocked":
            finish(qwen, claim(qwen, blocker))
        case "moved":
            alice.call(verbs.Move(task=task.id, column="Ready"))
        case _:
            alice.call(verbs.Redrive(task=task.id))
    assert waiting.result(20).happened
    assert [one.task.id for one in kimi.call(verbs.Claim())] == [task.id]


def test_there_is_work_exactly_when_a_claim_would_get_some(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    def work() -> bool:
        return kimi.call(verbs.Wait(timeout=0)).happened

    assert not work()
    submit(alice, to="alice")
    submit(alice, needs=("tools",))
    submit(alice, backlog=True)
    assert not work()
    task = submit(alice, not_before=NOON + HOUR)
    assert not work()
    noon.at(NOON + HOUR)
    assert work()
    park(kimi, claim(kimi, task), NOON + 3 * HOUR)
    assert not work()
    noon.at(NOON + 3 * HOUR)
    assert work()
    claim(kimi, task)
    assert not work()
    noon.later(minutes=11)
    assert work()  # its lease has expired


def test_a_wait_in_one_queue_is_for_that_queue(alice: Fabric, kimi: Fabric) -> None:
    submit(alice)
    assert kimi.call(verbs.Wait(queue="pool", timeout=0)).happened
    assert not kimi.call(verbs.Wait(queue="kimi", timeout=0)).happened


def test_there_is_no_work_for_who_may_hold_no_more(noon: Household, alice: Fabric) -> None:
    """Or a busy worker would ask again and again for what its claim does not give."""
    noon.agent("single", concurrency=1)
    single = noon.fabric_as("single")
    got = claim(single, submit(alice))
    submit(alice)
    assert single.call(verbs.Claim()) == []
    assert not single.call(verbs.Wait(timeout=0)).happened
    finish(single, got)
    assert single.call(verbs.Wait(timeout=0)).happened


def test_a_wait_takes_nothing(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice)
    for _ in range(3):
        assert kimi.call(verbs.Wait(timeout=0)).happened
    assert alice.call(verbs.Show(task=task.id)).task.status is Status.READY


def test_nobody_waits_for_what_is_not_his(alice: Fabric, bob: Fabric, kimi: Fabric) -> None:
    """G13"""
    task = submit(alice)
    told = []
    for number in (task.id, task.id + 1000):
        with pytest.raises(NotFound) as caught:
            bob.call(verbs.Wait(task=number, timeout=0))
        told.append(caught.value.to_json())
    assert told[0] == told[1]
