"""The shipped cards of the two coding programs, as they are, with a stand-in where the program would be installed."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskfabric.domain.card import AgentCard
from taskfabric.domain.card_file import read_card
from taskfabric.domain.limit import LimitClass
from taskfabric.domain.outcome import Done, Parked
from taskfabric.ports.runtime import Result
from taskfabric.runtimes.command import CommandRuntime
from tests.integration.running import Told, make_job, never

ROOT = Path(__file__).parents[2]
CODER = ROOT / "tests" / "fixtures" / "programs" / "coder"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def shipped(name: str) -> AgentCard:
    card = read_card(tomllib.loads((ROOT / "cards" / f"{name}.toml").read_text("utf-8")), name=name)
    return replace(card, enabled=True)


def carry(name: str, does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """The card's task, done by a program in the owner's ~/.local/bin that behaves as ``does`` says."""
    home = tmp_path / "home"
    installed = home / ".local" / "bin" / name
    installed.parent.mkdir(parents=True)
    installed.write_text(f"#!/bin/sh\nset -- {does}\n" + CODER.read_text().partition("\n")[2])
    for folder in (tmp_path, home, *installed.parents[:2], installed):
        folder.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    workspace = tmp_path / "run"
    workspace.mkdir()
    card = shipped(name)
    return CommandRuntime(card, clock=lambda: NOW).run(make_job(card, workspace), Told(), never)


def test_claude_carries_out_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = carry("claude", "claude-stream 1796047200", tmp_path, monkeypatch)
    assert result.outcome == Done(note="Fixed the parser.")


def test_kimi_carries_out_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert carry("kimi", "kimi-stream", tmp_path, monkeypatch).outcome == Done(note="All sorted.")


@pytest.mark.parametrize(("name", "does"), [("claude", "claude-limit 1796047200"), ("kimi", "kimi-limit")])
def test_a_spent_subscription_is_recognised(
    name: str, does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = carry(name, does, tmp_path, monkeypatch)
    assert isinstance(result.outcome, Parked), result
    assert result.limit is not None
    assert result.limit.cls is LimitClass.EXHAUSTED
