"""A Kanboard's answers, odd ones included, become rows; what does not travel is said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.reader import read

TASK = {
    **{"id": 5, "title": "Dig", "project_id": 7, "column_id": 70, "swimlane_id": 7, "position": 1, "is_active": 1},
    **{"creator_id": 0, "owner_id": 0, "date_due": 0, "date_creation": 1796108963, "score": 0, "priority": 0},
    **{"time_spent": None, "time_estimated": 1.5},
}
COMMENT = {"id": 9, "task_id": 5, "user_id": 0, "comment": "by gone", "date_creation": 1796108966}
PROJECT = {"id": 7, "name": "Garden", "is_active": 1, "is_public": 1, "token": "secret-link"}
_COLOR = "\\Kanboard\\Action\\TaskAssignColorCategory"
ANSWERS: dict[str, Any] = {
    "getAllUsers": [{"id": 3, "username": "bob", "is_active": 1, "role": "app-user"}],
    "getAllTags": [
        {"id": 72, "name": "everywhere", "project_id": 0, "color_id": "red"},
        {"id": 73, "name": "own", "project_id": 7, "color_id": None},
    ],
    "getAllProjects": [PROJECT],
    "getColumns": [{"id": 70, "title": "Ready", "position": 1}],
    "getAllSwimlanes": [{"id": 7, "name": "all"}],
    "getTagsByProject": [{"id": 73, "name": "own", "project_id": 7, "color_id": None}],
    "getTaskTags": {"72": "everywhere", "73": "own"},
    "getAllComments": [COMMENT],
    "getComment": {**COMMENT, "reference": "mail-1"},
}


class Told:
    """A Kanboard that says what it was told to say."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = dict(ANSWERS)
        self.open: list[dict[str, Any]] = [TASK]
        self.by_project: dict[str, dict[int, Any]] = {}
        self.left: list[str] = []
        self.url = ""

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        own = self.by_project.get(call["method"], {})
        result = own.get(call["params"].get("project_id"), self.answers.get(call["method"], []))
        if call["method"] == "getAllTasks":
            result = self.open if call["params"]["status_id"] == 1 else []
        return {"jsonrpc": "2.0", "id": call["id"], "result": result}

    def rows(self, table: str = "") -> list[dict[str, Any]]:
        self.left.clear()
        _, rows = read(
            Kanboard(self.url, "x"),
            say_what=lambda _: None,
            left=lambda what, why: self.left.append(f"{what}: {why}"),
        )
        return [row for row in rows if table in ("", row["table"])]


@pytest.fixture
def told() -> Iterator[Told]:
    board = Told()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = [board.answer(c) for c in asked] if isinstance(asked, list) else board.answer(asked)
            body = json.dumps(answers).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    board.url = f"http://127.0.0.1:{server.server_port}"
    yield board
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_nobody_made_is_of_the_app_token_and_of_no_service_of_ours(told: Told) -> None:
    (app, _) = told.rows("users")
    assert (app["username"], app["kind"], app["is_active"]) == ("jsonrpc", "service", False)
    assert [(task["creator_id"], task["trust"]) for task in told.rows("tasks")] == [(app["id"], 0)]
    assert [comment["user_id"] for comment in told.rows("comments")] == [app["id"]]
    assert told.left[-1].startswith("the authors of 2 tasks, comments, files and links: a Kanboard does not tell them")
    told.open = [{**TASK, "creator_id": 3}]
    assert [(task["creator_id"], task["trust"]) for task in told.rows("tasks")] == [(3, 3)]


def test_a_comment_has_its_reference(told: Told) -> None:
    assert [comment["reference"] for comment in told.rows("comments")] == ["mail-1"]


def test_a_tag_of_no_project_stays_one_and_one_of_another_becomes_the_cards_own(told: Told) -> None:
    told.answers["getTaskTags"] = {"72": "everywhere", "73": "own", "74": "elsewhere"}
    tags = {tag["id"]: tag for tag in told.rows("tags")}
    worn = [tags[row["tag_id"]] for row in told.rows("task_has_tags")]
    assert sorted((tag["name"], tag["project_id"], tag.get("color_id")) for tag in worn) == [
        ("elsewhere", 7, None),
        ("everywhere", 0, "red"),
        ("own", 7, None),
    ]


def test_public_access_does_not_travel_and_is_said(told: Told) -> None:
    assert "secret" not in str(told.rows("projects"))
    assert told.left[0] == "public access of Garden: links that need no password do not travel"


def test_an_action_that_would_not_run_here_is_named_and_left_out(told: Told) -> None:
    close, mail = (f"\\Kanboard\\Action\\{name}" for name in ("TaskCloseColumn", "TaskEmail"))
    told.answers["getActions"] = [
        {"id": n, "event_name": "task.move.column", "action_name": name, "params": {"column_id": column}}
        for n, (name, column) in enumerate(((close, 70), (close, 99), (mail, 70)), 1)
    ]
    assert [row["id"] for row in told.rows("actions")] == [1]
    assert told.left[1:-1] == [
        "action 2 (TaskCloseColumn) of project 7: its column_id names 99, which is not there",
        "action 3 (TaskEmail) of project 7: no such automatic action is offered here",
    ]
    assert [row["action_id"] for row in told.rows("action_has_params")] == [1]


def test_an_action_comes_after_what_it_is_about_whichever_project_has_which(told: Told) -> None:
    told.answers["getActions"] = [
        {"id": 1, "event_name": "task.update", "action_name": _COLOR, "params": {"category_id": 9, "color_id": "red"}}
    ]
    told.answers["getAllCategories"] = []
    told.answers["getAllProjects"] = [PROJECT, {**PROJECT, "id": 8}]
    told.by_project["getAllCategories"] = {8: [{"id": 9, "name": "hedges"}]}
    tables = [row["table"] for row in told.rows()]
    assert tables.index("project_has_categories") < tables.index("actions") < tables.index("action_has_params")


def test_a_subtask_in_a_state_that_there_is_not_is_named(told: Told) -> None:
    told.answers["getAllSubtasks"] = [{"id": 14, "task_id": 5, "title": "x", "status": 9, "position": 1}]
    assert told.rows("subtasks") == []
    assert "subtask 14: it has a value that is none: 9" in told.left


def test_hours_that_nobody_gave_are_none(told: Told) -> None:
    assert [(face["time_spent"], face["time_estimated"]) for face in told.rows("task_faces")] == [(None, 1.5)]


@pytest.mark.parametrize(("key", "value"), [("date_due", 10**17), ("score", "many"), ("column_id", None)])
def test_a_task_with_a_value_that_is_none_is_named_and_the_others_come(told: Told, key: str, value: object) -> None:
    told.open = [{**TASK, "id": 6, key: value}, TASK]
    assert [task["id"] for task in told.rows("tasks")] == [5]
    assert [line for line in told.left if line.startswith("task 6: it has a value that is none")]
