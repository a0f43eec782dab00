"""The people's side: a viewer reads, a member works, a manager arranges, and nobody else learns that it exists."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskfabric.domain.errors import BadInput, FabricError, NotFound, Refused
from taskfabric.domain.principal import Caller, Kind, ProjectRole, Trust
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.services.projects import Arranging
from taskfabric.wiring import SYSTEM
from tests.contract.acts import only_here
from tests.contract.household import Household

pytestmark = only_here

Try = Callable[[Arranging, Caller, int], object]

ARRANGE: dict[str, Try] = {
    "rename": lambda a, who, project: a.rename(who, project, "Other"),
    "close": lambda a, who, project: a.set_active(who, project, False),
    "add column": lambda a, who, project: a.add_column(who, project, "Review"),
    "update column": lambda a, who, project: a.update_column(who, project, _column(a, who, project), title="Later"),
    "move column": lambda a, who, project: a.move_column(who, project, _column(a, who, project), 1),
    "add swimlane": lambda a, who, project: a.add_swimlane(who, project, "Fast"),
}
READ: dict[str, Try] = {
    "project": lambda a, who, project: a.project(who, project),
    "columns": lambda a, who, project: a.columns(who, project),
    "swimlanes": lambda a, who, project: a.swimlanes(who, project),
    "members": lambda a, who, project: a.members(who, project),
}


def _column(arranging: Arranging, who: Caller, project: int) -> int:
    return arranging.columns(who, project)[-1].id


@pytest.fixture(autouse=True)
def carol(household: Household) -> None:
    """One more human, who belongs to nothing."""
    new = NewPrincipal(name="carol", kind=Kind.HUMAN, trust=Trust.HUMAN, capabilities=None)
    household.credentials.add_principal(new, SYSTEM)


@pytest.fixture
def garden(household: Household) -> int:
    """bob's project, in which kimi is a member and qwen a viewer."""
    project = household.hallway.arranging.create_project(household.caller("bob"), "Garden")
    for name, role in (("kimi", ProjectRole.MEMBER), ("qwen", ProjectRole.VIEWER)):
        household.projects.set_member(project.id, household.people[name].id, role, SYSTEM)
    return project.id


def test_nobody_closes_a_queue(household: Household) -> None:
    arranging, alice = household.hallway.arranging, household.caller("alice")
    for name in ("pool", "alice", "kimi"):
        queue = household.projects.queue(name)
        assert queue is not None
        with pytest.raises(Refused) as caught:
            arranging.set_active(alice, queue.project_id, False)
        assert caught.value.facts["rule"] == "queue"
        assert household.projects.queue(name) == queue


@pytest.mark.parametrize("what", list(ARRANGE))
def test_only_a_human_manager_arranges(household: Household, garden: int, what: str) -> None:
    arranging = household.hallway.arranging
    for name in ("kimi", "qwen"):
        with pytest.raises(Refused):
            ARRANGE[what](arranging, household.caller(name), garden)
    ARRANGE[what](arranging, household.caller("bob"), garden)


@pytest.mark.parametrize("what", list(READ))
def test_whoever_belongs_to_it_reads(household: Household, garden: int, what: str) -> None:
    for name in ("bob", "kimi", "qwen"):
        assert READ[what](household.hallway.arranging, household.caller(name), garden)


@pytest.mark.parametrize("what", [*ARRANGE, *READ])
def test_for_everybody_else_it_does_not_exist(household: Household, garden: int, what: str) -> None:
    """G13"""
    stranger = household.caller("carol")
    said = []
    for project in (garden, garden + 1000):
        with pytest.raises(NotFound) as caught:
            {**ARRANGE, **READ}[what](household.hallway.arranging, stranger, project)
        said.append(caught.value.to_json())
    assert said[0] == said[1]


def test_a_manager_arranges_only_his_own_columns(household: Household, garden: int) -> None:
    arranging, bob = household.hallway.arranging, household.caller("bob")
    foreign = household.projects.columns(household.project_id("pool"))[0].id
    with pytest.raises(NotFound):
        arranging.remove_column(bob, garden, foreign)
    review = arranging.add_column(bob, garden, "Review")
    arranging.remove_column(bob, garden, review.id)
    assert len(arranging.columns(bob, garden)) == 4


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 256])
def test_a_name_is_one_line(household: Household, garden: int, name: str) -> None:
    with pytest.raises(BadInput):
        household.hallway.arranging.rename(household.caller("bob"), garden, name)


def test_projects_are_those_that_one_belongs_to(household: Household, garden: int) -> None:
    """G13"""
    arranging = household.hallway.arranging
    assert garden in [project.id for project in arranging.projects(household.caller("bob"))]
    assert arranging.projects(household.caller("carol")) == []
    assert garden in [project.id for project in arranging.projects(household.caller("alice"))]


def test_an_agent_makes_no_project(household: Household) -> None:
    with pytest.raises(FabricError) as caught:
        household.hallway.arranging.create_project(household.caller("kimi"), "Mine")
    assert caught.value.facts["rule"] == "arrange"
