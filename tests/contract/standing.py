"""Bringing a task into each status, by verbs alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed, Task
from taskfabric.services import verbs
from tests.contract.acts import ask, claim, decline, fail, finish, look, submit
from tests.contract.household import Household

# All but the record, which is no task.
STATUSES: Final = tuple(status for status in Status if status is not Status.RECORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A task of alice's in kimi's queue, and kimi's last lease on it."""

    task: Task
    last: Claimed | None


def stand(household: Household, status: Status) -> Standing:
    """A task that has just come into this status, the usual way. The default pool's rules are not changed."""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    match status:
        case Status.BACKLOG:
            return Standing(task=submit(alice, to="kimi", backlog=True), last=None)
        case Status.READY:
            return Standing(task=submit(alice, to="kimi"), last=None)
        case Status.HELD:
            blocker = submit(alice)
            alice.call(verbs.Cancel(task=blocker.id))
            return Standing(task=submit(alice, to="kimi", after=(blocker.id,)), last=None)
        case Status.CANCELLED:
            return Standing(task=alice.call(verbs.Cancel(task=submit(alice, to="kimi").id)), last=None)
        case _:
            got = claim(kimi, submit(alice, to="kimi"))
    match status:
        case Status.WORKING:
            pass
        case Status.WAITING:
            ask(kimi, got)
        case Status.DONE:
            finish(kimi, got)
        case Status.VERIFIED:
            finish(kimi, got)
            alice.call(verbs.Verify(task=got.task.id))
        case Status.DEAD:
            fail(kimi, got, final=True)
        case Status.REJECTED:
            decline(kimi, got)
        case _:
            raise AssertionError(f"no way to {status} is known here")
    task = look(alice, got.task)
    assert task.status is status
    return Standing(task=task, last=got)
