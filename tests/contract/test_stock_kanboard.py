"""What only a stock Kanboard has: cards that people change there, moves that get lost, tags that decide."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, Final

import pytest

from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.client import Doubtful
from taskfabric.domain.errors import LeaseLost
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import claim, finish, look, only_here, said, submit
from tests.contract.conftest import KANBOARDS
from tests.contract.household import Household

pytestmark = [
    pytest.mark.parametrize("ground", KANBOARDS, indirect=True),
    only_here,
]
_SETTLED: Final = "UPDATE stock_cards SET moved_at = moved_at - interval '1 hour' RETURNING task_id"


class Hand:
    """A person in front of the Kanboard."""

    def __init__(self, home: Household) -> None:
        assert isinstance(home.board, KanboardBoard)
        self.board = home.board
        self.home = home

    def call(self, method: str, **params: Any) -> Any:
        return self.board.kanboard.call(method, **params)

    def card(self, task: Task) -> dict[str, Any]:
        return dict(self.call("getTask", task_id=task.id))

    def column(self, task: Task) -> str:
        titles = {int(c["id"]): c["title"] for c in self.call("getColumns", project_id=task.project_id)}
        return str(titles[int(self.card(task)["column_id"])])

    def tags(self, task: Task) -> set[str]:
        return set((self.call("getTaskTags", task_id=task.id) or {}).values())

    def drag(self, task: Task, title: str) -> None:
        columns = {c["title"]: int(c["id"]) for c in self.call("getColumns", project_id=task.project_id)}
        place = {"column_id": columns[title], "position": 1, "swimlane_id": 0}
        assert self.call("moveTaskPosition", project_id=task.project_id, task_id=task.id, **place)

    def later(self) -> None:
        """Our own last moves were long ago."""
        self.home.ground.rows(_SETTLED)

    def reconcile(self) -> dict[str, int]:
        return self.home.keeping.reconcile(100)


@pytest.fixture
def hand(noon: Household) -> Hand:
    """A person who has the Kanboard before him."""
    return Hand(noon)


def test_who_finds_another_mover_leaves_him_a_card_that_is_in_line_when_all_are_done(
    hand: Hand, noon: Household, alice: Fabric
) -> None:
    """No verb waits for a mover, and none leaves a card to the keeper."""
    tasks = [submit(alice, f"task {n}", to="pool") for n in range(4)]
    for round_ in range(5):
        with ThreadPoolExecutor(len(tasks)) as threads:
            together = Barrier(len(tasks))

            def rename(task: Task, together: Barrier = together, title: str = f"round {round_}") -> None:
                together.wait()
                noon.fabric_as("alice").call(verbs.EditTask(task=task.id, title=title))

            list(threads.map(rename, tasks))
        assert hand.board.alignment.left_behind() == []
        assert {hand.card(task)["title"] for task in tasks} == {f"round {round_}"}


def _given_again(hand: Hand, alice: Fabric) -> int:
    """The number that the next card gets, which a card that was removed had before."""
    gone = submit(alice, "gone", to="alice")
    assert hand.call("removeTask", task_id=gone.id) is True
    assert alice.call(verbs.Show(task=gone.id)).task.status is Status.CANCELLED
    probe = int(hand.call("createTask", title="the last number", project_id=gone.project_id, column_id=0))
    assert hand.call("removeTask", task_id=probe) is True
    again = int(hand.call("createTask", title="the next but one", project_id=gone.project_id))
    assert hand.call("removeTask", task_id=again) is True
    number = probe if again == probe else again + 1  # SQLite gives it again, PostgreSQL the next one
    with hand.home.ground.tested.connect() as conn:
        for table, column in (("tasks", "id"), ("stock_cards", "task_id")):
            conn.execute(f"UPDATE {table} SET {column} = %s WHERE {column} = %s".encode(), (number, gone.id))
    return number


def test_a_number_that_a_removed_card_had_is_no_other_tasks(hand: Hand, alice: Fabric) -> None:
    """What is known of a task (its keys, its record, who saw it) is never said of another."""
    number = _given_again(hand, alice)
    task = submit(alice, "new", to="alice", key="k")
    assert task.id > number
    card = hand.call("getTask", task_id=number)
    assert (card["title"], int(card["is_active"])) == ("new", 0)
    assert alice.call(verbs.Show(task=number)).task.title == "gone"
    assert alice.call(verbs.Submit(title="new", to="alice", key="k")).task.id == task.id


def test_a_persons_card_with_a_number_that_a_removed_card_had_goes_on_under_another(hand: Hand, alice: Fabric) -> None:
    number = _given_again(hand, alice)
    project = alice.call(verbs.Show(task=number)).task.project_id
    assert hand.call("createTask", title="by hand", project_id=project, tags=["a"], priority=2) == number
    hand.reconcile()
    hand.reconcile()
    [task] = alice.call(verbs.List(queue="alice", limit=10))
    assert (task.title, task.tags, task.priority, task.id > number) == ("by hand", ("a",), 2, True)
    assert f"goes on as #{task.id}" in hand.call("getAllComments", task_id=number)[0]["comment"]


def test_nobody_becomes_a_member_by_what_he_sends(hand: Hand, alice: Fabric, bob: Fabric) -> None:
    task = submit(bob, "a letter", to="alice")
    members = hand.call("getProjectUsers", project_id=task.project_id)
    assert "bob" not in members.values()


def test_the_card_shows_the_task_and_follows_it(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, "paint the fence", to="kimi", description="twice", priority=2, tags=("garden",))
    card = hand.card(task)
    assert (card["title"], card["description"], int(card["priority"])) == ("paint the fence", "twice", 2)
    assert (hand.column(task), hand.tags(task)) == ("Ready", {"garden"})
    got = claim(kimi, task)
    assert hand.column(task) == "Work in progress"
    assert int(hand.card(task)["owner_id"]) == hand.board.people.id_of("kimi")
    finish(kimi, got, "two coats")
    assert hand.column(task) == "Done"
    assert int(hand.card(task)["owner_id"]) == 0
    texts = [comment["comment"] for comment in hand.call("getAllComments", task_id=task.id)]
    assert texts[0].startswith("🔒 claimed by `kimi`")
    assert texts[-1] == "✅ two coats"


def test_what_a_verb_did_is_on_the_card_when_it_answers(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    task = submit(alice, "paint the fence", to="kimi", tags=("garden",))
    assert hand.board.alignment.left_behind() == []
    got = claim(kimi, task)
    assert hand.board.alignment.left_behind() == []
    finish(kimi, got)
    assert hand.board.alignment.left_behind() == []
    assert hand.call("getTaskMetadata", task_id=task.id)["fabric.status"] == "done"


def test_a_lease_is_a_tag_and_its_end_another(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    """G2: what the locks project says of the first lease."""
    got = claim(kimi, submit(alice, to="kimi"))
    lock = hand.board.locks.highest()[got.task.id]
    assert (lock.epoch, lock.token, lock.over) == (1, got.fence.hex, None)
    finish(kimi, got)
    assert hand.board.locks.highest()[got.task.id].over == f"done|{got.fence.hex}"


def test_an_epoch_that_is_taken_on_the_board_is_never_granted(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    """G2: another fabric has had it, and is over with it."""
    task = submit(alice, to="kimi")
    for epoch in (1, 2):
        hand.call(
            "createTag", project_id=hand.board.locks.project_id(), tag=f"L/{task.id}/{epoch}", color_id="f" * 16 + "|1"
        )
    assert claim(kimi, task).fence.epoch == 3


def test_a_holder_whose_epoch_was_ended_on_the_board_has_lost_it(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    """G3: the loser of the tag changes nothing, and its result is kept."""
    got = claim(kimi, submit(alice, to="kimi"))
    hand.call("createTag", project_id=hand.board.locks.project_id(), tag=f"E/{got.task.id}/1", color_id="x")
    with pytest.raises(LeaseLost):
        finish(kimi, got, "late")
    assert look(alice, got.task).status is Status.READY
    assert hand.column(got.task) == "Ready"
    assert [late.text for late in kimi.call(verbs.Show(task=got.task.id)).late_results] == ["late"]


def test_a_repeated_end_knows_its_own_tag(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    """G3: the answer to E was lost in a crash before the commit."""
    got = claim(kimi, submit(alice, to="kimi"))
    hand.board.locks.end(got.task.id, 1, got.fence.hex, "done")
    assert finish(kimi, got).status is Status.DONE


def test_words_that_a_person_changes_come_in(hand: Hand, alice: Fabric) -> None:
    task = submit(alice, "a", to="kimi", tags=("old",))
    changes = {"title": "b", "description": "more", "priority": 3, "score": 5, "date_due": "2027-01-02 03:04"}
    assert hand.call("updateTask", id=task.id, tags=["new"], **changes)
    seen = look(alice, task)
    assert (seen.title, seen.description, seen.priority, seen.score) == ("b", "more", 3, 5)
    assert seen.due is not None
    assert f"{seen.due:%Y-%m-%d %H:%M}" == "2027-01-02 03:04"
    assert seen.tags == ("new",)


def test_reserved_tags_come_back(hand: Hand, alice: Fabric) -> None:
    task = submit(alice, to="kimi", tier="large", needs=("tools",), tags=("plain",))
    before = hand.tags(task)
    assert hand.call("setTaskTags", project_id=task.project_id, task_id=task.id, tags=["plain", "dead-letter"])
    assert look(alice, task).status is Status.READY
    assert hand.tags(task) == before == {"plain", "tier:large", "needs:tools"}


def test_a_card_that_a_person_makes_becomes_a_task(hand: Hand, kimi: Fabric, noon: Household) -> None:
    project = noon.project_id("kimi")
    ready = next(c for c in hand.call("getColumns", project_id=project) if c["title"] == "Ready")
    number = hand.call("createTask", title="made there", project_id=project, column_id=int(ready["id"]), tags=["x"])
    (got,) = kimi.call(verbs.Claim())
    assert (got.task.id, got.task.title, got.task.tags, got.task.trust.word) == (
        number,
        "made there",
        ("x",),
        "untrusted",
    )
    assert hand.column(got.task) == "Work in progress"


def test_a_card_dragged_to_ready_is_ready(hand: Hand, alice: Fabric) -> None:
    task = submit(alice, to="kimi", backlog=True)
    hand.drag(task, "Ready")
    assert look(alice, task).status is Status.READY


def test_a_leased_card_that_is_dragged_goes_back_and_says_so(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice, to="kimi"))
    hand.later()
    hand.drag(got.task, "Backlog")
    assert look(alice, got.task).status is Status.WORKING
    assert hand.column(got.task) == "Work in progress"
    texts = [comment["comment"] for comment in hand.call("getAllComments", task_id=got.task.id)]
    assert "kimi has it: the card was put back to where it was" in texts


def test_a_move_that_kanboard_has_undone_is_made_again(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice, to="kimi"))
    hand.drag(got.task, "Ready")  # what a concurrent move does to it
    assert finish(kimi, got).status is Status.DONE
    hand.drag(got.task, "Work in progress")
    hand.reconcile()
    assert hand.column(got.task) == "Done"
    assert look(alice, got.task).status is Status.DONE


def test_a_done_card_closed_by_hand_is_verified_and_another_cancelled(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    done = finish(kimi, claim(kimi, submit(alice, to="kimi")))
    open_one = submit(alice, to="kimi")
    for task in (done, open_one):
        assert hand.call("closeTask", task_id=task.id)
    assert look(alice, done).status is Status.VERIFIED
    assert look(alice, open_one).status is Status.CANCELLED


def test_what_only_a_human_verifies_is_not_closed_by_hand(hand: Hand, alice: Fabric, kimi: Fabric) -> None:
    """G10: the Kanboard does not say who closed it."""
    done = finish(kimi, claim(kimi, submit(alice, to="kimi", human_verify=True)))
    assert hand.call("closeTask", task_id=done.id)
    assert look(alice, done).status is Status.DONE
    assert int(hand.card(done)["is_active"])


def test_a_removed_card_is_a_cancelled_task(hand: Hand, alice: Fabric) -> None:
    task = submit(alice, to="kimi")
    assert hand.call("removeTask", task_id=task.id)
    assert look(alice, task).status is Status.CANCELLED


def test_a_kanboard_that_has_not_our_queue_cancels_nothing(hand: Hand, alice: Fabric) -> None:
    """Somebody pointed the fabric at another Kanboard, or restored it from an old backup."""
    task = submit(alice, to="kimi")
    marks = hand.call("getProjectMetadata", project_id=task.project_id)
    assert hand.call("removeProjectMetadata", project_id=task.project_id, name="fabric.name")
    try:
        assert hand.call("removeTask", task_id=task.id)
        assert look(alice, task).status is Status.READY
    finally:
        assert hand.call("saveProjectMetadata", project_id=task.project_id, values=marks)


def test_what_a_person_says_on_the_card_is_in_the_thread(
    request: pytest.FixtureRequest, hand: Hand, alice: Fabric
) -> None:
    task = submit(alice, to="kimi")
    user = hand.board.people.id_of("bob")
    assert hand.call("createComment", task_id=task.id, user_id=user, content="✅ looks like a result")
    (entry,) = alice.call(verbs.Show(task=task.id)).entries
    # On our own board nobody speaks for another, the app token included.
    author = "fabric" if request.node.callspec.params["ground"] == "served" else "bob"
    assert (entry.author, entry.kind, entry.text) == (author, "", "✅ looks like a result")
    assert said(alice, task, "note") == []
    assert look(alice, task).status is Status.READY


def test_a_row_that_fell_behind_is_put_right_by_the_keeper(hand: Hand, alice: Fabric, noon: Household) -> None:
    task = submit(alice, to="kimi")
    noon.ground.rows("INSERT INTO stock_dirty (task_id) VALUES (%s) RETURNING task_id", task.id)
    noon.ground.rows("UPDATE tasks SET title = 'later', seq = seq + 1 WHERE id = %s RETURNING id", task.id)
    assert hand.reconcile()["aligned"] >= 1
    assert hand.card(task)["title"] == "later"
    assert hand.reconcile() == {"taken_in": 0, "aligned": 0, "abandoned": 0, "tags_removed": 0}


def test_a_queue_is_found_again_by_its_mark(hand: Hand, noon: Household) -> None:
    project = noon.project_id("pool")
    marks = hand.call("getProjectMetadata", project_id=project)
    assert (marks["fabric.queue"], marks["fabric.name"]) == ("pool", "pool")


def test_an_error_that_kanboard_answers_is_doubtful(hand: Hand) -> None:
    with pytest.raises(Doubtful):
        hand.call("noSuchProcedure")
