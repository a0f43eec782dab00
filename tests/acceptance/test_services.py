"""The fabric's own services as processes: the keeper, the schedules, and work that flows without them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.testing import new_folder
from tests.acceptance.test_up import Home, eventually


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One that runs, detached, without any agent of its own."""
    made = Home(new_folder())
    made.run("up", "--detach", "--port", "0")
    yield made
    made.remove()


def child(home: Home, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in home.runtime["children"] if one["name"] == name)
    return found


def page(home: Home, token: str) -> tuple[int, str]:
    """GET /metrics: the status and the text."""
    request = urllib.request.Request(f"{home.runtime['url']}/metrics", headers={"Authorization": f"Bearer {token}"})
    try:
        with contextlib.closing(urllib.request.urlopen(request, timeout=30)) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_killing_the_keeper_stops_no_work_and_it_comes_back(home: Home) -> None:
    """G6"""
    before = child(home, "keeper")
    os.kill(before["pid"], signal.SIGKILL)
    number = home.json("submit", "goes on", "--to", "alice")["id"]
    home.run("take", str(number))
    home.run("done", str(number), "--note", "without any keeper")
    assert home.json("show", str(number))["note"] == "without any keeper"
    eventually(lambda: child(home, "keeper")["pid"] not in (None, before["pid"]))
    assert child(home, "keeper")["restarts"] >= 1


def test_a_round_by_hand_says_whose_turn_it_is(home: Home) -> None:
    eventually(lambda: 'service="keeper"' in page(home, _service(home, "fabric-metrics"))[1])
    assert home.json("keeper", "--once") == {"turn": False, "chores": {}}


def test_a_schedule_becomes_tasks_and_a_bad_one_is_told(home: Home) -> None:
    """G12"""
    file = home.data / "schedules.toml"
    file.write_text('[tick]\ncron = "* * * * *"\ntitle = "tick"\nto = "alice"\noverlap = "parallel"\n')
    assert home.json("cron", "--list")["schedules"][0]["name"] == "tick"
    home.run("cron", "--once")
    eventually(lambda: [task for task in home.json("list", "--queue", "alice") if task["title"] == "tick"])
    file.write_text('[tick]\ncrom = "* * * * *"\n')
    assert "did you mean cron?" in home.run("cron", "--list", code=1)
    assert "did you mean cron?" in home.run("cron", "--once", code=1)
    file.unlink()


def test_the_numbers_are_for_whoever_shows_a_credential(home: Home) -> None:
    """G13"""
    status, text = page(home, _service(home, "fabric-metrics"))
    assert status == 200
    assert "fabric_leases" in text
    assert "alice" not in text
    status, hers = page(home, home.json("up")["token"])
    assert status == 200
    assert "fabric_leases" not in hers
    assert page(home, "wrong")[0] == 401


def test_a_restart_keeps_the_services_tokens(home: Home) -> None:
    before = (home.data / "services.json").read_text()
    home.run("down")
    home.run("up", "--detach", "--port", "0")
    assert (home.data / "services.json").read_text() == before


def _service(home: Home, name: str) -> str:
    return str(json.loads((home.data / "services.json").read_text())[name])
