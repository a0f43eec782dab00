"""The words of the command line: which commands there are, and how their arguments are read."""

from __future__ import annotations

import argparse
import shlex

import pytest

from taskfabric.domain.errors import BadInput
from taskfabric.surfaces.cli import kb_claim
from taskfabric.surfaces.cli.command import Command, HelpShown
from taskfabric.surfaces.cli.completion import bash, fish, zsh
from taskfabric.surfaces.cli.main import MODULES, find, load

ALL = {name: command for module in dict.fromkeys(MODULES.values()) for name, command in load(module).items()}
CONTRACT = """
    up down status doctor logs
    submit list show log tree why search edit move comment claim take renew done park ask fail release answer
    verify reject cancel redrive
    db:start db:stop db:status db:backup db:restore queue:create queue:list user:add user:list user:disable user:reset
    token:create token:revoke token:list pin:set config:show
    inbox approve deny delegate vacation request-approval grant:create grant:list grant:revoke
    policy:show policy:accept session:list session:revoke session:link me
    channel:list channel:add channel:remove channel:test
"""
OPTIONS = {
    "up": "--detach --json --port --data",
    "submit": "--spec --to --priority --score --due --not-before --ref --needs --parent --after --key --key-scope"
    " --wait",
    "list": "--queue --status --mine --json",
    "log": "--follow",
    "edit": "--title --priority --score --due --tag",
    "move": "--queue",
    "claim": "--queue",
    "done": "--note --verdict --attach",
    "park": "--until --note",
    "ask": "--note --of",
    "fail": "--note --final",
    "queue create": "--pool --inbox --needs-verified --score-check --human-verify",
    "queue rules": "--needs-verified --no-needs-verified --score-check --human-verify",
    "token create": "--queue",
    "approve": "--pin --edit --note --always --until",
    "deny": "--note --pin",
    "delegate": "--to",
    "vacation": "--until --to --off",
    "request-approval": "--args --level",
}


def read(name: str, *words: str) -> argparse.Namespace:
    return ALL[name].parser("fabric").parse(words)


def test_every_contracted_command_is_there_with_its_options() -> None:
    assert {word.replace(":", " ") for word in CONTRACT.split()} <= set(ALL)
    for name, options in OPTIONS.items():
        assert set(options.split()) <= set(ALL[name].parser("fabric")._option_string_actions), name


@pytest.mark.parametrize("command", [*ALL.values(), *kb_claim.COMMANDS], ids=lambda command: command.name)
def test_every_command_takes_json_and_explains_itself(command: Command) -> None:
    parser = command.parser("fabric")
    assert "--json" in parser._option_string_actions
    assert command.help.endswith(".") or "exit code" in command.help
    assert all(example.split()[0] in ("fabric", "kb-claim") or "fabric" in example for example in command.examples)
    assert command.examples
    assert len(parser.format_help()) > 50


def test_the_overviews_table_and_the_modules_agree() -> None:
    for module in dict.fromkeys(MODULES.values()):
        words = {name.partition(" ")[0] for name in load(module)}
        assert words == {word for word, holder in MODULES.items() if holder == module}


@pytest.mark.parametrize("example", [e for c in ALL.values() for e in c.examples if e.startswith("fabric ")])
def test_every_example_is_a_command_line_that_is_understood(example: str) -> None:
    words = shlex.split(example.split(" && ")[0].split(" > ")[0].split(" < ")[0])
    command, rest = find(words[1:])
    command.parser("fabric").parse(rest)


def test_an_options_value_is_the_next_word_whatever_it_looks_like() -> None:
    args = read("edit", "12", "--tag", "+home", "--tag", "-urgent", "--title", "--json")
    assert (args.tag, args.title, args.json) == (["+home", "-urgent"], "--json", False)


@pytest.mark.parametrize(
    ("words", "wait", "title"),
    [
        (("paint", "--wait"), "", "paint"),
        (("paint", "--wait", "90"), "90", "paint"),
        (("--wait", "paint"), "", "paint"),
        (("--wait", "10m", "paint"), "10m", "paint"),
        (("--wait", "--json", "paint"), "", "paint"),
        (("paint",), None, "paint"),
    ],
)
def test_wait_takes_a_value_only_if_one_follows(words: tuple[str, ...], wait: str | None, title: str) -> None:
    args = read("submit", *words)
    assert (args.wait, args.title) == (wait, title)


def test_words_after_a_double_dash_are_no_options() -> None:
    args = read("comment", "12", "--", "--json")
    assert (args.text, args.json) == ("--json", False)


@pytest.mark.parametrize(
    "words",
    [
        ("submit",),
        ("submit", "x", "--priority", "high"),
        ("submit", "x", "--notes"),
        ("submit", "x", "--key"),
        ("submit", "x", "--key-scope", "never"),
        ("done", "12"),
        ("queue", "create", "x", "--pool", "--inbox", "bob"),
    ],
)
def test_wrong_usage_is_bad_input_that_names_the_help(words: tuple[str, ...]) -> None:
    command, rest = find(words)
    with pytest.raises(BadInput) as told:
        command.parser("fabric").parse(rest)
    assert "--help" in told.value.next


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("lst",), "fabric list"), (("queue", "creat"), "fabric queue create"), (("submitt",), "submit")],
)
def test_a_command_that_does_not_exist_is_answered_with_the_nearest(words: tuple[str, ...], meant: str) -> None:
    with pytest.raises(BadInput) as told:
        find(words)
    assert meant in told.value.next


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HelpShown):
        read("submit", "--help")
    assert "examples:" in capsys.readouterr().out


def test_the_help_of_a_key_warns_of_relative_times() -> None:
    assert "times are part of its body" in " ".join(ALL["submit"].parser("fabric").format_help().split())


def test_completion_knows_every_command_and_option() -> None:
    for script in (bash(), zsh(), fish()):
        assert all(name.split()[0] in script for name in ALL)
        assert "not-before" in script
