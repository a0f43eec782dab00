"""Webhooks: kept in the change's wake, delivered until they were taken, and never to where they should not go."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.errors import Refused, Unavailable
from taskfabric.stores.hooks import WebhookSender
from taskfabric.testing import TestDatabase
from tests.integration.board_api import BoardApi, board_api
from tests.integration.cards import follow, project, queue

_TOKEN = "a-token-for-the-receiver-of-webhooks-x"


class Receiver:
    """Takes what is posted, or answers 500 as often as it is told to."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.refuse = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.refuse:
                    outer.refuse -= 1
                    self.send_response(500)
                else:
                    outer.got.append((self.path, json.loads(body)))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with contextlib.closing(Receiver()) as made:
        yield made


@pytest.fixture
def api(database: TestDatabase, receiver: Receiver, tmp_path: Path) -> Iterator[BoardApi]:
    told: dict[str, object] = {"webhook__token": _TOKEN, "webhook__allow_private": True}
    with board_api(database.dsn, tmp_path, webhook__url=receiver.url, **told) as made:
        follow(made)  # what happened so far is told
        receiver.got.clear()
        yield made


def test_a_change_is_told_once_as_kanboard_tells_it(api: BoardApi, receiver: Receiver) -> None:
    ground = project(api)
    card = ground.create("told")
    ground.move(card, "Ready")
    ground.call("createComment", card, api.user_id("alice"), "a word")
    ground.call("setTaskTags", ground.id, card, ["silent"])
    ground.call("saveTaskMetadata", card, {"silent": "1"})
    follow(api)
    follow(api)
    names = [body["event_name"] for _, body in receiver.got]
    assert names == ["task.create", "task.move.column", "comment.create"]
    path, first = receiver.got[0]
    assert path == f"/hook?token={_TOKEN}"
    assert first["event_author"] == "alice"
    assert first["event_data"]["task_id"] == card
    assert first["event_data"]["task"]["title"] == "told"


def test_what_was_not_taken_is_sent_again_later(api: BoardApi, receiver: Receiver, database: TestDatabase) -> None:
    receiver.refuse = 1
    project(api).create("stubborn")
    assert sum(one.failed for one in follow(api)) == 1
    assert sum(one.sent for one in follow(api)) == 0, "not before its rest is over"
    with api.served.house.database.connection() as conn:
        conn.execute("UPDATE webhooks SET due = fabric_now() WHERE state = 'pending'")
    assert sum(one.sent for one in follow(api)) == 1
    assert [body["event_name"] for _, body in receiver.got] == ["task.create"]


def test_a_call_does_not_wait_for_the_receiver(api: BoardApi, receiver: Receiver) -> None:
    receiver.refuse = 100
    project(api).create()
    assert receiver.refuse == 100, "nothing is sent inside the call"


def test_nobody_is_told_of_a_humans_inbox(api: BoardApi, receiver: Receiver) -> None:
    """G13."""
    inbox = api.served.house.projects.queue("alice")
    assert inbox is not None
    api.call("createTask", "private", inbox.project_id)
    queue(api).submitted("public")
    follow(api)
    assert {body["event_data"]["task"]["title"] for _, body in receiver.got} == {"public"}


def test_a_private_address_is_not_called_unless_it_is_allowed(receiver: Receiver) -> None:
    with pytest.raises(Refused):
        WebhookSender(receiver.url, "", allow_private=False).send("{}")
    with pytest.raises(Refused):
        WebhookSender(receiver.url.replace("127.0.0.1", "localhost"), "", allow_private=False).send("{}")
    assert receiver.got == []
    WebhookSender(receiver.url, "", allow_private=True).send("{}")
    assert [path for path, _ in receiver.got] == ["/hook"]


def test_a_receiver_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(Unavailable):
            WebhookSender(url, "", allow_private=True).send("{}")
