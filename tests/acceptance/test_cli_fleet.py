"""``fabric agents``, ``pause`` and ``resume``: what a person reads about his agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskfabric.services import verbs
from taskfabric.testing import TestServer
from tests.acceptance.cli_kit import Shell
from tests.integration.serving import Served, serving

KIMI = """
kind = "command"
description = "writes code"
account = "acme"
tiers = ["small"]
[command]
argv = ["cat"]
[[windows]]
name = "five_hour"
length = "5h"
limit = 60
"""


@pytest.fixture
def served(server: TestServer, tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "home" / "cards"
    folder.mkdir(parents=True)
    (folder / "kimi.toml").write_text(KIMI)
    with server.database() as database, serving(database.dsn, tmp_path / "home") as made:
        yield made


@pytest.fixture
def alice(served: Served, tmp_path: Path) -> Shell:
    return Shell(tmp_path, {"FABRIC_URL": served.url, "FABRIC_TOKEN": served.tokens["alice"]})


def line(shell: Shell, name: str) -> str:
    said = shell("agents")
    assert said.code == 0, said
    return next(text for text in said.out.splitlines() if text.startswith(f"{name} "))


def test_the_roster_says_state_reason_queue_and_quota_of_every_agent(served: Served, alice: Shell) -> None:
    alice("submit", "one", "--to", "kimi")
    with served.fabric("kimi") as kimi:
        kimi.call(verbs.Report(instance="kimi@box", state="idle"))
        kimi.call(verbs.Reserve())
    shown = line(alice, "kimi")
    assert shown.split()[1] == "open"
    assert "writes code" in shown
    assert "0/1" in shown
    assert "59 of 60 (five_hour until " in shown
    assert line(alice, "claude").split()[1] == "off"
    assert line(alice, "tiny").split()[1:5] == ["closed", "no", "worker", "runs"]
    rows = {row["name"]: row for row in alice.json("agents")}
    assert (rows["kimi"]["open"], rows["kimi"]["queue"]["waiting"]) == (True, 1)


def test_a_pause_is_shown_with_its_end_and_lifted(served: Served, alice: Shell) -> None:
    with served.fabric("kimi") as kimi:
        assert kimi.call(verbs.Report(instance="kimi@box", state="idle"))["open"]
        said = alice("pause", "kimi", "--until", "+2h", "--note", "the key is renewed")
        assert said.code == 0
        assert "kimi starts nothing more until" in said.out
        assert "paused by alice: the key is renewed" in line(alice, "kimi")
        assert not kimi.call(verbs.Report(instance="kimi@box", state="idle"))["open"]
        assert "not paused any more" in alice("resume", "kimi").out
        assert kimi.call(verbs.Report(instance="kimi@box", state="idle"))["open"]
    assert alice("pause", "nobody").code == 3


def test_check_ends_with_1_when_a_card_cannot_be_used(served: Served, alice: Shell, tmp_path: Path) -> None:
    assert alice("agents", "check").code == 0
    folder = tmp_path / "home" / "cards"
    (folder / "nina.toml").write_text('kind = "comand"\n')
    said = alice("agents", "check")
    while said.code == 0:  # the folder is looked at once a second
        said = alice("agents", "check")
    assert said.code == 1
    assert "did you mean 'command'" in said.out
    assert "cannot be read" in line(alice, "nina")
    assert [c["state"] for c in alice("doctor", "--json").json if c["name"] == "card"] == ["fail"]


def test_the_doctor_says_what_else_could_be_switched_on(alice: Shell) -> None:
    told = alice("doctor").out
    assert "could be switched on: chat, claude, echo, remote, you" in told
    assert "tiny is closed: no worker runs" in told
