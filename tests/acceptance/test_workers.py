"""Workers under the supervisor, and by hand: real processes, from the card's file to the result on the card."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.surfaces.cli import process
from taskfabric.testing import new_folder
from tests.acceptance.test_up import ROOT, Home, eventually

_CARD = 'kind = "python"\nentry = "tests.integration.jobs:echo"\nqueues = []\nlease = "1m"\n'


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A running fabric with an agent card of its own, ada."""
    made = Home(new_folder())
    made.env["PYTHONPATH"] = f"{ROOT / 'lib'}{os.pathsep}{ROOT}"
    (made.data / "cards").mkdir(parents=True)
    (made.data / "cards/ada.toml").write_text(_CARD)
    made.run("up", "--detach", "--port", "0")
    yield made
    made.remove()


def worker(home: Home, name: str) -> dict[str, Any] | None:
    """What runtime.json says about this agent's worker."""
    return next((c for c in home.runtime["children"] if c["name"] == f"worker-{name}"), None)


def test_an_enabled_card_has_a_worker_that_does_its_tasks(home: Home) -> None:
    """`fabric status` shows it."""
    said = home.json("submit", "say this", "--to", "ada", "--wait", "60")
    assert (said["status"], said["note"]) == ("done", "say this")
    assert "worker-ada" in {child["name"] for child in home.json("status")["children"]}
    assert "worker-ada" in home.run("status")


def test_a_killed_worker_is_started_again(home: Home) -> None:
    """G6: a dead worker's tasks go on."""
    before = eventually(lambda: worker(home, "ada"))
    os.kill(before["pid"], signal.SIGKILL)
    eventually(lambda: (worker(home, "ada") or before)["pid"] not in (None, before["pid"]))
    assert home.json("submit", "after", "--to", "ada", "--wait", "60")["note"] == "after"


def test_a_card_that_comes_and_goes_brings_and_takes_its_worker(home: Home) -> None:
    file = home.data / "cards/eve.toml"
    file.write_text(_CARD)
    pid = eventually(lambda: (worker(home, "eve") or {}).get("pid"))
    assert home.json("submit", "hello eve", "--to", "eve", "--wait", "60")["note"] == "hello eve"
    file.write_text(_CARD + "enabled = false\n")
    eventually(lambda: worker(home, "eve") is None)
    assert process.started(pid) is None


def test_a_worker_has_a_url_and_a_token_and_nothing_of_the_database(home: Home) -> None:
    child = eventually(lambda: worker(home, "ada"))
    with contextlib.suppress(FileNotFoundError):  # only where the system shows it
        names = {line.partition("=")[0] for line in _environment(child["pid"])}
        assert {"FABRIC_URL", "FABRIC_TOKEN"} <= names
        assert not {"DATABASE_URL", "FABRIC_BOARD"} & names


def _environment(pid: int) -> list[str]:
    with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 (of the kernel's)
        return file.read().split("\0")


def test_by_hand_it_ends_when_there_is_nothing_left(home: Home) -> None:
    """`fabric worker NAME --once`, with a token of the agent's own; a paused agent starts nothing."""
    home.run("pause", "ada")
    number = home.json("submit", "for later", "--to", "ada")["id"]
    home.run("worker", "ada", "--once", code=3)
    assert home.json("show", str(number))["status"] == "ready"
    home.run("resume", "ada")
    eventually(lambda: home.json("show", str(number))["status"] == "done")


def test_a_name_without_a_card_and_a_human_are_refused_clearly(home: Home) -> None:
    home.run("worker", "nobody", "--once", code=3)
    home.run("worker", "chat", "--once", code=2)


def test_a_log_that_is_followed_shows_what_the_run_says_and_what_happens(home: Home) -> None:
    (home.data / "cards/mia.toml").write_text(_CARD.replace(":echo", ":hold"))
    eventually(lambda: worker(home, "mia"))
    gate = home.folder / "gate"
    number = str(home.json("submit", "a long one", "--to", "mia", "--spec", _written(home, str(gate)))["id"])
    follower = home.start("log", number, "--follow", "--json")
    try:
        assert follower.stdout is not None
        kinds: list[str] = []
        for line in follower.stdout:
            shape = json.loads(line)
            kinds.append(shape["type"])
            if shape["type"] == "chunk":
                assert (shape["text"], shape["epoch"]) == ("holding", 1)
                gate.touch()
            if shape["type"] == "event" and shape["kind"] == "done":
                break
        assert "chunk" in kinds
    finally:
        follower.kill()
        follower.communicate()


def _written(home: Home, text: str) -> str:
    file = home.folder / "spec.md"
    file.write_text(text)
    return str(file)


def test_a_wait_that_runs_out_says_what_the_task_is_doing(home: Home) -> None:
    said = home.run("submit", "no time", "--to", "helper", "--wait", "0", "--json", code=8)
    error = json.loads(said)["error"]
    assert error["message"].startswith(f"#{error['facts']['task']} is still ready: ")
    assert error["facts"]["doing"]
