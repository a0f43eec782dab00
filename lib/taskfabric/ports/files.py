"""The file store: the bytes of attachments, outside the database."""

from __future__ import annotations

from typing import Protocol


class Files(Protocol):
    """Content-addressed: the same bytes are stored once."""

    def put(self, data: bytes) -> str:
        """The bytes are on disk, durably; returns their sha256 in hex. Raises Unavailable if the disk refuses."""

    def get(self, sha256: str) -> bytes:
        """Raises NotFound if they are not there."""
