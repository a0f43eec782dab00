"""The fabric's folder: named, else the nearest one upward, else the checkout's, else the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskfabric import assets
from taskfabric.home import fabric_home


def test_the_home_is_what_the_variable_says(tmp_path: Path) -> None:
    assert fabric_home({"FABRIC_HOME": str(tmp_path / "x")}, tmp_path) == tmp_path / "x"
    assert fabric_home({"FABRIC_HOME": "y"}, tmp_path) == tmp_path / "y"


def test_the_home_is_the_nearest_one_upward(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c"
    deep.mkdir(parents=True)
    (tmp_path / ".fabric").mkdir()
    assert fabric_home({}, deep) == tmp_path / ".fabric"
    (tmp_path / "a/.fabric").mkdir()
    assert fabric_home({}, deep) == tmp_path / "a/.fabric"


def test_a_home_of_somebody_else_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".fabric").mkdir()
    stranger = (tmp_path / ".fabric").stat().st_uid + 4711
    monkeypatch.setattr("os.geteuid", lambda: stranger)
    # Only root's folders would still do, and this one is root's when the tests run as root.
    expected = (tmp_path / ".fabric").stat().st_uid == 0
    assert (fabric_home({}, tmp_path) == tmp_path / ".fabric") is expected


def test_without_a_folder_upward_it_is_the_checkouts_home(tmp_path: Path) -> None:
    root = assets.checkout()
    assert root is not None
    assert fabric_home({}, tmp_path) == root / ".fabric"


def test_without_a_checkout_it_is_the_users_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "checkout", lambda: None)
    assert fabric_home({"HOME": "/home/me"}, tmp_path) == Path("/home/me/.local/share/taskfabric")
    assert fabric_home({"HOME": "/home/me", "XDG_DATA_HOME": "/data"}, tmp_path) == Path("/data/taskfabric")
    assert fabric_home({"HOME": "/home/me", "XDG_DATA_HOME": "data"}, tmp_path).parts[:3] == ("/", "home", "me")
