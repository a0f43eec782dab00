"""What changes something is a POST of the right browser, from our own page, by somebody who may: nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.services.verbs import ListTokens, Show, Submit
from taskfabric.surfaces.web.forms import ACTS
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving
from tests.integration.surfing import Surfer

_ON_A_TASK = ("answer", "approve", "cancel", "comment", "delegate", "deny", "done", "edit", "move", "redrive", "reject")
_ELSEWHERE = ("https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:1", "/events")
CHANGES = [*(f"/do/{name}" for name in ACTS), "/do/attach", "/sign-out", "/prove"]


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        database.clock.run()
        yield running


@pytest.fixture(scope="module")
def alice(served: Served) -> Surfer:
    surfer = Surfer(served=served)
    surfer.sign_in_by_link("alice")
    return surfer


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_refuses_get(alice: Surfer, path: str) -> None:
    shown = alice.send("GET", path)
    assert shown.status == 405
    assert shown.headers["allow"] == "POST"


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_refuses_a_form_without_the_sessions_token(alice: Surfer, path: str) -> None:
    for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}):
        assert alice.send("POST", path, fields).status == 403


@pytest.mark.parametrize("path", [*CHANGES, "/sign-in"])
def test_a_change_refuses_the_page_of_another_site(alice: Surfer, path: str) -> None:
    fields = {"csrf": alice.csrf()}
    for origin in ("https://elsewhere.example", "null", None):
        assert alice.send("POST", path, fields, origin=origin).status == 403


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_refuses_whoever_is_not_signed_in(served: Served, alice: Surfer, path: str) -> None:
    stranger = Surfer(served=served)
    assert stranger.send("POST", path, {"csrf": alice.csrf()}).status == 401


def test_the_form_token_of_one_session_is_worth_nothing_in_another(served: Served, alice: Surfer) -> None:
    bob = Surfer(served=served)
    bob.sign_in_by_link("bob")
    shown = bob.send("POST", "/do/submit", {"csrf": alice.csrf(), "title": "x", "to": "bob"})
    assert shown.status == 403


def test_a_sign_in_form_that_this_browser_was_not_given_is_refused(served: Served) -> None:
    """Nobody is signed in as somebody else by another site."""
    one, other = Surfer(served=served), Surfer(served=served)
    form = one.get("/sign-in").form("/sign-in")
    other.get("/sign-in")
    shown = other.send("POST", "/sign-in", {**form.fields, "token": served.tokens["alice"]})
    assert shown.status == 403
    assert "fabric_session" not in other.cookies


def test_guessing_at_the_sign_in_page_is_slowed_down(served: Served, tmp_path_factory: pytest.TempPathFactory) -> None:
    surfer = Surfer(served=served)
    form = surfer.get("/sign-in").form("/sign-in")
    statuses = [surfer.fill(form, token=f"fab_{number}") for number in range(15)]
    assert "too many wrong sign-ins" in statuses[-1].text
    assert Surfer(served=served).sign_in_by_link("alice").status == 200, "a link still works"


def _foreign(served: Served) -> tuple[int, int]:
    """A task of bob's alone, and a token of alice's."""
    task = served.fabric("bob").call(Submit(title="Only bob's", to="bob")).task.id
    token = next(t for t in served.fabric("alice").call(ListTokens()) if t["principal"] == "alice")
    return task, int(token["id"])


def test_what_a_principal_may_not_do_is_refused_whatever_the_form_says(served: Served) -> None:
    """Surfaces have no rules of their own: the hallway refuses."""
    task, token = _foreign(served)
    agent_tasks: dict[str, Any] = {"task": str(task), "note": "x", "text": "x", "to": "alice", "until": "+1d"}
    surfer = Surfer(served=served)
    carol = served.add_person("carol")
    surfer.sign_in_by_link(carol)
    for name in (*_ON_A_TASK, "snooze", "take", "verify"):
        shown = surfer.act(name, **{**agent_tasks, "title": "y", "column": "Done", "seen": "0" * 64})
        assert shown.status in (403, 404), name
    assert surfer.act("token-revoke", id=str(token)).status == 404
    for name, fields in (
        ("user-add", {"name": "mallory"}),
        ("user-reset", {"name": "alice"}),
        ("user-disable", {"name": "alice"}),
        ("session-link", {"name": "alice"}),
        ("session-revoke", {"id": "1"}),
        ("pause", {"name": "tiny"}),
    ):
        assert surfer.act(name, **fields).status in (403, 404), name
    assert served.fabric("bob").call(Show(task=task)).task.title == "Only bob's"


def test_nobody_is_led_to_another_site(served: Served, alice: Surfer) -> None:
    fields = {"csrf": alice.csrf(), "title": "x", "to": "alice", "task": "1"}
    for place in _ELSEWHERE:
        shown = alice.send("POST", "/do/snooze", {**fields, "back": place, "until": "+1d"})
        assert shown.headers.get("location", "/").partition("?")[0] == "/"
        page = alice.send("GET", f"/sign-in?next={place}")
        assert 'name="next" value="/"' in page.text


def test_other_methods_are_refused(alice: Surfer) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert alice.send(method, "/do/submit").status in (405, 403), method


def test_a_form_that_is_too_large_is_refused(served: Served, alice: Surfer) -> None:
    limit = served.house.settings.server.body_limit
    shown = alice.send("POST", "/do/comment", {"csrf": "x", "text": "a" * (limit + 1)})
    assert shown.status == 413
