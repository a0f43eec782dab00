"""The command line of the house: limits, what is put off, what is private, second chances, accounts, settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskfabric.testing import TestServer
from tests.acceptance.cli_kit import Shell
from tests.acceptance.test_cli import Town, refused
from tests.acceptance.test_cli_deciding import ARGS, PIN, asks, helper
from tests.integration.serving import Served, serving

__all__ = ["helper"]


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def town(served: Served, tmp_path: Path) -> Iterator[Town]:
    made = Town(served, tmp_path)
    if not made.alice.json("me")["pin"]:
        assert made.alice("pin", "set", stdin=PIN).code == 0
    yield made
    made.alice("queue", "limit", "kimi", "Work in progress", "none")
    for name in ("kimi", "qwen"):  # the next test finds empty queues
        shell: Shell = getattr(made, name)
        while (got := shell("claim", "--json")).code == 0:
            shell("fail", got.json["ref"], "--final", "--note", "swept by the test")


def finished(town: Town) -> str:
    number = town.submitted()
    town.kimi("take", number)
    town.kimi("done", f"{number}@1", "--note", "all watered")
    return number


# -- limits ------------------------------------------------------------------------------------------------


def test_a_full_queue_gives_nothing_more_until_its_limit_is_lifted(town: Town) -> None:
    said = town.alice("queue", "limit", "kimi", "Work in progress", "1")
    assert (said.code, said.out) == (0, "Work in progress of kimi holds at most 1\n")
    first, second = town.submitted(), town.submitted()
    assert town.kimi("claim").code == 0
    assert town.kimi("claim").code == 3
    refused(town.kimi("take", second, "--json"), 1)
    limits = {queue["name"]: queue["limits"] for queue in town.alice.json("queue", "list")}
    assert limits["kimi"] == {"Work in progress": 1}
    assert town.alice("queue", "limit", "KIMI", "work in progress", "none").code == 0
    assert town.kimi("claim").out.startswith(f"{second}@1")
    for number in (first, second):
        town.kimi("done", f"{number}@1", "--note", "done")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("kimi", "Ready", "many"), 2),
        (("kimi", "Ready", "-1"), 2),
        (("kimi", "No such column", "1"), 3),
        (("nowhere", "Ready", "1"), 3),
    ],
)
def test_a_limit_that_means_nothing_is_refused_with_the_next_step(
    town: Town, words: tuple[str, ...], code: int
) -> None:
    assert refused(town.alice("queue", "limit", *words, "--json"), code)["next"]


def test_only_who_manages_a_queue_limits_it(town: Town) -> None:
    refused(town.bob("queue", "limit", "pool", "Ready", "1", "--json"), 5)
    refused(town.kimi("queue", "limit", "kimi", "Ready", "1", "--json"), 5)


def test_a_member_comes_and_goes_by_a_person_s_decision(town: Town) -> None:
    town.alice("queue", "create", "builders")
    refused(town.bob("claim", "--queue", "builders", "--json"), 3)
    refused(town.alice("queue", "member", "builders", "bob", "--json"), 7)
    assert town.alice("queue", "member", "builders", "bob", "--pin", stdin=PIN).code == 0
    number = town.submitted(to="builders")
    assert town.bob("claim", "--queue", "builders").out.startswith(f"{number}@1")
    town.bob("release", f"{number}@1")
    assert town.alice("queue", "member", "builders", "bob", "--remove").code == 0
    refused(town.bob("claim", "--queue", "builders", "--json"), 3)


# -- the inbox ---------------------------------------------------------------------------------------------


def test_what_is_put_off_is_out_of_the_inbox_until_then_and_can_be_brought_back(town: Town) -> None:
    numbers = [town.submitted("fix the tap", to="alice") for _ in range(2)]
    said = town.alice("snooze", *numbers, "--until", "+2h")
    assert said.code == 0, said
    assert said.out.startswith(f"#{numbers[0]}, #{numbers[1]}: put off until ")
    assert {item["ref"] for item in town.alice.json("inbox")["items"]}.isdisjoint(numbers)
    assert set(numbers) <= {item["ref"] for item in town.alice.json("inbox", "--all")["items"]}
    assert town.alice("snooze", numbers[0], "--off").out == f"#{numbers[0]}: back in your inbox\n"
    assert numbers[0] in {item["ref"] for item in town.alice.json("inbox")["items"]}


def test_one_that_cannot_be_put_off_keeps_the_others_where_they_are(town: Town) -> None:
    mine, his = town.submitted(to="alice"), town.submitted(to="bob", by="bob")
    refused(town.alice("snooze", mine, his, "--until", "+2h", "--json"), 3)
    assert refused(town.alice("snooze", mine, "--until", "2020-01-01", "--json"), 2)["next"]
    refused(town.alice("snooze", mine, "--json"), 2)
    assert mine in {item["ref"] for item in town.alice.json("inbox")["items"]}


# -- what is private ---------------------------------------------------------------------------------------


def test_what_is_private_is_decided_by_whom_it_is_for_and_with_the_pin(town: Town) -> None:
    shape = town.alice.json("submit", "my letter", "--to", "kimi", "--label", "private")
    assert shape["label"] == "private"
    assert refused(town.alice("submit", "x", "--label", "secret", "--json"), 2)["next"]
    ref = town.kimi("claim").out.splitlines()[0]
    code, asked = asks(town.kimi, "--ref", ref)
    assert (code, asked["level"]) == (7, "secure")
    gate = str(asked["task"])
    assert refused(town.alice("delegate", gate, "--to", "bob", "--json"), 5)["facts"]["rule"] in ("private", "secure")
    refused(town.bob("approve", gate, "--json"), 3)
    assert town.alice("approve", gate, "--pin", stdin=PIN).code == 0


# -- judging, second chances -------------------------------------------------------------------------------


def test_several_results_are_verified_in_one_line_each(town: Town) -> None:
    numbers = [finished(town) for _ in range(3)]
    said = town.alice("verify", *numbers, "--note", "looked at them")
    assert (said.code, said.out) == (0, "".join(f"#{number} verified\n" for number in numbers))
    assert {town.alice.json("show", number)["status"] for number in numbers} == {"verified"}
    assert [one["status"] for one in town.alice.json("verify", *[finished(town) for _ in range(2)])] == ["verified"] * 2


def test_a_rejected_result_goes_back_and_the_next_run_reads_why(town: Town) -> None:
    number = finished(town)
    refused(town.kimi("reject", number, "--note", "no", "--json"), 5)
    said = town.alice("reject", number, "--note", "the fern is dry")
    assert said.out == f"#{number} is ready again; the next run reads your note\n"
    assert town.kimi("claim").out.startswith(f"{number}@2")
    assert "the fern is dry" in town.kimi("show", number).out


def test_a_dead_letter_is_redriven_on_purpose(town: Town) -> None:
    number = town.submitted()
    town.kimi("take", number)
    town.kimi("fail", f"{number}@1", "--note", "no water", "--final")
    assert town.alice.json("show", number)["status"] == "dead"
    refused(town.kimi("redrive", number, "--note", "again", "--json"), 5)
    said = town.alice("redrive", number, "--note", "the water is back")
    assert said.out == f"#{number} is ready again, with fresh attempts\n"
    assert town.alice.json("show", number)["attempts"] == 0


def test_a_card_is_moved_by_hand_to_a_column_and_to_the_top(town: Town) -> None:
    numbers = [town.submitted() for _ in range(2)]
    for number in numbers:
        assert town.alice.json("move", number, "--column", "backlog")["status"] == "backlog"
    assert town.alice("move", numbers[1], "--column", "Ready", "--top").code == 0
    assert refused(town.alice("move", numbers[0], "--column", "Nowhere", "--json"), 2)["next"]
    refused(town.kimi("move", numbers[0], "--column", "Ready", "--json"), 5)


def test_a_file_is_put_on_a_task_and_read_back(town: Town, tmp_path: Path) -> None:
    (tmp_path / "leaf.txt").write_bytes(b"green")
    number = town.submitted()
    assert town.alice("attach", number, str(tmp_path / "leaf.txt")).code == 0
    (file,) = town.alice.json("show", number)["attachments"]
    assert (file["name"], file["size"]) == ("leaf.txt", 5)


# -- decisions ---------------------------------------------------------------------------------------------


def test_always_is_a_grant_with_an_end_and_what_was_seen_elsewhere_is_bound(town: Town, helper: Shell) -> None:
    _, asked = asks(helper, args=json.dumps({"to": "the-baker"}))
    gate = str(asked["task"])
    assert (
        refused(town.alice("approve", gate, "--seen", "0" * 64, "--pin", "--json", stdin=PIN), 5)["facts"]["rule"]
        == "seen"
    )
    assert refused(town.alice("approve", gate, "--until", "+2d", "--pin", "--json", stdin=PIN), 2)["next"]
    said = town.alice("approve", gate, "--seen", asked["hash"], "--always", "--until", "+2d", "--pin", stdin=PIN)
    assert said.code == 0, said
    (made,) = town.alice.json("grant", "list")
    assert (made["agent"], made["action"], made["recipient"]) == ("helper", "mail.send", "the-baker")
    assert asks(helper, args=json.dumps({"to": "the-baker", "text": "two loaves"}))[0] == 0
    assert asks(helper, args=ARGS)[0] == 7
    assert town.alice("grant", "revoke", str(made["id"])).code == 0


def test_what_was_edited_is_what_is_shown_and_what_may_be_done(town: Town, helper: Shell) -> None:
    _, asked = asks(helper, args=json.dumps({"to": "the-bank", "text": "pay!"}))
    said = town.alice(
        "approve", str(asked["task"]), "--edit", '{"to": "the-bank", "text": "kindly"}', "--pin", stdin=PIN
    )
    assert said.code == 0, said
    assert "kindly" in said.out
    assert "pay!" not in said.out
    code, answer = asks(helper, args=json.dumps({"to": "the-bank", "text": "pay!"}))
    assert (code, answer["decided_args"]["text"]) == (0, "kindly")


def test_an_unchanged_policy_holds_already_and_accepting_one_is_a_decision(town: Town) -> None:
    refused(town.alice("policy", "accept", "--json"), 7)
    said = town.alice("policy", "accept", "--pin", stdin=PIN)
    assert (said.code, said.out.endswith("held already\n")) == (0, True)
    refused(town.bob("policy", "accept", "--json"), 5)


# -- accounts and settings ---------------------------------------------------------------------------------


def test_a_disabled_person_comes_in_no_more_until_he_is_enabled(town: Town, tmp_path: Path) -> None:
    token = town.alice("user", "add", "erin", "--pin", stdin=PIN).out.strip()
    erin = Shell(tmp_path / "erin", {"FABRIC_URL": town.served.url, "FABRIC_TOKEN": token})
    assert erin("list").code == 0
    assert town.alice("user", "disable", "erin", "--pin", stdin=PIN).code == 0
    refused(erin("list", "--json"), 5)
    assert town.alice("user", "disable", "erin", "--enable", "--pin", stdin=PIN).code == 0
    assert erin("list").code == 0


def test_a_pin_is_changed_with_the_old_one(town: Town, tmp_path: Path) -> None:
    token = town.alice("user", "add", "finn", "--pin", stdin=PIN).out.strip()
    finn = Shell(tmp_path / "finn", {"FABRIC_URL": town.served.url, "FABRIC_TOKEN": token})
    assert finn("pin", "set", stdin=b"111111\n").code == 0
    refused(finn("pin", "set", "--json", stdin=b"222222\n"), 7)
    refused(finn("pin", "set", "--change", "--json", stdin=b"333333\n222222\n"), 5)
    assert finn("pin", "set", "--change", stdin=b"111111\n222222\n").code == 0


def test_a_browser_is_signed_out_from_the_command_line(town: Town) -> None:
    link = town.alice.json("session", "link", "--pin", stdin=PIN)
    town.served.house.hallway.sessions.by_link(link["secret"], "Firefox on a phone")
    (session,) = town.alice.json("session", "list")
    assert (session["agent"], session["proven"]) == ("Firefox on a phone", True)
    refused(town.bob("session", "revoke", str(session["id"]), "--json"), 3)
    assert town.alice("session", "revoke", str(session["id"])).code == 0
    assert town.alice.json("session", "list") == []


def test_letters_are_one_s_own_and_there_are_none_without_an_address(town: Town) -> None:
    assert town.alice.json("letters") == []
    assert "fabric channel add" in town.alice("letters").out


def test_the_settings_are_shown_without_their_secrets(town: Town) -> None:
    shown = town.alice("config", "show", FABRIC_AUTH_APP_TOKEN="very-secret-token-0123456789-0123456789")
    assert shown.code == 0, shown
    assert "very-secret" not in shown.out
    assert "[auth]" in shown.out


def test_a_project_becomes_a_queue_by_a_decision(town: Town) -> None:
    answer = town.served.call("createProject", {"name": "Garden"})
    assert answer["result"]
    refused(town.alice("adopt", "Garden", "--json"), 7)
    said = town.alice("adopt", "Garden", "--pin", stdin=PIN)
    assert (said.code, said.out) == (0, "garden is a queue now; no card has moved\n"), said
    assert "garden" in {queue["name"] for queue in town.alice.json("queue", "list")}


# -- moving ------------------------------------------------------------------------------------------------


def test_an_address_without_a_scheme_is_said_to_be_none(town: Town) -> None:
    said = town.alice("import", "kanboard", "kanboard.example", "--json", KANBOARD_TOKEN="x")
    refused(said, 2)
    assert said.error["next"] == "`fabric import kanboard https://kanboard.example/`"


def test_what_stayed_behind_or_came_otherwise_is_called_by_name(town: Town, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"format": 1, "source": "elsewhere"},
        {"table": "users", "id": 7, "username": "kimi", "kind": "human", "trust": 3},
        {"table": "projects", "id": 70, "name": "Gar\0den"},
        {"table": "project_has_users", "project_id": 70, "user_id": 7, "role": "project-member"},
    ]
    file = tmp_path / "board.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = town.alice("import", str(file), "--pin", stdin=PIN)
    assert said.code == 0, said.err
    assert "left out: project_has_users (project 70, user kimi): its user did not come along" in said.out
    assert "changed: projects 70: its name had characters that no text can have" in said.out
