"""The public keys of an identity provider: from a file, from an address, or from where its own document says.

They are kept for a while. A key that is not known is looked up once more, but not oftener than every half minute, so
that nobody makes us ask the provider by inventing keys. While the provider is away its last keys count for an hour.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any, Final

from taskfabric.domain.errors import Unavailable

log = logging.getLogger(__name__)

Jwk = Mapping[str, Any]

_LARGEST: Final = 262_144  # bytes
_TIMEOUT: Final = 5.0  # seconds
_AGAIN: Final = 30.0  # seconds between two looks for a key that is not known
_STALE: Final = 3600.0  # seconds for which old keys count while no new ones can be had
DISCOVERY: Final = "/.well-known/openid-configuration"


class KeySet:
    """``source`` is a file, an address, or "" for what the issuer's document names; ``fresh`` in seconds."""

    def __init__(self, source: str, *, issuer: str, fresh: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._issuer = issuer
        self._fresh = fresh
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: tuple[Jwk, ...] = ()
        self._read_at = self._tried_at = float("-inf")

    def find(self, kid: str | None, algorithm: str) -> Jwk | None:
        """The key of this name for this algorithm; without a name, the only one that fits. Raises Unavailable."""
        with self._lock:
            now = self._clock()
            if now - self._read_at > self._fresh:
                self._renew(now)
            found = _pick(self._keys, kid, algorithm)
            if found is None and now - self._tried_at > _AGAIN:
                self._renew(now)
                found = _pick(self._keys, kid, algorithm)
            return found

    def _renew(self, now: float) -> None:
        if now - self._tried_at < 1.0 and self._keys:
            return
        self._tried_at = now
        try:
            self._keys = _keys_of(self._fetched())
            self._read_at = now
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"[:200]
            if now - self._read_at > self._fresh + _STALE:
                self._keys = ()
                raise Unavailable(
                    "the keys of the identity provider cannot be had", next="try again later; check auth.jwt"
                ) from error
            log.warning("keys of the identity provider not renewed reason=%s", reason)

    def _fetched(self) -> Any:
        if self._source and "://" not in self._source:
            return json.loads(Path(self._source).expanduser().read_bytes()[:_LARGEST])
        if self._source:
            return _get(self._source)
        document = _get(self._issuer.rstrip("/") + DISCOVERY)
        if document["issuer"] != self._issuer:
            raise ValueError("the document names another issuer")
        return _get(str(document["jwks_uri"]))


def _pick(keys: tuple[Jwk, ...], kid: str | None, algorithm: str) -> Jwk | None:
    fitting = [key for key in keys if key.get("alg", algorithm) == algorithm and key.get("use", "sig") == "sig"]
    if kid is not None:
        fitting = [key for key in fitting if key.get("kid") == kid]
    return fitting[0] if len(fitting) == 1 else None


def _keys_of(shape: Any) -> tuple[Jwk, ...]:
    """Asymmetric ones only: a secret has no place among public keys."""
    return tuple(key for key in shape["keys"] if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP"))


class _Direct(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        return None


def _get(url: str) -> Any:
    opener = urllib.request.build_opener(_Direct, urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_TIMEOUT) as answer:
        return json.loads(answer.read(_LARGEST))
