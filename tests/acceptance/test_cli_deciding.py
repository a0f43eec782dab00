"""Decisions on the command line: an agent asks and stops, a human decides with his PIN, the same request says yes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from taskfabric.testing import TestServer
from tests.acceptance.cli_kit import Shell
from tests.acceptance.test_cli import Town, refused
from tests.integration.serving import Served, serving

ARGS: Final = json.dumps({"to": "bank@example.org", "text": "please"})
PIN: Final = b"246810\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the server."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def served(server: TestServer, home: Path) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, home) as made:
        yield made


@pytest.fixture
def town(served: Served, tmp_path: Path) -> Iterator[Town]:
    made = Town(served, tmp_path)
    if not made.alice.json("me")["pin"]:
        assert made.alice("pin", "set", stdin=PIN).code == 0
    yield made
    made.alice("vacation", "--off")
    for item in made.alice.json("inbox")["items"]:
        if item["kind"] == "approval":
            made.alice("deny", item["ref"], "--pin", "--note", "swept by the test", stdin=PIN)


@pytest.fixture
def helper(town: Town, tmp_path: Path) -> Shell:
    """The terminal of an agent that alice has made."""
    folder = tmp_path / "helper"
    folder.mkdir()
    token = town.alice("token", "create", "helper").out.strip().splitlines()[0]
    return Shell(folder, {"FABRIC_URL": town.served.url, "FABRIC_TOKEN": token})


def asks(shell: Shell, *more: str, action: str = "mail.send", args: str = ARGS) -> tuple[int, dict[str, Any]]:
    said = shell("request-approval", action, "--args", args, "--json", *more)
    shape: dict[str, Any] = said.json
    return said.code, shape


def test_an_agent_asks_a_human_decides_and_the_same_request_says_yes_once(town: Town) -> None:
    town.submitted()
    ref = town.kimi("claim").out.splitlines()[0]
    code, asked = asks(town.kimi, "--ref", ref, "--why", "the invoice is due")
    assert (code, asked["state"]) == (7, "pending")
    assert town.alice.json("show", ref.partition("@")[0])["status"] == "waiting"

    (item,) = town.alice.json("inbox")["items"]
    assert (item["kind"], item["ref"], item["who"]) == ("approval", str(asked["task"]), "kimi")
    got = town.alice("approve", item["ref"], "--pin", stdin=PIN)
    assert got.code == 0, got
    assert '"to": "bank@example.org"' in got.out
    assert "approved by alice; it can be used once" in got.out

    ref = town.kimi("claim").out.splitlines()[0]
    code, answer = asks(town.kimi, "--ref", ref)
    assert (code, answer["allowed"], answer["decided_args"]) == (0, True, json.loads(ARGS))
    assert asks(town.kimi, "--ref", ref)[0] == 7


def test_without_the_pin_a_human_must_decide_and_with_a_wrong_one_it_is_refused(town: Town, helper: Shell) -> None:
    _, asked = asks(helper)
    refused(town.alice("approve", str(asked["task"]), "--json"), 7)
    wrong = town.alice("approve", str(asked["task"]), "--pin", "--json", stdin=b"000000\n")
    assert refused(wrong, 5)["facts"]["rule"] == "pin"
    assert town.alice("approve", str(asked["task"]), "--pin", stdin=PIN).code == 0


def test_a_no_is_exit_code_five_with_its_reason(town: Town, helper: Shell) -> None:
    args = json.dumps({"to": "x"})
    _, asked = asks(helper, args=args)
    assert town.alice("deny", str(asked["task"]), "--note", "not this month", "--pin", stdin=PIN).code == 0
    code, answer = asks(helper, args=args)
    assert (code, answer["state"], answer["note"]) == (5, "denied", "not this month")
    said = helper("request-approval", "mail.send", "--args", args)
    assert (said.code, said.out) == (5, "no: it is denied: not this month\n")


def test_an_edit_is_what_may_be_done(town: Town, helper: Shell) -> None:
    args, other = json.dumps({"to": "a"}), json.dumps({"to": "b"})
    _, asked = asks(helper, args=args)
    town.alice.json("approve", str(asked["task"]), "--edit", other, "--pin", stdin=PIN)
    code, answer = asks(helper, args=args)
    assert (code, answer["state"], answer["decided_args"]) == (0, "edited-approved", json.loads(other))


def test_several_are_decided_together(town: Town, helper: Shell) -> None:
    refs = [str(asks(helper, args=json.dumps({"to": str(n)}))[1]["task"]) for n in range(3)]
    got = town.alice.json("approve", *refs, "--pin", stdin=PIN)
    assert [one["state"] for one in got] == ["approved"] * 3


def test_what_needs_nobody_is_exit_code_zero_at_once(town: Town, helper: Shell) -> None:
    code, answer = asks(helper, action="read.mail", args="{}")
    assert (code, answer["level"]) == (0, "auto")


def test_arguments_that_are_no_json_object_are_wrong_usage(town: Town, helper: Shell) -> None:
    for text in ("{", "[]", "1", '{"a": NaN}'):
        refused(helper("request-approval", "mail.send", "--args", text, "--json"), 2)


def test_a_grant_is_made_listed_used_and_revoked(town: Town, helper: Shell) -> None:
    made = town.alice.json("grant", "create", "helper", "note.write", "--until", "+2h", "--pin", stdin=PIN)
    code, answer = asks(helper, "--level", "confirm", action="note.write")
    assert (code, answer["grant"]) == (0, made["id"])
    assert [g["used"] for g in town.alice.json("grant", "list")] == [1]
    assert town.alice("grant", "revoke", str(made["id"])).code == 0
    assert asks(helper, "--level", "confirm", action="note.write")[0] == 7


def test_vacation_is_shown_set_and_ended(town: Town) -> None:
    assert town.alice("vacation").out == "you are there\n"
    assert town.alice.json("vacation", "--until", "+3d", "--to", "bob")["to"] == "bob"
    assert "not there until" in town.alice("inbox").out
    assert town.alice("vacation", "--off").out == "you are there\n"


def test_work_is_handed_over(town: Town) -> None:
    ref = town.submitted("sign it", to="alice")
    assert town.alice("delegate", ref, "--to", "bob").out == "bob has it in his inbox now\n"
    assert [item["ref"] for item in town.bob.json("inbox")["items"]] == [ref]


def test_the_inbox_of_another_is_empty_and_his_approvals_are_not_there(town: Town, helper: Shell) -> None:
    """G13"""
    _, asked = asks(helper, args=json.dumps({"to": "surprise"}))
    assert "surprise" not in town.bob("inbox", "--json").out
    there = refused(town.bob("approve", str(asked["task"]), "--json"), 3)
    assert there == refused(town.bob("approve", str(asked["task"] + 1000), "--json"), 3)


def test_a_sign_in_link_is_made_with_the_pin(town: Town) -> None:
    refused(town.alice("session", "link", "--json"), 7)
    made = town.alice.json("session", "link", "--pin", stdin=PIN)
    assert made["url"] == f"{town.served.url}/sign-in?link={made['secret']}"
    assert town.alice.json("session", "list") == []


def test_the_policy_says_what_asks_for_what(town: Town) -> None:
    shown = town.alice.json("policy", "show")
    assert {"action": "pay.*", "kind": "secure", "level": "secure"} in shown["actions"]
    assert shown["accepted"]
    assert town.alice("me", "--quiet", "22:00-07:00", "--zone", "Europe/Berlin").code == 0
    assert town.alice.json("me")["quiet"] == {"begin": "22:00", "end": "07:00"}
    assert town.alice("me", "--no-quiet").code == 0


def test_what_an_agent_wrote_is_shown_and_not_obeyed_by_a_terminal(town: Town, helper: Shell) -> None:
    _, asked = asks(helper, "--why", "\x9b2Jtrust me", args=json.dumps({"to": "\u202egro.knab"}))
    said = town.alice("approve", str(asked["task"]), "--pin", stdin=PIN)
    assert said.code == 0
    assert "\x9b" not in said.out
    assert "\u202e" not in said.out


def test_a_decision_passed_on_says_until_when(town: Town, helper: Shell) -> None:
    _, asked = asks(helper, args=json.dumps({"to": "bank@example.org", "text": "for a while"}))
    ref = str(asked["task"])
    said = town.alice("delegate", ref, "--to", "bob", "--until", "2099-01-01 09:00")
    assert refused(town.alice("delegate", ref, "--to", "bob", "--until", "2099-01-01 09:00", "--json"), 2)["next"]
    assert said.code == 2
    said = town.alice("delegate", ref, "--to", "bob", "--until", "+1h")
    assert said.code == 0, said
    assert "bob may decide it as well until " in said.out
    (item,) = (one for one in town.bob.json("inbox")["items"] if one["ref"] == ref)
    assert [d["until"] is not None for d in item["approval"]["deciders"]] == [False, True]


# -- channels ----------------------------------------------------------------------------------------------

ADDRESS: Final = b"ntfys://93.184.215.14/secret-topic\n"


def test_a_channel_is_added_from_standard_input_listed_without_its_secret_and_removed(town: Town) -> None:
    refused(town.alice("channel", "add", "--json", stdin=ADDRESS), 7)
    said = town.alice("channel", "add", "--pin", stdin=ADDRESS + PIN)
    assert said.code == 0, said
    assert "ntfys://93.184.215.14/…" in said.out
    (shown,) = town.alice.json("channel", "list")
    listed = town.alice("channel", "list")
    assert "secret" not in said.out + listed.out + json.dumps(shown)
    assert town.bob.json("channel", "list") == []
    number = str(shown["id"])
    refused(town.bob("channel", "remove", number, "--json"), 3)
    tried = town.alice("channel", "test", number, "--json")
    assert (tried.code, tried.json["taken"]) == (1, False)
    assert "secret" not in tried.out
    assert town.alice("channel", "remove", number, "--pin", stdin=PIN).code == 0
    assert town.alice.json("channel", "list") == []


@pytest.mark.parametrize("address", [b"file:///etc/passwd\n", b"ntfy://127.0.0.1/secret\n", b"\n"])
def test_an_address_that_may_not_be_is_refused_with_the_next_step(town: Town, address: bytes) -> None:
    error = refused(town.bob("channel", "add", "--json", stdin=address), 2)
    assert error["next"]
    assert "secret" not in json.dumps(error)


def test_a_lost_pin_is_forgotten_and_the_next_one_takes_the_code_that_the_server_keeps(
    town: Town, home: Path, tmp_path: Path
) -> None:
    token = town.alice.json("user", "add", "dora", "--pin", stdin=PIN)["token"]
    dora = Shell(tmp_path / "dora", {"FABRIC_URL": town.served.url, "FABRIC_TOKEN": token})
    assert dora("pin", "set", stdin=PIN).code == 0
    refused(town.alice("user", "reset", "dora", "--forget-pin", "--json"), 7)
    reset = town.alice("user", "reset", "dora", "--forget-pin", "--pin", stdin=PIN)
    assert reset.code == 0, reset
    assert "A new PIN takes the code of the letter, or of codes/dora.txt" in reset.err
    dora = Shell(tmp_path / "dora", {"FABRIC_URL": town.served.url, "FABRIC_TOKEN": reset.out.strip()})
    error = refused(dora("pin", "set", "--json", stdin=PIN), 7)
    assert "fabric pin set --code" in error["next"]
    refused(dora("pin", "set", "--code", "--json", stdin=b"guessed\n" + PIN), 5)
    code = (home / "codes" / "dora.txt").read_bytes()
    assert dora("pin", "set", "--code", stdin=code + PIN).code == 0
    assert dora.json("me")["pin"]
