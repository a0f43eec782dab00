"""Signing in and out: the browser keeps a secret in a cookie, the server its hash.

The secret is worth nothing to a page's script (HttpOnly) nor on a request that another site causes (SameSite).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from taskfabric.domain.errors import NotAuthenticated, Refused
from taskfabric.services.hallway import Hallway
from taskfabric.services.sessions import Admitted
from taskfabric.surfaces.auth import Guesses
from taskfabric.surfaces.web.visit import COOKIE, GUEST, Form, guest_csrf, same

_TRIES: Final = 10  # wrong sign-ins from one address before it waits
_WAIT: Final = timedelta(minutes=1)
_LONGEST: Final = 200  # characters of a token
_YEAR: Final = 365 * 86400

Header = tuple[bytes, bytes]


class Gate:
    """Sessions as cookies. ``secure``: browsers send them over TLS only."""

    def __init__(self, hallway: Hallway, *, secure: bool) -> None:
        self._sessions = hallway.sessions
        self._secure = "; Secure" if secure else ""
        self._guesses = Guesses(failures=_TRIES, delay=_WAIT.total_seconds(), clock=time.monotonic)

    def admitted(self, kept: Mapping[str, str]) -> Admitted | None:
        """Who is signed in, or None."""
        secret = kept.get(COOKIE)
        return None if secret is None else self._sessions.caller(secret)

    def sign_in(self, form: Form, *, address: str, agent: str) -> str:
        """The secret of a new session, by a one-time link or by a token. Raises NotAuthenticated, Refused."""
        link, token = form.get("link")[:_LONGEST], form.get("token").strip()[:_LONGEST]
        # Whoever guesses tokens does not lock out his neighbours behind the same address: not those who have a link,
        # nor those whose token was good here before.
        key = (address, "sign-in link" if link else "sign-in token")
        wait = self._guesses.wait(key, token)
        if wait > 0:
            raise NotAuthenticated(
                "too many wrong sign-ins came from there", next=f"try again in {round(wait)} s", retry_after=round(wait)
            )
        try:
            if link:
                return self._sessions.by_link(link, agent).secret
            signed = self._sessions.sign_in(token, agent)
        except (NotAuthenticated, Refused):
            self._guesses.failed(key)
            raise
        self._guesses.succeeded(token)
        return signed.secret

    def prove(self, kept: Mapping[str, str], pin: str) -> str:
        """The secret that replaces this session's, which may decide from now on. Raises Refused for a wrong PIN."""
        return self._sessions.prove(kept.get(COOKIE, ""), pin).secret

    def sign_out(self, kept: Mapping[str, str]) -> None:
        secret = kept.get(COOKIE)
        if secret is not None:
            self._sessions.sign_out(secret)

    # -- before anybody has signed in ----------------------------------------------------------------

    def guest(self, kept: Mapping[str, str]) -> tuple[str, bool]:
        """The secret that this browser's sign-in form is bound to, and whether it is new."""
        known = kept.get(GUEST)
        return (secrets.token_urlsafe(24), True) if known is None else (known, False)

    def guest_token(self, secret: str) -> str:
        return guest_csrf(secret)

    def check_guest(self, kept: Mapping[str, str], token: str) -> None:
        """Raises Refused for a sign-in form that this browser was not given."""
        known = kept.get(GUEST)
        if known is None or not same(token, guest_csrf(known)):
            raise Refused(
                "this form is not the one that you were given",
                next="try once more; the browser must keep cookies of this site",
                rule="csrf",
            )

    # -- cookies -------------------------------------------------------------------------------------

    def keep(self, secret: str) -> Header:
        return self._cookie(COOKIE, secret, _YEAR, "Lax")

    def forget(self) -> Header:
        return self._cookie(COOKIE, "", 0, "Lax")

    def keep_guest(self, secret: str) -> Header:
        return self._cookie(GUEST, secret, 3600, "Strict")

    def _cookie(self, name: str, value: str, age: int, site: str) -> Header:
        text = f"{name}={value}; Path=/; HttpOnly; SameSite={site}; Max-Age={age}{self._secure}"
        return (b"set-cookie", text.encode())
