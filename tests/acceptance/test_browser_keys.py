"""Without a mouse: every place is reached with the keyboard, a card is moved by it, and one sees where one is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.services.verbs import Ask, FenceArg, Show, Submit, Take
from taskfabric.testing import TestServer
from tests.acceptance.browser import browser, person
from tests.integration.serving import Served, serving

_STOPS = 150  # tab stops after which a place counts as unreachable
_FOCUS = """() => {
    const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
    return {
        tag: at.tagName, text: at.textContent.trim(), id: at.id,
        seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 && box.width > 0 && box.height > 0,
    };
}"""


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        database.clock.run()
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def _submit(served: Served, title: str, *, to: str = "alice") -> int:
    return served.fabric("alice").call(Submit(title=title, to=to)).task.id


def _tab_to(page: Any, tag: str, text: str) -> None:
    """Goes from stop to stop until this one; each stop on the way can be seen."""
    for _ in range(_STOPS):
        page.keyboard.press("Tab")
        at = page.evaluate(_FOCUS)
        assert at["seen"] or at["tag"] == "BODY", at
        if at["tag"] == tag and at["text"] == text:
            return
    raise AssertionError(f"no stop {tag} {text!r}")


def _choose(page: Any, item: str) -> None:
    for _ in range(50):
        page.keyboard.press("j")
        if page.locator(f"#{item}.chosen").count():
            return
    raise AssertionError(f"{item} is not reached")


def test_inbox_board_and_task_are_walked_with_the_keyboard_alone(served: Served, chromium: Any) -> None:
    asked = _submit(served, "Choose a colour", to="pool")
    fence = FenceArg.of(served.fabric("kimi").call(Take(task=asked)).fence)
    served.fabric("kimi").call(Ask(fence=fence, note="Red or blue?"))
    task = _submit(served, "Walk the dog")
    with person(chromium, served, "alice") as page:
        page.goto(served.url)
        page.keyboard.press("Tab")
        assert page.evaluate(_FOCUS)["text"] == "To the content"
        page.keyboard.press("Enter")
        _choose(page, f"item-{asked}")
        page.keyboard.press("a")
        page.keyboard.type("blue")
        _tab_to(page, "BUTTON", "Answer")
        page.keyboard.press("Enter")
        page.wait_for_selector(".said:has-text('Answered')")
        _tab_to(page, "A", "Boards")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Boards')")
        _tab_to(page, "A", "alice")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#card-{task}")
        _choose(page, f"card-{task}")
        page.keyboard.press("Enter")
        page.wait_for_selector("article.task")
        _tab_to(page, "SUMMARY", "Edit")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Control+A")
        page.keyboard.type("Walk both dogs")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Walk both dogs')")
    assert served.fabric("alice").call(Show(task=asked)).task.status.value == "ready"


@contextlib.contextmanager
def _heard(page: Any, card: str) -> Iterator[None]:
    """The card is as the server has told it after what is done here: a move is shown before that."""
    before = page.query_selector(f"#{card}")
    yield
    page.wait_for_function(
        "([id, before]) => { const now = document.getElementById(id); return now && now !== before; }",
        arg=[card, before],
    )


def test_a_card_is_moved_across_and_within_columns_by_keys(served: Served, chromium: Any) -> None:
    first, second = _submit(served, "First"), _submit(served, "Second")
    alice = served.fabric("alice")
    with person(chromium, served, "alice") as page:
        page.goto(f"{served.url}/board/alice")
        _choose(page, f"card-{second}")
        with _heard(page, f"card-{second}"), page.expect_response("**/do/move"):
            page.keyboard.press("Shift+ArrowUp")
        above = page.locator(f"#card-{second} ~ #card-{first}")
        assert above.count() == 1
        with _heard(page, f"card-{second}"), page.expect_response("**/do/move"):
            page.keyboard.press("Shift+ArrowRight")
        page.wait_for_selector(f"section[data-column='Work in progress'] #card-{second}.chosen a:focus")
        page.wait_for_selector("#told:has-text('stands in Work in progress')", state="attached")
        assert alice.call(Show(task=second)).task.column == "Work in progress"
        page.keyboard.press("ArrowLeft")
        assert page.locator(".column[data-column=Ready] .card.chosen").count() == 1
        page.keyboard.press("ArrowRight")
        assert page.locator(f"#card-{second}.chosen").count() == 1
        page.keyboard.press("?")
        assert page.locator("#keys dd:has-text('move the card to the next column')").is_visible()


def test_a_move_by_keys_that_is_refused_says_why_and_the_card_goes_back(served: Served, chromium: Any) -> None:
    task = _submit(served, "Refuse me")
    with person(chromium, served, "alice") as page:
        page.goto(f"{served.url}/board/alice")
        page.evaluate(
            "document.querySelector('.column[data-column=\\'Work in progress\\']').dataset.column = 'Nowhere'"
        )
        _choose(page, f"card-{task}")
        page.keyboard.press("Shift+ArrowRight")
        page.wait_for_selector("#toast.on:has-text('no column')")
        page.wait_for_selector(f"section[data-column='Ready'] #card-{task}.chosen a:focus")
