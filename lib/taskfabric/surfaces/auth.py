"""The door: who is calling. The credential decides everything; nothing in a request's arguments does.

``Authorization: Bearer TOKEN``, or Basic with a user's name and a token of his for the password; for agents over A2A
also what ``schemes.py`` knows, where it is switched on. A token that was drawn here has 256 random bits, so guessing
one is hopeless anyway. What is none (a password, an app token that a person chose) is looked up only so many times.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from taskfabric.domain.errors import NotAuthenticated, Refused
from taskfabric.domain.principal import Caller
from taskfabric.ports.credentials import Credentials
from taskfabric.ports.foreign import Foreign
from taskfabric.surfaces.schemes import Headers, Schemes

log = logging.getLogger(__name__)

# What a token looks like that was drawn here. Whoever shows one is looked up however much was guessed in his name
# before: a good client that comes for the first time is not locked out, and of 256 random bits nobody guesses one that
# is looked up. The app token is a person's choice, so its guesses are counted like a password's.
_DRAWN: Final = re.compile(r"fab_[A-Za-z0-9_-]{43}")
_LONGEST: Final = 8192  # characters of an Authorization header; a provider's token is long
_INSTANCE: Final = 80  # characters
_HOSTS: Final = 100  # Host headers that are remembered
_MANY: Final = 10_000  # failures, and good tokens, that are remembered
_BEARER_ONLY: Final = Schemes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """What a request shows at the door."""

    token: str
    user: str | None  # named beside it (Basic); the token must be his
    address: str  # where it comes from
    instance: str  # what calls, as it says itself; proves nothing
    identity: str = ""  # the subject of the certificate that a terminator of ours has seen
    audience: str = ""  # what a foreign token must be made for; "" = none counts here


def presented(headers: Headers, address: str, *, schemes: Schemes = _BEARER_ONLY, path: str = "") -> Presented | None:
    """What the headers show; None for nothing, for what is no credential, or for more than one."""
    authorization = instance = key = b""
    count = 0
    for name, value in headers:
        if name == b"authorization":
            authorization, count = value, count + 1
        elif name == b"x-fabric-instance":
            instance = value
        elif schemes.api_key_header and name == schemes.api_key_header:
            key, count = value, count + 1
    audience = schemes.audience(path)
    identity = schemes.identity(headers, address) if audience or path.startswith("/agents/") else ""
    if not count and identity:
        return Presented(token="", user=None, address=address, instance=_sanitised(instance), identity=identity)
    if count != 1:
        return None
    shown = _presented(b"Bearer " + key if key else authorization, address, _sanitised(instance))
    return shown and (replace(shown, identity=identity, audience=audience) if identity or audience else shown)


def missing(headers: Headers, schemes: Schemes) -> NotAuthenticated:
    """What to say where ``presented`` finds nothing: no credential was sent, or more than one."""
    ways = {b"authorization", schemes.api_key_header} - {b""}
    if sum(name in ways for name, _ in headers) > 1:
        return NotAuthenticated("more than one credential was sent", next="send one: a bearer token or an API key")
    return NotAuthenticated("this needs a token")


def _presented(authorization: bytes, address: str, instance: str) -> Presented | None:
    if not authorization or len(authorization) > _LONGEST:
        return None
    scheme, _, rest = authorization.partition(b" ")
    user: str | None = None
    try:
        match scheme.lower():
            case b"bearer":
                token = rest.strip().decode("ascii")
            case b"basic":
                user, colon, token = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
                if not colon:
                    return None
            case _:
                return None
    except (binascii.Error, UnicodeDecodeError):
        return None
    if not token:
        return None
    return Presented(token=token, user=user, address=address, instance=instance)


def _sanitised(instance: bytes) -> str:
    if not instance:
        return ""
    text = instance[: 8 * _INSTANCE].decode("utf-8", "replace")
    # Parentheses stand around it in the comment of a claim.
    return "".join(c for c in text if c.isprintable() and c not in "()").strip()[:_INSTANCE]


class Door:
    """Authenticates, and makes those wait who guess. Safe to use from several threads."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        failures: int,
        delay: timedelta,
        clock: Callable[[], float] = time.monotonic,
        foreign: Foreign | None = None,
    ) -> None:
        self._credentials = credentials
        self._foreign = foreign
        self._guesses = Guesses(failures=failures, delay=delay.total_seconds(), clock=clock)

    def admit(self, shown: Presented) -> Caller:
        """The caller behind it. Raises NotAuthenticated, Refused when only a scope is missing, or Unavailable while the
        credentials cannot be read."""
        caller = self._vouched(shown) if shown.identity else None
        if shown.token:
            owner = self._of_token(shown)
            if caller is not None and caller.principal.id != owner.principal.id:
                raise NotAuthenticated("the certificate and the token are not the same one's")
            caller = owner
        if caller is None:
            raise NotAuthenticated("this needs a token")
        return replace(caller, instance=shown.instance) if shown.instance else caller

    def recent(self, shown: Presented) -> Caller | None:
        """Who was let in with this token in the last minutes; for use only while the credentials cannot be read."""
        return self._credentials.recent(shown.token) if shown.token and shown.user is None else None

    def _vouched(self, shown: Presented) -> Caller:
        if self._foreign is None:
            raise NotAuthenticated("certificates do not count here")
        return self._foreign.of_certificate(shown.identity)

    def _of_token(self, shown: Presented) -> Caller:
        # A foreign token is proved by its signature: it cannot be guessed, and many share its first letters.
        if self._foreign is not None and shown.audience and shown.user is None and shown.token.count(".") == 2:
            return self._foreign.of_token(shown.token, shown.audience)
        drawn = _DRAWN.fullmatch(shown.token) is not None
        whose = shown.user if shown.user is not None else shown.token[:8] if drawn else ""
        key = (shown.address, whose)
        wait = self._guesses.wait(key, shown.token)
        if wait > 0 and not drawn:
            raise _too_many(wait)
        caller = self._credentials.authenticate(shown.token)
        if caller is not None and shown.user is not None and not _same(shown.user, caller.principal.name):
            caller = None
        if caller is None:
            self._guesses.failed(key)
            if wait > 0:
                raise _too_many(wait)
            raise NotAuthenticated("the credential is not, or no longer, valid")
        self._guesses.succeeded(shown.token)
        return caller


def _too_many(wait: float) -> NotAuthenticated:
    return NotAuthenticated(
        "too many wrong credentials came from there",
        next=f"try again in {round(wait)} s",
        retry_after=round(wait),
    )


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


class Guesses:
    """Failures by (address, name). A key past its limit waits, except for tokens that were good here before: nobody
    locks a neighbour out by guessing in his name."""

    def __init__(self, *, failures: int, delay: float, clock: Callable[[], float]) -> None:
        self._limit = failures
        self._delay = delay
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()  # count, when first
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._last_good = ""

    def wait(self, key: tuple[str, str], token: str) -> float:
        """Seconds that this key has to wait; 0 = none."""
        found = self._failed.get(key)
        if found is None or found[0] < self._limit:
            return 0.0
        left = found[1] + self._delay - self._clock()
        if left <= 0:
            with self._lock:
                self._failed.pop(key, None)
            return 0.0
        return 0.0 if _digest(token) in self._good else left

    def failed(self, key: tuple[str, str]) -> None:
        now = self._clock()
        with self._lock:
            count, first = self._failed.pop(key, (0, now))
            if now - first >= self._delay:
                count, first = 0, now
            count += 1
            # The wait begins with the failure that reaches the limit.
            self._failed[key] = (count, now if count == self._limit else first)
            while len(self._failed) > _MANY:
                self._failed.popitem(last=False)
        if count == self._limit:
            log.warning("credentials guessed address=%s name=%r failures=%d", key[0], key[1], count)

    def succeeded(self, token: str) -> None:
        if token == self._last_good:
            return
        digest = _digest(token)
        with self._lock:
            self._good.pop(digest, None)
            self._good[digest] = None
            if len(self._good) > _MANY:
                self._good.popitem(last=False)
        self._last_good = token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


# ---------------------------------------------------------------- from where


class Sites:
    """Which Host and Origin this server answers to.

    A web page elsewhere can make a browser send requests to this machine, under its own name (an Origin that is not
    ours) or under a name that it lets point here (a Host that is not ours).
    """

    def __init__(self, *, host: str, public_url: str, allow_remote: bool) -> None:
        public = urlsplit(public_url)
        self._names = {"localhost", host, public.hostname or ""} - {""}
        self._public_origin = f"{public.scheme}://{public.netloc}".lower() if public_url else None
        # Without a public URL nobody knows the names under which other machines reach this one.
        self._any_name = allow_remote and not public_url
        self._any_address = allow_remote
        self._ours: set[bytes] = set()  # headers that were found to name us, for the next time

    def knows(self, host: bytes | None) -> bool:
        """Whether a Host header names this server."""
        if host in self._ours:
            return True
        known = self._names_us(host)
        if known and host is not None and len(self._ours) < _HOSTS:
            self._ours.add(host)
        return known

    def _names_us(self, host: bytes | None) -> bool:
        name = _host_name(host)
        if name is None:
            return False
        if self._any_name or name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback  # a number cannot be made to point elsewhere

    def check_origin(self, origin: bytes | None, host: bytes | None) -> None:
        """Raises Refused for a request that a page of another site has caused."""
        if origin is None:
            return
        text = origin.decode("latin-1").lower()
        parts = urlsplit(text)
        if text == self._public_origin or (host is not None and parts.netloc == host.decode("latin-1").lower()):
            return
        raise Refused(
            "this request comes from a page of another site",
            next="use a page of the fabric itself, or a client that is not a browser",
            rule="origin",
        )


def _host_name(host: bytes | None) -> str | None:
    if not host:
        return None
    try:
        return urlsplit(f"//{host.decode('ascii').lower()}").hostname
    except ValueError:  # brackets without an address, not ASCII
        return None
