"""Secrets that must be read again, sealed with a key that is in a file of the home and not in the database.

AES-256-GCM; what a secret belongs to is sealed with it, so that it cannot be moved to another row.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import Unavailable

_KEY: Final = 32  # bytes
_NONCE: Final = 12


class Vault:
    """``file`` holds the key; it is made when the first secret is sealed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._cipher: Any = None

    def seal(self, secret: bytes, belongs_to: str) -> bytes:
        """Raises Unavailable when there is no key and none can be made."""
        nonce = os.urandom(_NONCE)
        sealed: bytes = self._ready().encrypt(nonce, secret, belongs_to.encode())
        return nonce + sealed

    def open(self, sealed: bytes, belongs_to: str) -> bytes | None:
        """The secret; None when this key has not sealed it for that. Raises Unavailable without a key."""
        cipher = self._ready()
        exceptions = importlib.import_module("cryptography.exceptions")
        try:
            secret: bytes = cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], belongs_to.encode())
        except (exceptions.InvalidTag, ValueError):
            return None
        return secret

    def _ready(self) -> Any:
        with self._lock:
            if self._cipher is None:
                # Loaded by the first secret: most fabrics have none.
                aead = importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
                self._cipher = aead.AESGCM(self._key())
            return self._cipher

    def _key(self) -> bytes:
        try:
            with contextlib.suppress(FileExistsError):
                self._make()
            key = self._file.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(
                f"the key {self._file.name} cannot be read: {reason}", next="make it readable for the server"
            ) from error
        if len(key) != _KEY:
            raise Unavailable(
                f"{self._file.name} is no key", next="restore it, or remove it and register the webhooks again"
            )
        return key

    def _make(self) -> None:
        """Raises FileExistsError when there is one, also when somebody else was quicker."""
        if self._file.exists():
            raise FileExistsError
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                out.write(os.urandom(_KEY))
                out.flush()
                os.fsync(out.fileno())
            os.link(draft, self._file)
        finally:
            draft.unlink(missing_ok=True)
