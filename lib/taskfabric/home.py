"""Where a fabric keeps its things: the one folder that a server and its local clients agree on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from taskfabric import assets


def fabric_home(env: Mapping[str, str], cwd: Path) -> Path:
    """Where the fabric keeps its things: data, credentials, logs, ``runtime.json``. The folder need not exist yet.

    ``FABRIC_HOME``, else the nearest ``.fabric/`` upward from ``cwd``, else the checkout's, else the user's data
    directory. A ``.fabric/`` that belongs to somebody else is passed over: it could name a server of his.
    """
    if env.get("FABRIC_HOME"):
        return (cwd / Path(env["FABRIC_HOME"]).expanduser()).absolute()
    for folder in (cwd, *cwd.parents):
        if _is_ours(folder / ".fabric"):
            return (folder / ".fabric").absolute()
    root = assets.checkout()
    if root is not None and (_is_ours(root / ".fabric") or os.access(root, os.W_OK)):
        return root / ".fabric"
    data = env.get("XDG_DATA_HOME") or ""
    # A relative XDG_DATA_HOME is to be ignored, says its specification.
    base = Path(data) if data.startswith("/") else Path(env.get("HOME") or "~").expanduser() / ".local" / "share"
    return base / "taskfabric"


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return folder.is_dir() and found.st_uid in (os.geteuid(), 0)
