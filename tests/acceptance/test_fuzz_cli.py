"""Whatever is typed: an exit code of the contract, one document or one sentence, and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskfabric.surfaces.cli.main import MODULES, load
from taskfabric.testing import TestServer
from tests.acceptance.cli_kit import Said, Shell
from tests.integration.serving import Served, serving

# Those that start, stop or wait for processes, read the disk at will, or never end.
_NOT_HERE = {"up", "down", "logs", "attachment", "pin set", "db start", "db stop", "db status"}
_NOT_HERE |= {"db backup", "db restore"}
# Those that become another program: the test's own process would be gone.
_NOT_HERE |= {"worker", "keeper", "cron"}
# Files, standard input and streams have their own tests; here they would only cost time.
_LEFT_OUT = {"--spec", "--attach", "--follow", "--pin", "--wait", "--config", "--help"}
_ALL = {name: command for module in dict.fromkeys(MODULES.values()) for name, command in load(module).items()}
COMMANDS = {name: command for name, command in _ALL.items() if name not in _NOT_HERE}
CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8}

NASTY = st.sampled_from(
    [
        "",
        " ",
        "-",
        "--",
        "\0",
        "\ud800",
        "\udcff",
        "\x1b[31m",
        "\u202eevil",
        "🌱" * 50,
        "'; DROP TABLE tasks; --",
        "<script>alert(1)</script>",
        "א" * 40,
        "x" * 70_000,
        "12",
        "#12",
        "12@3",
        "12@99999999999999999999",
        "99999999999999999999999999",
        "-1",
        "0",
        "1e999",
        "NaN",
        "true",
        "2026-02-30",
        "9999-12-31T23:59:59Z",
        "0001-01-01",
        "+99999999999w",
        "tomorrow 25:00",
        "any:tier=huge",
        "any:needs=" + "a+" * 500,
        "pool",
        "kimi",
        "../../etc/passwd",
        "veto",
        "+blocked",
        "-needs:x",
    ]
)
WORD = NASTY | st.text(st.characters(blacklist_categories=()), max_size=40) | st.integers(-5, 30).map(str)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with arguments that nearly fit it, in any order; sometimes words alone."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.lists(WORD, max_size=5))
    name = draw(st.sampled_from(sorted(COMMANDS)))
    actions = COMMANDS[name].parser("fabric")._actions
    words: list[str] = []
    for action in actions:
        if not action.option_strings:
            words.append(draw(WORD))
        elif not _LEFT_OUT & set(action.option_strings) and (draw(st.booleans()) or action.required):
            words.append(action.option_strings[-1])
            if action.nargs != 0:
                fitting = st.sampled_from(sorted(action.choices)) if action.choices else WORD
                words.append(draw(fitting | WORD))
    if draw(st.integers(0, 4)) == 0:
        words = draw(st.permutations(words))
    if draw(st.integers(0, 9)) == 0:
        words.append(draw(WORD))
    return [*name.split(), *words]


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture(scope="module")
def shell(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    env = {"FABRIC_URL": served.url, "FABRIC_TOKEN": served.tokens["kimi"]}
    return Shell(tmp_path_factory.mktemp("fuzz"), env)


def check(said: Said, argv: list[str], *, as_json: bool) -> None:
    """The contract of every command line."""
    assert said.code in CODES, (argv, said)
    assert "Traceback" not in said.out + said.err
    if said.code and as_json:
        documents = said.out.splitlines()
        assert len(documents) == 1, (argv, said)
        shape = json.loads(documents[0])
        if isinstance(shape, dict) and "error" in shape:
            assert shape["error"]["code"] == said.code
            assert said.err == ""
    elif said.code and not said.out:
        assert said.err.startswith("fabric: ")
        errors = said.err.removeprefix("fabric: ").split("\nfabric: ")
        assert len(errors) == 1 or all(error.startswith("#") for error in errors)  # of several, each says which
        assert all(len(error.splitlines()) <= 3 for error in errors), (argv, said)
        assert "\x1b" not in said.err


def fuzzed(shell: Shell, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(command_lines(), st.booleans())
    def never_fails(argv: list[str], as_json: bool) -> None:
        words = ["--json", *argv] if as_json else argv
        check(shell(*words), words, as_json=as_json)

    never_fails()


def test_no_command_line_makes_a_traceback(shell: Shell, served: Served) -> None:
    fuzzed(shell, 500)
    # Nothing is half-written: each task that there is can be shown.
    for task in served.fabric("alice").ask("fabric.list", {"limit": 1000}):
        assert served.fabric("alice").ask("fabric.show", {"task": task["id"]})["id"] == task["id"]


@pytest.mark.chaos
def test_twenty_thousand_command_lines_make_no_traceback(shell: Shell) -> None:
    fuzzed(shell, 20_000)
