"""A whole household whose board is a Kanboard: by command line, in the browser and over A2A, card by card.

The Kanboard is our own API in every run, and a real one besides when ``KANBOARD_URL`` and ``KANBOARD_TOKEN`` name it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.ground import StockDatabase
from taskfabric.boards.kanboard.keeping import KanboardKeeping
from taskfabric.boards.kanboard.projects import KanboardProjects
from taskfabric.domain.errors import Refused
from taskfabric.domain.principal import Caller, Via
from taskfabric.services.moving_verbs import Import
from taskfabric.testing import TestServer
from tests.acceptance.cli_kit import Shell
from tests.integration.board_api import APP_TOKEN, board_api
from tests.integration.calling import Exchange, exchange, message
from tests.integration.hiring import until
from tests.integration.serving import Served
from tests.integration.surfing import Surfer

BOARDS: Final = ("served", *(("kanboard",) if os.environ.get("KANBOARD_URL") else ()))
PIN: Final = b"246810\n"
MAIL: Final = json.dumps({"to": "bank@example.org", "text": "please"})
_QUEUES: Final = ("pool", "alice", "bob", "kimi", "qwen", "helper")


@dataclass
class House:
    """The served household, everybody's terminal, and the Kanboard under it."""

    agents: Exchange
    there: Kanboard
    folder: Path

    @property
    def served(self) -> Served:
        return self.agents.served

    def shell(self, name: str) -> Shell:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return Shell(folder, {"FABRIC_URL": self.served.url, "FABRIC_TOKEN": self.served.tokens[name]})

    def card(self, ref: str | int) -> dict[str, Any]:
        found: dict[str, Any] = self.there.call("getTask", task_id=int(str(ref).partition("@")[0]))
        return found

    def column(self, ref: str | int) -> str:
        return str(self.there.call("getColumn", column_id=int(self.card(ref)["column_id"]))["title"])

    def owner(self, ref: str | int) -> str | None:
        number = int(self.card(ref)["owner_id"] or 0)
        return str(self.there.call("getUser", user_id=number)["username"]) if number else None

    def cards(self, queue: str) -> tuple[int, int]:
        """How many open and how many closed cards there are."""
        found = self.served.house.projects.queue(queue)
        assert found is not None
        lists = [self.there.call("getAllTasks", project_id=found.project_id, status_id=status) for status in (1, 0)]
        return len(lists[0]), len(lists[1])

    def reconciled(self) -> dict[str, int]:
        """What the keeper put in line."""
        made = self.served.house
        assert isinstance(made.board, KanboardBoard)
        assert isinstance(made.projects, KanboardProjects)
        assert isinstance(made.pool, StockDatabase)
        return KanboardKeeping(made.pool, made.signal, made.board, made.projects).reconcile(100)

    def said(self, ref: str | int) -> str:
        comments = self.there.call("getAllComments", task_id=int(str(ref).partition("@")[0]))
        return "\n".join(str(comment["comment"]) for comment in comments)


@pytest.fixture(scope="module", params=BOARDS)
def there(
    request: pytest.FixtureRequest, server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Address and token of the Kanboard, on which no household lives."""
    if request.param == "served":
        with server.database() as database, board_api(database.dsn, tmp_path_factory.mktemp("there")) as api:
            yield f"{api.served.url}/jsonrpc.php", APP_TOKEN
        return
    url, token = os.environ["KANBOARD_URL"], os.environ.get("KANBOARD_TOKEN", "")
    line = Kanboard(url, token)
    for project in line.call("getAllProjects"):
        marks = line.call("getProjectMetadata", project_id=int(project["id"])) or {}
        if marks.get("fabric.name") in _QUEUES or project["identifier"] == "FABRICLOCKS":
            line.call("removeProject", project_id=int(project["id"]))
    yield url, token


@pytest.fixture(scope="module")
def agents(there: tuple[str, str], server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    url, token = there
    with (
        server.database() as database,
        exchange(database.dsn, tmp_path_factory.mktemp("home"), board__url=url, board__kanboard_token=token) as made,
    ):
        yield made


@pytest.fixture
def house(agents: Exchange, there: tuple[str, str], tmp_path: Path) -> House:
    made = House(agents, Kanboard(*there), tmp_path)
    alice = made.shell("alice")
    if not alice.json("me")["pin"]:
        assert alice("pin", "set", stdin=PIN).code == 0
    return made


def test_a_task_goes_from_submit_to_verified_and_its_card_tells_it(house: House) -> None:
    alice, kimi = house.shell("alice"), house.shell("kimi")
    ref = alice("submit", "Water the plants", "--to", "kimi", "--spec", "-", stdin=b"All of **them**.").out.strip()
    assert (house.card(ref)["title"], house.column(ref), house.owner(ref)) == ("Water the plants", "Ready", None)
    assert house.card(ref)["description"] == "All of **them**."
    assert [task["ref"] for task in alice.json("list", "--queue", "kimi")] == [ref]

    assert kimi("take", ref).out.splitlines()[0] == f"{ref}@1"
    assert (house.column(ref), house.owner(ref)) == ("Work in progress", "kimi")
    assert "claimed by `kimi`" in house.said(ref)

    assert kimi("done", f"{ref}@1", "--note", "all watered").code == 0
    assert (house.column(ref), house.card(ref)["is_active"] in (1, True)) == ("Done", True)
    assert "all watered" in house.said(ref)
    assert kimi("verify", ref).code == 5
    assert alice("verify", ref, "--note", "looks green").code == 0
    assert house.card(ref)["is_active"] in (0, False)
    assert alice.json("show", ref)["status"] == "verified"


def test_an_approval_is_a_card_in_the_inbox_and_is_decided_in_the_fabric(house: House) -> None:
    alice, kimi = house.shell("alice"), house.shell("kimi")
    ref = alice("submit", "Pay the bill", "--to", "kimi").out.strip()
    fence = kimi("take", ref).out.splitlines()[0]
    asked = kimi("request-approval", "mail.send", "--args", MAIL, "--ref", fence, "--json")
    assert (asked.code, asked.json["state"]) == (7, "pending")
    assert alice.json("show", ref)["status"] == "waiting"
    gate = asked.json["task"]
    assert house.column(gate) == "Ready"
    assert house.there.call("closeTask", task_id=int(gate)) is True  # a hand on the board decides nothing
    assert alice.json("show", ref)["status"] == "waiting"
    [item] = [one for one in alice.json("inbox")["items"] if one["kind"] == "approval"]
    assert alice("approve", item["ref"], "--pin", stdin=PIN).code == 0
    fence = kimi("take", ref).out.splitlines()[0]
    assert fence == f"{ref}@2"
    answer = kimi("request-approval", "mail.send", "--args", MAIL, "--ref", fence, "--json")
    assert (answer.code, answer.json["allowed"]) == (0, True)
    assert kimi("done", fence, "--note", "paid").code == 0
    assert house.column(ref) == "Done"


def test_a_persons_question_and_answer_stand_on_the_card(house: House) -> None:
    alice, kimi = house.shell("alice"), house.shell("kimi")
    ref = alice("submit", "Buy paint", "--to", "kimi").out.strip()
    fence = kimi("take", ref).out.splitlines()[0]
    assert kimi("ask", fence, "--note", "which colour?").code == 0
    assert "blocked" in house.there.call("getTaskTags", task_id=int(ref)).values()
    assert alice("answer", ref, "--note", "green").code == 0
    assert (house.column(ref), "which colour?" in house.said(ref), "green" in house.said(ref)) == ("Ready", True, True)
    assert alice("cancel", ref, "--note", "no more").code == 0
    assert house.card(ref)["is_active"] in (0, False)


def test_the_pages_show_and_change_the_cards(house: House) -> None:
    alice = Surfer(served=house.served)
    assert alice.sign_in_by_link("alice").status == 200
    shown = alice.fill(alice.get("/new?to=pool").form("submit"), title="From the browser", description="*words*")
    ref = house.shell("alice").json("search", "From the browser")[0]["ref"]
    assert "From the browser" in shown.text
    assert house.card(ref)["title"] == "From the browser"
    for path in ("/", "/boards", "/board/pool", "/board/alice", "/fleet", "/activity", f"/task/{ref}"):
        assert alice.get(path).status == 200, path
    alice.fill(alice.get(f"/task/{ref}").form("comment-form"), text="said in the browser")
    assert "said in the browser" in house.said(ref)


def test_what_a_person_does_on_the_kanboard_is_what_the_fabric_says(house: House) -> None:
    alice = house.shell("alice")
    ref = alice("submit", "Sweep", "--to", "alice").out.strip()
    number = int(ref)
    assert house.there.call("updateTask", id=number, title="Sweep it all") is True
    assert house.there.call("createComment", task_id=number, user_id=0, content="said there")
    assert alice.json("show", ref)["title"] == "Sweep it all"
    assert "said there" in alice("show", ref).out
    assert alice("done", ref, "--note", "swept").code == 0
    assert house.card(ref)["is_active"] in (0, False)


def test_status_and_doctor_say_what_the_board_is(house: House) -> None:
    alice = house.shell("alice")
    assert alice("status").code == 0
    text = alice("doctor").out
    assert "stock" in text


def test_the_boards_api_is_the_kanboards_own_and_an_import_is_refused(house: House) -> None:
    """A card that is made past the Kanboard would be none there."""
    answer = house.served.call("createTask", {"title": "a card", "project_id": 1})
    assert answer["error"]["message"] == "there is no procedure 'createTask'"
    alice = house.served.house.credentials.principal("alice")
    assert alice is not None
    proven = house.served.house.hallway.for_caller(Caller(principal=alice, via=Via.PIN))
    for dry in (True, False):
        with pytest.raises(Refused, match="no card there"):
            proven.call(Import(source="x", records=[{"table": "groups", "id": 1, "name": "g"}], dry=dry))


def test_what_is_called_for_over_a2a_is_a_card_under_a_lease_before_it_runs(house: House) -> None:
    """G1: nobody else takes the number, and the keeper finds nothing to put in line."""
    agents = house.agents
    agents.gate.close()
    waits = agents.send("wait", at_once=True)
    agents.gate.begins()
    row = agents.row(waits["id"])
    assert (house.card(row)["title"], house.column(row), house.owner(row)) == ("wait", "Work in progress", "helper")
    assert "claimed by `helper`" in house.said(row)
    assert int(house.shell("alice")("submit", "beside it", "--to", "bob").out) != row
    assert house.reconciled()["abandoned"] == 0
    assert agents.state(waits["id"]) == "WORKING"
    agents.gate.open.set()
    until(lambda: house.column(row) == "Done", what="the card says so")
    assert agents.state(waits["id"]) == "COMPLETED"
    assert house.shell("alice")("verify", str(row)).code == 0
    assert house.card(row)["is_active"] in (0, False)


def test_a_question_over_a2a_waits_on_its_card_and_its_answer_goes_on(house: House) -> None:
    agents = house.agents
    asked = agents.send("ask which one?")
    row = agents.row(asked["id"])
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert house.column(row) == "Work in progress"
    answer = agents.call("SendMessage", {"message": message("that one", taskId=asked["id"])})["task"]
    assert answer["status"]["state"] == "TASK_STATE_COMPLETED"
    until(lambda: house.column(row) == "Done", what="the card says so")
    assert "which one?" in house.said(row)


def test_a_reply_over_a2a_is_a_closed_card_and_a_key_makes_one(house: House) -> None:
    """G11"""
    agents, before = house.agents, house.cards("helper")
    assert agents.send("message a word")["parts"] == [{"text": "a word"}]
    key, params = {"Idempotency-Key": "one"}, {"message": message("hello")}
    first, second = (agents.call("SendMessage", params, **key)["task"]["id"] for _ in range(2))
    assert first == second
    assert house.reconciled()["abandoned"] == 0
    assert house.cards("helper") == (before[0] + 1, before[1] + 1)
