"""One request of a browser: whose session it carries, what was asked, and the pages' way to the hallway."""

from __future__ import annotations

import email.policy
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from email.parser import BytesParser
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

from starlette.types import Scope

from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.domain.principal import Caller
from taskfabric.ports.fabric import Fabric
from taskfabric.surfaces.answers import header

COOKIE: Final = "fabric_session"
GUEST: Final = "fabric_guest"  # before anybody has signed in: what the sign-in form is bound to
_MOST_FIELDS: Final = 400
_SECRET: Final = re.compile(r"[A-Za-z0-9_.=-]{16,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that came with a form."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The fields of a form; of a name given several times all values."""

    fields: Mapping[str, tuple[str, ...]]
    files: Mapping[str, Upload] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """The first value of this name."""
        return self.fields.get(name, (default,))[0]

    def all(self, name: str) -> tuple[str, ...]:
        return self.fields.get(name, ())


class SessionLike(Protocol):
    """What a page says of the session that it is shown in."""

    @property
    def id(self) -> int: ...
    @property
    def proven(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why an act was refused; shown in the form that asked for it, with what was typed."""

    form: str
    error: FabricError
    entered: Form

    @property
    def next(self) -> str:
        return self.error.next


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A signed-in browser that asks for a page."""

    caller: Caller
    fabric: Fabric
    session: SessionLike
    csrf: str
    path: str
    query: Mapping[str, str]
    now: datetime
    problem: Problem | None = None
    said: str = ""
    shown: Mapping[str, Any] = field(default_factory=dict)  # what an act answered, shown this once

    @property
    def zone(self) -> tzinfo:
        """The reader's own zone."""
        return ZoneInfo(self.caller.principal.zone)

    def whole(self, name: str, default: int, *, most: int) -> int:
        """A number of the query between 0 and ``most``; the default for what is none."""
        text = self.query.get(name, "")
        return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 10 else default


def cookies(scope: Scope) -> dict[str, str]:
    """What the browser kept for us; what cannot be one of our secrets is left out."""
    raw = header(scope, b"cookie")
    if raw is None or len(raw) > 8000:
        return {}
    try:
        jar = SimpleCookie(raw.decode("latin-1"))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items() if _SECRET.fullmatch(morsel.value)}


def query(scope: Scope) -> dict[str, str]:
    """The query's fields, the last of each name; an unreadable one is empty."""
    try:
        return dict(parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=30))
    except ValueError:
        return {}


def form_of(kind: bytes | None, body: bytes) -> Form:
    """The form that a browser sent. Raises BadInput for anything else."""
    media = (kind or b"").split(b";")[0].strip().lower()
    try:
        match media:
            case b"application/x-www-form-urlencoded":
                pairs = parse_qsl(
                    body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
                )
                return Form(fields=_grouped(pairs))
            case b"multipart/form-data":
                return _multipart(kind or b"", body)
            case _:
                pass
    except (ValueError, UnicodeDecodeError) as cause:
        raise BadInput(f"the form cannot be read: {cause}", next="reload the page and try again") from None
    raise BadInput("this is not a form", next="use the pages of the fabric")


def _grouped(pairs: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value.replace("\r\n", "\n"))
    return fields


def _multipart(kind: bytes, body: bytes) -> Form:
    parser = BytesParser(policy=email.policy.HTTP)
    message = parser.parsebytes(b"Content-Type: " + kind + b"\r\n\r\n" + body)
    pairs: list[tuple[str, str]] = []
    files: dict[str, Upload] = {}
    for part in message.iter_parts():
        name = str(part.get_param("name", "", header="content-disposition"))
        data = part.get_payload(decode=True)
        raw = data if isinstance(data, bytes) else b""
        filename = part.get_filename()
        if filename:
            files[name] = Upload(name=filename, data=raw)
        elif filename is None:
            pairs.append((name, raw.decode("utf-8")))
        if len(pairs) + len(files) > _MOST_FIELDS:
            raise ValueError("too many fields")
    return Form(fields=_grouped(pairs), files=files)


def guest_csrf(secret: str) -> str:
    """What the sign-in form must carry beside the cookie; without the cookie nobody can make it."""
    return hmac.new(secret.encode(), b"taskfabric sign-in form", hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two secrets are the same, in a time that tells nothing."""
    return hmac.compare_digest(one.encode(), other.encode())
