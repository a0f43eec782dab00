"""Two fabrics that work for each other over A2A: an agent of the one is a remote agent of the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.principal import Kind, ProjectRole, Trust
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.services import verbs
from taskfabric.surfaces.cli.main import MODULES
from taskfabric.testing import TestServer
from taskfabric.wiring import SYSTEM
from tests.acceptance.cli_kit import Shell
from tests.integration.a2a_agent import agent_served
from tests.integration.hiring import ROOT, employ, hired, until
from tests.integration.serving import Served, serving


@dataclass(frozen=True, kw_only=True)
class Houses:
    """Our fabric, and theirs, in which ``house-a`` is our account there."""

    ours: Served
    theirs: Served
    folder: Path

    def submit(self, title: str, to: str = "far", **more: object) -> int:
        with self.ours.fabric("alice") as alice:
            return alice.call(verbs.Submit(title=title, to=to, **more)).task.id  # type: ignore[arg-type]

    def task(self, number: int) -> Task:
        return self.ours.house.board.get(number, None)

    def ended(self, number: int, status: Status = Status.DONE) -> Task:
        until(lambda: self.task(number).status is status, what=f"#{number} is {status}: {self.task(number)}")
        return self.task(number)

    def there(self) -> list[Task]:
        """Their tasks for us, oldest first."""
        with self.theirs.fabric("house-a") as us:
            found: list[Task] = us.call(verbs.List(limit=100, statuses=tuple(Status)))
        return sorted(found, key=lambda task: task.id)


@pytest.fixture
def houses(server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Houses]:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'lib'}:{ROOT}")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    with contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(server.database()) for _ in range(2))
        here = stack.enter_context(serving(a.dsn, ours))
        there = stack.enter_context(serving(b.dsn, theirs))
        us = there.add("house-a", Kind.AGENT, Trust.SANDBOXED)
        monkeypatch.setenv("HOUSE_A_TOKEN", there.tokens["house-a"])
        yield Houses(ours=here, theirs=there, folder=tmp_path)
        assert us


def allied(houses: Houses, entry: str = "echo", **more: Any) -> None:
    """Their agent ada works for us; ours is called far."""
    employ(houses.theirs, houses.folder / "theirs", "ada", entry, **more)
    found = houses.theirs.house.credentials.principal("house-a")
    queue = houses.theirs.house.projects.queue("ada")
    assert found is not None
    assert queue is not None
    houses.theirs.house.projects.set_member(queue.project_id, found.id, ProjectRole.MEMBER, SYSTEM)
    url = f"{houses.theirs.url}/agents/ada"
    spec: dict[str, Any] = {"kind": "remote", "url": url, "remote": {"key_env": "HOUSE_A_TOKEN"}}
    employ(houses.ours, houses.folder / "ours", "far", "echo", **spec, **more)


@contextlib.contextmanager
def both_work(houses: Houses) -> Iterator[None]:
    with (
        hired(houses.theirs, "ada", houses.folder / "theirs"),
        hired(houses.ours, "far", houses.folder / "ours"),
    ):
        yield


def test_a_task_of_ours_is_done_by_their_agent_and_stands_on_both_boards(houses: Houses) -> None:
    allied(houses)
    number = houses.submit("water the plants", description="the big one, too")
    with both_work(houses):
        done = houses.ended(number)
    assert done.producer == "far"
    assert "water the plants" in (done.note or "")
    (theirs,) = houses.there()
    assert (theirs.submitter, theirs.producer, theirs.status) == ("house-a", "ada", Status.DONE)


def test_their_question_is_asked_here_and_our_answer_reaches_their_task(houses: Houses) -> None:
    allied(houses, "ask_once")
    number = houses.submit("paint the door")
    with both_work(houses):
        asked = houses.ended(number, Status.WAITING)
        with houses.ours.fabric("alice") as alice:
            question = alice.call(verbs.Show(task=number)).entries
            assert any("Which of the two?" in entry.text for entry in question)
            alice.call(verbs.Answer(task=number, note="the red one"))
        done = houses.ended(number)
    assert asked.epoch == 1
    assert "the red one" in (done.note or "")
    assert len(houses.there()) == 1


def test_a_cancelled_task_of_ours_is_cancelled_there(houses: Houses) -> None:
    allied(houses, "hold", lease="5s")
    never = houses.folder / "never"
    number = houses.submit("wait for it", description=str(never))
    with both_work(houses):
        until(lambda: [t.status for t in houses.there()] == [Status.WORKING], what="they work on it")
        with houses.ours.fabric("alice") as alice:
            alice.call(verbs.Cancel(task=number, note="not needed"))
        until(lambda: [t.status for t in houses.there()] == [Status.CANCELLED], what="it is cancelled there")


def test_the_command_line_speaks_to_an_agent_of_this_fabric_and_of_another(houses: Houses, tmp_path: Path) -> None:
    assert "a2a" in MODULES
    allied(houses)
    shell = Shell(tmp_path, {"FABRIC_URL": houses.theirs.url, "FABRIC_TOKEN": houses.theirs.tokens["alice"]})
    (tmp_path / "token").write_text(houses.theirs.tokens["house-a"] + "\n")
    there = (f"{houses.theirs.url}/agents/ada", "--token-file", str(tmp_path / "token"))
    with both_work(houses):
        named = shell.json("a2a", "send", "ada", "hello")
        assert named["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        said = shell("a2a", "send", *there, "hello there")
        assert (said.code, said.err) == (0, "")
        assert "completed" in said.out
        assert "hello there" in said.out
        streamed = shell("a2a", "stream", *there, "--json", "again")
        assert streamed.code == 0
        assert len(streamed.out.splitlines()) >= 2
        got = shell.json("a2a", "get", "ada", named["task"]["id"])
        assert got["task"]["id"] == named["task"]["id"]
        assert shell("a2a", "get", *there, named["task"]["id"]).code == 3
        assert shell("a2a", "cancel", "ada", named["task"]["id"]).code == 2
        assert shell.json("a2a", "card", "ada")["name"] == "ada"
    assert shell("a2a", "send", there[0], "hello", A2A_TOKEN="fab_wrong").code == 5
    assert shell("a2a", "send", "http://127.0.0.1:9", "hello").code == 6
    assert shell("a2a", "send", "nobody", "hello").code == 3
    assert shell("a2a", "send", "not a url://", "hello").code == 2


@pytest.mark.parametrize("verb", ["send", "stream"])
def test_who_listens_goes_when_his_time_is_over(tmp_path: Path, verb: str) -> None:
    with agent_served() as agent:
        shell = Shell(tmp_path, {})
        waited = shell("a2a", verb, agent.url, "hold", "--timeout", "0.2")
        agent.hold.set()
    assert waited.code == 8
    assert "still goes on" in waited.err
