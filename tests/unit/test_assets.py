"""The files beside the code are found in a checkout, and a name leads nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskfabric import assets
from taskfabric.domain.errors import BadInput, FabricError


def test_a_checkout_reads_the_files_beside_it() -> None:
    root = assets.checkout()
    assert root is not None
    assert assets.read_text("config/default.toml") == (root / "config/default.toml").read_text(encoding="utf-8")


def test_a_folder_is_listed_by_names_that_can_be_read() -> None:
    names = assets.names("config", "*.toml")
    assert "config/default.toml" in names
    assert all(assets.read_text(name) for name in names)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../pyproject.toml", "config/../pyproject.toml", "pyproject.toml"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        assets.path(name)


def test_a_missing_asset_is_named() -> None:
    with pytest.raises(FabricError, match=r"config/none\.toml is missing"):
        assets.path("config/none.toml")


def test_an_installation_without_assets_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path)
    monkeypatch.setattr(assets, "checkout", lambda: None)
    assets.root.cache_clear()
    try:
        with pytest.raises(FabricError, match="incomplete"):
            assets.root()
    finally:
        assets.root.cache_clear()
