"""What hangs on cards through Kanboard's API: tags, comments, subtasks, links, metadata, files."""

from __future__ import annotations

import base64
import contextlib

import pytest

from taskfabric.domain.principal import ProjectRole
from taskfabric.remote import RemoteFabric
from taskfabric.services import verbs
from taskfabric.wiring import SYSTEM
from tests.integration.board_api import BoardApi, Refusal
from tests.integration.cards import Ground, project


@pytest.fixture
def ground(shared_api: BoardApi) -> Ground:
    return project(shared_api)


def _alice(ground: Ground) -> int:
    return ground.api.user_id("alice")


def _with_bob(ground: Ground) -> int:
    bob = ground.api.user_id("bob")
    ground.api.served.house.projects.set_member(ground.id, bob, ProjectRole.MEMBER, SYSTEM)
    return bob


# -- tags ------------------------------------------------------------------------------------------------


def test_a_tag_is_made_once_and_the_second_call_is_false(ground: Ground) -> None:
    tag = ground.call("createTag", ground.id, "L/12/1", "token|5")
    assert isinstance(tag, int)
    assert ground.call("createTag", ground.id, "L/12/1", "other|6") is False
    assert ground.call("createTag", ground.id, "l/12/1") > tag, "upper and lower case differ, as in Kanboard"
    rows = {row["name"]: row for row in ground.call("getTagsByProject", ground.id)}
    assert rows["L/12/1"] == {"id": tag, "name": "L/12/1", "project_id": ground.id, "color_id": "token|5"}


def test_a_tag_is_renamed_recoloured_and_removed(ground: Ground) -> None:
    a, b = ground.call("createTag", ground.id, "a"), ground.call("createTag", ground.id, "b")
    assert ground.call("updateTag", a, "a", "renewed") is True
    assert ground.call("updateTag", a, "b") is False
    assert ground.call("removeTag", b) is True
    assert ground.call("removeTag", b, by="jsonrpc") is False
    assert [(r["name"], r["color_id"]) for r in ground.call("getTagsByProject", ground.id)] == [("a", "renewed")]


def test_setting_tags_replaces_them(ground: Ground) -> None:
    card = ground.create(tags=["a", "b"])
    assert ground.call("setTaskTags", ground.id, card, ["B", "c"]) is True
    assert sorted(ground.call("getTaskTags", card).values()) == ["b", "c"], "a name is found whatever its case"
    assert ground.call("updateTask", id=card, tags=[]) is True
    assert ground.call("getTaskTags", card) == {}


def test_all_tags_are_those_of_ones_own_projects(ground: Ground) -> None:
    ground.call("createTag", ground.id, "secret-name")
    assert "secret-name" in {row["name"] for row in ground.call("getAllTags")}
    assert "secret-name" not in {row["name"] for row in ground.call("getAllTags", by="bob")}


def test_only_the_app_token_makes_a_global_tag(ground: Ground) -> None:
    with pytest.raises(Refusal) as caught:
        ground.call("createTag", 0, "global-tag")
    assert caught.value.code == 403
    assert ground.call("createTag", 0, f"global-{ground.id}", by="jsonrpc") > 0


# -- comments --------------------------------------------------------------------------------------------


def test_a_comment_of_a_human_s_own_decides_as_everywhere_and_never_one_by_the_app_token(ground: Ground) -> None:
    """G10"""
    served, dana = ground.api.served, f"dana-{ground.id}"
    served.add_person(dana)
    token = served.fabric(dana).call(verbs.CreateToken(name=f"asker-{ground.id}"))["token"]
    inbox = served.house.projects.queue(dana)
    assert inbox is not None
    served.house.projects.set_member(inbox.project_id, ground.api.user_id("bob"), ProjectRole.MEMBER, SYSTEM)
    ask = verbs.RequestApproval(action="mail.send", args={"to": "the-bank"})
    with contextlib.closing(RemoteFabric(served.url, token)) as asker:
        gate = asker.call(ask)["task"]
        for by in ("jsonrpc", "bob"):
            assert ground.call("createComment", gate, ground.api.user_id(by), "/approve", by=by)
            assert asker.call(ask)["state"] == "pending"
        for words in ("/approve please", "/deny"):
            with pytest.raises(Refusal, match="needs-human"):
                ground.call("createComment", gate, ground.api.user_id(dana), words, by=dana)
            assert asker.call(ask)["state"] == "pending"
        assert ground.call("createComment", gate, ground.api.user_id(dana), "/deny not this month", by=dana)
        assert (asker.call(ask)["state"], asker.call(ask)["note"]) == ("denied", "not this month")
        other = asker.call(verbs.RequestApproval(action="mail.send", args={"to": "the-baker"}))["task"]
        assert ground.call("createComment", other, ground.api.user_id(dana), "/approve", by=dana)
        assert asker.call(verbs.ShowApproval(task=other))["state"] == "approved"


def test_a_comment_is_written_read_changed_and_removed(ground: Ground) -> None:
    card = ground.create()
    made = ground.call("createComment", card, _alice(ground), "first", "ref-1")
    row = ground.call("getComment", made)
    assert (row["comment"], row["username"], row["reference"], row["visibility"]) == (
        *("first", "alice", "ref-1"),
        "app-user",
    )
    assert ground.call("updateComment", made, "second") is True
    listed = ground.call("getAllComments", card)
    assert [one["comment"] for one in listed] == ["second"]
    assert "reference" not in listed[0]
    assert ground.call("removeComment", made) is True
    assert ground.call("getAllComments", card) == []


@pytest.mark.parametrize("role", ["app-manager", "app-admin"])
def test_a_comment_for_a_higher_role_is_read_and_found_by_nobody_below_it_on_any_way(ground: Ground, role: str) -> None:
    """G13"""
    _with_bob(ground)
    card = ground.create()
    said = ground.call("createComment", card, _alice(ground), "the birthday surprise", "", role)
    assert (ground.call("getAllComments", card, by="bob"), ground.call("getComment", said, by="bob")) == ([], None)
    assert ground.found("comment:surprise", by="bob") == []
    assert ground.fabric("bob").call(verbs.Show(task=card)).entries == ()
    assert ground.found("comment:surprise") == [card]
    assert [entry.text for entry in ground.fabric("alice").call(verbs.Show(task=card)).entries] == [
        "the birthday surprise"
    ]


def test_nobody_speaks_in_anothers_name(ground: Ground) -> None:
    card, bob = ground.create(), _with_bob(ground)
    assert ground.call("createComment", card, bob, "as bob") is False
    said = ground.call("createComment", card, bob, "says the app", by="jsonrpc")
    assert ground.call("getComment", said)["username"] == "jsonrpc"


def test_only_the_author_changes_a_comment(ground: Ground) -> None:
    card, bob = ground.create(), _with_bob(ground)
    his = ground.call("createComment", card, bob, "his", by="bob")
    assert ground.call("updateComment", his, "hers") is False
    assert ground.call("removeComment", his) is False
    assert ground.call("removeComment", his, by="jsonrpc") is False


def test_a_comment_for_administrators_is_hidden_from_others(ground: Ground) -> None:
    card, bob = ground.create(), _with_bob(ground)
    ground.call("createComment", card, _alice(ground), "for few", "", "app-admin")
    assert ground.call("getAllComments", card, by="bob") == []
    assert ground.call("createComment", card, bob, "too high", "", "app-admin", by="bob") is False


def test_a_blank_comment_is_none(ground: Ground) -> None:
    assert ground.call("createComment", ground.create(), _alice(ground), "  ") is False


# -- subtasks --------------------------------------------------------------------------------------------


def test_the_hours_of_subtasks_add_up_on_the_card(ground: Ground) -> None:
    card = ground.create()
    a = ground.call("createSubtask", task_id=card, title="a", time_estimated=2, time_spent=0.5)
    ground.call("createSubtask", task_id=card, title="b", time_estimated=1)
    row = ground.task(card)
    assert (row["time_estimated"], row["time_spent"]) == (3.0, 0.5)
    assert ground.call("updateSubtask", id=a, task_id=card, status=1, time_spent=1.5) is True
    assert ground.task(card)["time_spent"] == 1.5
    listed = ground.call("getAllSubtasks", card)
    assert [(s["title"], s["position"], s["status_name"]) for s in listed] == [
        ("a", 1, "In progress"),
        ("b", 2, "Todo"),
    ]
    assert ground.call("removeSubtask", a) is True
    assert ground.task(card)["time_estimated"] == 1.0


def test_a_subtask_of_another_card_is_not_changed(ground: Ground) -> None:
    card, other = ground.create(), ground.create()
    part = ground.call("createSubtask", card, "part")
    assert ground.call("updateSubtask", id=part, task_id=other, title="taken") is False
    assert ground.call("getSubtask", part)["title"] == "part"


def test_a_timer_runs_once(ground: Ground) -> None:
    part = ground.call("createSubtask", ground.create(), "part")
    alice = _alice(ground)
    assert ground.call("hasSubtaskTimer", part, alice) is False
    assert ground.call("setSubtaskStartTime", part, alice) is True
    assert ground.call("setSubtaskStartTime", part, alice) is False
    assert ground.call("hasSubtaskTimer", part, alice) is True
    assert ground.call("getSubtaskTimeSpent", part, alice) == 0
    assert ground.call("setSubtaskEndTime", part, alice) is True
    assert ground.call("hasSubtaskTimer", part, alice) is False


# -- links -----------------------------------------------------------------------------------------------


def test_a_link_has_two_directions_and_exists_once(ground: Ground) -> None:
    a, b = ground.create("a"), ground.create("b")
    made = ground.call("createTaskLink", a, b, 8)
    assert ground.call("createTaskLink", a, b, 8) is False
    assert ground.call("createTaskLink", b, a, 9) is False, "its mirror"
    row = ground.call("getTaskLinkById", made)
    assert (row["task_id"], row["opposite_task_id"], row["label"], row["opposite_link_id"]) == (
        *(a, b, "targets milestone"),
        9,
    )
    assert [(n["label"], n["task_id"], n["title"]) for n in ground.call("getAllTaskLinks", b)] == [
        ("is a milestone of", a, "a")
    ]
    assert ground.call("removeTaskLink", made) is True
    assert ground.call("getAllTaskLinks", b) == []


def test_a_link_is_changed_to_another_label(ground: Ground) -> None:
    a, b = ground.create("a"), ground.create("b")
    made = ground.call("createTaskLink", a, b, 1)
    assert ground.call("updateTaskLink", made, a, b, 2) is True
    assert [n["label"] for n in ground.call("getAllTaskLinks", b)] == ["is blocked by"]


def test_a_ring_of_blockers_is_not_made(ground: Ground) -> None:
    a, b, c = (ground.create(t) for t in "abc")
    assert ground.call("createTaskLink", a, b, 2)
    assert ground.call("createTaskLink", b, c, 2)
    assert ground.call("createTaskLink", c, a, 2) is False
    assert ground.call("createTaskLink", a, a, 1) is False


def test_a_link_to_a_card_that_one_may_not_see_is_not_made(ground: Ground) -> None:
    _with_bob(ground)
    hidden = project(ground.api).create("hidden")
    assert ground.call("createTaskLink", ground.create(), hidden, 1, by="bob") is False


def test_external_links_say_what_they_are(ground: Ground) -> None:
    card = ground.create()
    page = ground.call("createExternalTaskLink", card, "https://example.org/a/report.pdf", "related")
    assert ground.call("createExternalTaskLink", card, "no address", "related") is False
    row = ground.call("getExternalTaskLinkById", card, page)
    assert (row["link_type"], row["title"], row["dependency"]) == ("attachment", "report.pdf", "related")
    assert ground.call("updateExternalTaskLink", task_id=card, link_id=page, title="Report") is True
    listed = ground.call("getAllExternalTaskLinks", card)
    assert [(e["title"], e["type"], e["creator_username"]) for e in listed] == [("Report", "Attachment", "alice")]
    assert ground.call("removeExternalTaskLink", ground.create(), page) is False
    assert ground.call("removeExternalTaskLink", card, page) is True
    assert set(ground.call("getExternalTaskLinkTypes")) == {"auto", "attachment", "file", "weblink"}
    assert ground.call("getExternalTaskLinkProviderDependencies", "weblink") == {"related": "Related"}


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("https://example.org/a/page", "example.org/a/page"),
        ("https://example.org:8443/a?b=c#d", "example.org/a"),
        ("https://example.org/", "example.org/"),
        ("https://example.org", "https://example.org"),
        ("https://example.org/a/report.pdf?page=2", "report.pdf"),
        ("file:///home/a/notes.odt", "notes.odt"),
        ("\\\\server\\share\\notes.odt", None),
    ],
)
def test_a_link_without_a_title_is_called_by_its_address(ground: Ground, url: str, title: str | None) -> None:
    card = ground.create()
    made = ground.call("createExternalTaskLink", card, url, "related")
    assert (made is False) is (title is None)
    if title is not None:
        assert ground.call("getExternalTaskLinkById", card, made)["title"] == title


# -- metadata and files ----------------------------------------------------------------------------------


def test_metadata_are_texts_by_name(ground: Ground) -> None:
    card = ground.create()
    assert ground.call("getTaskMetadata", card) == {}
    assert ground.call("saveTaskMetadata", card, {"a": 1, "b": "two"}) is True
    assert ground.call("saveTaskMetadata", card, {"a": "three"}) is True
    assert ground.call("getTaskMetadata", card) == {"a": "three", "b": "two"}
    assert ground.call("getTaskMetadataByName", card, "b") == "two"
    assert ground.call("getTaskMetadataByName", card, "none") == ""
    assert ground.call("removeTaskMetadata", card, "a") is True
    assert ground.call("removeTaskMetadata", card, "a") is False


def test_a_file_comes_back_as_it_was(ground: Ground) -> None:
    card = ground.create()
    made = ground.call("createTaskFile", ground.id, card, "shot.png", base64.b64encode(b"\x89PNG").decode())
    row = ground.call("getTaskFile", made)
    assert (row["name"], row["size"], row["is_image"], row["task_id"]) == ("shot.png", 4, 1, card)
    assert base64.b64decode(ground.call("downloadTaskFile", made)) == b"\x89PNG"
    unpadded = ground.call("createTaskFile", ground.id, card, "unpadded", "aGVs\nbG8")
    assert ground.call("downloadTaskFile", unpadded) == "aGVsbG8="
    assert ground.call("removeTaskFile", unpadded) is True
    assert ground.call("createTaskFile", ground.id, card, "empty", "") is False
    assert ground.call("createTaskFile", ground.id, card, "bad", "***") is False
    assert [f["user_name"] is not None for f in ground.call("getAllTaskFiles", card)] == [True]
    assert ground.call("removeAllTaskFiles", card) is True
    assert ground.call("getAllTaskFiles", card) == []
