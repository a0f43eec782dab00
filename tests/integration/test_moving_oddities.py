"""What a board has that ours cannot keep as it is: it comes otherwise or stays behind, and the report says which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.domain.principal import Kind, Trust
from taskfabric.domain.status import Status
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.services import verbs
from taskfabric.testing import TestServer
from taskfabric.wiring import SYSTEM, app_token
from tests.integration.test_moving import Place, opened

AT = "2030-01-02T03:04:05+00:00"


def project(number: int, **more: Any) -> list[dict[str, Any]]:
    """A project with two columns and a swimlane, whose numbers begin with its own."""
    at = {"project_id": number}
    return [
        {"table": "projects", "id": number, "name": f"project {number}", **more},
        {"table": "columns", "id": number * 10 + 1, **at, "title": "Backlog", "position": 1, "role": "backlog"},
        {"table": "columns", "id": number * 10 + 2, **at, "title": "Ready", "position": 2, "role": "ready"},
        {"table": "swimlanes", "id": number, **at, "name": "all", "position": 1},
    ]


def task(number: int, of: int = 70, **more: Any) -> dict[str, Any]:
    place = {"project_id": of, "column_id": of * 10 + 2, "swimlane_id": of}
    return {"table": "tasks", "id": number, **place, "title": f"task {number}", "creator_id": 1, **more}


def person(number: int, name: str, **more: Any) -> dict[str, Any]:
    return {"table": "users", "id": number, "username": name, "kind": "human", "trust": 3, **more}


@pytest.fixture
def place(server: TestServer, tmp_path: Path) -> Iterator[Place]:
    with opened(server, tmp_path / "one") as made:
        yield made


def bring(place: Place, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = place.alice.call(verbs.Import(source="elsewhere", records=list(rows), **more))
    return answer


def rows_of(place: Place, table: str) -> list[dict[str, Any]]:
    return [row for row in place.export() if row["table"] == table]


def said(items: list[dict[str, str]]) -> list[str]:
    return [f"{item['what']}: {item['why']}" for item in items]


@pytest.mark.parametrize("strange", [{"column_id": 712}, {"swimlane_id": 71}, {"column_id": 99, "swimlane_id": 0}])
def test_a_card_in_a_place_of_another_project_comes_into_the_first_of_its_own_and_it_is_said(
    place: Place, strange: dict[str, int]
) -> None:
    lost = task(3406, **strange)
    answer = bring(place, *project(70), *project(71), task(3405), lost)
    assert (answer["made"]["tasks"], answer["left_out"]) == (2, [])
    assert len(answer["changed"]) == len(strange)
    assert all(line.startswith("task 3406 (task 3406): its ") for line in said(answer["changed"]))
    found = {row["id"]: row for row in rows_of(place, "tasks")}
    assert (found[3406]["project_id"], found[3406]["swimlane_id"]) == (
        found[3405]["project_id"],
        found[3405]["swimlane_id"],
    )
    wanted = "Backlog" if "column_id" in strange else "Ready"
    (column,) = [row for row in rows_of(place, "columns") if row["id"] == found[3406]["column_id"]]
    assert (column["title"], column["project_id"]) == (wanted, found[3406]["project_id"])


def test_a_category_of_another_project_is_none_and_it_is_said(place: Place) -> None:
    category = {"table": "project_has_categories", "id": 9, "project_id": 71, "name": "hedges"}
    face = {"table": "task_faces", "task_id": 5, "category_id": 9}
    answer = bring(place, *project(70), *project(71), category, task(5), face)
    assert said(answer["changed"]) == ["task 5 here: its category is not of its project; it has none now"]
    assert [row["category_id"] for row in rows_of(place, "task_faces")] == [0]


def test_a_card_whose_project_has_no_column_is_neither_counted_nor_remembered(place: Place) -> None:
    bare = [row for row in project(70) if row["table"] != "columns"]
    answer = bring(place, *bare, task(5))
    assert said(answer["left_out"]) == ["task 5 (task 5): its project has no column"]
    assert answer["made"].get("tasks", 0) == 0
    assert bring(place, *project(70), task(5))["made"]["tasks"] == 1


def test_three_numbers_that_are_taken_are_three_that_are_exchanged(place: Place) -> None:
    for n in range(3):
        place.alice.call(verbs.Submit(title=f"was here {n}"))
    bring(place, *project(70))
    rows = [task(n) for n in range(1, 61)]
    exchanged = 0
    for begin in range(0, 60, 7):
        exchanged += bring(place, *rows[begin : begin + 7], highest={"tasks": 60})["renumbered"].get("tasks", 0)
    ids = {row["title"]: row["id"] for row in rows_of(place, "tasks")}
    assert exchanged == 3
    assert [ids[f"task {n}"] for n in range(4, 61)] == list(range(4, 61))
    assert min(ids[f"task {n}"] for n in (1, 2, 3)) > 60


def test_what_another_fabrics_service_said_is_said_by_that_name_which_can_do_nothing(place: Place) -> None:
    service = {"table": "users", "id": 9, "username": "jsonrpc", "kind": "service", "trust": 2, "role": "app-admin"}
    comment = {"table": "comments", "id": 4, "task_id": 5, "user_id": 9, "text": "🔓 released"}
    answer = bring(place, *project(70), service, task(5, creator_id=9), comment)
    assert answer["left_out"] == []
    found = place.house.credentials.principal("jsonrpc")
    assert found is not None
    assert (found.kind, found.active, found.is_admin) == (Kind.SERVICE, False, False)
    assert [row["creator_id"] for row in rows_of(place, "tasks")] == [found.id]
    assert [row["user_id"] for row in rows_of(place, "comments")] == [found.id]


def test_the_app_token_works_where_one_came_with_an_import(place: Place) -> None:
    bring(place, {"table": "users", "id": 9, "username": "jsonrpc", "kind": "service", "trust": 2})
    app_token(place.house, "an-app-token-that-is-long-enough")
    caller = place.house.credentials.authenticate("an-app-token-that-is-long-enough")
    assert caller is not None
    assert caller.principal.is_app


def test_what_is_of_somebody_who_did_not_come_is_of_nobody_and_trusted_by_nobody(place: Place) -> None:
    comment = {"table": "comments", "id": 4, "task_id": 5, "user_id": 98, "text": "by gone"}
    subtask = {"table": "subtasks", "id": 4, "task_id": 5, "title": "part", "position": 1, "user_id": 98}
    answer = bring(place, *project(70), task(5, creator_id=98, trust=3), comment, subtask)
    assert answer["notes"] == {
        f"{table} of people who did not come along are now of nobody known": 1
        for table in ("tasks", "comments", "subtasks")
    }
    nobody = place.house.credentials.principal("(unknown)")
    assert nobody is not None
    assert (nobody.kind, nobody.active, int(nobody.trust)) == (Kind.SERVICE, False, 0)
    assert [(row["creator_id"], row["trust"]) for row in rows_of(place, "tasks")] == [(nobody.id, 0)]
    assert place.alice.call(verbs.Show(task=5)).task.on_behalf == "alice"  # who brought it, or nobody would see it
    assert [row["user_id"] for row in rows_of(place, "comments")] == [nobody.id]
    assert [row["user_id"] for row in rows_of(place, "subtasks")] == [0]


def test_a_membership_that_did_not_come_is_called_by_its_numbers(place: Place) -> None:
    member = {"table": "project_has_users", "project_id": 70, "user_id": 7, "role": "project-member"}
    agent = person(7, "alice") | {"kind": "agent", "trust": 1}
    left = said(bring(place, agent, *project(70), member)["left_out"])
    assert left[1:] == ["project_has_users (project 70, user 7): its user did not come along"]


def test_an_action_that_could_not_run_here_is_not_there_and_is_named(place: Place) -> None:
    close = "\\Kanboard\\Action\\TaskCloseColumn"
    action = {"table": "actions", "project_id": 70, "event_name": "task.move.column", "action_name": close}
    params = [
        {"table": "action_has_params", "action_id": 8, "name": "column_id", "value": "999"},
        {"table": "action_has_params", "action_id": 9, "name": "column_id", "value": "702"},
    ]
    mail = {**action, "id": 10, "action_name": "\\Kanboard\\Action\\TaskEmail"}
    subject = {"table": "action_has_params", "action_id": 10, "name": "subject", "value": "x"}
    answer = bring(place, *project(70), {**action, "id": 8}, {**action, "id": 9}, mail, *params, subject)
    assert [row["id"] for row in rows_of(place, "actions")] == [9]
    assert answer["made"]["actions"] == 1
    assert said(answer["left_out"]) == [
        "actions 10 (TaskEmail): no such automatic action is offered here",
        "action here 8: what its column_id names (999) did not come along: without it the action would not run",
    ]


def test_a_character_that_no_text_can_have_is_replaced_and_the_task_named(place: Place) -> None:
    answer = bring(place, *project(70), task(5, title="a\x00b\ud800"), task(6))
    assert answer["made"]["tasks"] == 2
    assert [line.partition(":")[0] for line in said(answer["changed"])] == ["tasks 5"]
    assert sorted(row["title"] for row in rows_of(place, "tasks")) == ["a\ufffdb\ufffd", "task 6"]


def test_a_row_that_is_left_out_lifts_no_numbers(place: Place) -> None:
    answer = bring(place, *project(70), task(900001, of=99), {"table": "groups", "id": 900001})
    assert len(answer["left_out"]) == 2
    assert place.alice.call(verbs.Submit(title="next")).task.id < 100
    bring(place, {"table": "groups", "id": 1, "name": "a"}, {"table": "groups", "id": 2, "name": "b"})


@pytest.mark.parametrize("far", [2**31 - 1, 2**31, 2**63 - 1])
def test_an_id_at_the_end_of_its_range_leaves_numbers_for_what_is_new(place: Place, far: int) -> None:
    answer = bring(place, {"table": "projects", "id": far, "name": "maxi"}, task(far - 1, of=70))
    assert answer["renumbered"] == {"projects": 1}
    place.alice.call(verbs.CreateQueue(name="fresh"))


@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_thread_keeps_its_order_when_its_numbers_are_exchanged(place: Place, size: int) -> None:
    for n in range(2):
        mine = place.alice.call(verbs.Submit(title=f"mine {n}")).task
        place.alice.call(verbs.Comment(task=mine.id, text="was here"))
    taken = [row["id"] for row in rows_of(place, "comments")]
    bring(place, *project(70), task(500), task(501))
    words = [f"word {n}" for n in range(6)]
    rows = [
        {"table": "comments", "id": taken[0] - 1 + n, "task_id": 500, "user_id": 1, "text": word, "date_creation": AT}
        for n, word in enumerate(words)
        if taken[0] - 1 + n > 0
    ]
    rows.append({"table": "comments", "id": 700, "task_id": 501, "user_id": 1, "text": "alone", "date_creation": AT})
    for begin in range(0, len(rows), size):
        bring(place, *rows[begin : begin + size], highest={"comments": 700})
    thread = [e.text for e in place.alice.call(verbs.Show(task=500)).entries if e.text.startswith("word")]
    assert thread == [row["text"] for row in rows[:-1]]
    assert 700 in [row["id"] for row in rows_of(place, "comments")]


def test_a_project_whose_name_is_none_for_a_queue_says_how_to_name_it(place: Place) -> None:
    for number, name in ((70, "Häushalt ☃"), (71, "Pool")):
        bring(place, *({**row, "name": name} if row["table"] == "projects" else row for row in project(number)))
        with pytest.raises(BadInput) as caught:
            place.alice.call(verbs.Adopt(project=name))
        assert caught.value.next == "choose one with --name QUEUE"


TAGGED = {
    "blocked": ("held", ("blocked",)),
    "Dead-Letter": ("held", ("blocked", "dead-letter")),
    "cancelled": ("held", ("blocked", "cancelled")),
    "a2a-message": ("ready", ()),
    "veto": ("ready", ("veto",)),
    "tier:large": ("ready", ("tier:large",)),
    "needs:tools": ("ready", ("needs:tools",)),
    "trust:human": ("ready", ("trust:human",)),
    "trust:everybody": ("ready", ("trust:human",)),
    "green": ("ready", ("green",)),
}


def test_tags_that_a_rule_uses_rule_when_a_project_becomes_a_queue(place: Place) -> None:
    columns = [
        {
            "table": "columns",
            "id": 703,
            "project_id": 70,
            "title": "Work in progress",
            "position": 3,
            "role": "working",
        },
        {"table": "columns", "id": 704, "project_id": 70, "title": "Done", "position": 4, "role": "done"},
    ]
    rows: list[dict[str, Any]] = [person(1, "alice"), *project(70, owner_id=1), *columns]
    for n, tag in enumerate(TAGGED, 500):
        rows += [{"table": "tags", "id": n, "project_id": 70, "name": tag}, task(n, title=tag)]
        rows.append({"table": "task_has_tags", "task_id": n, "tag_id": n})
    rows += [task(600, title="dead", column_id=704), {"table": "task_has_tags", "task_id": 600, "tag_id": 501}]
    rows += [task(601, title="waits", column_id=703), {"table": "task_has_tags", "task_id": 601, "tag_id": 500}]
    bring(place, *rows)
    queue = place.alice.call(verbs.Adopt(project="project 70")).name
    every = place.alice.call(verbs.List(queue=queue, statuses=tuple(Status), limit=50))
    found = {t.title: (t.status.value, tuple(sorted(t.all_tags))) for t in every}
    assert (found.pop("dead")[0], found.pop("waits")[0]) == ("dead", "waiting")
    assert found == TAGGED
    assert [row["name"] for row in rows_of(place, "tags") if row["project_id"] != 0] == ["green"]
    assert {row["text"] for row in rows_of(place, "comments")} == {"a tag of its card says so"}


def test_an_agent_claims_nothing_that_a_tag_keeps_from_it_after_adopting(place: Place) -> None:
    """G13"""
    rows: list[dict[str, Any]] = [person(1, "alice"), *project(70, owner_id=1)]
    for n, title in enumerate(("Work in progress", "Done"), 3):
        rows.append({"table": "columns", "id": 700 + n, "project_id": 70, "title": title, "position": n})
    for n, tag in enumerate(("blocked", "trust:human", "dead-letter", "plain"), 500):
        rows += [{"table": "tags", "id": n, "project_id": 70, "name": tag}, task(n, title=tag)]
        rows.append({"table": "task_has_tags", "task_id": n, "tag_id": n})
    bring(place, *rows)
    place.house.credentials.add_principal(NewPrincipal(name="kimi", kind=Kind.AGENT, trust=Trust.SANDBOXED), SYSTEM)
    queue = place.alice.call(verbs.Adopt(project="project 70")).name
    place.alice.call(verbs.SetMember(queue=queue, name="kimi"))
    kimi = place.fabric("kimi")
    for number in (500, 501, 502):
        with pytest.raises(FabricError):
            kimi.call(verbs.Take(task=number))
    assert kimi.call(verbs.Take(task=503)).task.title == "plain"


def test_a_card_that_goes_into_a_queue_is_held_by_its_tags(place: Place) -> None:
    rows: list[dict[str, Any]] = [person(1, "alice"), *project(70, owner_id=1), task(500)]
    for n, tag in enumerate(("blocked", "tier:large", "green"), 500):
        rows.append({"table": "tags", "id": n, "project_id": 70, "name": tag})
        rows.append({"table": "task_has_tags", "task_id": 500, "tag_id": n})
    bring(place, *rows)
    place.alice.call(verbs.Move(task=500, queue="pool"))
    found = place.alice.call(verbs.Show(task=500)).task
    assert (found.status, found.tags, found.tier) == (Status.HELD, ("green",), "large")
    assert [row["name"] for row in rows_of(place, "tags") if row["name"] == "blocked" and row["project_id"] != 70] == []
