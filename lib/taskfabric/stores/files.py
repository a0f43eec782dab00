"""The bytes of attachments: one file a content, named by its sha256, below a private folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import Unavailable, not_found

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class FileStore:
    """``root/ab/cd/abcd…``: a file appears whole or not at all, and only its owner may read it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, data: bytes) -> str:
        """The bytes are on disk, durably; returns their sha256 in hex. Raises Unavailable if the disk refuses."""
        digest = hashlib.sha256(data).hexdigest()
        place = self._place(digest)
        try:
            if not place.exists():
                self._write(place, data)
        except OSError as error:
            raise Unavailable(
                f"the file store cannot take the file: {error.strerror or error}",
                next="look at the free space and the rights of the fabric's data folder",
            ) from error
        return digest

    def get(self, sha256: str) -> bytes:
        """Raises NotFound if they are not there, Unavailable if the disk does not give back what was stored."""
        if not _SHA256.fullmatch(sha256):
            raise not_found("file")
        try:
            data = self._place(sha256).read_bytes()
        except FileNotFoundError:
            raise not_found("file") from None
        except OSError as error:
            raise Unavailable(f"the file store cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Unavailable("the file on disk is no longer the one that was stored", next="restore it from a backup")
        return data

    def _place(self, digest: str) -> Path:
        return self._root / digest[:2] / digest[2:4] / digest

    def _write(self, place: Path, data: bytes) -> None:
        made = [folder for folder in (self._root, place.parent.parent, place.parent) if not folder.exists()]
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (place.parent.parent, place.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(place)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        # A rename is only as durable as the folder that names the file, and so is a new folder.
        for folder in {place.parent, *(folder.parent for folder in made)}:
            _sync(folder)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
