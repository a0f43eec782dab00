"""What people set for themselves, and administrators for others, on the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from taskfabric.domain.errors import Unavailable
from taskfabric.services.inbox_verbs import Inbox
from taskfabric.services.verbs import Ask, FenceArg, ListGrants, Submit, Take
from taskfabric.surfaces.web.site import whole_answer
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving
from tests.integration.surfing import Surfer

PIN = "271828"
ADDRESS = "ntfys://93.184.215.14/secret-topic"  # a public address, for which no name server is asked


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


def test_a_channel_is_added_shown_without_its_secret_and_removed(alice: Surfer) -> None:
    shown = alice.fill(alice.get("/settings").form("channel-add"), address=ADDRESS)
    assert "ntfys://93.184.215.14/…" in shown.text
    assert "secret-topic" not in shown.text
    number = next(form.fields["id"] for form in shown.forms if form.action == "/do/channel-remove")
    shown = alice.fill(shown.form(f"channel-{number}"))
    assert "93.184.215.14" not in shown.text


def test_an_address_that_is_refused_is_not_written_into_the_page_again(alice: Surfer) -> None:
    shown = alice.fill(alice.get("/settings").form("channel-add"), address="ntfy://127.0.0.1/secret-topic")
    assert shown.status == 400
    assert 'role="alert"' in shown.text
    assert "secret-topic" not in shown.text


def test_a_letter_that_was_tried_and_did_not_arrive_is_no_success() -> None:
    with pytest.raises(Unavailable, match="no letter went there: refused"):
        whole_answer({"id": 1, "taken": False, "problem": "refused"})
    assert whole_answer({"id": 1, "taken": True, "problem": ""})["id"] == 1


def test_a_link_for_another_browser_is_a_link(served: Served, alice: Surfer) -> None:
    assert alice.act("pin", pin=PIN).status == 200
    shown = alice.fill(alice.get("/settings").form("own-link"), pin=PIN)
    found = re.search(r"http://127\.0\.0\.1:\d+(/sign-in\?link=[\w-]+)", shown.text)
    assert found is not None, shown.text
    assert Surfer(served=served).get(found[1]).status == 200


def test_a_lost_pin_is_forgotten_by_an_administrator_on_the_page(served: Served, alice: Surfer) -> None:
    carol = served.add_person("carol")
    hers = Surfer(served=served)
    hers.sign_in_by_link(carol)
    assert hers.act("pin", pin=PIN).status == 200
    assert "You have a PIN" in hers.get("/settings").text
    form = alice.get("/people").form("reset-carol")
    shown = alice.fill(form, forget_pin="on")
    assert shown.status == 200
    assert "fab_" in shown.text
    again = Surfer(served=served)
    again.sign_in_by_link(carol)
    assert "You have none yet" in again.get("/settings").text


def test_an_administrator_signs_the_browser_of_somebody_out(served: Served, alice: Surfer) -> None:
    dave = served.add_person("dave")
    his = Surfer(served=served)
    his.sign_in_by_link(dave)
    shown = alice.get("/people?who=dave")
    (form,) = [form for form in shown.forms if form.action == "/do/session-revoke"]
    alice.fill(form)
    assert his.get("/").path.startswith("/sign-in")
    bob = Surfer(served=served)
    bob.sign_in_by_link("bob")
    assert "/do/session-revoke" not in bob.get("/people?who=alice").text


def test_who_is_no_administrator_manages_nobody(served: Served, alice: Surfer) -> None:
    bob = Surfer(served=served)
    bob.sign_in_by_link("bob")
    assert "reset-alice" not in bob.get("/people").text
    assert bob.act("user-reset", name="alice", forget_pin="on").status == 403


def test_a_question_is_passed_on_until_an_instant_and_says_so(served: Served, alice: Surfer) -> None:
    task = served.fabric("alice").call(Submit(title="Choose a colour", to="pool")).task.id
    kimi = served.fabric("kimi")
    kimi.call(Ask(fence=FenceArg.of(kimi.call(Take(task=task)).fence), note="Red or blue?"))
    alice.fill(alice.get("/").form(f"delegate-{task}"), to="bob", until="+2h")
    bob = Surfer(served=served)
    bob.sign_in_by_link("bob")
    shown = bob.get("/").text
    assert "in place of <b>alice</b>, until <time" in shown
    assert any(item["ref"] == str(task) for item in served.fabric("bob").call(Inbox())["items"])


def test_a_grant_is_made_listed_and_revoked(served: Served, alice: Surfer) -> None:
    alice.act("token-create", name="scribe")
    form = alice.get("/settings").form("grant-create")
    shown = alice.fill(form, agent="scribe", action="mail.send", recipient="bank")
    assert "<code>mail.send</code> to bank" in shown.text
    (grant,) = served.fabric("alice").call(ListGrants())
    shown = alice.fill(shown.form(f"grant-{grant['id']}"))
    assert "<code>mail.send</code> to bank" not in shown.text


def test_the_levels_of_actions_are_listed(alice: Surfer) -> None:
    shown = alice.get("/settings").text
    assert "What needs asking" in shown
    assert "<td>secure</td>" in shown
