"""Kanboard's API, served: projects and what belongs to them, people, groups and labels."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from taskfabric.testing import TestServer
from tests.integration.board_api import BoardApi, Refusal, board_api


@pytest.fixture(scope="module")
def api(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardApi]:
    with server.database() as database, board_api(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def project(api: BoardApi, request: pytest.FixtureRequest) -> int:
    """A project that alice manages and bob works in."""
    made = int(api.call("createProject", request.node.name[:200]))
    assert api.call("addProjectUser", made, api.user_id("bob"))
    return made


# ---------------------------------------------------------------- projects


def test_a_new_project_has_four_columns_one_swimlane_and_its_maker_as_manager(api: BoardApi) -> None:
    made = api.call("createProject", name="A board", description="what it is for", identifier="abc1")
    row = api.call("getProjectById", made)
    assert (row["name"], row["description"], row["identifier"], row["owner_id"]) == (
        "A board",
        "what it is for",
        "ABC1",
        api.user_id("alice"),
    )
    assert row["url"]["board"] == f"{api.served.url}/?controller=BoardViewController&action=show&project_id={made}"
    titles = [column["title"] for column in api.call("getColumns", made)]
    assert titles == ["Backlog", "Ready", "Work in progress", "Done"]
    assert [lane["name"] for lane in api.call("getActiveSwimlanes", made)] == ["Default swimlane"]
    assert api.call("getProjectUserRole", made, api.user_id("alice")) == "project-manager"


def test_a_project_of_the_app_token_has_no_members_and_no_owner(api: BoardApi) -> None:
    made = api.call("createProject", "of nobody", by="jsonrpc")
    assert api.call("getProjectById", made, by="jsonrpc")["owner_id"] == 0
    assert api.call("getProjectUsers", made, by="jsonrpc") == {}


def test_a_project_is_found_by_name_identifier_and_email(api: BoardApi) -> None:
    made = api.call("createProject", name="findable", identifier="find", email="find@example.org")
    for method, value in (
        ("getProjectByName", "findable"),
        ("getProjectByIdentifier", "find"),
        ("getProjectByEmail", "find@example.org"),
    ):
        assert api.call(method, value)["id"] == made
        assert api.call(method, "nothing") is False


def test_what_is_invalid_or_taken_makes_no_project(api: BoardApi) -> None:
    assert api.call("createProject", name="taken", identifier="TAKEN")
    before = len(api.call("getAllProjects"))
    for bad in (
        {"name": ""},
        {"name": "x", "identifier": "taken"},
        {"name": "x", "identifier": "no-dash"},
        {"name": "x", "email": "nowhere"},
        {"name": "x", "owner_id": 99999},
        {"name": "x", "start_date": "much too long a day"},
        {"name": "x", "priority_end": 2**20},
    ):
        assert api.call("createProject", **bad) is False, bad
    assert len(api.call("getAllProjects")) == before


def test_updates_change_what_is_given_and_leave_the_rest(api: BoardApi, project: int) -> None:
    assert api.call("updateProject", project_id=project, description="new", priority_end=9)
    row = api.call("getProjectById", project)
    assert (row["description"], row["priority_end"], row["priority_start"]) == ("new", 9, 0)
    assert row["name"].startswith("test_updates")


def test_a_closed_project_is_still_its_members(api: BoardApi, project: int) -> None:
    assert api.call("disableProject", project)
    assert api.call("getProjectById", project)["is_active"] == 0
    assert str(project) not in api.call("getMyProjectsList")
    assert api.call("enableProject", project)
    assert api.call("getProjectById", project)["is_active"] == 1
    assert str(project) in api.call("getMyProjectsList")


def test_public_access_is_a_mark_with_a_token(api: BoardApi, project: int) -> None:
    assert api.call("enableProjectPublicAccess", project)
    row = api.call("getProjectById", project)
    assert row["is_public"] == 1
    assert row["token"]
    assert api.call("disableProjectPublicAccess", project)
    row = api.call("getProjectById", project)
    assert (row["is_public"], row["token"]) == (0, "")


def test_a_removed_project_is_gone_and_a_queue_is_never_removed(api: BoardApi, project: int) -> None:
    assert api.call("removeProject", project)
    with pytest.raises(Refusal) as refused:
        api.call("getProjectById", project)
    assert refused.value.reply.status == 403
    inbox = api.call("getProjectByName", "alice")["id"]
    assert api.call("removeProject", inbox) is False
    assert api.call("getProjectById", inbox)["name"] == "alice"


# ---------------------------------------------------------------- columns, swimlanes, categories


def test_columns_are_added_changed_moved_and_removed(api: BoardApi, project: int) -> None:
    made = api.call("addColumn", project, "Review", 3, "look again")
    assert api.call("addColumn", project, "Review") is False
    assert api.call("getColumn", made) == {
        "id": made,
        "title": "Review",
        "position": 5,
        "project_id": project,
        "task_limit": 3,
        "description": "look again",
        "hide_in_dashboard": 0,
    }
    assert api.call("changeColumnPosition", project, made, 1)
    assert api.call("getColumns", project)[0]["title"] == "Review"
    assert api.call("changeColumnPosition", project, made, 9) is False
    assert api.call("updateColumn", made, "Checked")
    assert api.call("getColumn", made)["title"] == "Checked"
    assert api.call("removeColumn", made)
    assert len(api.call("getColumns", project)) == 4


def test_a_column_with_a_task_in_it_stays(api: BoardApi, project: int) -> None:
    made = api.call("addColumn", project, "Kept")
    assert api.call("createTask", title="in the way", project_id=project, column_id=made)
    assert api.call("removeColumn", made) is False


def test_swimlanes_are_added_changed_disabled_moved_and_removed(api: BoardApi, project: int) -> None:
    first = api.call("getAllSwimlanes", project)[0]["id"]
    second = api.call("addSwimlane", project, "Second", "for the rest")
    assert api.call("addSwimlane", project, "Second") is False
    assert api.call("getSwimlaneByName", project, "Second") == {
        "id": second,
        "name": "Second",
        "position": 2,
        "is_active": 1,
        "project_id": project,
        "description": "for the rest",
        "task_limit": 0,
    }
    assert api.call("getSwimlaneByName", project, "Third") is None
    assert api.call("changeSwimlanePosition", project, second, 1)
    assert [lane["id"] for lane in api.call("getAllSwimlanes", project)] == [second, first]
    assert api.call("disableSwimlane", project, second)
    assert api.call("getSwimlane", second)["position"] == 0
    assert [lane["id"] for lane in api.call("getActiveSwimlanes", project)] == [first]
    assert api.call("enableSwimlane", project, second)
    assert api.call("getSwimlaneById", second)["position"] == 2
    assert api.call("updateSwimlane", project, second, "Renamed")
    assert api.call("getSwimlane", second)["description"] == "for the rest"
    assert api.call("removeSwimlane", project, second)
    assert api.call("removeSwimlane", project, second) is False


def test_the_app_token_gets_0_for_a_swimlane_of_no_project(api: BoardApi) -> None:
    assert api.call("addSwimlane", 999999, "nowhere", by="jsonrpc") == 0


def test_a_foreign_projects_swimlane_is_not_changed(api: BoardApi, project: int) -> None:
    other = api.call("createProject", "the other one")
    lane = api.call("getAllSwimlanes", other)[0]["id"]
    assert api.call("updateSwimlane", project, lane, "mine now") is False
    assert api.call("getSwimlane", lane)["name"] == "Default swimlane"


def test_categories_are_made_changed_and_removed(api: BoardApi, project: int) -> None:
    made = api.call("createCategory", project, "bug", "red")
    assert api.call("createCategory", project, "bug") is False
    assert api.call("createCategory", project, "") is False
    assert api.call("getCategory", made) == {
        "id": made,
        "name": "bug",
        "project_id": project,
        "description": None,
        "color_id": "red",
    }
    assert api.call("updateCategory", made, "defect")
    assert [c["name"] for c in api.call("getAllCategories", project)] == ["defect"]
    assert api.call("removeCategory", made)
    assert api.call("getAllCategories", project) == []


# ---------------------------------------------------------------- metadata, files


def test_metadata_are_texts_and_the_fabrics_own_are_only_read(api: BoardApi, project: int) -> None:
    assert api.call("getProjectMetadata", project) == {}
    assert api.call("saveProjectMetadata", project, {"a": 1, "c": {"x": 1}, "d": True})
    assert api.call("getProjectMetadata", project) == {"a": "1", "c": "Array", "d": "1"}
    assert api.call("getProjectMetadataByName", project, "zz") == ""
    assert api.call("removeProjectMetadata", project, "a")
    assert api.call("removeProjectMetadata", project, "a") is False
    assert api.call("saveProjectMetadata", project, {"fabric.name": "x"}), "no queue: another fabric may be its client"
    assert api.call("removeProjectMetadata", project, "fabric.name")
    inbox = api.call("getProjectByName", "alice")["id"]
    assert api.call("getProjectMetadataByName", inbox, "fabric.queue") == "inbox"
    assert api.call("saveProjectMetadata", inbox, {"fabric.queue": "pool"}) is False
    assert api.call("removeProjectMetadata", inbox, "fabric.queue") is False
    assert api.call("getProjectMetadataByName", inbox, "fabric.queue") == "inbox"


def test_files_come_back_as_they_were_given(api: BoardApi, project: int) -> None:
    blob = base64.b64encode(b"hello").decode()
    made = api.call("createProjectFile", project, "a.png", blob.rstrip("="))
    row = api.call("getProjectFile", project, made)
    assert (row["name"], row["size"], row["is_image"], row["project_id"]) == ("a.png", 5, 1, project)
    row = api.call("getAllProjectFiles", project)[0]
    assert (row["username"], row["user_name"]) == ("alice", "")  # who has no other name has an empty one
    assert api.call("downloadProjectFile", project, made) == blob
    assert api.call("downloadProjectFile", project, made + 1000) == ""
    assert api.call("createProjectFile", project, "b", "!!!") is False
    assert api.call("createProjectFile", project, "b", "") is False
    assert api.call("removeProjectFile", project, made)
    assert api.call("removeProjectFile", project, made) is False
    assert api.call("removeAllProjectFiles", project)


# ---------------------------------------------------------------- people


def test_members_have_the_role_that_was_given_and_unknown_roles_are_refused(api: BoardApi, project: int) -> None:
    bob, kimi = api.user_id("bob"), api.user_id("kimi")
    assert api.call("getProjectUserRole", project, bob) == "project-member"
    assert api.call("addProjectUser", project, bob) is False
    assert api.call("addProjectUser", project, kimi, "bogus") is False
    assert api.call("addProjectUser", project, 99999) is False
    assert api.call("addProjectUser", project, kimi, "project-viewer")
    assert list(api.call("getProjectUsers", project).values()) == ["alice", "bob", "kimi"]
    assert str(kimi) not in api.call("getAssignableUsers", project)
    assert api.call("getAssignableUsers", project, True)["0"] == "Unassigned"
    assert api.call("changeProjectUserRole", project, kimi, "project-member")
    assert str(kimi) in api.call("getAssignableUsers", project)
    assert api.call("removeProjectUser", project, kimi)
    assert api.call("removeProjectUser", project, kimi) is False
    assert api.call("getProjectUserRole", project, kimi) == ""


def test_a_group_gives_its_members_a_role_until_it_leaves(api: BoardApi) -> None:
    made = api.call("createProject", "for a group")
    group = api.call("createGroup", "readers", "ext-1")
    assert api.call("createGroup", "readers") is False
    assert api.call("getGroup", group) == {"id": group, "external_id": "ext-1", "name": "readers"}
    bob = api.user_id("bob")
    assert api.call("addGroupMember", group, bob)
    assert api.call("addGroupMember", group, bob) is False
    assert api.call("isGroupMember", group, bob)
    assert api.call("getMemberGroups", bob)[0]["name"] == "readers"
    assert api.call("getGroupMembers", group)[0]["username"] == "bob"
    with pytest.raises(Refusal):
        api.call("getColumns", made, by="bob")
    assert api.call("addProjectGroup", made, group, "project-viewer")
    assert len(api.call("getColumns", made, by="bob")) == 4
    with pytest.raises(Refusal):
        api.call("createTask", title="x", project_id=made, by="bob")
    assert api.call("changeProjectGroupRole", made, group, "project-member")
    assert api.call("createTask", title="x", project_id=made, by="bob")
    assert api.call("removeProjectGroup", made, group)
    with pytest.raises(Refusal):
        api.call("getColumns", made, by="bob")
    assert api.call("updateGroup", group, "writers")
    assert api.call("getAllGroups")[-1]["name"] == "writers"
    assert api.call("removeGroupMember", group, bob)
    assert api.call("removeGroup", group)
    assert api.call("getGroup", group) is None


def test_no_group_is_let_into_an_inbox(api: BoardApi) -> None:
    group = api.call("createGroup", "nosy")
    inbox = api.call("getProjectByName", "alice")["id"]
    assert api.call("addProjectGroup", inbox, group) is False


def test_an_account_made_here_has_an_inbox_and_no_way_in_yet(api: BoardApi) -> None:
    made = api.call("createUser", "carol", "a good password", "Carol C.", "carol@example.org")
    row = api.call("getUserByName", "carol")
    assert (row["id"], row["name"], row["role"], row["is_active"]) == (made, "Carol C.", "app-user", 1)
    assert row["password"] is None
    assert api.served.house.projects.queue("carol") is not None
    assert api.post({}, "carol", "a good password").status == 401
    assert api.call("createUser", "carol", "a good password") is False
    assert api.call("createUser", "dave", "short") is False
    assert api.call("createUser", "Dave D.", "long enough") is False
    assert api.call("createUser", username="dave", password="long enough", role="boss") is False


def test_an_account_is_changed_disabled_enabled_and_removed(api: BoardApi) -> None:
    made = api.call("createUser", "erin", "a good password")
    assert api.call("updateUser", id=made, name="Erin", email="erin@example.org", role="app-manager")
    row = api.call("getUser", made)
    assert (row["name"], row["email"], row["role"]) == ("Erin", "erin@example.org", "app-manager")
    assert api.call("updateUser", id=made, username="other") is False
    assert api.call("disableUser", made)
    assert api.call("isActiveUser", made) is False
    assert api.call("enableUser", made)
    assert api.call("isActiveUser", made) is True
    assert api.call("removeUser", made)
    assert api.call("getUser", made) is None
    assert "erin" not in [row["username"] for row in api.call("getAllUsers")]
    assert api.call("removeUser", made) is False
    assert api.call("enableUser", made) is False
    assert api.call("createUser", "erin", "a good password") is False, "the name stays taken"
    assert api.call("disableUser", api.user_id("alice")) is False


def test_no_answer_about_people_holds_a_secret(api: BoardApi) -> None:
    text = str(api.call("getAllUsers")) + str(api.call("getMe"))
    assert "fab_" not in text
    assert "jsonrpc" not in text
    for row in api.call("getAllUsers"):
        assert not any(row[field] for field in ("password", "api_access_token", "twofactor_secret", "token"))


@pytest.mark.parametrize("method", ["createCategory", "addSwimlane", "addColumn", "createGroup", "addProjectUser"])
def test_of_many_who_add_the_same_at_once_one_is_told_yes(api: BoardApi, project: int, method: str) -> None:
    """What Kanboard's clients use as a test-and-set."""
    params: dict[str, list[object]] = {
        "createGroup": ["the same"],
        "addProjectUser": [project, api.user_id("qwen")],
        "addColumn": [project, "the same"],
        "addSwimlane": [project, "the same"],
        "createCategory": [project, "the same"],
    }
    with ThreadPoolExecutor(8) as crowd:
        told = list(crowd.map(lambda _: api.call(method, *params[method]), range(16)))
    assert len([answer for answer in told if answer is not False]) == 1, told


# ---------------------------------------------------------------- labels, the caller's own


def test_labels_of_links_are_kanboards_and_those_added(api: BoardApi) -> None:
    assert api.call("getLinkByLabel", "blocks") == {"id": 2, "label": "blocks", "opposite_id": 3}
    assert (api.call("getOppositeLinkId", 1), api.call("getOppositeLinkId", 2)) == (1, 3)
    assert len(api.call("getAllLinks")) >= 11
    made = api.call("createLink", "inspires", "is inspired by")
    other = api.call("getOppositeLinkId", made)
    assert api.call("getLinkById", other) == {"id": other, "label": "is inspired by", "opposite_id": made}
    assert api.call("createLink", "inspires") is False
    assert api.call("updateLink", made, other, "moves")
    assert api.call("getLinkByLabel", "moves")["id"] == made
    assert api.call("removeLink", made)
    assert api.call("getLinkById", other)["opposite_id"] == 0
    assert api.call("removeLink", 3) is False, "the board itself goes by it"


def test_my_own_things_are_mine(api: BoardApi) -> None:
    assert api.call("getMe", by="bob")["username"] == "bob"
    made = api.call("createMyPrivateProject", "bobs garden", "for bob", by="bob")
    assert api.call("getMyProjectsList", by="bob")[str(made)] == "bobs garden"
    mine = {row["id"]: row for row in api.call("getMyProjects", by="bob")}
    assert mine[made]["is_private"] == 1
    assert str(made) not in api.call("getMyProjectsList")


def test_what_happened_is_told_to_those_who_may_see_it(api: BoardApi, project: int) -> None:
    task = api.call("createTask", title="for the stream", project_id=project)
    api.served.caught_up()
    told = api.call("getProjectActivity", project)
    assert (told[0]["event_name"], told[0]["task_id"], told[0]["author"]) == ("task.create", task, "alice")
    assert api.call("getMyActivityStream", by="bob")[0]["task_id"] == task
    assert api.call("getProjectActivities", [project])[0]["task_id"] == task
    assert api.call("getProjectActivity", project, by="jsonrpc")[0]["task_id"] == task
    with pytest.raises(Refusal):
        api.call("getProjectActivities", [project], by="kimi")


def test_the_application_says_what_it_is(api: BoardApi) -> None:
    assert api.call("getVersion").startswith("taskfabric ")
    assert api.call("getTimezone") == "UTC"
    assert api.call("getDefaultTaskColor") == "yellow"
    assert len(api.call("getDefaultTaskColors")) == 16
    assert api.call("getColorList")["deep_orange"] == "Deep Orange"
    assert list(api.call("getApplicationRoles")) == ["app-admin", "app-manager", "app-user"]
    assert list(api.call("getProjectRoles")) == ["project-manager", "project-member", "project-viewer"]
    assert api.call("createLdapUser", "nobody") is False
