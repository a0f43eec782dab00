"""Reading: what is found, by whom, in which order; and that nothing shows what is not the reader's."""

from __future__ import annotations

from typing import Any

import pytest

from taskfabric.domain.errors import NotFound
from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.status import Hindrance, Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.wiring import SYSTEM
from tests.contract.acts import HOUR, MINUTE, NOON, ask, claim, finish, look, refused, submit
from tests.contract.household import Household
from tests.contract.standing import STATUSES, stand


def found(fabric: Fabric, **by: Any) -> list[int]:
    return [task.id for task in fabric.call(verbs.List(**by))]


@pytest.mark.parametrize("status", STATUSES)
def test_a_task_is_found_by_its_status_and_by_no_other(noon: Household, status: Status) -> None:
    alice = noon.fabric_as("alice")
    task = stand(noon, status).task
    assert task.id in found(alice, statuses=(status,))
    assert task.id not in found(alice, statuses=tuple(other for other in STATUSES if other is not status))


def test_pages_hold_each_task_once_and_in_order(alice: Fabric) -> None:
    tasks = [submit(alice, str(n)).id for n in range(7)]
    pages, last = [], 0
    while page := found(alice, after_id=last, limit=3):
        pages.append(page)
        last = page[-1]
    assert pages == [tasks[:3], tasks[3:6], tasks[6:]]


def test_a_search_finds_words_in_title_and_description_and_the_number(alice: Fabric) -> None:
    one = submit(alice, "Paint the FENCE")
    two = submit(alice, "garden", description="the fence too")
    three = submit(alice, "100 % done_ness", reference="H-7")
    assert found(alice, text="fence") == [one.id, two.id]
    assert found(alice, text="0 %") == [three.id]
    assert found(alice, text="done_") == [three.id]
    assert found(alice, text="donexness") == []
    assert three.id in found(alice, text=f"#{three.id}")
    assert found(alice, text="h-7") == [three.id]


def test_what_is_overdue_is_not_over(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    late, done = submit(alice, due=NOON + HOUR), submit(alice, due=NOON + HOUR)
    finish(kimi, claim(kimi, done))
    noon.later(hours=2)
    assert found(alice, overdue=True) == [late.id]


def test_mine_is_what_i_am_asked_too(noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric) -> None:
    noon.projects.set_member(noon.project_id("kimi"), noon.people["bob"].id, ProjectRole.MEMBER, SYSTEM)
    task = submit(alice, to="kimi")
    ask(kimi, claim(kimi, task), of="bob")
    assert found(bob, mine=True) == [task.id]


# -- who sees what ---------------------------------------------------------------------------------------------


def test_in_pools_and_agents_queues_a_human_sees_what_he_submitted(alice: Fabric, bob: Fabric) -> None:
    """G13: also an administrator."""
    hers = [submit(alice).id, submit(alice, to="kimi").id]
    his = [submit(bob).id, submit(bob, to="kimi").id]
    assert found(alice) == hers
    assert found(bob) == his


def test_an_agent_sees_what_is_in_its_queues(alice: Fabric, bob: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G13"""
    pooled, own = submit(alice), submit(bob, to="kimi")
    submit(alice, to="alice")
    assert found(kimi) == [pooled.id, own.id]
    assert found(qwen) == [pooled.id]


def test_an_inbox_is_read_by_its_owner_and_by_who_wrote_there(alice: Fabric, bob: Fabric, kimi: Fabric) -> None:
    """G13: an agent writes into its human's inbox without reading it."""
    note, other = submit(kimi, to="alice"), submit(bob, to="alice")
    assert found(kimi) == [note.id]
    assert found(bob) == [other.id]
    assert found(alice) == [note.id, other.id]


def test_the_holder_sees_what_it_holds(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G13"""
    task = submit(alice)
    with pytest.raises(NotFound):
        look(bob, task)
    got = bob.call(verbs.Claim())
    assert [one.task.id for one in got] == [task.id]
    assert look(bob, task).holder == "bob"


def counts(fabric: Fabric) -> dict[str, int]:
    return {queue.name: sum(queue.counts.values()) for queue in fabric.call(verbs.ListQueues()) if queue.counts}


def test_counts_are_of_visible_rows(alice: Fabric, bob: Fabric, kimi: Fabric) -> None:
    """G13"""
    for _ in range(2):
        submit(alice)
    submit(bob)
    submit(alice, to="alice")
    assert counts(alice) == {"pool": 2, "alice": 1}
    assert counts(bob) == {"pool": 1}
    assert counts(kimi) == {"pool": 3}


def test_a_grandparents_submitter_sees_state_and_note_and_no_more(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G13"""
    got = claim(kimi, submit(alice, to="kimi"))
    child = submit(noon.in_run("kimi", got), "inner", to="kimi", description="secret", tags=("secret",))
    inner = claim(kimi, child)
    below = submit(noon.in_run("kimi", inner), "innermost", to="kimi", refs=("secret",), reference="secret")
    finish(kimi, claim(kimi, below), "what came of it")
    kimi.call(verbs.Comment(task=below.id, text="secret words"))
    thread = alice.call(verbs.Show(task=below.id))
    seen = thread.task
    assert (seen.restricted, seen.status, seen.note) == (True, Status.DONE, "what came of it")
    assert (thread.entries, thread.attachments, thread.late_results) == ((), (), ())
    assert "secret" not in str(verbs.Show.result.encode(thread))
    assert "innermost" not in str(verbs.Show.result.encode(thread))
    assert refused(alice, verbs.Verify(task=below.id)) == "restricted"
    assert refused(alice, verbs.Cancel(task=below.id)) == "restricted"


def test_a_siblings_submitter_sees_nothing(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G13: only from above."""
    root = submit(alice)
    submit(alice, parent=root.id)
    with pytest.raises(NotFound):
        submit(bob, parent=root.id)


def test_a_tree_shows_no_branch_that_is_not_the_viewers(noon: Household, alice: Fabric, bob: Fabric) -> None:
    """G13"""
    root = submit(alice, to="bob")
    inner = submit(alice, to="alice", parent=root.id)
    kin = bob.call(verbs.Tree(task=root.id))
    assert (kin.task.id, kin.children) == (root.id, ())
    assert [child.task.id for child in alice.call(verbs.Tree(task=root.id)).children] == [inner.id]


def test_no_search_finds_what_is_only_seen_from_above(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G13"""
    got = claim(kimi, submit(alice, to="kimi"))
    child = submit(noon.in_run("kimi", got), "inner", to="kimi")
    assert found(alice, text="inner") == []
    assert found(alice, text=str(child.id)) in ([], [got.task.id])
    assert child.id not in found(alice, statuses=STATUSES)


# -- why -------------------------------------------------------------------------------------------------------

WHY = {
    Status.BACKLOG: Hindrance.STATUS,
    Status.HELD: Hindrance.HELD,
    Status.WORKING: Hindrance.LEASED,
    Status.WAITING: Hindrance.ASKED,
    Status.DONE: Hindrance.STATUS,
    Status.VERIFIED: Hindrance.STATUS,
    Status.DEAD: Hindrance.STATUS,
    Status.CANCELLED: Hindrance.STATUS,
    Status.REJECTED: Hindrance.STATUS,
}


@pytest.mark.parametrize("status", STATUSES)
def test_why_says_what_holds_a_task_in_each_status(noon: Household, status: Status) -> None:
    why = noon.fabric_as("alice").call(verbs.Why(task=stand(noon, status).task.id))
    if status is Status.READY:
        assert (why.claimable, why.first, why.claimers) == (True, None, ("kimi",))
    else:
        assert why.first is not None
        assert (why.claimable, why.first.kind) == (False, WHY[status])


def test_why_says_until_when(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    claim(kimi, held := submit(alice))
    first = alice.call(verbs.Why(task=held.id)).first
    assert first is not None
    assert (first.until, "kimi" in first.text) == (NOON + 10 * MINUTE, True)


def test_why_gives_every_reason(alice: Fabric) -> None:
    blocker = submit(alice)
    task = submit(alice, after=(blocker.id,), not_before=NOON + HOUR)
    kinds = [reason.kind for reason in alice.call(verbs.Why(task=task.id)).reasons]
    assert kinds == [Hindrance.BLOCKERS, Hindrance.NOT_BEFORE]


def test_a_claim_and_why_agree(noon: Household) -> None:
    """Exactly what is claimable by ``why`` is what a claim takes."""
    alice, kimi = noon.fabric_as("alice"), noon.fabric_as("kimi")
    tasks: list[Task] = [stand(noon, status).task for status in STATUSES]
    tasks += [submit(alice, to="kimi", not_before=NOON + HOUR), submit(alice, to="kimi", after=(tasks[0].id,))]
    claimable = [task.id for task in tasks if alice.call(verbs.Why(task=task.id)).claimable]
    assert sorted(got.task.id for got in kimi.call(verbs.Claim(limit=100, queue="kimi"))) == sorted(claimable)


def test_queues_are_of_three_kinds(alice: Fabric) -> None:
    kinds = {queue.name: queue.kind for queue in alice.call(verbs.ListQueues())}
    assert kinds["pool"] is QueueKind.POOL
    assert kinds["alice"] is QueueKind.INBOX
    assert kinds["kimi"] is QueueKind.AGENT
