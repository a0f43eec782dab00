"""Nobody learns what is not his: not by a title, a count, an event, nor by how a refusal is worded (G13)."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from taskfabric.domain.errors import FabricError, NotFound
from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.status import Status
from taskfabric.ports.fabric import Verb
from taskfabric.services import verbs
from taskfabric.wiring import SYSTEM
from tests.contract.acts import claim, over_http, refused, submit
from tests.contract.household import Household


def _about(task: int) -> list[Verb[Any]]:
    """Each verb that names a task, about this one."""
    file = verbs.FileArg(name="a.txt", data="aGk=")
    return [
        verbs.Take(task=task),
        verbs.Done(task=task, note="x"),
        verbs.Answer(task=task, note="x"),
        verbs.Verify(task=task),
        verbs.Reject(task=task, note="x"),
        verbs.Cancel(task=task),
        verbs.Redrive(task=task),
        verbs.EditTask(task=task, title="x"),
        verbs.Move(task=task, top=True),
        verbs.Move(task=task, queue="pool"),
        verbs.Comment(task=task, text="x"),
        verbs.Attach(task=task, file=file),
        verbs.Show(task=task),
        verbs.Events(task=task),
        verbs.Tree(task=task),
        verbs.Why(task=task),
        verbs.Wait(task=task, timeout=0),
        verbs.Submit(title="x", parent=task),
        verbs.Submit(title="x", after=(task,)),
    ]


@pytest.mark.parametrize("number", range(len(_about(1))))
def test_forbidden_and_missing_are_the_same_bytes(household: Household, number: int) -> None:
    """G13"""
    hidden = submit(household.fabric_as("alice"), "the surprise party", to="alice")
    bob = household.fabric_as("bob")
    said = []
    for task in (hidden.id, hidden.id + 1000):
        with pytest.raises(FabricError) as caught:
            bob.call(_about(task)[number])
        said.append(caught.value.to_json())
    assert said[0] == said[1]
    assert said[0]["name"] == "not-found"
    assert household.events("refused") == []


@over_http
def test_over_http_forbidden_and_missing_are_one_answer_to_the_byte(household: Household) -> None:
    """G13: status, headers and body; of single calls and of a batch."""
    hidden = submit(household.fabric_as("alice"), "the surprise party", to="alice")
    while str(hidden.id).endswith("9"):
        hidden = submit(household.fabric_as("alice"), "the surprise party", to="alice")
    file = household.fabric_as("alice").call(
        verbs.Attach(task=hidden.id, file=verbs.FileArg(name="a.txt", data="aGk="))
    )

    def calls(task: int, attachment: int) -> list[object]:
        fence = verbs.FenceArg(task=task, epoch=1, token="0" * 16)
        asked: list[Verb[Any]] = [
            *_about(task),
            verbs.Download(attachment=attachment),
            verbs.Done(fence=fence, note="x"),
            verbs.Ask(fence=fence, note="x", of="alice"),
            verbs.Park(fence=fence, until=household.clock.now(), note="x"),
            verbs.Attach(task=task, file=verbs.FileArg(name="a.txt", data="aGk="), fence=fence),
            verbs.RunToken(fence=fence),
            verbs.DoneMany(ends=(verbs.End(fence=fence, note="x"),)),
        ]
        return [
            {"jsonrpc": "2.0", "id": n, "method": verb.method, "params": verb.model_dump(mode="json")}
            for n, verb in enumerate(asked)
        ]

    def answers(task: int, attachment: int) -> list[object]:
        asked = calls(task, attachment)
        found = [household.post("bob", one) for one in [*asked, asked]]
        assert all(b"surprise" not in body for _, _, body in found)
        # Where an answer names what was asked about, it is the caller's own number.
        named = re.compile(rf"(?<=lease ){task}(?=@)|(?<=\"task\":){task}\b".encode())
        return [(status, head, named.sub(b"N", body)) for status, head, body in found]

    # The next numbers, which nobody has: as long when written.
    assert answers(hidden.id, file.id) == answers(hidden.id + 1, file.id + 1)


def test_a_made_up_fence_tells_nothing_about_a_task(household: Household) -> None:
    """G13: whoever the question is for, and whether the task is there or not."""
    hidden = submit(household.fabric_as("alice"), to="alice")
    said = []
    for task in (hidden.id, hidden.id + 1000):
        fence = verbs.FenceArg(task=task, epoch=1, token="0" * 16)
        for of in (None, "alice", "bob", "nobody"):
            with pytest.raises(NotFound) as caught:
                household.fabric_as("kimi").call(verbs.Ask(fence=fence, note="which?", of=of))
            said.append(caught.value.to_json())
    assert all(one == said[0] for one in said)


def test_no_list_count_search_or_event_shows_what_is_not_the_callers(household: Household) -> None:
    """G13"""
    hidden = submit(household.fabric_as("alice"), "the surprise party", to="alice")
    household.caught_up()
    for name in ("bob", "kimi"):
        fabric = household.fabric_as(name)
        assert fabric.call(verbs.List(statuses=tuple(Status))) == []
        assert fabric.call(verbs.List(text="surprise", statuses=tuple(Status))) == []
        assert all(not queue.counts for queue in fabric.call(verbs.ListQueues()))
        assert hidden.id not in [event.task_id for event in fabric.call(verbs.Events()).events]


def test_an_agent_knows_of_no_queue_that_it_has_no_part_in(household: Household) -> None:
    """G13: the queue of another agent, and one that does not exist, are the same statement."""
    kimi = household.fabric_as("kimi")
    shown = [queue.name for queue in kimi.call(verbs.ListQueues())]
    assert sorted(shown) == ["alice", "kimi", "pool"]
    for verb in (verbs.Submit, verbs.List, verbs.Claim):
        said = []
        for name in ("qwen", "qwem"):
            field = {"to": name, "title": "x"} if verb is verbs.Submit else {"queue": name}
            with pytest.raises(NotFound) as caught:
                kimi.call(cast(Verb[object], verb(**field)))  # type: ignore[arg-type]
            said.append(caught.value.to_json())
        assert said[0] == said[1]


def test_an_ancestors_submitter_sees_the_state_of_what_came_of_it_and_no_more(household: Household) -> None:
    """G13"""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    root = submit(alice, to="kimi")
    child = submit(household.in_run("kimi", claim(kimi, root)), "a private thought", to="kimi")
    seen = alice.call(verbs.Why(task=child.id)).task
    assert (seen.restricted, seen.status) == (True, Status.READY)
    assert "private" not in str(seen.to_json())
    assert refused(alice, verbs.Comment(task=child.id, text="tell me")) == "restricted"
    assert refused(alice, verbs.EditTask(task=child.id, title="mine")) == "restricted"


def test_a_tokens_scope_narrows_everything(household: Household) -> None:
    """G13, invariant 1"""
    alice = household.fabric_as("alice")
    in_pool, in_own = submit(alice, to="pool"), submit(alice, to="kimi")
    narrow = household.fabric_as("kimi", queues=frozenset({household.project_id("kimi")}))
    assert [got.task.id for got in narrow.call(verbs.Claim(limit=10))] == [in_own.id]
    with pytest.raises(NotFound):
        narrow.call(verbs.Show(task=in_pool.id))
    with pytest.raises(NotFound):
        narrow.call(verbs.Submit(title="x", to="pool"))
    assert [queue.name for queue in narrow.call(verbs.ListQueues())] == ["kimi"]


def test_a_viewer_reads_and_does_not_work(household: Household) -> None:
    household.agent("reader", pool=False)
    household.projects.set_member(
        household.project_id("pool"), household.people["reader"].id, ProjectRole.VIEWER, SYSTEM
    )
    task = submit(household.fabric_as("alice"))
    reader = household.fabric_as("reader")
    assert reader.call(verbs.Show(task=task.id)).task.id == task.id
    assert reader.call(verbs.Claim()) == []
    assert refused(reader, verbs.Take(task=task.id)) == "not-a-member"
