"""Kanboard's API, served: how a call is made and answered, who may make it, and what guessing costs."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from taskfabric.domain.errors import NotAuthenticated
from taskfabric.domain.principal import Kind, ProjectRole, Trust, Via
from taskfabric.surfaces.auth import Door, Presented
from taskfabric.testing import TestServer
from taskfabric.wiring import SYSTEM, app_token
from tests.integration.board_api import APP_TOKEN, BoardApi, Refusal, board_api


@pytest.fixture(scope="module")
def api(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardApi]:
    with server.database() as database, board_api(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def project(api: BoardApi, request: pytest.FixtureRequest) -> int:
    return int(api.call("createProject", request.node.name[:200]))


def one(method: str, params: object = None, id: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": [] if params is None else params}


# ---------------------------------------------------------------- calls and answers


def test_arguments_come_by_place_or_by_name_and_unknown_names_are_ignored(api: BoardApi, project: int) -> None:
    by_place = api.call("getColumns", project)
    assert api.call("getColumns", project_id=project) == by_place
    assert api.call("getColumns", project_id=str(project)) == by_place
    assert api.call("addSwimlane", project_id=project, name="x", nonsense="ignored")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ([], "Wrong number of arguments"),
        ([1, 2, 3], "Too many arguments"),
        ({"project": 1}, "Missing argument: project_id"),
        (["x"], "project_id: a whole number is wanted"),
        ([[1]], "project_id: a whole number is wanted"),
        ([2**40], "project_id: a whole number is wanted"),
        ([None], "project_id: a whole number is wanted"),
    ],
)
def test_arguments_that_do_not_fit_are_invalid_params_and_say_why(api: BoardApi, params: object, said: str) -> None:
    reply = api.reply("getColumns", params)
    assert reply.status == 200
    assert reply.json["error"] == {"code": -32602, "message": "Invalid params", "data": said}


def test_a_text_where_an_array_is_declared_is_invalid_params_and_no_fault(api: BoardApi, project: int) -> None:
    reply = api.reply("saveProjectMetadata", [project, "x"])
    assert (reply.status, reply.json["error"]["code"]) == (200, -32602)


def test_a_text_with_a_nul_is_invalid_params(api: BoardApi, project: int) -> None:
    assert api.reply("addColumn", [project, "a\0b"]).json["error"]["code"] == -32602
    assert api.reply("saveProjectMetadata", [project, {"a\0": "b"}]).json["error"]["code"] == -32602


def test_an_unknown_procedure_is_method_not_found_with_a_hint(api: BoardApi) -> None:
    reply = api.reply("getColumms", [])
    assert reply.status == 200
    assert reply.json["error"] == {"code": -32601, "message": "Method not found", "data": "did you mean getColumns?"}


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"method": "getVersion", "id": 1}', b'{"jsonrpc": "2.0", "id": 1}'])
def test_what_is_no_call_is_answered_with_http_200_and_an_error(api: BoardApi, raw: bytes) -> None:
    reply = api.post(raw)
    assert reply.status == 200
    assert reply.json["error"]["code"] in (-32700, -32600)


def test_a_notification_and_a_null_id_run_and_are_answered_with_nothing(api: BoardApi, project: int) -> None:
    for call in (
        {"jsonrpc": "2.0", "method": "addColumn", "params": [project, "silent"]},
        {"jsonrpc": "2.0", "id": None, "method": "addColumn", "params": [project, "null"]},
    ):
        reply = api.post(call)
        assert (reply.status, reply.body) == (200, b"")
    assert {"silent", "null"} <= {column["title"] for column in api.call("getColumns", project)}


def test_a_batch_answers_each_entry_also_those_that_are_forbidden(api: BoardApi, project: int) -> None:
    reply = api.post(
        [
            one("getVersion", id=1),
            one("getColumns", [999_999], id=2),
            one("getColumns", ["x"], id=3),
            one("getColumns", [project], id="four"),
            {"jsonrpc": "2.0", "method": "getVersion"},
        ]
    )
    assert reply.status == 200
    answers = reply.json
    assert [answer["id"] for answer in answers] == [1, 2, 3, "four"]
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, 403, -32602, None]


def test_a_batch_may_mix_kanboards_procedures_and_the_fabrics(api: BoardApi) -> None:
    reply = api.post([one("getVersion", id=1), one("fabric.hello", {}, id=2), one("fabric.nonsense", {}, id=3)])
    version, hello, nonsense = reply.json
    assert version["result"].startswith("taskfabric")
    assert hello["result"]["name"] == "alice"
    assert nonsense["error"]["code"] == -32601


# ---------------------------------------------------------------- who may


def test_a_missing_project_and_a_foreign_one_are_the_same_403(api: BoardApi, project: int) -> None:
    """G13: the same bytes."""
    foreign, missing = (api.reply("getColumns", [id], "bob") for id in (project, 999_999))
    assert (foreign.status, missing.status) == (403, 403)
    assert foreign.body == missing.body
    assert foreign.json == {"jsonrpc": "2.0", "error": {"code": 403, "message": "Forbidden"}, "id": None}


def test_an_administrator_has_no_right_in_a_project_that_he_is_no_member_of(api: BoardApi) -> None:
    made = api.call("createMyPrivateProject", "bobs own", by="bob")
    with pytest.raises(Refusal) as refused:
        api.call("getColumns", made)
    assert refused.value.code == 403


def test_somebody_elses_project_is_not_found_by_its_name(api: BoardApi) -> None:
    api.call("createMyPrivateProject", "hidden from alice", by="bob")
    assert api.call("getProjectByName", "hidden from alice") is False


def test_a_viewer_reads_a_member_writes_a_manager_arranges(api: BoardApi, project: int) -> None:
    bob = api.user_id("bob")
    for role, may in (("project-viewer", 0), ("project-member", 1), ("project-manager", 2)):
        assert api.call("removeProjectUser", project, bob) is (role != "project-viewer")
        assert api.call("addProjectUser", project, bob, role)
        for least, method, params in (
            (0, "getColumns", [project]),
            (1, "saveProjectMetadata", [project, {"by": role}]),
            (2, "addColumn", [project, f"by a {role}"]),
        ):
            reply = api.reply(method, params, "bob")
            assert (reply.status == 200) is (may >= least), (role, method)


def test_application_roles_decide_about_users_and_new_projects(api: BoardApi) -> None:
    for method, params in (("getAllUsers", []), ("getAllProjects", []), ("createProject", ["x"]), ("getAllLinks", [])):
        assert api.reply(method, params, "bob").status == 403
        assert api.reply(method, params).status == 200


def test_an_agent_is_a_member_like_others_and_arranges_nothing(api: BoardApi, project: int) -> None:
    assert api.call("addProjectUser", project, api.user_id("kimi"), "project-manager")
    assert len(api.call("getColumns", project, by="kimi")) == 4
    assert api.call("addColumn", project, "by an agent", by="kimi") is False
    assert api.call("removeProject", project, by="kimi") is False


def test_what_a_rule_refuses_is_in_the_journal(api: BoardApi, project: int) -> None:
    assert api.call("addProjectUser", project, api.user_id("qwen"), "project-manager")
    assert api.call("addColumn", project, "x", by="qwen") is False
    with api.served.house.database.connection() as conn:
        row = conn.execute(
            "SELECT data->>'rule', data->>'verb' FROM journal WHERE kind = 'refused' AND actor_id = %s"
            " ORDER BY id DESC LIMIT 1",
            (api.user_id("qwen"),),
        ).fetchone()
    assert row is not None
    assert row[0] == "arrange"


def test_a_token_that_is_limited_to_a_queue_reaches_no_other_project(api: BoardApi, project: int) -> None:
    house = api.served.house
    kimi = house.projects.queue("kimi")
    assert kimi is not None
    token, _ = house.credentials.create_token(
        api.user_id("alice"), name="narrow", via=Via.TOKEN, stamp=SYSTEM, queues=[kimi.project_id]
    )
    assert api.post(one("getColumns", [project]), "alice", token).status == 403
    assert api.post(one("getAllUsers"), "alice", token).status == 403
    assert api.post(one("createMyPrivateProject", ["wide"]), "alice", token).json["result"] is False


# ---------------------------------------------------------------- the app token


def test_the_app_token_reaches_every_project_and_gets_null_for_what_is_missing(api: BoardApi, project: int) -> None:
    assert len(api.call("getColumns", project, by="jsonrpc")) == 4
    assert api.call("getColumns", 999_999, by="jsonrpc") == []
    assert api.call("getProjectById", 999_999, by="jsonrpc") is None
    assert api.call("removeColumn", 999_999, by="jsonrpc") is False
    assert api.call("addColumn", project, "by the app", by="jsonrpc")


def test_the_app_token_is_nobody(api: BoardApi) -> None:
    for method in ("getMe", "getMyProjects", "getMyDashboard", "getMyActivityStream", "getMyOverdueTasks"):
        assert api.reply(method, [], "jsonrpc").status == 403


def test_the_app_token_makes_accounts_without_a_way_in_and_decides_nothing_about_them(api: BoardApi) -> None:
    made = api.call("createUser", "frank", "a good password", by="jsonrpc")
    assert api.call("getUser", made, by="jsonrpc")["role"] == "app-user"
    for method, params in (
        ("createUser", ["grace", "a good password", "", "", "app-admin"]),
        ("updateUser", {"id": made, "role": "app-admin"}),
        ("disableUser", [api.user_id("bob")]),
        ("removeUser", [api.user_id("bob")]),
        ("addProjectUser", [api.call("getProjectByName", "bob", by="jsonrpc")["id"], made]),
    ):
        reply = api.reply(method, params, "jsonrpc")
        assert "result" not in reply.json, method
        assert reply.json["error"]["code"] == -32007
    assert api.call("getUserByName", "bob")["is_active"] == 1


def test_the_app_token_lets_nobody_into_an_inbox_also_while_it_is_closed(api: BoardApi) -> None:
    inbox = api.call("getProjectByName", "alice")["id"]
    group = api.call("createGroup", "the nosy", by="jsonrpc")
    api.served.house.projects.set_active(inbox, False, SYSTEM)
    assert api.reply("addProjectUser", [inbox, api.user_id("kimi")], "jsonrpc").json["error"]["code"] == -32007
    assert api.call("addProjectGroup", inbox, group, by="jsonrpc") is False
    assert api.call("enableProject", inbox, by="jsonrpc")
    assert list(api.call("getProjectUsers", inbox).values()) == ["alice"]


def test_the_app_token_decides_nothing_through_the_fabrics_own_procedures(api: BoardApi, project: int) -> None:
    task = api.call("createTask", "to be judged", project)
    for method, params in (
        ("fabric.verify", {"task": task}),
        ("fabric.reject", {"task": task, "note": "x"}),
        ("fabric.answer", {"task": task, "note": "x"}),
        ("fabric.redrive", {"task": task}),
        ("fabric.cancel", {"task": task}),
        ("fabric.token.create", {"name": "mole"}),
        ("fabric.user.add", {"name": "mole"}),
        ("fabric.pin.set", {"pin": "123456"}),
    ):
        answer = api.reply(method, params, "jsonrpc").json
        assert "error" in answer, (method, answer)
        assert answer["error"]["code"] in (-32005, -32007), (method, answer)


def test_the_app_token_is_off_until_it_is_set_and_again_when_it_is_taken_away(api: BoardApi) -> None:
    house = api.served.house
    app_token(house, "")
    assert api.reply("getVersion", [], "jsonrpc").status == 401
    app_token(house, APP_TOKEN)
    assert api.reply("getVersion", [], "jsonrpc").status == 200
    app_token(house, APP_TOKEN[::-1])
    assert api.reply("getVersion", [], "jsonrpc").status == 401
    app_token(house, APP_TOKEN)
    assert api.reply("getVersion", [], "jsonrpc").status == 200


# ---------------------------------------------------------------- credentials


def test_wrong_credentials_are_401_in_kanboards_words(api: BoardApi) -> None:
    for name, password in (("alice", "wrong"), ("nobody", "x"), ("bob", api.served.tokens["alice"]), ("jsonrpc", "x")):
        reply = api.post(one("getVersion"), name, password)
        assert reply.status == 401
        assert reply.json == {"jsonrpc": "2.0", "error": {"code": 401, "message": "Unauthorized"}, "id": None}


@pytest.mark.parametrize("shown", [{}, {"Authorization": "Basic !!!"}, {"Authorization": "Basic bm9jb2xvbg=="}])
@pytest.mark.parametrize("size", [1, 200_000])
def test_no_credential_and_what_is_none_are_401_in_kanboards_words(
    api: BoardApi, shown: dict[str, str], size: int
) -> None:
    body = {**one("getTask"), "params": ["x" * size]}
    reply = api.served.rpc(body, name=None, headers=shown)
    assert reply.status == 401
    assert reply.json == {"jsonrpc": "2.0", "error": {"code": 401, "message": "Unauthorized"}, "id": None}
    assert b"this needs a token" in api.served.rpc(one("fabric.hello"), name=None, headers=shown).body


def test_who_may_not_call_is_not_told_what_is_wrong_with_his_call(api: BoardApi) -> None:
    for headers in ({}, api.basic("alice", "wrong")):
        assert api.served.request("POST", "/jsonrpc.php", b"{no JSON", name=None, headers=headers).status == 401


def test_a_large_call_with_wrong_credentials_is_not_read_and_is_401_in_kanboards_words(api: BoardApi) -> None:
    reply = api.post({**one("getTask"), "params": ["x" * 200_000]}, "alice", "wrong")
    assert reply.status == 401
    assert reply.json == {"jsonrpc": "2.0", "error": {"code": 401, "message": "Unauthorized"}, "id": None}


def test_a_disabled_account_is_401(api: BoardApi) -> None:
    heidi = api.served.add("heidi", Kind.HUMAN, Trust.HUMAN)
    assert api.call("getMe", by="heidi")["username"] == "heidi"
    assert api.call("disableUser", heidi)
    assert api.reply("getMe", [], "heidi").status == 401


def test_ten_thousand_wrong_passwords_lock_nobody_out_who_has_the_right_one(api: BoardApi) -> None:
    """A client of the same account and address that was here before, and one that comes for the first time."""
    door = api.served.app.state.edge.door
    house = api.served.house
    fresh, _ = house.credentials.create_token(api.user_id("bob"), name="fresh", via=Via.TOKEN, stamp=SYSTEM)
    assert api.call("getMe", by="bob")["username"] == "bob"
    for number in range(20):
        assert api.post(one("getMe"), "bob", f"wrong-{number}").status == 401
    _guess(door, 10_000)
    assert api.call("getMe", by="bob")["username"] == "bob"
    assert api.post(one("getMe"), "bob", fresh).json["result"]["username"] == "bob"
    reply = api.post(one("getMe"), "bob", "still-wrong")
    assert reply.status == 401
    assert int(reply.headers["retry-after"]) > 0


def _guess(door: object, times: int) -> None:
    """At the door itself, as fast as it answers: half of them look like tokens."""
    assert isinstance(door, Door)
    for number in range(times):
        token = f"fab_{number:043d}" if number % 2 else f"guess{number}"
        with pytest.raises(NotAuthenticated):
            door.admit(Presented(token=token, user="bob", address="127.0.0.1", instance=""))


def test_a_large_answer_and_a_large_batch_are_answered_whole(api: BoardApi, project: int) -> None:
    reply = api.post([one("getColumns", [project], id=number) for number in range(100)])
    assert [answer["id"] for answer in orjson.loads(reply.body)] == list(range(100))


def test_roles_of_the_board_are_kanboards(api: BoardApi) -> None:
    assert list(api.call("getProjectRoles")) == [role.value for role in ProjectRole]
