"""How a client finds its server and its token."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from taskfabric.domain.errors import BadInput, NotAuthenticated, Unavailable
from taskfabric.surfaces.cli import process
from taskfabric.surfaces.cli.where import find, normal


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a fabric that runs (as this process)."""
    folder = tmp_path / "home"
    folder.mkdir()
    runs(folder, "http://127.0.0.1:8420", os.getpid())
    (folder / "credentials").write_text(json.dumps({"url": "x", "user": "alice", "token": "local"}))
    return folder


def runs(home: Path, url: str, pid: int) -> None:
    shape = {"url": url, "pid": pid, "started_ticks": process.started(os.getpid())}
    (home / "runtime.json").write_text(json.dumps(shape))


def test_the_environment_goes_first(home: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FABRIC_URL=http://dotenv:1\nFABRIC_TOKEN=dotenv\n")
    env = {"FABRIC_HOME": str(home), "FABRIC_URL": "https://board.example/", "FABRIC_TOKEN": "env"}
    where = find(env, tmp_path)
    assert (where.url, where.token) == ("https://board.example", "env")


def test_then_the_env_file_here(home: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FABRIC_URL=http://dotenv:1\nexport FABRIC_TOKEN='a b'\nOTHER=x\n")
    where = find({"FABRIC_HOME": str(home)}, tmp_path)
    assert (where.url, where.token) == ("http://dotenv:1", "a b")


def test_then_the_fabric_that_runs_here_with_its_owners_token(home: Path, tmp_path: Path) -> None:
    where = find({"FABRIC_HOME": str(home)}, tmp_path)
    assert (where.url, where.token) == ("http://127.0.0.1:8420", "local")


def test_an_agents_token_with_the_local_server(home: Path, tmp_path: Path) -> None:
    where = find({"FABRIC_HOME": str(home), "FABRIC_TOKEN": "kimi"}, tmp_path)
    assert (where.url, where.token) == ("http://127.0.0.1:8420", "kimi")


def test_a_token_of_the_environment_is_never_sent_to_the_server_of_a_folders_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FABRIC_URL=http://evil:1\n")
    env = {"FABRIC_HOME": str(home), "FABRIC_TOKEN": "mine"}
    with pytest.raises(NotAuthenticated, match="is not sent"):
        find(env, tmp_path)
    with pytest.raises(NotAuthenticated):  # nor is the local one
        find({"FABRIC_HOME": str(home)}, tmp_path)
    (tmp_path / ".env").write_text("FABRIC_URL=http://localhost:8420\n")  # the local server itself
    assert find(env, tmp_path).token == "mine"


def test_a_token_of_a_folders_file_is_never_sent_to_the_server_of_the_environment(home: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FABRIC_URL=http://dotenv:1\nFABRIC_TOKEN=dotenv\n")
    with pytest.raises(NotAuthenticated):
        find({"FABRIC_HOME": str(home), "FABRIC_URL": "http://elsewhere:1"}, tmp_path)


def test_the_local_token_is_never_sent_to_another_server(home: Path, tmp_path: Path) -> None:
    with pytest.raises(NotAuthenticated):
        find({"FABRIC_HOME": str(home), "FABRIC_URL": "http://elsewhere:8420"}, tmp_path)
    assert find({"FABRIC_HOME": str(home), "FABRIC_URL": "http://localhost:8420/"}, tmp_path).token == "local"


def test_a_fabric_that_does_not_run_any_more_is_not_found(home: Path, tmp_path: Path) -> None:
    (home / "runtime.json").write_text(json.dumps({"url": "http://x", "pid": os.getpid(), "started_ticks": "before"}))
    with pytest.raises(Unavailable, match="no fabric runs here"):
        find({"FABRIC_HOME": str(home)}, tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "\0", '{"url": 5}', '{"pid": "x", "started_ticks": 1}'])
def test_a_damaged_runtime_file_counts_as_none(home: Path, tmp_path: Path, content: str) -> None:
    (home / "runtime.json").write_text(content)
    with pytest.raises(Unavailable):
        find({"FABRIC_HOME": str(home)}, tmp_path)


@pytest.mark.parametrize("url", ["ftp://x", "board", "http://", "http://a b", "javascript://x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        normal(url)


def test_one_server_has_one_spelling() -> None:
    assert {normal(u) for u in ("http://LOCALHOST:8420/", " http://127.0.0.1:8420", "HTTP://localhost:8420")} == {
        "http://127.0.0.1:8420"
    }
