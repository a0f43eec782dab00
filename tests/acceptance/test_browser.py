"""People at the board and the inbox, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from taskfabric.services.approval_verbs import RequestApproval, ShowApproval
from taskfabric.services.verbs import Ask, Chunks, Done, FenceArg, SetPin, Show, Submit, Take
from taskfabric.testing import TestClock, TestServer
from tests.acceptance.browser import browser, person
from tests.integration.serving import Served, serving

AXE = Path(__file__).parent.parent / "fixtures" / "axe" / "axe.min.js"
PIN = "271828"
clocks: list[TestClock] = []


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        database.clock.run()
        clocks.append(database.clock)
        yield running


@pytest.fixture
def clock(served: Served) -> TestClock:
    """The board's clock."""
    return clocks[-1]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def _submit(served: Served, title: str, *, to: str = "pool", by: str = "alice") -> int:
    return served.fabric(by).call(Submit(title=title, to=to)).task.id


def _taken(served: Served, task: int, *, by: str = "kimi") -> FenceArg:
    return FenceArg.of(served.fabric(by).call(Take(task=task)).fence)


def test_a_task_is_submitted_and_its_worker_is_watched_until_it_has_finished(served: Served, chromium: Any) -> None:
    """Also after a refresh in the middle of the run: nothing of its output is lost or doubled."""
    with person(chromium, served, "alice") as page:
        page.keyboard.press("n")
        page.fill("#submit-title", "Read the report")
        page.click("#submit button.main")
        page.wait_for_selector("article.task")
        task = int(page.url.rpartition("/")[2].partition("?")[0])
        fence = _taken(served, task)
        page.wait_for_selector("#face .status.is-working")
        page.wait_for_selector("#main:has-text('Give back')")
        kimi = served.fabric("kimi")
        kimi.call(Chunks(fence=fence, chunks=((0, "out", "first piece\n"),)))
        page.wait_for_selector("#output:has-text('first piece')")
        page.reload()
        kimi.call(Chunks(fence=fence, chunks=((1, "out", "second piece\n"),)))
        page.wait_for_selector("#output:has-text('second piece')")
        assert page.inner_text("#output .output").split("\n")[:2] == ["first piece", "second piece"]
        kimi.call(Done(fence=fence, note="It says **seven**."))
        page.wait_for_selector("#face .status.is-done")
        page.wait_for_selector("button:has-text('Verify')")
        page.wait_for_selector("strong:has-text('seven')")
        page.keyboard.press("v")
        page.wait_for_selector("#face .status.is-verified")


def test_a_card_is_dragged_and_another_browser_sees_it_move(served: Served, chromium: Any) -> None:
    task = _submit(served, "Drag me", to="alice")
    with person(chromium, served, "alice") as one, person(chromium, served, "alice") as other:
        for page in (one, other):
            page.goto(f"{served.url}/board/alice")
            page.wait_for_selector(f"#card-{task}")
        one.evaluate("document.querySelector('.board').scrollLeft = 0")
        one.drag_and_drop(f"#card-{task}", "section[data-column='Work in progress'] .cards")
        other.wait_for_selector(f"section[data-column='Work in progress'] #card-{task}")
        other.wait_for_selector("section[data-column='Work in progress'] .count:has-text('1')")
    assert served.fabric("alice").call(Show(task=task)).task.column == "Work in progress"


def test_a_browser_that_was_away_shows_the_board_as_it_now_is(served: Served, chromium: Any) -> None:
    """Also when a card that had come by the stream was removed meanwhile, of which nothing tells."""
    stream = "document.querySelector('#live')['htmx-internal-data'].sseEventSource"
    stays = _submit(served, "Stays", to="alice")
    with person(chromium, served, "alice") as page:
        page.goto(f"{served.url}/board/alice")
        page.wait_for_selector("#live[data-opened]", state="attached")
        goes = _submit(served, "Comes and goes", to="alice")
        page.wait_for_selector(f"#card-{goes}")
        page.evaluate(f"{stream}.close()")
        assert served.call("removeTask", {"task_id": goes})["result"] is True
        page.evaluate(f"{stream}.onerror(new Event('error'))")
        page.wait_for_selector(f"#card-{goes}", state="detached")
        assert page.locator(f"#card-{stays}").count() == 1


def test_a_drag_that_is_refused_says_why_and_the_card_goes_back(served: Served, chromium: Any) -> None:
    task = _submit(served, "Refuse me", to="alice")
    with person(chromium, served, "alice") as page:
        page.goto(f"{served.url}/board/alice")
        page.wait_for_selector(f"#card-{task}")
        page.evaluate("document.querySelector('.column[data-column=Done]').dataset.column = 'Nowhere'")
        page.drag_and_drop(f"#card-{task}", "section[data-column='Nowhere'] .cards")
        page.wait_for_selector("#toast.on:has-text('no column')")
        assert page.locator(f"section[data-column='Ready'] #card-{task}").count() == 1


def test_a_question_is_answered_with_the_keyboard(served: Served, chromium: Any) -> None:
    task = _submit(served, "Choose a colour")
    served.fabric("kimi").call(Ask(fence=_taken(served, task), note="Red or blue?"))
    with person(chromium, served, "alice") as page:
        page.wait_for_selector(f"#item-{task}:has-text('Red or blue?')")
        while page.locator(f"#item-{task}.chosen").count() == 0:
            page.keyboard.press("j")
        page.keyboard.press("a")
        page.keyboard.type("blue")
        page.click(f"#answer-{task} button")
        page.wait_for_selector(".said:has-text('Answered')")
    assert served.fabric("alice").call(Show(task=task)).task.status.value == "ready"


def _asked(served: Served, action: str, level: Literal["confirm", "secure"], *, by: str = "alice") -> int:
    fence = _taken(served, _submit(served, f"Do {action}", by=by))
    args = {"to": "Shop", "amount": 12}
    got = served.fabric("kimi").call(RequestApproval(action=action, args=args, level=level, fence=fence))
    return int(got["task"])


def test_what_is_secure_is_approved_with_the_pin_and_the_wrong_one_locks(served: Served, chromium: Any) -> None:
    """G10."""
    gate = _asked(served, "pay", "secure")
    other = _asked(served, "pay", "secure")
    served.fabric("alice").call(SetPin(pin=PIN))
    with person(chromium, served, "alice") as page:
        page.wait_for_selector(f"#item-{gate}")
        page.click(f"#item-{gate} summary:has-text('Approve')")
        page.fill(f"#approve-{gate}-pin", PIN)
        page.click(f"#approve-{gate} button")
        page.wait_for_selector(".said:has-text('Approved')")
        for _ in range(6):
            if page.locator(f"#approve-{other}-pin").is_hidden():
                page.click(f"#item-{other} summary:has-text('Approve')")
            page.fill(f"#approve-{other}-pin", "000000")
            with page.expect_response("**/do/approve"):
                page.click(f"#approve-{other} button")
            page.wait_for_selector(f"#approve-{other} .wrong")
        page.wait_for_selector(f"#approve-{other} .wrong:has-text('lock')")
        page.fill(f"#approve-{other}-pin", PIN)
        with page.expect_response("**/do/approve"):
            page.click(f"#approve-{other} button")
        page.wait_for_selector(f"#approve-{other} .wrong:has-text('lock')")
    assert served.fabric("kimi").call(ShowApproval(task=gate))["state"] == "approved"
    assert served.fabric("kimi").call(ShowApproval(task=other))["state"] == "pending"


def test_what_expired_is_no_yes_and_the_inbox_says_what_became_of_it(
    served: Served, chromium: Any, clock: TestClock
) -> None:
    """G10."""
    gate = _asked(served, "mail.send", "confirm", by="bob")
    with person(chromium, served, "bob") as page:
        page.wait_for_selector(f"#item-{gate} button:has-text('Approve')")
        page.click(f"#item-{gate} summary:has-text('Deny')")
        page.fill(f"#deny-{gate}-note", "not sure yet")  # the page stays as it is while somebody writes
        clock.advance(timedelta(days=3))
        try:
            page.click(f"#approve-{gate} button")
            page.wait_for_selector(".wrong:has-text('expired')")
        finally:
            clock.run()
        _submit(served, "Something new", to="bob", by="bob")
        page.wait_for_selector("#stale:not(.hidden)")
        assert page.locator(".wrong:has-text('expired')").count() == 1, "what is new takes no answer away"
    approval = served.fabric("bob").call(ShowApproval(task=gate))
    assert approval["decided_by"] is None


def test_two_people_side_by_side_see_only_what_is_theirs(served: Served, chromium: Any) -> None:
    """G13."""
    with person(chromium, served, "alice") as one, person(chromium, served, "bob") as other:
        mine, his = _submit(served, "Alice alone", to="alice"), _submit(served, "Bob alone", to="bob", by="bob")
        one.wait_for_selector(f"#item-{mine}")
        other.wait_for_selector(f"#item-{his}")
        assert one.locator(f"#item-{his}").count() == 0
        assert other.locator(f"#item-{mine}").count() == 0


def test_without_scripts_a_task_is_made_moved_and_finished(served: Served, chromium: Any) -> None:
    with person(chromium, served, "alice", java_script_enabled=False) as page:
        page.goto(f"{served.url}/new?to=alice")
        page.fill("#submit-title", "Without scripts")
        page.click("#submit button.main")
        page.click("summary:has-text('Move')")
        page.select_option("#move-form-column", "Work in progress")
        page.click("#move-form button")
        page.wait_for_selector(".said:has-text('Moved')")
        page.click("summary:has-text('Done')")
        page.fill("#done-form-note", "it is done")
        page.click("#done-form button")
        page.wait_for_selector(".status.is-verified, .status.is-done")


# In the dark only the colours differ.
_RULES: dict[str, dict[str, Any]] = {"light": {}, "dark": {"runOnly": {"type": "rule", "values": ["color-contrast"]}}}
PAGES = ("/", "/boards", "/board/alice", "/fleet", "/activity", "/people", "/settings", "/new", "/find?q=a")


def test_a_phone_shows_every_page_without_scrolling_sideways(served: Served, chromium: Any) -> None:
    task = _submit(served, "A rather long title that has to be broken somewhere " * 3 + "x" * 200, to="alice")
    with person(chromium, served, "alice", viewport={"width": 390, "height": 844}) as page:
        for path in (*PAGES, f"/task/{task}"):
            page.goto(served.url + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(served: Served, chromium: Any, scheme: str) -> None:
    """No serious or critical finding of axe."""
    task = _submit(served, "Look at me", to="alice")
    _asked(served, "mail.send", "confirm")
    with person(chromium, served, "alice", color_scheme=scheme, bypass_csp=True) as page:
        for path in (*PAGES, f"/task/{task}"):
            page.goto(served.url + path)
            page.add_script_tag(path=str(AXE))
            found = page.evaluate("rules => axe.run({resultTypes: ['violations'], ...rules})", _RULES[scheme])
            bad = [
                (one["id"], [node["html"][:120] for node in one["nodes"]][:2])
                for one in found["violations"]
                if one["impact"] in ("serious", "critical")
            ]
            assert bad == [], path
