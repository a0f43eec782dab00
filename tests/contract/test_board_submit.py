"""Submitting: what is asked for is what stands on the board, and many at once are all there or none."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskfabric.domain.errors import BadInput, FabricError, KeyConflict, NotFound
from taskfabric.domain.principal import Trust
from taskfabric.domain.status import Status
from taskfabric.domain.task import Submitted
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import HOUR, NOON, claim, claimed_ids, finish, look, submit
from tests.contract.household import Household


def test_a_task_stands_as_it_was_asked_for(alice: Fabric) -> None:
    """G5: and it reads the same afterwards."""
    made = submit(
        alice,
        "tidy the attic",
        description="all of it\n\n* boxes",
        priority=2,
        score=5,
        needs=("tools",),
        trust="sandboxed",
        tags=("home", "Winter"),
        refs=("git:house@main", "task:1"),
        reference="H-7",
        due=NOON + 2 * HOUR,
        not_before=NOON + HOUR,
        key="attic",
    )
    assert (made.title, made.description, made.queue) == ("tidy the attic", "all of it\n\n* boxes", "pool")
    assert (made.priority, made.score, made.tier, made.needs) == (2, 5, "medium", ("tools",))
    assert (made.required_trust, set(made.tags)) == (Trust.SANDBOXED, {"home", "Winter"})
    assert (made.refs, made.reference, made.key) == (("git:house@main", "task:1"), "H-7", "attic")
    assert (made.due, made.not_before) == (NOON + 2 * HOUR, NOON + HOUR)
    assert (made.status, made.column, made.submitter, made.on_behalf) == (Status.READY, "Ready", "alice", "alice")
    assert (made.epoch, made.attempts, made.holder) == (0, 0, None)
    assert (made.created, made.updated_at) == (NOON, NOON)
    assert look(alice, made) == made


def test_a_plain_task_reads_as_it_was_answered(alice: Fabric) -> None:
    made = submit(alice)
    assert look(alice, made) == made


def test_a_text_is_kept_to_the_letter(alice: Fabric) -> None:
    words = "🦊 ünïcode \u202eright to left\u202c <b>&amp;</b> '; DROP TABLE tasks; -- \\ %s {x}"
    made = submit(alice, words, description=words + "\n\n```\n" + words + "\n```\n")
    assert (look(alice, made).title, look(alice, made).description) == (words, made.description)
    assert made.description.count(words) == 2


def test_many_tasks_come_in_the_order_given(alice: Fabric) -> None:
    titles = [f"task {n}" for n in range(20)]
    made = alice.call(verbs.SubmitMany(tasks=tuple(verbs.Submit(title=title) for title in titles)))
    assert [one.task.title for one in made] == titles
    assert all(one.created for one in made)
    ids = [one.task.id for one in made]
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (verbs.Submit(title=" "), BadInput),
        (verbs.Submit(title="x", to="nobody"), NotFound),
        (verbs.Submit(title="x", parent=10**9), NotFound),
        (verbs.Submit(title="x", after=(10**9,)), NotFound),
        (verbs.Submit(title="another body", key="used"), KeyConflict),
    ],
)
def test_of_many_tasks_all_are_made_or_none(
    noon: Household, alice: Fabric, bad: verbs.Submit, error: type[FabricError]
) -> None:
    submit(alice, "used", key="used")
    before = noon.tasks()
    with pytest.raises(error):
        alice.call(verbs.SubmitMany(tasks=(verbs.Submit(title="good"), bad, verbs.Submit(title="good", key="fresh"))))
    assert noon.tasks() == before
    assert alice.call(verbs.Submit(title="good", key="fresh")).created


def test_a_submission_to_the_backlog_waits_there(alice: Fabric, kimi: Fabric) -> None:
    made = submit(alice, backlog=True)
    assert (made.status, made.column) == (Status.BACKLOG, "Backlog")
    assert kimi.call(verbs.Claim()) == []


def test_a_childs_place_in_its_family_is_written_down(alice: Fabric) -> None:
    root = submit(alice)
    child = submit(alice, parent=root.id)
    below = submit(alice, parent=child.id)
    assert (root.parent, root.root, root.depth) == (None, None, 0)
    assert (child.parent, child.root, child.depth) == (root.id, root.id, 1)
    assert (below.parent, below.root, below.depth) == (child.id, root.id, 2)
    assert look(alice, below) == below
    assert (look(alice, root).children, look(alice, root).open_children) == (1, 1)


def test_links_and_moves_never_change_where_a_task_comes_from(alice: Fabric, kimi: Fabric) -> None:
    """G13: ancestry and provenance are of the submit."""
    root = submit(alice, to="kimi")
    child = submit(alice, parent=root.id)
    alice.call(verbs.Move(task=child.id, queue="qwen"))
    alice.call(verbs.EditTask(task=child.id, title="other words"))
    alice.call(verbs.Cancel(task=root.id))
    after = look(alice, child)
    assert (after.parent, after.root, after.submitter, after.trust) == (root.id, root.id, "alice", Trust.HUMAN)


def test_a_reserved_tag_survives_whatever_people_do_with_tags(alice: Fabric, kimi: Fabric) -> None:
    """``veto`` came from a verdict; ``needs-human-verify`` from the submit."""
    task = submit(alice, tags=("red", "blue"), human_verify=True, needs=())
    finish(kimi, claim(kimi, task), verdict="fail")
    after = alice.call(verbs.EditTask(task=task.id, add_tags=("green",), remove_tags=("red", "blue")))
    assert after.tags == ("green",)
    assert {"veto", "needs-human-verify"} <= set(after.all_tags)
    assert {"veto", "needs-human-verify"} <= set(look(alice, task).all_tags)


def test_what_a_task_needs_shows_as_tags(alice: Fabric) -> None:
    task = submit(alice, needs=("tools",), tier="large", trust="trusted", tags=("home",))
    assert set(task.all_tags) == {"home", "needs:tools", "tier:large", "trust:trusted"}


def test_a_task_for_later_is_claimed_no_earlier(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G7: by the board's clock."""
    task = submit(alice, not_before=NOON + HOUR)
    assert task.status is Status.READY
    assert kimi.call(verbs.Claim()) == []
    noon.at(NOON + HOUR - timedelta(seconds=1))
    assert kimi.call(verbs.Claim()) == []
    with pytest.raises(FabricError):
        claim(kimi, task)
    noon.at(NOON + HOUR)
    (got,) = kimi.call(verbs.Claim())
    assert (got.task.id, got.task.started) == (task.id, NOON + HOUR)


def test_not_before_in_the_past_is_now(alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, not_before=NOON - HOUR)
    assert claimed_ids(kimi) == [task.id]


def test_an_overdue_task_is_found_as_such(noon: Household, alice: Fabric) -> None:
    late, _ = submit(alice, due=NOON + HOUR), submit(alice, due=NOON + 3 * HOUR)
    assert alice.call(verbs.List(overdue=True)) == []
    noon.later(hours=2)
    assert [task.id for task in alice.call(verbs.List(overdue=True))] == [late.id]


def test_the_answer_of_a_bulk_submit_is_one_for_each(alice: Fabric) -> None:
    """G11: also for a key that stands in it twice."""
    once = verbs.Submit(title="once", key="k")
    made: list[Submitted] = alice.call(verbs.SubmitMany(tasks=(once, verbs.Submit(title="other"), once)))
    assert [one.created for one in made] == [True, True, False]
    assert made[0].task.id == made[2].task.id
