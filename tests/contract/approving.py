"""What tests of approvals do all the time, said shortly."""

from __future__ import annotations

from typing import Any, Final

import pytest

from taskfabric.domain.errors import NotFound
from taskfabric.domain.principal import Kind, Trust, Via
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from taskfabric.services.upkeep import KEEPER
from taskfabric.wiring import SYSTEM
from tests.contract.acts import claim, fence, look, submit
from tests.contract.household import Household

PIN: Final = "246810"
MAIL: Final = {"to": "bank@example.org", "text": "please"}

Shape = dict[str, Any]


def at_the_door(home: Household, name: str = "alice") -> Fabric:
    """Access as a human who has signed in with a browser: he may decide."""
    return home.fabric_as(name, via=Via.SESSION)


def keeper_of(home: Household) -> Fabric:
    """Access as the fabric's own keeper."""
    if home.credentials.principal(KEEPER) is None:
        home.credentials.add_principal(NewPrincipal(name=KEEPER, kind=Kind.SERVICE, trust=Trust.TRUSTED), SYSTEM)
    return home.fabric_as(KEEPER)


def with_pin(home: Household, name: str = "alice") -> None:
    home.credentials.set_pin(home.people[name].id, PIN, SYSTEM)


def asks(fabric: Fabric, claimed: Claimed | None = None, action: str = "mail.send", **more: Any) -> Shape:
    """An agent asks; with its claim the run ends while it waits."""
    args = more.pop("args", MAIL)
    named = None if claimed is None else fence(claimed)
    return fabric.call(verbs.RequestApproval(action=action, args=args, fence=named, **more))


def asked(home: Household, *, to: str = "kimi", **more: Any) -> tuple[Task, Shape]:
    """A task of alice's whose agent has asked, and waits."""
    task = submit(home.fabric_as("alice"), to=to)
    kimi = home.fabric_as(to)
    return task, asks(kimi, claim(kimi, task), **more)


def approve(fabric: Fabric, approval: Shape, **more: Any) -> Shape:
    seen = more.pop("seen", approval["hash"])
    return fabric.call(verbs.Approve(task=approval["task"], seen=seen, **more))


def deny(fabric: Fabric, approval: Shape, note: str = "too soon", **more: Any) -> Shape:
    return fabric.call(verbs.Deny(task=approval["task"], note=note, **more))


def consume(fabric: Fabric, approval: Shape, args: Shape | None = None) -> Shape:
    return fabric.call(verbs.Consume(approval=approval["id"], args=MAIL if args is None else args))


def again(home: Household, task: Task, name: str = "kimi", **more: Any) -> tuple[Fabric, Shape]:
    """The resumed run asks the same once more: its access, and the answer."""
    run = home.in_run(name, claim(home.fabric_as(name), task))
    return run, asks(run, **more)


def stands(fabric: Fabric, approval: Shape) -> str:
    return str(fabric.call(verbs.ShowApproval(approval=approval["id"]))["state"])


def not_his(fabric: Fabric, verb: Verb[Any]) -> Shape:
    """The statement for what is not there, or not his."""
    with pytest.raises(NotFound) as caught:
        fabric.call(verb)
    return caught.value.to_json()


__all__ = [
    "MAIL",
    "PIN",
    "Shape",
    "again",
    "approve",
    "asked",
    "asks",
    "at_the_door",
    "consume",
    "deny",
    "keeper_of",
    "look",
    "not_his",
    "stands",
    "with_pin",
]
