"""A board moves: out of one fabric, into another, and in from elsewhere."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.errors import BadInput, NeedsHuman, NotFound, Refused
from taskfabric.domain.principal import Caller, Kind, Trust, Via
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.status import ColumnRole, Status
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.approval_verbs import RequestApproval
from taskfabric.services.args import FileArg
from taskfabric.services.verbs import FenceArg
from taskfabric.settings import load
from taskfabric.testing import TestDatabase, TestServer
from taskfabric.wiring import SYSTEM, House, build, first_human

GARDEN = verbs.Submit(title="Garden", description="*all* of it", tags=("green", "Work"), refs=("git:a@b",), key="k1")


@dataclass
class Place:
    """One fabric."""

    house: House
    database: TestDatabase
    alice: Fabric

    def fabric(self, name: str) -> Fabric:
        found = self.house.credentials.principal(name)
        assert found is not None
        return self.house.hallway.for_caller(Caller(principal=found, via=Via.SESSION))

    def export(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = self.alice.call(verbs.Export(cursor=cursor))
            rows += page["records"]
            cursor = page["next"]
            if cursor is None:
                return rows

    def bring(self, rows: list[dict[str, Any]], source: str = "elsewhere", size: int = 50) -> dict[str, Any]:
        left: list[Any] = []
        for begin in range(0, len(rows), size):
            left += self.alice.call(verbs.Import(source=source, records=rows[begin : begin + size]))["left_out"]
        last = self.alice.call(verbs.Import(source=source, last=True))
        return {**last, "left_out": left + last["left_out"]}

    def look(self, rows: list[dict[str, Any]], source: str = "elsewhere") -> dict[str, Counter[str]]:
        """What a dry run counts."""
        return self.counted(rows, source, dry=True)

    def counted(
        self,
        rows: list[dict[str, Any]],
        source: str = "elsewhere",
        *,
        highest: dict[str, int] | None = None,
        dry: bool = False,
    ) -> dict[str, Counter[str]]:
        """What an import counts, in calls of fifty rows."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for begin in range(0, len(rows), 50):
            batch = rows[begin : begin + 50]
            answer = self.alice.call(verbs.Import(source=source, records=batch, highest=highest or {}, dry=dry))
            assert answer["left_out"] == []
            for name in ("made", "known", "renumbered", "notes"):
                counts[name].update(answer[name])
        return {name: +found for name, found in counts.items()}


@contextlib.contextmanager
def opened(server: TestServer, home: Path) -> Iterator[Place]:
    with (
        server.database() as database,
        contextlib.closing(build(load(env={}, home=home), database.dsn, home=home)) as house,
    ):
        first_human(house, "alice")
        alice = house.credentials.principal("alice")
        assert alice is not None
        yield Place(house, database, house.hallway.for_caller(Caller(principal=alice, via=Via.SESSION)))


@pytest.fixture
def place(server: TestServer, tmp_path: Path) -> Iterator[Place]:
    with opened(server, tmp_path / "one") as made:
        yield made


@pytest.fixture
def other(server: TestServer, tmp_path: Path) -> Iterator[Place]:
    with opened(server, tmp_path / "two") as made:
        yield made


@pytest.fixture
def lively(place: Place) -> Place:
    """A board on which something has happened."""
    house, alice = place.house, place.alice
    human = house.credentials.principal("alice")
    assert human is not None
    for name in ("kimi", "qwen"):
        house.credentials.add_principal(
            NewPrincipal(name=name, kind=Kind.AGENT, trust=Trust.TRUSTED, owner_id=human.id), SYSTEM
        )
        alice.call(verbs.SetMember(queue="pool", name=name))
    alice.call(verbs.AddUser(name="bob", full_name="Bob the Bøb 🪴", zone="Europe/Berlin"))
    parent = alice.call(GARDEN).task
    alice.call(verbs.Submit(title="Hedge", parent=parent.id, priority=3, needs=("tools",), score=8))
    dig = alice.call(verbs.Submit(title="Dig", due=place.house.board.now() + timedelta(days=3))).task
    alice.call(verbs.Submit(title="Plant", after=(dig.id,)))
    alice.call(verbs.Submit(title="Later", not_before=place.house.board.now() + timedelta(days=3)))
    alice.call(verbs.Submit(title="For bob", to="bob"))
    kimi = place.fabric("kimi")
    got = kimi.call(verbs.Take(task=dig.id))
    alice.call(verbs.Comment(task=dig.id, text="mind the pipe"))
    kimi.call(verbs.Done(fence=FenceArg.of(got.fence), note="dug", attach=(FileArg(name="plan.txt", data="aGVsbG8="),)))
    kimi.call(verbs.Take(task=parent.id))
    gone = alice.call(verbs.Submit(title="Gone")).task
    alice.call(verbs.Cancel(task=gone.id, note="no need"))
    return place


def told(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The rows with names in place of numbers, so that two fabrics can be compared."""
    names: dict[tuple[str, int], str] = {}
    for row in rows:
        match row["table"]:
            case "users":
                names["users", row["id"]] = row["username"]
            case "projects":
                names["projects", row["id"]] = row["name"]
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        shown = {k: v for k, v in row.items() if k not in ("id", "page", "rank", "leased")}
        for key, value in row.items():
            if key in ("owner_id", "creator_id", "user_id", "interlocutor_id", "producer_id") and value is not None:
                shown[key] = names.get(("users", value), value)
            elif key == "project_id":
                shown[key] = names.get(("projects", value), value)
            elif key in ("column_id", "swimlane_id", "tag_id", "category_id") or key.endswith("_column"):
                shown.pop(key)
        found[row["table"]].append(shown)
    return {table: sorted(items, key=repr) for table, items in found.items()}


def test_a_board_comes_back_as_it_went(lively: Place, other: Place) -> None:
    rows = lively.export()
    assert other.bring(rows)["left_out"] == []
    again = told(other.export())
    before = told(rows)
    for table in ("users", "tasks", "projects"):
        for row in [*before[table], *again[table]]:
            for key in ("date_creation", "last_modified", "date_modification", "ready_since", "trust"):
                row.pop(key, None)
    leased = next(row for row in before["tasks"] if row["title"] == "Garden")
    leased |= {"attempts": leased["attempts"] - 1, "epoch": leased["epoch"] + 1_000_000}
    leased.pop("owner_id")
    for row in [*before["tasks"], *again["tasks"]]:
        row.pop("date_started", None) if row["title"] == "Garden" else None
    assert again == before


def test_ids_stay_where_they_are_free(lively: Place, other: Place) -> None:
    other.bring(lively.export())
    for task in lively.alice.call(verbs.List(queue="pool", limit=50)):
        assert other.alice.call(verbs.Show(task=task.id)).task.title == task.title
    new = other.alice.call(verbs.Submit(title="after the move")).task
    assert new.id > max(t.id for t in lively.alice.call(verbs.List(queue="pool", limit=50)))


def test_ids_that_are_taken_are_others_and_everything_follows(lively: Place, other: Place) -> None:
    for n in range(4):
        other.alice.call(verbs.Submit(title=f"was here {n}"))
    rows = lively.export()
    other.bring(rows)
    plant = next(t for t in other.alice.call(verbs.List(queue="pool", limit=50)) if t.title == "Plant")
    dig = next(t for t in other.alice.call(verbs.List(queue="pool", limit=50)) if t.title == "Dig")
    thread = other.alice.call(verbs.Show(task=dig.id))
    assert [c.text for c in thread.entries if c.text == "mind the pipe"] == ["mind the pipe"]
    assert [a.name for a in thread.attachments] == ["plan.txt"]
    assert plant.open_blockers == 0
    assert other.house.files.get(thread.attachments[0].sha256) == b"hello"


def test_what_was_being_worked_on_is_ready_again_and_nobody_elses_lease_counts(lively: Place, other: Place) -> None:
    """G2"""
    other.bring(lively.export())
    garden = next(t for t in other.alice.call(verbs.List(queue="pool", limit=50)) if t.title == "Garden")
    assert (garden.status, garden.attempts, garden.holder) == (Status.READY, 0, None)
    assert garden.epoch > 1_000_000
    assert other.fabric("kimi").call(verbs.Take(task=garden.id)).fence.epoch == garden.epoch + 1


def test_what_came_is_claimed_like_anything_else(lively: Place, other: Place) -> None:
    """G6"""
    mine = other.alice.call(verbs.Submit(title="mine")).task
    other.fabric("alice").call(verbs.Take(task=mine.id))
    other.bring(lively.export())
    titles = {got.task.title for got in other.fabric("kimi").call(verbs.Claim(limit=20))}
    assert {"Garden", "Plant"} <= titles
    assert "Later" not in titles


def test_twice_is_once_and_a_broken_off_import_goes_on(lively: Place, other: Place) -> None:
    """G11"""
    rows = lively.export()
    other.alice.call(verbs.Import(source="elsewhere", records=rows[: len(rows) // 2]))
    other.bring(rows)
    once = other.export()
    other.bring(rows)
    assert other.export() == once


def test_a_key_stays_used(lively: Place, other: Place) -> None:
    """G11"""
    other.bring(lively.export())
    assert other.alice.call(GARDEN).created is False


def test_no_secret_travels(lively: Place) -> None:
    house = lively.house
    house.credentials.set_pin(1, "123456", SYSTEM)
    text = repr(lively.export())
    with lively.database.connect() as conn:
        secrets = conn.execute("SELECT pin_hash FROM users WHERE pin_hash IS NOT NULL").fetchall()
        secrets += conn.execute("SELECT token::text FROM tasks WHERE token IS NOT NULL").fetchall()
        secrets += conn.execute("SELECT encode(hash, 'hex') FROM credentials").fetchall()
    assert len(secrets) > 2
    assert not [secret for (secret,) in secrets if str(secret) in text]


def test_an_agent_that_was_trusted_elsewhere_is_sandboxed_here(lively: Place, other: Place) -> None:
    other.bring(lively.export())
    kimi = other.house.credentials.principal("kimi")
    assert kimi is not None
    assert kimi.trust is Trust.SANDBOXED


def test_people_who_came_have_an_inbox(lively: Place, other: Place) -> None:
    rows = [row for row in lively.export() if row["table"] in ("users",)]
    other.bring(rows)
    queue = other.house.projects.queue("bob")
    assert queue is not None
    assert queue.kind is QueueKind.INBOX


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"table": "credentials", "id": 1}, "no table 'credentials'"),
        ({"table": "task", "id": 1}, "did you mean 'tasks'"),
        ({"table": "tasks", "id": 1, "titel": "x"}, "did you mean 'title'"),
        ({"table": "tasks", "id": 1, "token": 5}, "have no 'token'"),
        ({"table": "tasks", "title": "x"}, "needs its id"),
        ({"table": "tasks", "id": "1"}, "no value for tasks.id"),
        ({"table": "tasks", "id": True}, "no value for tasks.id"),
        ({"table": "tasks", "id": 2**70}, "tasks have no id"),
        ({"table": "groups", "id": 2**63, "name": "x"}, "groups have no id"),
        ({"table": "groups", "id": 0, "name": "x"}, "groups have no id 0"),
        ({"table": "projects", "id": -7, "name": "x"}, "projects have no id -7"),
        ({"table": "tasks", "id": 5, "title": 7}, "row 1, tasks 5: that is no value for tasks.title"),
        ({"table": "users", "id": 1, "tiers": [1]}, "no value for users.tiers"),
        ({}, "no table 'None'"),
    ],
)
def test_a_row_that_is_none_is_refused_and_nothing_has_happened(place: Place, row: dict[str, Any], why: str) -> None:
    good = {"table": "groups", "id": 7, "name": "gardeners"}
    before = place.export()
    with pytest.raises(BadInput, match=why):
        place.alice.call(verbs.Import(source="x", records=[good, row]))
    assert place.export() == before


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"table": "columns", "id": 1, "project_id": 99, "title": "x", "position": 1}, "project did not come along"),
        ({"table": "users", "id": 9, "username": "eve", "kind": "robot", "trust": 1}, "does not fit"),
        ({"table": "users", "id": 9, "username": "alice", "kind": "agent", "trust": 1}, "is of kind 'human'"),
        ({"table": "comments", "id": 9, "task_id": 12345, "user_id": 1, "text": "x"}, "task did not come along"),
        ({"table": "groups", "id": 9}, "does not fit"),
        ({"table": "users", "id": 9, "username": "fabric", "kind": "service", "trust": 2}, "the fabric's own"),
        ({"table": "columns", "id": 9, "project_id": 1, "title": "x", "position": 10**12}, "larger than can be stored"),
        ({"table": "task_has_files", "id": 9, "task_id": 1, "name": "x"}, "bytes are missing"),
    ],
)
def test_a_row_that_does_not_fit_is_left_out_and_said_and_the_others_come(
    place: Place, row: dict[str, Any], why: str
) -> None:
    good = {"table": "groups", "id": 7, "name": "gardeners"}
    answer = place.alice.call(verbs.Import(source="x", records=[good, row]))
    assert [why in item["why"] for item in answer["left_out"]] == [True]
    assert answer["made"]["groups"] == 1


def test_only_an_administrator_moves_a_board_and_only_a_person(lively: Place) -> None:
    """G13"""
    for name in ("bob", "kimi"):
        for verb in (verbs.Export(), verbs.Import(source="x", records=[])):
            with pytest.raises(Refused):
                lively.fabric(name).call(verb)


def test_a_project_becomes_a_queue_and_no_card_moves(place: Place) -> None:
    titles = ("Backlog", "To do", "Doing", "Done")
    rows: list[dict[str, Any]] = [{"table": "projects", "id": 70, "name": "Household"}]
    rows += [
        {"table": "columns", "id": n, "project_id": 70, "title": title, "position": n}
        for n, title in enumerate(titles, 1)
    ]
    rows.append({"table": "swimlanes", "id": 1, "project_id": 70, "name": "all", "position": 1})
    rows += [
        {"table": "tasks", "id": n, "project_id": 70, "column_id": n, "swimlane_id": 1, "title": t, "creator_id": 1}
        for n, t in enumerate(titles, 1)
    ]
    place.bring(rows)
    with pytest.raises(BadInput, match="'Backlog', 'To do', 'Doing', 'Done'"):
        place.alice.call(verbs.Adopt(project="Household"))
    assert place.house.projects.queue("Household") is None
    columns = {ColumnRole.READY: "to do", ColumnRole.WORKING: "Doing"}
    queue = place.alice.call(verbs.Adopt(project="Household", columns=columns))
    assert (queue.name, queue.kind) == ("household", QueueKind.POOL)
    tasks = place.alice.call(verbs.List(queue="household", limit=10))
    assert {t.title: t.status for t in tasks} == dict(
        zip(titles, (Status.BACKLOG, Status.READY, Status.WORKING, Status.DONE), strict=True)
    )
    assert {t.title: t.column for t in tasks} == {title: title for title in titles}
    (got,) = place.alice.call(verbs.Claim(queue="household"))
    assert got.task.title == "To do"


def test_a_project_of_others_is_not_adopted_and_is_not_there(lively: Place) -> None:
    """G13"""
    lively.bring([{"table": "projects", "id": 70, "name": "Secret"}])
    with pytest.raises(NotFound):
        lively.fabric("bob").call(verbs.Adopt(project="Secret"))
    with pytest.raises(NotFound):
        lively.fabric("bob").call(verbs.Adopt(project="No such"))


def test_a_queue_is_not_adopted_a_second_time_with_other_columns(place: Place) -> None:
    with pytest.raises(BadInput, match="it is a queue already, and its column for 'ready' is 'Ready'"):
        place.alice.call(
            verbs.Adopt(project="alice", kind=QueueKind.INBOX, owner="alice", columns={ColumnRole.READY: "To do"})
        )


def test_the_gate_of_a_pending_approval_does_not_travel(lively: Place) -> None:
    """G10"""
    asked = lively.fabric("kimi").call(RequestApproval(action="mail.send", args={"to": "bank@example.org"}))
    assert asked["task"] not in [row["id"] for row in lively.export() if row["table"] == "tasks"]


def test_moving_needs_a_decision_and_not_only_the_owners_credential(place: Place) -> None:
    alice = place.house.credentials.principal("alice")
    assert alice is not None
    local = place.house.hallway.for_caller(Caller(principal=alice, via=Via.LOCAL))
    for verb in (verbs.Export(), verbs.Import(source="x", records=[])):
        with pytest.raises(NeedsHuman):
            local.call(verb)


def test_an_id_at_the_end_of_its_range_is_exchanged_and_leaves_numbers_for_what_is_new(place: Place) -> None:
    row = {"table": "groups", "id": 2**31 - 1, "name": "far", "external_id": ""}
    place.alice.call(verbs.Import(source="far", records=[row], highest={"groups": 2**31 - 1}))
    near = {"table": "groups", "id": 7, "name": "near", "external_id": ""}
    place.alice.call(verbs.Import(source="near", records=[near]))
    ids = {row["name"]: row["id"] for row in place.export() if row["table"] == "groups"}
    assert (ids["far"] < 7, ids["near"]) == (True, 7)


def test_what_is_numbered_anew_gets_a_number_above_all_of_theirs(place: Place) -> None:
    rows = [{"table": "groups", "id": n, "name": f"g{n}", "external_id": ""} for n in range(1, 7)]
    place.alice.call(verbs.Import(source="first", records=rows[:1], highest={"groups": 1}))
    theirs = [{**row, "name": f"h{row['id']}"} for row in rows]
    for row in theirs:
        place.alice.call(verbs.Import(source="second", records=[row], highest={"groups": 6}))
    ids = {row["name"]: row["id"] for row in place.export() if row["table"] == "groups"}
    assert {n: ids[f"h{n}"] for n in range(1, 7)} == {1: 7, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}
