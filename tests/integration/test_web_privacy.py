"""G13 in the browser: nothing of one person's stands on another's pages, streams, errors or files."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from taskfabric.services.approval_verbs import RequestApproval
from taskfabric.services.verbs import Attach, Comment, FenceArg, FileArg, Show, Submit, Take
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving
from tests.integration.surfing import Surfer

SECRET = "xyzzyplugh"
_ELSEWHERE = {"url": f"https://example.org/{SECRET}", "dependency": "related", "type": "weblink"}


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        database.clock.run()
        yield running


@pytest.fixture(scope="module")
def tasks(served: Served) -> list[int]:
    """Bob's: a task in his inbox with a thread, a file and a question, one in the pool, and an approval."""
    bob = served.fabric("bob")
    inbox = bob.call(
        Submit(title=f"{SECRET} title", description=f"{SECRET} text", to="bob", tags=(f"{SECRET}-tag",))
    ).task.id
    bob.call(Comment(task=inbox, text=f"{SECRET} comment"))
    data = base64.b64encode(SECRET.encode()).decode()
    bob.call(Attach(task=inbox, file=FileArg(name=f"{SECRET}.txt", data=data)))
    pool = bob.call(Submit(title=f"{SECRET} pool", to="pool")).task.id
    fence = FenceArg.of(served.fabric("kimi").call(Take(task=pool)).fence)
    gate = served.fabric("kimi").call(
        RequestApproval(action="mail.send", args={"to": SECRET}, why=SECRET, fence=fence)
    )["task"]
    project = served.call("createMyPrivateProject", {"name": f"{SECRET} project"}, name="bob")["result"]
    card = served.call("createTask", {"project_id": project, "title": f"{SECRET} card"}, name="bob")["result"]
    for task in (inbox, card):
        for method, fields in (("createSubtask", {}), ("createExternalTaskLink", _ELSEWHERE)):
            assert served.call(method, {"task_id": task, "title": SECRET, **fields}, name="bob")["result"], method
    served.caught_up()
    return [inbox, pool, gate, card]


def _routes(served: Served, tasks: list[int]) -> list[str]:
    files = [file.id for task in tasks[:1] for file in served.fabric("bob").call(Show(task=task)).attachments]
    assert files
    return [
        "/", "/?snoozed=1", "/boards", "/board/pool", "/board/pool?all=1", "/board/alice", "/board/bob", "/board/kimi",
        *(f"/board/%23{number}" for number in range(1, 40)),
        *(f"/activity?queue=%23{number}" for number in range(1, 40)),
        f"/board/pool?text={SECRET}", f"/board/pool?tag={SECRET}-tag", "/board/pool?holder=kimi", "/fleet", "/activity",
        "/activity?actor=bob", "/activity?queue=bob", "/activity?queue=pool", "/people", "/settings", "/new",
        f"/find?q={SECRET}", *(f"/task/{task}" for task in tasks), *(f"/activity?task={task}" for task in tasks),
        *(f"/file/{file}" for file in files), *(f"/live/task/{task}?cursor=0-0" for task in tasks),
    ]  # fmt: skip


def test_no_page_shows_a_word_of_somebody_elses(served: Served, tasks: list[int]) -> None:
    """G13, over every route; alice is an administrator and sees no more for it."""
    alice = Surfer(served=served)
    alice.sign_in_by_link("alice")
    for route in _routes(served, tasks):
        shown = alice.get(route)
        body = shown.text.replace(f'value="{SECRET}"', "").replace(f'value="{SECRET}-tag"', "")
        body = body.replace(f"text={SECRET}", "").replace(f"tag={SECRET}-tag", "").replace(f"q={SECRET}", "")
        assert SECRET not in body, route


def test_a_foreign_task_queue_and_file_are_the_same_bytes_as_missing_ones(served: Served, tasks: list[int]) -> None:
    """G13."""
    alice = Surfer(served=served)
    alice.sign_in_by_link("alice")
    file = served.fabric("bob").call(Show(task=tasks[0])).attachments[0].id
    for foreign, missing in (
        (f"/task/{tasks[0]}", "/task/99999"),
        (f"/task/{tasks[2]}", "/task/99999"),
        (f"/file/{file}", "/file/99999"),
        (f"/live/task/{tasks[0]}", "/live/task/99999"),
    ):
        one, other = alice.get(foreign), alice.get(missing)
        assert (one.status, one.text) == (other.status, other.text), foreign
    for name, more in (("answer", {}), ("verify", {}), ("comment", {"text": "x"}), ("snooze", {"until": "+1d"})):
        one = alice.act(name, task=str(tasks[0]), note="x", **more)
        other = alice.act(name, task="99999", note="x", **more)
        assert (one.status, one.text) == (other.status, other.text), name


def test_what_hangs_on_a_foreign_card_is_not_there(served: Served, tasks: list[int]) -> None:
    """G13."""
    foreign, missing = (served.call("fabric.annex", {"task": task})["error"] for task in (tasks[0], 99999))
    assert foreign == missing
    assert served.call("fabric.board.standing", {"queue": "bob", "tasks": tasks})["result"] == {}
    assert not [one for one in served.call("fabric.project.list")["result"] if SECRET in one["name"]]


def test_bob_sees_all_of_it(served: Served, tasks: list[int]) -> None:
    """The test above would be worth nothing if nobody saw it."""
    bob = Surfer(served=served)
    bob.sign_in_by_link("bob")
    for route in (
        f"/task/{tasks[0]}",
        f"/task/{tasks[3]}",
        "/boards",
        "/board/bob",
        "/",
        f"/find?q={SECRET}",
        "/activity",
    ):
        assert bob.get(route).text.count(SECRET) > (1 if "find" in route else 0), route


def test_every_page_asks_who_is_there(served: Served, tasks: list[int]) -> None:
    stranger = Surfer(served=served)
    for route in [*_routes(served, tasks), "/live/board/bob?cursor=0-0", "/live/inbox"]:
        shown = stranger.send("GET", route)
        assert shown.status in (303, 401), route
        assert SECRET not in shown.text
