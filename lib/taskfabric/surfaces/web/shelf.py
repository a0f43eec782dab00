"""The files that pages load: styles, scripts, the icon. They are ours or vendored, and hold nothing of anybody's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KINDS: Final[Mapping[str, bytes]] = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file as it is sent."""

    kind: bytes
    body: bytes
    tag: bytes  # changes with the contents


class Shelf:
    """Every file below ``folder`` that a page may load, read once."""

    def __init__(self, folder: Path) -> None:
        self._assets = {
            path.relative_to(folder).as_posix(): _asset(path)
            for path in sorted(folder.rglob("*"))
            if path.suffix in _KINDS
        }

    def get(self, name: str) -> Asset | None:
        return self._assets.get(name)


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
    return Asset(kind=_KINDS[path.suffix], body=body, tag=tag)
