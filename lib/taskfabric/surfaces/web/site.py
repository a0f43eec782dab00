"""The pages as an ASGI application: who is signed in, which page or act is meant, and the answer as HTML.

Every page and every act is answered in one thread, from the look at the session to the last byte of HTML. Whatever
changes something is a POST with the session's form token and our own Origin; nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

import orjson
from starlette.types import Receive, Scope, Send

from taskfabric.domain.errors import (
    BadInput,
    FabricError,
    NotAuthenticated,
    NotFound,
    Refused,
    Unavailable,
    from_json,
)
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.answers import TooLarge, header, read_body, status_of
from taskfabric.surfaces.auth import Sites
from taskfabric.surfaces.events import Pulse
from taskfabric.surfaces.fabric_rpc.procedures import incident
from taskfabric.surfaces.fabric_rpc.protocol import ProtocolError
from taskfabric.surfaces.threads import Pool
from taskfabric.surfaces.web.files import download
from taskfabric.surfaces.web.forms import ACTS, asked, attachment
from taskfabric.surfaces.web.live import Live
from taskfabric.surfaces.web.looks import HERE, Looks
from taskfabric.surfaces.web.pages import PAGES, Page
from taskfabric.surfaces.web.session import Gate
from taskfabric.surfaces.web.shelf import Shelf
from taskfabric.surfaces.web.visit import Form, Problem, Visit, cookies, form_of, query, same

Headers = Sequence[tuple[bytes, bytes]]

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
GUARDS: Final[Headers] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Not no-referrer: with it browsers send "Origin: null" with our own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_HTML: Final = (b"content-type", b"text/html; charset=utf-8")
_PRIVATE: Final = (b"cache-control", b"no-store")
_KEEP: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_ROOTS: Final = frozenset(
    {"activity", "assets", "board", "boards", "do", "file", "find", "fleet", "live", "new", "people", "prove"}
    | {"settings", "sign-in", "sign-out", "task"}
)


# Where programs call: nobody is sent to the sign-in page from there.
_CALLERS: Final = frozenset({".well-known", "agents", "events", "jsonrpc.php", "mcp", "metrics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What goes back to the browser."""

    status: int = 200
    body: bytes = b""
    headers: Headers = field(default=(_HTML, _PRIVATE))


def _first(path: str) -> str:
    return path.partition("/")[2].partition("/")[0]


class Site:
    """The pages of one server."""

    def __init__(
        self,
        hallway: Hallway,
        *,
        pool: Pool,
        pulse: Pulse,
        sites: Sites,
        public_url: str,
        body_limit: int,
        version: str,
    ) -> None:
        self._hallway = hallway
        self._pool = pool
        self._sites = sites
        self._limit = body_limit
        self._public = public_url
        self._looks = Looks(version)
        self._shelf = Shelf(HERE / "assets")
        self._gate = Gate(hallway, secure=public_url.startswith("https://"))
        self._live = Live(hallway, self._gate, self._looks, pool=pool, pulse=pulse)

    @staticmethod
    def owns(path: str) -> bool:
        """Whether this address is a page's, so that its own sign-in is asked instead of a token."""
        return path == "/" or _first(path) in _ROOTS

    @classmethod
    def expects(cls, scope: Scope) -> bool:
        """Whether this request is for a page: its address is one, or a browser looks for one where there is none."""
        path: str = scope["path"]
        if cls.owns(path):
            return True
        browses = b"text/html" in (header(scope, b"accept") or b"") and header(scope, b"authorization") is None
        return browses and scope["method"] in ("GET", "HEAD") and _first(path) not in _CALLERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path.startswith("/assets/"):
            await _send(send, self._asset(scope, path.removeprefix("/assets/")))
            return
        if path.startswith("/live/") and method == "GET":
            await self._live(scope, receive, send)
            return
        body = b""
        if method == "POST":
            try:
                body = await read_body(scope, receive, self._limit)
            except ConnectionError:
                return
            except TooLarge:
                error = BadInput("that is too much for one form", next="send less, or attach it with `fabric`")
                await _send(send, self._refusal(scope, error, status=413))
                return
        try:
            reply = await self._pool.run(lambda: self._answer(scope, body))
        except Unavailable as error:  # no thread is free
            reply = self._refusal(scope, error)
        await _send(send, reply, head=method == "HEAD")

    # -- one request ---------------------------------------------------------------------------------

    def _answer(self, scope: Scope, body: bytes) -> Reply:
        try:
            match scope["method"]:
                case "GET" | "HEAD":
                    return self._get(scope)
                case "POST":
                    return self._post(scope, body)
                case _:
                    error = BadInput("pages are read by GET, and forms are sent by POST")
                    return self._refusal(scope, error, status=405)
        except FabricError as error:
            return self._refusal(scope, error)
        except Exception as error:
            return self._refusal(scope, incident(error, scope["path"]).error)

    def _get(self, scope: Scope) -> Reply:
        path, asked_for = scope["path"], query(scope)
        if path == "/sign-in":
            return self._sign_in_page(scope, asked_for)
        if path in ("/sign-out", "/prove") or path.startswith("/do/"):
            error = BadInput("this changes something, so it is sent by POST", next="use the form on the page")
            return self._refusal(scope, error, status=405)
        visit = self._visit(scope, asked_for)
        if visit is None:
            place = path + (f"?{urlencode(asked_for)}" if asked_for else "")
            return _see_other("/sign-in" if place == "/" else f"/sign-in?{urlencode({'next': place})}")
        if path.startswith("/file/"):
            kind, name, data = download(visit, path.removeprefix("/file/"))
            return Reply(body=data, headers=(*_attachment(kind, name), _PRIVATE))
        return self._page(visit, path)

    def _visit(self, scope: Scope, asked_for: Mapping[str, str]) -> Visit | None:
        admitted = self._gate.admitted(cookies(scope))
        if admitted is None:
            return None
        said = asked_for.get("said", "")
        return Visit(
            caller=admitted.caller,
            fabric=self._hallway.for_caller(admitted.caller),
            session=admitted.session,
            csrf=admitted.csrf,
            path=scope["path"],
            query=asked_for,
            now=datetime.now(UTC),
            said=ACTS[said].said if said in ACTS else "",
        )

    def _page(self, visit: Visit, path: str) -> Reply:
        for pattern, make in PAGES:
            if (found := pattern.fullmatch(path)) is not None:
                # What is wrong while a page is made for somebody is said inside the page's frame.
                page: Page = make(visit, **{name: unquote(value) for name, value in found.groupdict().items()})
                return self._rendered(visit, page)
        raise NotFound("there is no such page", next="go on from one of these:")

    def _rendered(self, visit: Visit, page: Page) -> Reply:
        values = {**_frame(visit), **page.values}
        return Reply(status=page.status, body=self._looks.page(page.template, values))

    # -- acts ----------------------------------------------------------------------------------------

    def _post(self, scope: Scope, body: bytes) -> Reply:
        self._need_origin(scope)
        path, kept = scope["path"], cookies(scope)
        form = form_of(header(scope, b"content-type"), body)
        if path == "/sign-in":
            return self._sign_in(scope, form)
        visit = self._visit(scope, {})
        if visit is None:
            raise NotAuthenticated("you are signed out", next="sign in again; what you typed is still in the form")
        if not same(form.get("csrf"), visit.csrf):
            raise Refused(
                "this form does not belong to your session", next="reload the page and try again", rule="csrf"
            )
        match path:
            case "/sign-out":
                self._gate.sign_out(kept)
                return _see_other("/sign-in", self._gate.forget())
            case "/prove":
                return self._prove(scope, visit, form, kept)
            case _ if path.startswith("/do/"):
                return self._act(scope, visit, form, path.removeprefix("/do/"))
            case _:
                raise NotFound("there is no such form", next="reload the page and try again")

    def _need_origin(self, scope: Scope) -> None:
        origin = header(scope, b"origin")
        if origin is None:
            raise Refused("this form came from nowhere", next="use a page of the fabric itself", rule="origin")
        self._sites.check_origin(origin, header(scope, b"host"))

    def _act(self, scope: Scope, visit: Visit, form: Form, name: str) -> Reply:
        act = ACTS.get(name)
        as_json = header(scope, b"accept") == b"application/json"
        try:
            if name == "attach":
                result: Any = visit.fabric.call(attachment(form))
            elif act is None:
                raise NotFound("there is no such form", next="reload the page and try again")
            else:
                result = whole_answer(visit.fabric.call(asked(act, visit, form)))
        except (FabricError, ProtocolError) as error:
            wrong = error.error if isinstance(error, ProtocolError) else error
            if as_json:
                return _json({"error": wrong.to_json()}, status_of(wrong))
            return self._again(scope, visit, form, wrong)
        if as_json:
            return _json({"ok": True}, 200)
        back = _local(form.get("back"))
        if name == "session-link":
            here = self._public or f"{scope['scheme']}://{(header(scope, b'host') or b'').decode('latin-1')}"
            result = {
                "name": result["name"],
                "link": f"{here}/sign-in?link={result['secret']}",
                "good for": "15 minutes",
            }
        if act is not None and act.shows:
            return self._page(self._at(visit, back, shown=result), back.partition("?")[0])
        if act is not None and act.opens:
            back = f"/task/{result.task.id}"
        mark = "&" if "?" in back else "?"
        return _see_other(f"{back}{mark}said={quote(name)}" if name in ACTS else back)

    def _again(self, scope: Scope, visit: Visit, form: Form, error: FabricError) -> Reply:
        """The page with the form once more, the reason beside it and everything still typed in."""
        back = _local(form.get("back"))
        problem = Problem(form=form.get("form"), error=error, entered=form)
        try:
            here = self._at(visit, back)
            reply = self._page(replace(here, problem=problem), back.partition("?")[0])
            if f'id="{problem.form}"'.encode() not in reply.body:  # what it was about is no longer there
                reply = self._page(replace(here, problem=replace(problem, form="")), back.partition("?")[0])
        except FabricError:  # the page itself is gone by now
            return self._refusal(scope, error)
        return replace(reply, status=status_of(error))

    def _at(self, visit: Visit, back: str, *, shown: Mapping[str, Any] | None = None) -> Visit:
        parts = urlsplit(back)
        asked_for = query({"query_string": parts.query.encode()})
        return replace(visit, path=parts.path, query=asked_for, said="", shown=shown or {})

    # -- signing in ----------------------------------------------------------------------------------

    def _sign_in_page(self, scope: Scope, asked_for: Mapping[str, str], error: FabricError | None = None) -> Reply:
        guest, fresh = self._gate.guest(cookies(scope))
        values = {
            "csrf": self._gate.guest_token(guest),
            "next": _local(asked_for.get("next", "")),
            "link": asked_for.get("link", ""),
            "error": error,
            "now": datetime.now(UTC),
        }
        extra = (self._gate.keep_guest(guest),) if fresh else ()
        return Reply(
            status=200 if error is None else status_of(error),
            body=self._looks.page("sign_in.html", values),
            headers=(_HTML, _PRIVATE, *extra),
        )

    def _sign_in(self, scope: Scope, form: Form) -> Reply:
        asked_for = {"next": form.get("next"), "link": form.get("link")}
        client = scope.get("client")
        try:
            self._gate.check_guest(cookies(scope), form.get("csrf"))
            agent = (header(scope, b"user-agent") or b"").decode("latin-1")[:200]
            secret = self._gate.sign_in(form, address=client[0] if client else "", agent=agent)
        except (NotAuthenticated, Refused) as error:
            return self._sign_in_page(scope, {**asked_for, "link": ""}, error)
        return _see_other(_local(form.get("next")), self._gate.keep(secret))

    def _prove(self, scope: Scope, visit: Visit, form: Form, kept: Mapping[str, str]) -> Reply:
        try:
            secret = self._gate.prove(kept, form.get("pin"))
        except FabricError as error:
            return self._again(scope, visit, form, error)
        return _see_other(_local(form.get("back")), self._gate.keep(secret))

    # -- what is not a page --------------------------------------------------------------------------

    def _asset(self, scope: Scope, name: str) -> Reply:
        asset = self._shelf.get(name) if scope["method"] in ("GET", "HEAD") else None
        if asset is None:
            return self._refusal(scope, NotFound("there is no such file", next="reload the page"))
        headers: Headers = ((b"content-type", asset.kind), (b"etag", asset.tag), _KEEP)
        if header(scope, b"if-none-match") == asset.tag:
            return Reply(status=304, headers=headers)
        return Reply(body=asset.body, headers=headers)

    def _refusal(self, scope: Scope, error: FabricError, *, status: int | None = None) -> Reply:
        """An error as a whole page, or as JSON for a script. It names nobody and nothing but the error itself."""
        status = status or status_of(error)
        if header(scope, b"accept") == b"application/json":
            return _json({"error": error.to_json()}, status)
        body = self._looks.page("error.html", {"error": error, "status": status, "now": datetime.now(UTC)})
        extra: Headers = ((b"retry-after", b"1"),) if status == 503 else ((b"allow", b"POST"),) if status == 405 else ()
        return Reply(status=status, body=body, headers=(_HTML, _PRIVATE, *extra))


def _frame(visit: Visit) -> dict[str, Any]:
    """What every page's template may use."""
    return {
        "visit": visit,
        "me": visit.caller.principal,
        "csrf": visit.csrf,
        "now": visit.now,
        "zone": visit.zone,
        "problem": visit.problem,
        "said": visit.said,
        "here": visit.path + (f"?{urlencode(_without_said(visit.query))}" if _without_said(visit.query) else ""),
    }


def _without_said(asked_for: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in asked_for.items() if name != "said"}


def whole_answer(result: Any) -> Any:
    """What a verb answered. Raises the first error among several receipts, and says how many were refused."""
    if isinstance(result, Mapping) and result.get("taken") is False:  # a letter that was tried
        raise Unavailable(f"no letter went there: {result['problem']}", next="look at the address, then try again")
    receipts = result if isinstance(result, list) else []
    wrong = [error for one in receipts if (error := _error_in(one)) is not None]
    if wrong:
        error = wrong[0]
        error.message = f"{len(receipts) - len(wrong)} done, {len(wrong)} not: {error.message}"
        raise error
    return result


def _error_in(receipt: Any) -> FabricError | None:
    if isinstance(receipt, Mapping) and "error" in receipt:
        error = from_json(receipt["error"])
        error.message = f"#{receipt['task']}: {error.message}"
        return error
    return receipt if isinstance(receipt, FabricError) else None


_PLACE: Final = re.compile(r"/[A-Za-z0-9._~%/-]*(\?[A-Za-z0-9._~%&=+#:@-]*)?")


def _local(place: str) -> str:
    """The place if it is one of this site, else the inbox: nobody is led elsewhere."""
    fine = _PLACE.fullmatch(place) and not place.startswith("//") and Site.owns(place.partition("?")[0])
    return place if fine else "/"


def _see_other(place: str, *cookies: tuple[bytes, bytes]) -> Reply:
    return Reply(status=303, headers=((b"location", place.encode()), _PRIVATE, *cookies))


def _json(shape: object, status: int) -> Reply:
    return Reply(status=status, body=orjson.dumps(shape), headers=((b"content-type", b"application/json"), _PRIVATE))


def _attachment(kind: bytes, name: str) -> Headers:
    """A file is saved, never shown: it may hold anything."""
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return (
        (b"content-type", kind),
        (b"content-disposition", disposition.encode()),
        (b"content-security-policy", b"sandbox; default-src 'none'"),
    )


async def _send(send: Send, reply: Reply, *, head: bool = False) -> None:
    given = {name for name, _ in reply.headers}
    guards = [(name, value) for name, value in GUARDS if name not in given]
    length = [] if reply.status == 304 else [(b"content-length", b"%d" % len(reply.body))]
    start = {"type": "http.response.start", "status": reply.status, "headers": [*reply.headers, *guards, *length]}
    await send(start)
    await send({"type": "http.response.body", "body": b"" if head else reply.body})
