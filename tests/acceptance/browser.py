"""A real browser for tests: Debian's Chromium, driven by Playwright; without them the tests are skipped, and say so."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.wiring import sign_in_link
from tests.integration.serving import Served

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = [
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 40_000.0  # milliseconds; a loaded machine draws a page in seconds


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A running browser; skips the test when there is none."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        try:
            yield started
        finally:
            started.close()


@contextlib.contextmanager
def person(started: Any, served: Served, name: str, **options: Any) -> Iterator[Any]:
    """A page of a browser of its own, signed in by a link. A fault of a script, or one that the policy stopped, fails
    the test."""
    faults: list[str] = []

    def opened(dialog: Any) -> None:
        faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context = started.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("dialog", opened)
    page.goto(f"{served.url}/sign-in?link={sign_in_link(served.house, name)}")
    page.click("button.main")
    page.wait_for_selector("nav")
    try:
        yield page
    finally:
        context.close()
    assert faults == []
