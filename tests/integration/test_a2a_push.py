"""Push as a caller sees it: configs over JSON-RPC, and the calls that come back."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.surfaces.push_postman import PushPostman
from taskfabric.testing import TestServer
from tests.integration.calling import Exchange, exchange, message, shape
from tests.integration.hiring import until
from tests.unit.listener import Heard, heard_at


@pytest.fixture(scope="module")
def standing(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    """One server for all of these tests, with its postman."""
    home: Path = tmp_path_factory.mktemp("home")
    with (
        server.database() as database,
        exchange(database.dsn, home, push__allow_hosts=["127.0.0.1", "example.com"]) as made,
        PushPostman(made.served.house.push_delivery, made.served.house.signal, interval=0.1),
    ):
        yield made


@pytest.fixture
def agents(standing: Exchange) -> Iterator[Exchange]:
    yield standing
    standing.clean()


def create(agents: Exchange, task: str, url: str = "https://example.com/hook", **more: Any) -> Any:
    return agents.call("CreateTaskPushNotificationConfig", {"taskId": task, "url": url, **more})


def listed(agents: Exchange, task: str) -> list[Any]:
    configs: list[Any] = agents.call("ListTaskPushNotificationConfigs", {"taskId": task}).get("configs", [])
    return configs


def states(heard: Heard) -> list[str]:
    told = [json.loads(call.body) for call in heard.requests]
    return [one["statusUpdate"]["status"]["state"] for one in told if "statusUpdate" in one]


def test_a_finished_task_calls_back_with_the_token_and_its_artifact(agents: Exchange) -> None:
    with heard_at() as heard:
        task = agents.send("wait", at_once=True)["id"]
        auth = {"scheme": "Bearer", "credentials": "cr3d"}
        create(agents, task, heard.url, token="t0k", authentication=auth)
        agents.gate.open.set()
        until(lambda: "TASK_STATE_COMPLETED" in states(heard), what="the call")
        assert all(call.headers["x-a2a-notification-token"] == "t0k" for call in heard.requests)
        assert all(call.headers["authorization"] == "Bearer cr3d" for call in heard.requests)
        artifacts = [json.loads(call.body) for call in heard.requests]
        assert any("waited" in json.dumps(one.get("artifactUpdate", {})) for one in artifacts)


def test_a_send_may_bring_its_address_along(agents: Exchange) -> None:
    with heard_at() as heard:
        config = {"url": heard.url, "token": "t0k"}
        params = {"message": message("hello"), "configuration": {"taskPushNotificationConfig": config}}
        assert agents.call("SendMessage", params)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        until(lambda: "TASK_STATE_COMPLETED" in states(heard), what="the call")


def test_a_receiver_that_hangs_stalls_no_send(agents: Exchange) -> None:
    """D5: a slow webhook is off the caller's way."""
    with heard_at() as heard:
        heard.hold = threading.Event()
        config = {"url": heard.url}
        params = {"message": message("hello"), "configuration": {"taskPushNotificationConfig": config}}
        assert agents.call("SendMessage", params)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert heard.came.wait(20)
        assert agents.send("again")["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/",
        "http://[::ffff:127.0.0.2]/",
        "http://2130706433/",
        "http://127.1/",
        "http://10.1.2.3/",
        "http://localhost/",
        "file:///etc/passwd",
        "http://example.com@10.0.0.1/",
        "javascript:alert(1)",
        "",
    ],
)
def test_an_address_that_must_not_be_called_is_refused_wherever_it_is_said(agents: Exchange, url: str) -> None:
    """a2a-python #786, PR #1164; a2a-go #373; a2a-js #584."""
    task = agents.send("hello")["id"]
    assert agents.code("CreateTaskPushNotificationConfig", {"taskId": task, "url": url}) == -32602
    assert listed(agents, task) == []
    rows = agents.rows()
    params = {"message": message("hello"), "configuration": {"taskPushNotificationConfig": {"url": url}}}
    assert agents.code("SendMessage", params) == -32602
    assert agents.rows() == rows


@pytest.mark.parametrize(
    "secret",
    [
        {"token": "a\r\nX-Admin: 1"},
        {"authentication": {"scheme": "Bearer", "credentials": "x\ny"}},
        {"authentication": {"scheme": "Be\r\narer", "credentials": "x"}},
    ],
)
def test_a_secret_with_a_line_break_is_refused(agents: Exchange, secret: dict[str, Any]) -> None:
    """a2a-rs #124."""
    task = agents.send("hello")["id"]
    params = {"taskId": task, "url": "https://example.com/", **secret}
    assert agents.code("CreateTaskPushNotificationConfig", params) == -32602
    assert listed(agents, task) == []


def test_ten_configs_and_no_more(agents: Exchange) -> None:
    """a2a-rs #124."""
    task = agents.send("hello")["id"]
    for _ in range(10):
        create(agents, task)
    params = {"taskId": task, "url": "https://example.com/"}
    assert agents.code("CreateTaskPushNotificationConfig", params) == -32602
    assert len({one["id"] for one in listed(agents, task)} - {task}) == 10


def test_an_answer_whose_address_is_one_too_many_answers_nothing(agents: Exchange) -> None:
    """All of the call or nothing: the question is still open."""
    task = agents.send("ask why?")["id"]
    for _ in range(10):
        create(agents, task)
    params = {
        "message": message("because", taskId=task),
        "configuration": {"taskPushNotificationConfig": {"url": "https://example.com/hook"}},
    }
    assert agents.code("SendMessage", params) == -32602
    assert agents.state(task) == "INPUT_REQUIRED"
    assert len(agents.gate.begun) == 1


def test_two_configs_without_an_id_are_two(agents: Exchange) -> None:
    """a2a-python #1237, PR #1236; a2a-js PR #543."""
    task = agents.send("hello")["id"]
    one, other = create(agents, task), create(agents, task)
    assert one["id"] != other["id"]
    assert {config["id"] for config in listed(agents, task)} == {one["id"], other["id"]}


def test_configs_are_listed_in_pages_of_the_size_that_is_asked_for(agents: Exchange) -> None:
    task = agents.send("hello")["id"]
    made = [create(agents, task)["id"] for _ in range(5)]
    got, asked = [], {"taskId": task, "pageSize": 2, "pageToken": ""}
    while page := agents.call("ListTaskPushNotificationConfigs", asked):
        assert len(page["configs"]) <= 2
        got += [config["id"] for config in page["configs"]]
        asked["pageToken"] = page["nextPageToken"]
        if not asked["pageToken"]:
            break
    assert got == made
    for wrong in ({"pageSize": -1}, {"pageSize": 101}, {"pageToken": "made-up"}):
        assert agents.code("ListTaskPushNotificationConfigs", {"taskId": task, **wrong}) == -32602


def test_secrets_come_back_masked_in_every_answer(agents: Exchange) -> None:
    task = agents.send("hello")["id"]
    auth = {"scheme": "Bearer", "credentials": "cr3d-of-hers"}
    made = create(agents, task, id="one", token="t0k-of-hers", authentication=auth)
    got = agents.call("GetTaskPushNotificationConfig", {"taskId": task, "id": "one"})
    for shown in (made, got, *listed(agents, task)):
        assert (shown["token"], shown["authentication"]["credentials"]) == ("***", "***")
        assert "of-hers" not in json.dumps(shown)


@pytest.mark.parametrize(
    "method",
    [
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    ],
)
def test_anothers_configs_are_like_those_of_no_task(agents: Exchange, method: str) -> None:
    """a2a-python #1159, #1172; SEC-PUSH-001 and -002."""
    task = agents.send("hello")["id"]
    create(agents, task, id="one", token="t0k")
    params = {"id": "one", "url": "https://example.com/"} if "Create" in method else {"id": "one"}
    if "List" in method:
        params = {}
    theirs = agents.post(shape(method, {"taskId": task, **params}), name="bob")
    nowhere = agents.post(shape(method, {"taskId": str(uuid.uuid4()), **params}), name="bob")
    assert theirs.body == nowhere.body
    assert theirs.json["error"]["code"] == -32001
    assert [one["id"] for one in listed(agents, task)] == ["one"]


def test_a_deleted_config_is_gone_and_deleting_it_again_is_no_error(agents: Exchange) -> None:
    task = agents.send("hello")["id"]
    create(agents, task, id="one")
    for _ in range(2):
        agents.call("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "one"})
    assert agents.code("GetTaskPushNotificationConfig", {"taskId": task, "id": "one"}) == -32001
    assert listed(agents, task) == []
