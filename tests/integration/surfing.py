"""A browser without a window for tests: it keeps cookies, follows redirects, and fills in forms that pages have."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode, urlsplit

from taskfabric.wiring import sign_in_link
from tests.integration.serving import Served

_PATIENCE = 20.0  # seconds before a test gives up; nothing here takes that long


@dataclass(kw_only=True)
class FoundForm:
    """A form of a page, with the values that it came with."""

    action: str
    method: str
    id: str
    fields: dict[str, str] = field(default_factory=dict)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[FoundForm] = []
        self._text: str | None = None
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        got = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(
                FoundForm(action=got.get("action", ""), method=got.get("method", "get"), id=got.get("id", ""))
            )
            self._inside = True
        elif self._inside and tag == "input" and got.get("type") not in ("checkbox", "file") and "name" in got:
            self.found[-1].fields[got["name"]] = got.get("value", "")
        elif self._inside and tag == "textarea":
            self._text = got["name"]
            self.found[-1].fields[self._text] = ""

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self.found[-1].fields[self._text] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._text = None
        elif tag == "form":
            self._inside = False


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What came back, after redirects."""

    status: int
    path: str
    headers: Mapping[str, str]
    text: str

    @property
    def forms(self) -> list[FoundForm]:
        parser = _Forms()
        parser.feed(self.text)
        return parser.found

    def form(self, id_or_action: str) -> FoundForm:
        """The first form with this id or action."""
        return next(form for form in self.forms if id_or_action in (form.id, form.action))


@dataclass(kw_only=True)
class Surfer:
    """One browser at one server."""

    served: Served
    cookies: dict[str, str] = field(default_factory=dict)

    def send(
        self,
        method: str,
        path: str,
        fields: Mapping[str, str] | str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        origin: str | None = "",
    ) -> Shown:
        """One request, no redirect followed. ``origin``: "" = the server's own, None = none."""
        given = dict(headers or {})
        if self.cookies:
            given["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = b""
        if method == "POST":
            given.setdefault("Content-Type", "application/x-www-form-urlencoded")
            body = fields.encode() if isinstance(fields, str) else urlencode(fields or {}).encode()
            if origin is not None:
                given["Origin"] = origin or self.served.url
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=30)) as conn:
            conn.request(method, path, body, given)
            got = conn.getresponse()
            raw = got.read()
        for name, value in got.getheaders():
            if name.lower() == "set-cookie":
                self._keep(value)
        found = {name.lower(): value for name, value in got.getheaders()}
        return Shown(status=got.status, path=path, headers=found, text=raw.decode("utf-8", "replace"))

    def _keep(self, cookie: str) -> None:
        name, _, rest = cookie.partition("=")
        value = rest.partition(";")[0]
        if "Max-Age=0" in cookie or not value:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value

    def post_raw(self, path: str, body: str) -> Shown:
        """A form whose body is given as it travels, without following where it leads."""
        return self.send("POST", path, body)

    def get(self, path: str) -> Shown:
        """The page, with up to five redirects followed."""
        return self._followed(self.send("GET", path))

    def get_with(self, path: str, text: str) -> Shown:
        """The page, once this is on it. What the journal says of a change may come a moment after the change: it is
        read up to the oldest transaction that runs in the whole server, and other tests have theirs there."""
        deadline = time.monotonic() + _PATIENCE
        while text not in (shown := self.get(path)).text:
            assert time.monotonic() < deadline, f"{path} never showed {text!r}"
            time.sleep(0.05)
        return shown

    def fill(self, form: FoundForm, **fields: str) -> Shown:
        """Send a form as it came, with these fields changed."""
        return self._followed(self.send("POST", form.action, {**form.fields, **fields}))

    def _followed(self, shown: Shown) -> Shown:
        for _ in range(5):
            if shown.status != 303:
                return shown
            parts = urlsplit(shown.headers["location"])
            shown = self.send("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        raise AssertionError("redirected for ever")

    def sign_in(self, name: str) -> Shown:
        """By a token: the session decides nothing until it is proven."""
        return self.fill(self.get("/sign-in").form("/sign-in"), token=self.served.tokens[name])

    def sign_in_by_link(self, name: str) -> Shown:
        """By a one-time link: a session that decides."""
        link = sign_in_link(self.served.house, name)
        return self.fill(self.get(f"/sign-in?link={link}").form("/sign-in"))

    def csrf(self) -> str:
        return self.get("/boards").form("/sign-out").fields["csrf"]

    def act(self, name: str, /, **fields: str) -> Shown:
        """What a page's form does, without looking for the form."""
        return self._followed(self.send("POST", f"/do/{name}", {"csrf": self.csrf(), "back": "/boards", **fields}))
