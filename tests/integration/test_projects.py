"""Projects, queues and members, as people arrange them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from taskfabric.boards.native.projects import NativeProjects
from taskfabric.domain.errors import BadInput, IllegalMove, NotFound
from taskfabric.domain.principal import Kind, ProjectRole, Stamp, Trust
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.status import ColumnRole
from tests.integration.conftest import Rig

SYSTEM = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED)


def _execute(rig: Rig, statement: str, *values: object) -> None:
    rig.test_database.connect().execute(statement.encode(), values)


def test_a_new_project_has_kanboards_columns_and_a_swimlane(rig: Rig) -> None:
    alice = rig.people["alice"]
    project = rig.projects.create("Garden", alice, description="what grows")
    columns = rig.projects.columns(project.id)
    assert [(c.title, c.position, c.role) for c in columns] == [
        ("Backlog", 1, ColumnRole.BACKLOG),
        ("Ready", 2, ColumnRole.READY),
        ("Work in progress", 3, ColumnRole.WORKING),
        ("Done", 4, ColumnRole.DONE),
    ]
    assert len(rig.projects.swimlanes(project.id)) == 1
    assert project.queue is None
    assert [(m.name, m.role) for m in rig.projects.members(project.id)] == [("alice", ProjectRole.MANAGER)]


def test_names_of_projects_need_not_be_unique(rig: Rig) -> None:
    one, other = (rig.projects.create("Garden", rig.people["alice"]) for _ in range(2))
    assert one.id != other.id


def test_a_queue_is_made_once_and_then_found(rig: Rig) -> None:
    bob = rig.people["bob"]
    first, made = rig.projects.make_queue("bobs", QueueKind.INBOX, SYSTEM, owner_id=bob.principal_id)
    again, made_again = rig.projects.make_queue("bobs", QueueKind.INBOX, SYSTEM, owner_id=bob.principal_id)
    assert (made, made_again, first) == (True, False, again)
    assert first.unmapped == ()
    assert rig.projects.role_of(first.project_id, bob.principal_id) is ProjectRole.MANAGER
    assert rig.projects.queue("bobs") == rig.projects.queue(first.project_id) == first


def test_a_queue_of_another_kind_or_owner_keeps_its_name(rig: Rig) -> None:
    alice, bob = rig.people["alice"].principal_id, rig.people["bob"].principal_id
    rig.projects.make_queue("things", QueueKind.POOL, SYSTEM)
    with pytest.raises(BadInput):
        rig.projects.make_queue("things", QueueKind.INBOX, SYSTEM, owner_id=bob)
    rig.projects.make_queue("bobs", QueueKind.INBOX, SYSTEM, owner_id=bob)
    with pytest.raises(BadInput):
        rig.projects.make_queue("bobs", QueueKind.INBOX, SYSTEM, owner_id=alice)


def test_nobody_owns_two_queues(rig: Rig) -> None:
    bob = rig.people["bob"].principal_id
    rig.projects.make_queue("bobs", QueueKind.INBOX, SYSTEM, owner_id=bob)
    with pytest.raises(BadInput):
        rig.projects.make_queue("more", QueueKind.INBOX, SYSTEM, owner_id=bob)


def test_two_processes_that_make_one_queue_make_one(rig: Rig) -> None:
    makers = [NativeProjects(rig.database) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda maker: maker.make_queue("raced", QueueKind.POOL, SYSTEM), makers))
    assert sum(made for _, made in found) == 1
    assert len({queue.project_id for queue, _ in found}) == 1


def test_who_makes_an_inbox_for_somebody_does_not_belong_to_it(rig: Rig) -> None:
    """G13"""
    alice, bob = rig.people["alice"], rig.people["bob"]
    inbox, _ = rig.projects.make_queue("bobs", QueueKind.INBOX, alice, owner_id=bob.principal_id)
    assert rig.projects.role_of(inbox.project_id, alice.principal_id) is None


def test_who_makes_a_pool_manages_it(rig: Rig) -> None:
    alice = rig.people["alice"]
    pool, _ = rig.projects.make_queue("errands", QueueKind.POOL, alice)
    assert rig.projects.role_of(pool.project_id, alice.principal_id) is ProjectRole.MANAGER


def test_own_queues_come_first_then_those_of_others_by_number(rig: Rig) -> None:
    kimi = rig.people["kimi"].principal_id
    late, _ = rig.projects.make_queue("late", QueueKind.POOL, SYSTEM)
    mine = rig.person("newcomer", Kind.AGENT, Trust.SANDBOXED).principal_id
    own, _ = rig.projects.make_queue("newcomer", QueueKind.AGENT, SYSTEM, owner_id=mine)
    rig.projects.set_member(late.project_id, mine, ProjectRole.MEMBER, SYSTEM)
    rig.projects.set_member(rig.pool.project_id, mine, ProjectRole.VIEWER, SYSTEM)
    assert [q.name for q in rig.projects.queues_of(mine)] == ["newcomer", rig.pool.name, "late"]
    assert own.project_id not in [q.project_id for q in rig.projects.queues_of(kimi)]


def test_a_change_of_membership_is_seen_at_once_here(rig: Rig) -> None:
    queue, _ = rig.projects.make_queue("club", QueueKind.POOL, SYSTEM)
    bob = rig.people["bob"].principal_id
    assert rig.projects.role_of(queue.project_id, bob) is None
    rig.projects.set_member(queue.project_id, bob, ProjectRole.MEMBER, SYSTEM)
    assert rig.projects.role_of(queue.project_id, bob) is ProjectRole.MEMBER
    rig.projects.set_member(queue.project_id, bob, ProjectRole.VIEWER, SYSTEM)
    assert rig.projects.role_of(queue.project_id, bob) is ProjectRole.VIEWER
    rig.projects.remove_member(queue.project_id, bob, SYSTEM)
    assert rig.projects.role_of(queue.project_id, bob) is None


def test_the_owner_of_a_queue_stays_a_member(rig: Rig) -> None:
    bob = rig.people["bob"].principal_id
    inbox, _ = rig.projects.make_queue("bobs", QueueKind.INBOX, SYSTEM, owner_id=bob)
    with pytest.raises(BadInput):
        rig.projects.remove_member(inbox.project_id, bob, SYSTEM)


def test_rules_change_only_where_they_are_given(rig: Rig) -> None:
    queue, _ = rig.projects.make_queue("strict", QueueKind.POOL, SYSTEM)
    changed = rig.projects.set_rules(queue.project_id, SYSTEM, score_check=True, needs_verified=None, human_verify=None)
    assert (changed.score_check, changed.needs_verified, changed.human_verify) == (True, False, False)
    again = rig.projects.set_rules(queue.project_id, SYSTEM, score_check=None, needs_verified=True, human_verify=True)
    assert (again.score_check, again.needs_verified, again.human_verify) == (True, True, True)
    assert rig.projects.queue("strict") == again


def test_a_closed_project_is_no_queue_until_it_is_opened(rig: Rig) -> None:
    queue, _ = rig.projects.make_queue("seasonal", QueueKind.POOL, SYSTEM)
    assert not rig.projects.set_active(queue.project_id, False, SYSTEM).active
    assert rig.projects.queue("seasonal") is None
    rig.projects.set_active(queue.project_id, True, SYSTEM)
    assert rig.projects.queue("seasonal") == queue


def test_a_renamed_queue_keeps_the_name_that_work_is_addressed_to(rig: Rig) -> None:
    queue, _ = rig.projects.make_queue("errands", QueueKind.POOL, SYSTEM)
    renamed = rig.projects.rename(queue.project_id, "Errands and chores", SYSTEM)
    assert renamed.name == "Errands and chores"
    assert renamed.queue is not None
    assert renamed.queue.name == "errands"


def test_a_column_with_a_known_title_takes_its_role_if_it_is_free(rig: Rig) -> None:
    project = rig.pool.project_id
    ready = next(c for c in rig.projects.columns(project) if c.role is ColumnRole.READY)
    rig.projects.update_column(ready.id, SYSTEM, title="Next", task_limit=3)
    assert rig.projects.add_column(project, "READY", SYSTEM).role is None
    assert [c.title for c in rig.projects.columns(project)] == ["Backlog", "Next", "Work in progress", "Done", "READY"]


def test_a_title_is_taken_once_in_a_project(rig: Rig) -> None:
    rig.projects.add_column(rig.pool.project_id, "Review", SYSTEM)
    with pytest.raises(BadInput):
        rig.projects.add_column(rig.pool.project_id, "Review", SYSTEM)
    with pytest.raises(BadInput):
        rig.projects.add_swimlane(rig.pool.project_id, "Default swimlane", SYSTEM)


@pytest.mark.parametrize(("position", "order"), [(1, "EABCD"), (3, "ABECD"), (5, "ABCDE")])
def test_a_moved_column_stands_where_it_was_put(rig: Rig, position: int, order: str) -> None:
    project = rig.pool.project_id
    ids = [c.id for c in rig.projects.columns(project)] + [rig.projects.add_column(project, "Review", SYSTEM).id]
    rig.projects.move_column(ids[4], position, SYSTEM)
    names = dict(zip(ids, "ABCDE", strict=True))
    assert "".join(names[c.id] for c in rig.projects.columns(project)) == order
    assert [c.position for c in rig.projects.columns(project)] == [1, 2, 3, 4, 5]


def test_a_column_moves_only_within_its_project(rig: Rig) -> None:
    column = rig.projects.columns(rig.pool.project_id)[0]
    for position in (0, 5):
        with pytest.raises(BadInput):
            rig.projects.move_column(column.id, position, SYSTEM)


def test_an_empty_column_without_a_role_can_be_removed_and_no_other(rig: Rig) -> None:
    project = rig.pool.project_id
    review = rig.projects.add_column(project, "Review", SYSTEM)
    with pytest.raises(IllegalMove):
        rig.projects.remove_column(rig.projects.columns(project)[0].id, SYSTEM)
    task = rig.submit()
    _execute(rig, "UPDATE tasks SET column_id = %s, role = NULL, status = 'backlog' WHERE id = %s", review.id, task.id)
    with pytest.raises(IllegalMove):
        rig.projects.remove_column(review.id, SYSTEM)
    _execute(rig, "DELETE FROM tasks WHERE id = %s", task.id)
    rig.projects.remove_column(review.id, SYSTEM)
    assert len(rig.projects.columns(project)) == 4


def test_what_is_not_there_is_not_found(rig: Rig) -> None:
    for look in (
        lambda: rig.projects.get(4711),
        lambda: rig.projects.rename(4711, "x", SYSTEM),
        lambda: rig.projects.add_column(4711, "x", SYSTEM),
        lambda: rig.projects.remove_column(4711, SYSTEM),
        lambda: rig.projects.set_member(4711, 1, ProjectRole.MEMBER, SYSTEM),
        lambda: rig.projects.set_rules(4711, SYSTEM, score_check=None, needs_verified=None, human_verify=None),
    ):
        with pytest.raises(NotFound):
            look()
    assert rig.projects.queue("nothing") is None
    assert rig.projects.queue(4711) is None


def test_every_change_is_in_the_journal_with_old_and_new(rig: Rig) -> None:
    """Invariant 5: what binds a run is changed in the open."""
    queue, _ = rig.projects.make_queue("club", QueueKind.POOL, SYSTEM)
    bob = rig.people["bob"].principal_id
    rig.projects.set_member(queue.project_id, bob, ProjectRole.MEMBER, SYSTEM)
    rig.projects.remove_member(queue.project_id, bob, SYSTEM)
    rows = rig.test_database.connect().execute(
        "SELECT kind, data->>'was', data->>'is' FROM journal WHERE project_id = %s ORDER BY id", (queue.project_id,)
    )
    assert rows.fetchall() == [
        ("queue-created", None, None),
        ("member-set", None, "project-member"),
        ("member-set", "project-member", None),
    ]
