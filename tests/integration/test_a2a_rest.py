"""A2A over HTTP+JSON: the same calls at paths of their own, with the same answers, limits and errors."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.testing import TestServer
from tests.integration.calling import HEADERS, Exchange, exchange, message, rest_of
from tests.integration.test_a2a_auth import METHODS, UNKNOWN, params


@pytest.fixture(scope="module")
def one_server(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    home = tmp_path_factory.mktemp("home")
    with server.database() as database, exchange(database.dsn, home, push__allow_hosts=["192.0.2.1"]) as made:
        yield made


@pytest.fixture
def agents(one_server: Exchange) -> Exchange:
    one_server.clean()
    return one_server


def rest(agents: Exchange, method: str, params: dict[str, Any]) -> Any:
    """The whole answer of a call that is answered."""
    reply = agents.speak("HTTP+JSON", method, params)
    assert reply.status == 200, reply.body
    return reply.json


def ask(agents: Exchange, verb: str, path: str, body: bytes = b"", **headers: str | None) -> Any:
    given = {k: v for k, v in {**HEADERS, **{k.replace("_", "-"): v for k, v in headers.items()}}.items() if v}
    return agents.served.request(verb, f"/agents/helper/{path}", body, headers=given)


def test_every_operation_answers_as_over_json_rpc(agents: Exchange) -> None:
    sent = rest(agents, "SendMessage", {"message": message("ask why?")})["task"]
    assert sent == agents.get(sent["id"])
    for method, asked in (
        ("GetTask", {"id": sent["id"]}),
        ("GetTask", {"id": sent["id"], "historyLength": 0}),
        ("ListTasks", {"status": "TASK_STATE_INPUT_REQUIRED", "pageSize": 3, "includeArtifacts": True}),
        ("ListTasks", {"contextId": sent["contextId"], "historyLength": 1}),
        ("ListTasks", {"statusTimestampAfter": "2099-01-01T00:00:00Z"}),
        ("GetExtendedAgentCard", {}),
    ):
        assert rest(agents, method, asked) == agents.call(method, asked), (method, asked)
    made = rest(agents, "CreateTaskPushNotificationConfig", params("CreateTaskPushNotificationConfig", sent["id"]))
    one = {"taskId": sent["id"], "id": made["id"]}
    assert rest(agents, "GetTaskPushNotificationConfig", one) == made
    assert rest(agents, "ListTaskPushNotificationConfigs", {"taskId": sent["id"]})["configs"] == [made]
    assert rest(agents, "DeleteTaskPushNotificationConfig", one) == {}
    assert rest(agents, "CancelTask", {"id": sent["id"]}) == agents.get(sent["id"])
    assert agents.state(sent["id"]) == "CANCELED"


def test_a_stream_tells_the_events_themselves_and_goes_on_where_it_was_cut_off(agents: Exchange) -> None:
    verb, path, body = rest_of("SendStreamingMessage", {"message": message("chunks one |two")})
    whole = ask(agents, verb, path, body)
    assert whole.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in whole.body.decode().splitlines() if line.startswith("data: ")]
    assert next(iter(events[0])) == "task"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    for verb in ("GET", "POST"):
        rest = ask(agents, verb, f"tasks/{events[0]['task']['id']}:subscribe", Last_Event_ID="2").body.decode()
        assert [json.loads(line[6:]) for line in rest.splitlines() if line.startswith("data: ")] == events[1:]


def test_a_key_makes_one_task_in_both_bindings(agents: Exchange) -> None:
    said = message("hello", metadata={"idempotencyKey": "k-1"})
    first = agents.call("SendMessage", {"message": said})["task"]
    assert rest(agents, "SendMessage", {"message": said})["task"] == first
    assert agents.rows() == 1


REFUSED: dict[str, tuple[str, str, bytes, int, str]] = {
    "no JSON": ("POST", "message:send", b"{", 400, "PARSE_ERROR"),
    "brackets": ("POST", "message:send", b"[" * 100_000, 400, "PARSE_ERROR"),
    "a list": ("POST", "message:send", b"[]", 400, "INVALID_REQUEST"),
    "nothing": ("POST", "message:send", b"", 400, "INVALID_PARAMS"),
    "no parts": ("POST", "message:send", b'{"message":{"messageId":"m","role":"ROLE_USER"}}', 400, "INVALID_PARAMS"),
    "an unknown state": ("GET", "tasks?status=TASK_STATE_NOPE", b"", 400, "INVALID_PARAMS"),
    "a page of 101": ("GET", "tasks?pageSize=101", b"", 400, "INVALID_PARAMS"),
    "a page that is no number": ("GET", "tasks?pageSize=many", b"", 400, "INVALID_PARAMS"),
    "a word for a yes": ("GET", "tasks?includeArtifacts=perhaps", b"", 400, "INVALID_PARAMS"),
    "a name twice": ("GET", "tasks?pageSize=1&pageSize=2", b"", 400, "INVALID_PARAMS"),
    "no UTF-8": ("GET", "tasks?contextId=%ff", b"", 400, "INVALID_REQUEST"),
    "NUL": ("GET", "tasks?contextId=%00", b"", 400, "INVALID_PARAMS"),
    "fields without end": ("GET", f"tasks?{'&'.join(f'f{n}=1' for n in range(30))}", b"", 400, "INVALID_REQUEST"),
    "an unknown task": ("GET", f"tasks/{UNKNOWN}", b"", 404, "TASK_NOT_FOUND"),
    "an unknown task to cancel": ("POST", f"tasks/{UNKNOWN}:cancel", b"", 404, "TASK_NOT_FOUND"),
    "another tenant": ("GET", "tasks?tenant=other", b"", 400, "INVALID_PARAMS"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_has_the_status_and_the_reason_of_its_error(agents: Exchange, what: str) -> None:
    verb, path, body, status, reason = REFUSED[what]
    reply = ask(agents, verb, path, body)
    error = reply.json["error"]
    assert (reply.status, error["code"], error["details"][0]["reason"]) == (status, status, reason)
    assert error["status"].isupper()
    assert agents.rows() == 0


def test_the_path_says_which_task_is_meant_whatever_the_body_says(agents: Exchange) -> None:
    one, two = (agents.send("ask why?")["id"] for _ in range(2))
    assert ask(agents, "POST", f"tasks/{one}:cancel", json.dumps({"id": two}).encode()).json["id"] == one
    assert (agents.state(one), agents.state(two)) == ("CANCELED", "INPUT_REQUIRED")


def test_version_type_size_and_method_are_held_to_the_same_rules(agents: Exchange) -> None:
    assert (
        ask(agents, "GET", "tasks", A2A_Version=None).json["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"
    )
    assert ask(agents, "GET", "tasks?A2A-Version=1.0", A2A_Version=None).status == 200
    assert ask(agents, "POST", "message:send", b"{}", Content_Type="text/plain").status == 415
    assert ask(agents, "POST", "message:send", b"x" * (1 << 20 | 1)).status == 413
    assert ask(agents, "PUT", "tasks").status == 405
    assert ask(agents, "PUT", "tasks/x:subscribe").headers["allow"] == "GET, POST"
    assert ask(agents, "GET", "nope").body == agents.served.request("GET", "/agents/nobody/nope").body
    assert agents.rows() == 0


def test_a_path_that_ends_like_a_public_card_needs_a_credential_all_the_same(agents: Exchange) -> None:
    for path in ("tasks/.well-known/agent-card.json", "x/.well-known/agent-card.json"):
        assert agents.served.request("GET", f"/agents/helper/{path}", name=None).status in (401, 404)


def test_a_closed_agent_says_until_when_in_this_binding_too(agents: Exchange) -> None:
    from taskfabric.services import verbs

    agents.served.fabric("alice").call(verbs.Pause(name="helper"))
    agents.served.app.state.gateway.forget()
    reply = agents.speak("HTTP+JSON", "SendMessage", {"message": message("hello")})
    error = reply.json["error"]
    assert (reply.status, error["code"], error["status"]) == (503, 503, "UNAVAILABLE")
    assert int(reply.headers["retry-after"]) >= 1
    assert error["details"][0]["reason"] == "AGENT_UNAVAILABLE"


def test_every_operation_has_a_path(agents: Exchange) -> None:
    for method in METHODS:
        reply = agents.speak("HTTP+JSON", method, params(method, UNKNOWN))
        assert reply.status in (200, 404), method
        assert reply.status == 200 or reply.json["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"


def test_the_sdks_own_client_talks_over_http_and_json(agents: Exchange) -> None:
    import httpx
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.types import a2a_pb2 as pb

    async def talk() -> tuple[list[str], str]:
        headers = {"Authorization": f"Bearer {agents.served.tokens['alice']}"}
        async with httpx.AsyncClient(headers=headers, timeout=20) as line:
            card = await A2ACardResolver(line, f"{agents.served.url}/agents/helper").get_agent_card()
            config = ClientConfig(streaming=True, httpx_client=line, supported_protocol_bindings=["HTTP+JSON"])
            client = ClientFactory(config).create(card)
            said = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="chunks a|b")])
            kinds, task_id = [], ""
            async for event in client.send_message(pb.SendMessageRequest(message=said)):
                kinds.append(str(event.WhichOneof("payload")))
                task_id = task_id or event.task.id
            task = await client.get_task(pb.GetTaskRequest(id=task_id))
            await client.close()
            return kinds, pb.TaskState.Name(task.status.state)

    kinds, state = asyncio.run(talk())
    assert (kinds[0], kinds[-1], state) == ("task", "status_update", "TASK_STATE_COMPLETED")


def test_a_body_that_stops_half_way_costs_nothing_but_its_connection(agents: Exchange) -> None:
    conn = http.client.HTTPConnection("127.0.0.1", agents.served.port, timeout=20)
    conn.putrequest("POST", "/agents/helper/message:send")
    for key, value in {**HEADERS, "Authorization": f"Bearer {agents.served.tokens['alice']}"}.items():
        conn.putheader(key, value)
    conn.putheader("Content-Length", "1000")
    conn.endheaders(b'{"message":')
    conn.close()
    assert rest(agents, "ListTasks", {})["totalSize"] == 0
