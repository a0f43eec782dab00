"""The files that ship beside the code: ``cards/`` and ``config/``.

An installed wheel carries them as ``taskfabric/_assets/``; in a checkout they lie beside ``lib/``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path, PurePosixPath

from taskfabric.domain.errors import BadInput, FabricError

_PACKAGE = Path(__file__).resolve().parent


@cache
def checkout() -> Path | None:
    """The root of the checkout that this code runs from; None when it was installed from a wheel."""
    root = _PACKAGE.parent.parent
    is_checkout = _PACKAGE.parent.name == "lib" and (root / "pyproject.toml").is_file()
    return root if is_checkout else None


@cache
def root() -> Path:
    """The folder that holds ``cards/`` and ``config/``. Raises FabricError when the installation has none."""
    packaged = _PACKAGE / "_assets"
    if packaged.is_dir():
        return packaged
    beside = checkout()
    if beside is None:
        raise FabricError(
            f"the installation in {_PACKAGE} is incomplete: it has no _assets folder",
            next="install taskfabric again from its wheel",
            path=str(packaged),
        )
    return beside


def path(name: str) -> Path:
    """The file or folder ``name``, such as ``config/default.toml``; it exists.

    Raises BadInput for a name that leads out of the assets, FabricError when there is no such asset.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or parts[0] not in ("cards", "config"):
        raise BadInput(f"{name!r} is not the name of an asset", next="assets lie below cards/ and config/", asset=name)
    found = root().joinpath(*parts)
    if not found.exists():
        raise FabricError(
            f"the asset {name} is missing in {root()}", next="restore the checkout, or install again", asset=name
        )
    return found


def read_text(name: str) -> str:
    """The text of the asset ``name``. Raises as ``path`` does."""
    return path(name).read_text(encoding="utf-8")


def names(folder: str, pattern: str = "*") -> tuple[str, ...]:
    """The assets directly in ``folder`` that match the glob, as names for ``read_text``, sorted.

    A folder that this installation does not have holds nothing.
    """
    base = root() / folder
    return tuple(sorted(f"{folder}/{entry.name}" for entry in base.glob(pattern) if entry.is_file()))
