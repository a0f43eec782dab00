"""What tests do all the time, said shortly."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from taskfabric.domain.errors import Refused
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from tests.contract.household import Household, Way

NOON: Final = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)

# For what is no verb of the fabric, so that there is only one way to it.
only_here = pytest.mark.parametrize("way", [Way.LOCAL])
# For what is about the answers of the server themselves.
over_http = pytest.mark.parametrize("way", [Way.REMOTE])

_EXAMPLES: Final = {Way.LOCAL: 12, Way.REMOTE: 3}


def for_any(**strategies: SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[[Household], None]]:
    """A property test: fewer examples over HTTP, where only the way differs. One household a test, not one an
    example: what an example leaves behind is another's past."""

    def decorate(check: Callable[..., None]) -> Callable[[Household], None]:
        def test(household: Household) -> None:
            property_of = settings(
                max_examples=_EXAMPLES[household.way],
                deadline=None,
                suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
            )
            property_of(given(**strategies)(check))(household=household)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        return test

    return decorate


# -- making and taking -------------------------------------------------------------------------------------


def submit(fabric: Fabric, title: str = "a task", **more: Any) -> Task:
    return fabric.call(verbs.Submit(title=title, **more)).task


def claim(fabric: Fabric, task: Task) -> Claimed:
    return fabric.call(verbs.Take(task=task.id))


def next_of(fabric: Fabric, **more: Any) -> Claimed:
    """What a claim brings; there must be something."""
    (got,) = fabric.call(verbs.Claim(**more))
    return got


def claimed_ids(fabric: Fabric, limit: int = 100, **more: Any) -> list[int]:
    """The numbers of what a claim brings, in its order."""
    return [got.task.id for got in fabric.call(verbs.Claim(limit=limit, **more))]


# -- ending ------------------------------------------------------------------------------------------------


def fence(claimed: Claimed) -> FenceArg:
    return FenceArg.of(claimed.fence)


def finish(fabric: Fabric, claimed: Claimed, note: str = "did it", **more: Any) -> Task:
    return fabric.call(verbs.Done(fence=fence(claimed), note=note, **more))


def park(fabric: Fabric, claimed: Claimed, until: datetime, **more: Any) -> Task:
    return fabric.call(verbs.Park(fence=fence(claimed), until=until, note="quota is spent", **more))


def ask(fabric: Fabric, claimed: Claimed, question: str = "which?", **more: Any) -> Task:
    return fabric.call(verbs.Ask(fence=fence(claimed), note=question, **more))


def wait_for_children(fabric: Fabric, claimed: Claimed) -> Task:
    return fabric.call(verbs.WaitForChildren(fence=fence(claimed)))


def fail(fabric: Fabric, claimed: Claimed, error: str = "it broke", **more: Any) -> Task:
    return fabric.call(verbs.Fail(fence=fence(claimed), note=error, **more))


def release(fabric: Fabric, claimed: Claimed, **more: Any) -> Task:
    return fabric.call(verbs.Release(fence=fence(claimed), **more))


def decline(fabric: Fabric, claimed: Claimed, reason: str = "not for me") -> Task:
    return fabric.call(verbs.Decline(fence=fence(claimed), note=reason))


# -- looking -----------------------------------------------------------------------------------------------


def look(fabric: Fabric, task: Task) -> Task:
    """The task as it now stands."""
    return fabric.call(verbs.Show(task=task.id)).task


def status(fabric: Fabric, task: Task) -> Status:
    return look(fabric, task).status


def said(fabric: Fabric, task: Task, kind: str) -> list[str]:
    """The lines of this kind in the task's thread."""
    return [entry.text for entry in fabric.call(verbs.Show(task=task.id)).entries if entry.kind == kind]


def refused(fabric: Fabric, verb: Verb[Any]) -> str:
    """The rule by which this is refused."""
    with pytest.raises(Refused) as caught:
        fabric.call(verb)
    return str(caught.value.facts["rule"])
