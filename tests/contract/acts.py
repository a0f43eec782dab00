"""What tests do all the time, said shortly."""

from __future__ import annotations

from typing import Any

import pytest

from taskfabric.domain.errors import Refused
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg


def submit(fabric: Fabric, title: str = "a task", **more: Any) -> Task:
    return fabric.call(verbs.Submit(title=title, **more)).task


def claim(fabric: Fabric, task: Task) -> Claimed:
    return fabric.call(verbs.Take(task=task.id))


def finish(fabric: Fabric, claimed: Claimed, note: str = "did it") -> Task:
    return fabric.call(verbs.Done(fence=FenceArg.of(claimed.fence), note=note))


def refused(fabric: Fabric, verb: Verb[Any]) -> str:
    """The rule by which this is refused."""
    with pytest.raises(Refused) as caught:
        fabric.call(verb)
    return str(caught.value.facts["rule"])
