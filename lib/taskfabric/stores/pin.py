"""A PIN's hash: scrypt, because a PIN is short and every guess must be dear."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

_N: Final = 2**14
_R: Final = 8
_P: Final = 1
_SALT_BYTES: Final = 16


def hashed(pin: str) -> str:
    """``scrypt$n$r$p$salt$hash``, with a salt of its own each time."""
    salt = secrets.token_bytes(_SALT_BYTES)
    words = (base64.b64encode(part).decode() for part in (salt, _derive(pin, salt, _N, _R, _P)))
    return "$".join(["scrypt", str(_N), str(_R), str(_P), *words])


def matches(pin: str, stored: str) -> bool:
    """True if ``stored`` is a hash of this PIN; the comparison takes the same time wherever they differ."""
    scheme, n, r, p, salt, digest = stored.split("$")
    if scheme != "scrypt":
        return False
    derived = _derive(pin, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(derived, base64.b64decode(digest))


def _derive(pin: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(pin.encode("utf-8", "surrogatepass"), salt=salt, n=n, r=r, p=p, maxmem=64 * 2**20, dklen=32)
