"""Who may call whom over A2A: every operation with every kind of credential, and what strangers can learn.

The checklist is the public conformance corpus' auth-security part. Every operation is asked in both bindings:

no, wrong, of another scheme, expired, revoked   SEC-AUTH-001, -002, -004    here; foreign tokens and certificates
                                                                             in ``test_a2a_schemes``
a run's, after its run                           SEC-AUTH-002                here
insufficient: nobody to this agent, a token for  SEC-AUTH-003                here; without a scope in
other queues                                                                 ``test_a2a_schemes``
foreign: somebody else's task, as if unknown     SEC-AUTH-005, SEC-PUSH-001  here and in ``test_a2a_push``
credentials that a task waits for                SEC-AUTH-006                here
where push goes, and with what secrets           SEC-PUSH-002                ``test_a2a_push``, ``unit/test_egress``
the extended card: only with a credential, more  SEC-EXTCARD-001 to -003     here
than the public one; refused where there is none SEC-EXTCARD-004             ``test_a2a_cards``
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from taskfabric.domain.principal import Kind, ProjectRole, Trust, Via
from taskfabric.services import verbs
from taskfabric.surfaces.a2a import endpoint
from taskfabric.surfaces.a2a.cards import BINDINGS
from taskfabric.testing import TestServer
from taskfabric.wiring import SYSTEM
from tests.integration.calling import Exchange, exchange, message, shape

URL: Final = "https://192.0.2.1/hook"
METHODS: Final = (
    *("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"),
    *("CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"),
    *("DeleteTaskPushNotificationConfig", "GetExtendedAgentCard"),
)
UNKNOWN: Final = "0e8c8c1e-1111-4222-8333-944455556666"
OF_A_TASK: Final = [m for m in METHODS if m not in ("ListTasks", "GetExtendedAgentCard")]


def params(method: str, task_id: str) -> dict[str, Any]:
    match method:
        case "SendMessage" | "SendStreamingMessage":
            return {"message": message("more", taskId=task_id)}
        case "GetTask" | "CancelTask" | "SubscribeToTask":
            return {"id": task_id}
        case "CreateTaskPushNotificationConfig":
            return {"taskId": task_id, "url": URL}
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return {"taskId": task_id, "id": "c-1"}
        case "ListTaskPushNotificationConfigs":
            return {"taskId": task_id}
        case _:
            return {}


@pytest.fixture(scope="module")
def one_server(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with server.database() as database, exchange(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Exchange:
    one_server.clean()
    return one_server


def credential(agents: Exchange, kind: str) -> dict[str, str | None]:
    """The header of a credential of this kind."""
    house = agents.served.house
    alice = house.credentials.principal("alice")
    assert alice is not None
    match kind:
        case "no":
            return {"Authorization": None}
        case "wrong":
            return {"Authorization": f"Bearer fab_{'x' * 43}"}
        case "of another scheme":
            return {"Authorization": "Digest username=alice"}
        case "in the query only":
            return {"Authorization": None}
        case "expired" | "revoked":
            token, made = house.credentials.create_token(alice.id, name=kind, via=Via.TOKEN, stamp=SYSTEM)
            with house.database.connection() as conn:
                column = "expires_at" if kind == "expired" else "revoked_at"
                conn.execute(
                    f"UPDATE credentials SET {column} = fabric_now() - interval '1 second' WHERE id = %s",
                    (made.id,),
                )
            return {"Authorization": f"Bearer {token}"}
        case _:
            raise AssertionError(kind)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["no", "wrong", "of another scheme", "expired", "revoked"])
def test_no_operation_without_a_good_credential(agents: Exchange, method: str, kind: str, binding: str) -> None:
    """SEC-AUTH-001, -002 and -004; SEC-EXTCARD-001: 401 with how to sign in, for every operation."""
    headers = credential(agents, kind)
    answer = agents.speak(binding, method, params(method, "x"), name=None, headers=headers)
    assert answer.status == 401
    assert "Bearer" in answer.headers["www-authenticate"]
    assert agents.rows() == 0


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("method", METHODS)
def test_an_agent_that_may_not_be_called_is_not_there(agents: Exchange, method: str, binding: str) -> None:
    """SEC-AUTH-003: an insufficient credential; qwen is nobody to this agent."""
    answer, missing = (
        agents.speak(binding, method, params(method, "x"), name="qwen", agent=agent) for agent in ("helper", "nobody")
    )
    assert (answer.status, answer.body) == (missing.status, missing.body) == (404, missing.body)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("method", OF_A_TASK)
def test_a_foreign_task_is_like_one_that_does_not_exist(agents: Exchange, method: str, binding: str) -> None:
    """SEC-AUTH-005, SEC-PUSH-001: same bytes, whatever is asked (G13)."""
    task = agents.send("ask why?")
    foreign, unknown = (agents.speak(binding, method, params(method, id_), name="bob") for id_ in (task["id"], UNKNOWN))
    assert foreign.json["error"]["code"] == (-32001 if binding == "JSONRPC" else 404)
    assert (foreign.status, foreign.body) == (unknown.status, unknown.body)
    assert agents.get(task["id"])["status"] == task["status"]


def test_a_foreign_task_cannot_be_referred_to(agents: Exchange) -> None:
    """The same bytes as for one that does not exist, and nothing is left on the board."""
    task, rows = agents.send("hello"), agents.rows()
    foreign, unknown = (
        agents.post(shape("SendMessage", {"message": message("hello", referenceTaskIds=[other])}), name="bob")
        for other in (task["id"], UNKNOWN)
    )
    assert foreign.json["error"]["code"] == -32602
    assert (foreign.status, foreign.body) == (unknown.status, unknown.body)
    assert agents.rows() == rows


@pytest.mark.parametrize("queued", [False, True])
def test_ones_own_task_that_a_message_refers_to_is_linked_on_the_board(agents: Exchange, queued: bool) -> None:
    first = agents.send("hello")
    if queued:
        agents.served.fabric("alice").call(verbs.Pause(name="helper"))
        agents.served.app.state.gateway.forget()
    more = {"referenceTaskIds": [first["id"], first["id"]], "metadata": {"fabric/queue": True}}
    params = {"message": message("go on", **more), "configuration": {"returnImmediately": queued}}
    second = agents.call("SendMessage", params)["task"]
    rows = agents.row(first["id"]), agents.row(second["id"])
    with agents.served.house.database.connection() as conn:
        found = conn.execute("SELECT link_id, task_id, opposite_task_id FROM task_has_links ORDER BY 2").fetchall()
    assert [tuple(link) for link in found] == [(1, *rows), (1, *reversed(rows))]
    assert (second["status"]["state"] == "TASK_STATE_SUBMITTED") is queued


def test_a_context_belongs_to_its_owner(agents: Exchange) -> None:
    task = agents.send("hello")
    other = agents.send("hello", name="bob", contextId=task["contextId"])
    listed = agents.call("ListTasks", {"contextId": task["contextId"]}, name="bob")["tasks"]
    assert [one["id"] for one in listed] == [other["id"]]
    listed = agents.call("ListTasks", {"contextId": task["contextId"]})["tasks"]
    assert [one["id"] for one in listed] == [task["id"]]


def test_a_list_shows_nobody_elses_tasks(agents: Exchange) -> None:
    agents.send("hello")
    assert agents.call("ListTasks", {}, name="bob") == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }


def test_a_tenant_is_never_an_identity(agents: Exchange) -> None:
    task = agents.send("hello")
    answer = agents.post(shape("GetTask", {"tenant": "helper", "id": task["id"]}), name="bob").json
    assert answer["error"]["code"] == -32001
    assert agents.code("GetTask", {"tenant": "alice", "id": task["id"]}, name="bob") == -32602


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_token_that_is_limited_to_other_queues_reaches_no_agent(agents: Exchange, binding: str) -> None:
    """SEC-AUTH-003: good, but not for this, whatever is asked."""
    house, task = agents.served.house, agents.send("ask why?")
    alice, pool = house.credentials.principal("alice"), house.projects.queue("pool")
    assert alice is not None
    assert pool is not None
    token, _ = house.credentials.create_token(
        alice.id, name="narrow", via=Via.TOKEN, stamp=SYSTEM, queues=[pool.project_id]
    )
    headers = {"Authorization": f"Bearer {token}"}
    for method in METHODS:
        answer = agents.speak(binding, method, params(method, task["id"]), name=None, headers=headers)
        assert (answer.status, task["id"] in answer.body.decode()) == (404, False), method
    assert (agents.rows(), agents.get(task["id"])) == (1, task)


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_runs_credential_ends_with_its_run(agents: Exchange, binding: str) -> None:
    """SEC-AUTH-002: what a run was given opens nothing afterwards, nor what its principal began before."""
    served, house = agents.served, agents.served.house
    helper, kimi = house.projects.queue("helper"), house.credentials.principal("kimi")
    assert helper is not None
    assert kimi is not None
    house.projects.set_member(helper.project_id, kimi.id, ProjectRole.MEMBER, SYSTEM)
    with served.fabric("alice") as alice, served.fabric("kimi") as worker:
        alice.call(verbs.Submit(title="a whole", to="kimi"))
        (claimed,) = worker.call(verbs.Claim())
        fence = verbs.FenceArg.of(claimed.fence)
        token = worker.call(verbs.RunToken(fence=fence))["token"]
        headers = {"Authorization": f"Bearer {token}"}
        asked = {"message": message("ask why?")}
        begun = agents.speak(binding, "SendMessage", asked, name=None, headers=headers)
        assert begun.status == 200
        worker.call(verbs.Done(fence=fence, note="done"))
    for method in METHODS:
        assert agents.speak(binding, method, params(method, UNKNOWN), name=None, headers=headers).status == 401, method


def test_the_card_is_public_and_the_extended_one_is_not(agents: Exchange) -> None:
    """SEC-EXTCARD-002, -003: more than the public card, and only with a credential."""
    public = agents.served.request("GET", "/agents/helper/.well-known/agent-card.json", name=None)
    assert public.status == 200
    extended = agents.call("GetExtendedAgentCard", {})
    assert len(extended["skills"]) > len(public.json["skills"])
    assert agents.served.request("GET", "/agents/nobody/.well-known/agent-card.json", name=None).status == 404
    assert agents.served.request("POST", "/agents/helper/.well-known/agent-card.json", name=None).status == 401


def test_a_question_for_a_credential_says_so_and_carries_none(agents: Exchange) -> None:
    """SEC-AUTH-006"""
    task = agents.send("login")
    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"


def test_who_is_switched_off_gets_no_more(agents: Exchange) -> None:
    """SEC-AUTH-004: neither answers nor the rest of an open stream."""
    house = agents.served.house
    carol = agents.served.add("carol", Kind.HUMAN, Trust.HUMAN)
    task = agents.send("wait", name="carol", at_once=True)
    with agents.stream("SubscribeToTask", {"id": task["id"]}, name="carol") as events:
        next(events)
        house.credentials.set_active(carol, active=False, stamp=SYSTEM)
        agents.gate.open.set()
        with pytest.raises(StopIteration):
            next(events)
    assert agents.post(shape("GetTask", {"id": task["id"]}), name="carol").status == 401


def test_who_is_switched_off_while_he_waits_hears_no_result(agents: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_QUICK", 0.0)
    dave = agents.served.add("dave", Kind.HUMAN, Trust.HUMAN)
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(agents.post, shape("SendMessage", {"message": message("wait")}), name="dave")
        agents.gate.begins()
        agents.served.house.credentials.set_active(dave, active=False, stamp=SYSTEM)
        agents.gate.open.set()
        assert waits.result(20).status == 401


def test_every_wrong_token_gets_the_same_answer(agents: Exchange) -> None:
    one = agents.post(shape("ListTasks", {}), name=None, headers={"Authorization": "Bearer a"})
    two = agents.post(shape("ListTasks", {}), name=None, headers={"Authorization": "Bearer b"})
    assert one.body == two.body
