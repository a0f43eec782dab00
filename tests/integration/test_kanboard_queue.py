"""Cards of a queue through Kanboard's API: a lease, a verdict and a rule's tags are nobody's to push aside."""

from __future__ import annotations

import pytest

from taskfabric.domain.errors import LeaseLost
from taskfabric.services.args import FenceArg
from taskfabric.services.verbs import Claim, Done, Show, Submit, Verify
from tests.integration.board_api import BoardApi, Refusal
from tests.integration.cards import Ground, queue


@pytest.fixture
def pool(shared_api: BoardApi) -> Ground:
    return queue(shared_api)


def _refusals(pool: Ground, task: int) -> list[str]:
    with pool.api.served.house.database.connection() as conn:
        rows = conn.execute(
            "SELECT data ->> 'rule' FROM journal WHERE task_id = %s AND kind = 'refused' ORDER BY id", (task,)
        ).fetchall()
    return [row[0] for row in rows]


def _status(pool: Ground, task: int) -> str:
    return pool.api.served.house.board.get(task, None).status.value


@pytest.mark.parametrize("who", ["qwen", "kimi", "jsonrpc"])
def test_a_leased_card_stays_where_it_is_for_everybody_but_humans(pool: Ground, who: str) -> None:
    task = pool.claimed()
    assert pool.move(task, "Done", by=who) is False
    assert pool.call("closeTask", task, by=who) is False
    assert pool.call("updateTask", id=task, owner_id=pool.api.user_id("qwen"), by=who) is False
    assert _status(pool, task) == "working"
    assert pool.task(task)["owner_id"] == pool.api.user_id("kimi")
    assert _refusals(pool, task) == ["leased", "leased", "leased"]


def test_a_humans_move_of_a_leased_card_is_a_fact_and_ends_the_lease(pool: Ground) -> None:
    task_id = pool.submitted()
    [got] = pool.fabric("kimi").call(Claim(queue=pool.queue, limit=1))
    assert pool.move(task_id, "Ready") is True
    with pytest.raises(LeaseLost):
        pool.fabric("kimi").call(Done(fence=FenceArg.of(got.fence), note="late"))
    task = pool.fabric("alice").call(Show(task=task_id)).task
    assert (task.status.value, task.attempts, task.holder) == ("ready", 0, None)


def test_a_humans_reassignment_of_a_leased_card_ends_the_lease(pool: Ground) -> None:
    task_id = pool.claimed()
    assert pool.call("updateTask", id=task_id, owner_id=pool.api.user_id("bob")) is True
    task = pool.fabric("alice").call(Show(task=task_id)).task
    assert (task.status.value, task.holder, task.lease_until) == ("working", "bob", None)


def _done(pool: Ground, *, by: str = "kimi") -> int:
    task_id = pool.submitted()
    [got] = pool.fabric(by).call(Claim(queue=pool.queue, limit=1))
    pool.fabric(by).call(Done(fence=FenceArg.of(got.fence), note="finished"))
    return task_id


def test_closing_is_verification_and_the_producer_never_closes(pool: Ground) -> None:
    task = _done(pool)
    assert pool.call("closeTask", task, by="kimi") is False
    assert pool.call("closeTask", task, by="jsonrpc") is False, "the app token verifies nothing"
    assert _refusals(pool, task) == ["producer-never-closes", "service"]
    assert _status(pool, task) == "done"
    assert pool.call("closeTask", task) is True
    assert _status(pool, task) == "verified"


@pytest.mark.parametrize("way", ["made there", "moved there"])
def test_a_human_closes_what_he_did_himself_with_any_client(pool: Ground, way: str) -> None:
    task = pool.create("water the plants", column_id=pool.columns["Done" if way == "made there" else "Ready"], by="bob")
    if way == "moved there":
        assert pool.move(task, "Done", by="bob") is True
    assert _status(pool, task) == "done"
    assert pool.call("closeTask", task, by="bob") is True
    assert _status(pool, task) == "verified"


def test_a_human_who_did_what_another_wanted_does_not_close_it(pool: Ground) -> None:
    task = pool.fabric("alice").call(Submit(title="water her plants", to="bob")).task.id
    inbox = pool.call("getProjectByName", "bob", by="bob")["id"]
    done = pool.call("getColumns", inbox, by="bob")[-1]["id"]
    assert pool.call("moveTaskPosition", inbox, task, done, 1, 0, by="bob") is True
    assert pool.call("closeTask", task, by="bob") is False
    assert _refusals(pool, task) == ["producer-never-closes"]
    assert pool.fabric("alice").call(Verify(task=task)).status.value == "verified"


def test_an_unrelated_agent_verifies_by_closing(pool: Ground) -> None:
    task = _done(pool)
    assert pool.call("closeTask", task, by="qwen") is True
    assert _status(pool, task) == "verified"


def test_closing_outside_done_cancels(pool: Ground) -> None:
    task = pool.submitted()
    assert pool.call("closeTask", task, by="kimi") is False, "it is not kimi's"
    assert pool.call("closeTask", task) is True
    assert _status(pool, task) == "cancelled"


def test_reopening_is_a_humans_act(pool: Ground) -> None:
    task = _done(pool)
    pool.call("closeTask", task)
    assert pool.call("openTask", task, by="kimi") is False
    assert pool.call("openTask", task) is True
    assert _status(pool, task) == "done"


def test_an_agent_moves_its_own_unclaimed_card_between_backlog_and_ready_and_no_further(pool: Ground) -> None:
    own = pool.create("mine", by="kimi")
    other = pool.create("hers")
    assert _status(pool, own) == "backlog"
    assert pool.move(own, "Ready", by="kimi") is True
    assert pool.move(own, "Done", by="kimi") is False
    assert pool.move(own, "Work in progress", by="kimi") is False
    assert pool.move(other, "Ready", by="kimi") is False
    assert pool.call("createTask", title="x", project_id=pool.id, column_id=pool.columns["Done"], by="kimi") is False


@pytest.mark.parametrize("who", ["alice", "jsonrpc"])
def test_a_queue_is_not_closed_by_its_manager_or_the_app_token(pool: Ground, who: str) -> None:
    inbox = pool.call("getProjectByName", "alice")["id"]
    for project_id in (pool.id, inbox):
        assert pool.call("disableProject", project_id, by=who) is False
        assert pool.call("getProjectById", project_id, by=who)["is_active"] == 1
        assert pool.call("enableProject", project_id, by=who) is True
    assert pool.submitted()


def test_a_card_made_in_ready_is_claimed(pool: Ground) -> None:
    made = pool.create("work", column_id=pool.columns["Ready"])
    [got] = pool.fabric("kimi").call(Claim(queue=pool.queue, limit=1))
    assert got.task.id == made


# -- tags, metadata, comments ----------------------------------------------------------------------------


def test_reserved_tags_are_shown_survive_a_replace_and_are_set_by_nobody(pool: Ground) -> None:
    task = pool.submitted(tier="large", needs=["tools"], tags=["mine"])
    names = sorted(pool.call("getTaskTags", task).values())
    assert names == ["mine", "needs:tools", "tier:large"]
    assert pool.call("setTaskTags", pool.id, task, ["other"]) is True
    assert sorted(pool.call("getTaskTags", task).values()) == ["needs:tools", "other", "tier:large"]
    assert pool.call("setTaskTags", pool.id, task, ["tier:large", "third"]) is True, "what it has may be named"
    for reserved in ("blocked", "tier:small", "needs:gpu", "Dead-Letter", "cancelled"):
        assert pool.call("setTaskTags", pool.id, task, [reserved]) is False
        assert pool.call("createTag", pool.id, reserved) is False
        assert pool.call("createTask", title="x", project_id=pool.id, tags=[reserved]) is False
    assert sorted(pool.call("getTaskTags", task).values()) == ["needs:tools", "third", "tier:large"]
    assert pool.found("tag:tier:large") == [task]


@pytest.mark.parametrize("who", ["kimi", "bob", "jsonrpc"])
def test_a_tag_is_changed_only_by_who_may_change_every_card_that_has_it(pool: Ground, who: str) -> None:
    held, shared = pool.claimed(tags=["mine", "ours"]), pool.create("own", tags=["ours", "own"], by=who)
    tags = {row["name"]: row["id"] for row in pool.call("getTagsByProject", pool.id, by="jsonrpc")}
    for name in ("mine", "ours"):
        assert pool.call("updateTag", tags[name], "changed", by=who) is False
        assert pool.call("removeTag", tags[name], by=who) is False
    assert set(pool.call("getTaskTags", held).values()) == {"mine", "ours"}
    assert pool.call("updateTag", tags["own"], "changed", by=who) is True
    assert pool.call("removeTag", tags["own"], by=who) is True
    assert set(pool.call("getTaskTags", shared, by=who).values()) == {"ours"}
    assert pool.call("updateTag", tags["ours"], "theirs") is True, "alice manages the pool"
    assert set(pool.call("getTaskTags", held).values()) == {"mine", "theirs"}


def test_the_names_of_tags_tell_nothing_of_cards_that_one_may_not_see(pool: Ground) -> None:
    pool.submitted(tags=["hers", "both"])
    pool.submitted(by="bob", tags=["both"])
    pool.call("createTag", pool.id, "nobodys")

    def told(method: str, *args: int, by: str) -> set[str]:
        return {row["name"] for row in pool.call(method, *args, by=by) if row["project_id"] == pool.id}

    assert told("getTagsByProject", pool.id, by="bob") == {"both", "nobodys"}
    assert told("getAllTags", by="bob") == {"both", "nobodys"}
    assert told("getTagsByProject", pool.id, by="kimi") == {"hers", "both", "nobodys"}


def test_the_fabrics_metadata_are_read_and_never_written(pool: Ground) -> None:
    task = pool.claimed()
    shown = pool.call("getTaskMetadata", task)
    assert (shown["fabric.holder"], shown["fabric.epoch"], shown["fabric.status"]) == ("kimi", "1", "working")
    assert (shown["fabric.attempts"], shown["fabric.submitter"]) == ("1/3", "alice")
    assert "T" in shown["fabric.lease_until"]
    assert pool.call("saveTaskMetadata", task, {"fabric.holder": "qwen"}) is False
    assert pool.call("removeTaskMetadata", task, "fabric.holder") is False
    assert pool.call("getTaskMetadataByName", task, "fabric.holder") == "kimi"
    assert pool.call("saveTaskMetadata", task, {"mine": "1"}, by="kimi") is True


def test_what_a_client_called_as_the_fabric_does_is_not_shown_in_a_queue(pool: Ground) -> None:
    elsewhere = pool.call("createProject", "elsewhere")
    task = pool.call("createTask", "forged", elsewhere)
    assert pool.call("saveTaskMetadata", task, {"fabric.verdict": "pass", "mine": "1"}) is True
    assert pool.call("getTaskMetadata", task) == {"fabric.verdict": "pass", "mine": "1"}
    assert pool.call("moveTaskToProject", task, pool.id) is True
    shown = pool.call("getTaskMetadata", task)
    assert (shown["mine"], "fabric.verdict" in shown) == ("1", False)


def test_a_card_that_comes_into_a_queue_is_held_by_its_tags(pool: Ground) -> None:
    elsewhere = pool.call("createProject", "tagged")
    task = pool.call("createTask", title="t", project_id=elsewhere, tags=["blocked", "needs:tools", "green"])
    assert pool.call("moveTaskToProject", task, pool.id) is True
    assert _status(pool, task) == "held"
    shown = pool.call("getTaskTags", task)
    assert {name for number, name in shown.items() if int(number) > 0} == {"green"}
    assert set(shown.values()) == {"green", "blocked", "needs:tools"}


def test_the_fabrics_comments_are_read_and_never_changed(pool: Ground) -> None:
    task = pool.claimed()
    [claimed] = pool.call("getAllComments", task)
    assert claimed["comment"].startswith("🔒 claimed by `kimi`")
    for who in ("alice", "kimi", "jsonrpc"):
        assert pool.call("updateComment", claimed["id"], "mine now", by=who) is False
        assert pool.call("removeComment", claimed["id"], by=who) is False
    assert pool.call("getAllComments", task) == [claimed]


# -- who sees what ---------------------------------------------------------------------------------------


def test_in_a_pool_a_human_sees_only_what_he_submitted(pool: Ground) -> None:
    hers = pool.submitted("hers")
    his = pool.submitted("his", by="bob")
    assert pool.found("", by="bob") == [his]
    assert [row["id"] for row in pool.call("getAllTasks", pool.id, by="bob")] == [his]
    board = pool.call("getBoard", pool.id, by="bob")
    assert [t["id"] for column in board[0]["columns"] for t in column["tasks"]] == [his]
    assert pool.call("getTask", his, by="bob")["position"] == 1, "places are counted over what he sees"
    with pytest.raises(Refusal) as hidden:
        pool.call("getTask", hers, by="bob")
    with pytest.raises(Refusal) as missing:
        pool.call("getTask", 999_999, by="bob")
    assert hidden.value.reply.body == missing.value.reply.body
    assert hidden.value.reply.status == missing.value.reply.status


def test_an_agent_changes_only_its_own_words_before_anybody_took_them(pool: Ground) -> None:
    hers, own = pool.submitted(), pool.create("mine", by="kimi")
    assert pool.call("updateTask", id=hers, title="changed", by="kimi") is False
    assert pool.call("updateTask", id=hers, description="rm -rf", by="jsonrpc") is False
    assert pool.call("updateTask", id=own, title="better", by="kimi") is True


# -- dependencies ----------------------------------------------------------------------------------------


def test_a_blocking_link_gates_and_its_end_releases(pool: Ground) -> None:
    first, second = pool.submitted("first"), pool.submitted("second")
    assert pool.call("createTaskLink", second, first, 3)
    [got] = pool.fabric("kimi").call(Claim(queue=pool.queue, limit=5))
    assert got.task.id == first
    pool.fabric("kimi").call(Done(fence=FenceArg.of(got.fence), note="ok"))
    [got] = pool.fabric("kimi").call(Claim(queue=pool.queue, limit=5))
    assert got.task.id == second


def test_only_a_human_lets_go_of_a_dependency(pool: Ground) -> None:
    first, second = pool.submitted("first"), pool.submitted("second")
    link = pool.call("createTaskLink", second, first, 3)
    assert pool.call("removeTaskLink", link, by="kimi") is False
    assert pool.fabric("alice").call(Show(task=second)).task.open_blockers == 1
    assert pool.call("removeTaskLink", link) is True
    assert pool.fabric("alice").call(Show(task=second)).task.open_blockers == 0


def test_what_others_wait_for_is_not_removed(pool: Ground) -> None:
    first, second = pool.submitted("first"), pool.submitted("second")
    pool.call("createTaskLink", second, first, 3)
    assert pool.call("removeTask", first) is False
    assert pool.call("removeTask", second, by="kimi") is False
    assert pool.call("removeTask", second) is True
    assert pool.call("removeTask", first) is True
