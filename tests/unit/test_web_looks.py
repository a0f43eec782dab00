"""What pages load is what was vendored; templates keep to the strict policy; Markdown is harmless."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Entry, Task
from taskfabric.surfaces.web.looks import HERE, Looks, browser, duration, labels, size, ticks
from taskfabric.surfaces.web.markdown import html_of
from taskfabric.surfaces.web.pages.board import read_numbers, write_numbers
from taskfabric.surfaces.web.shelf import Shelf

VENDOR = HERE / "assets" / "vendor"
TEMPLATES = sorted((HERE / "templates").glob("*.html"))


def test_every_vendored_file_is_the_one_whose_hash_was_written_down() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text().split("\n")
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines if line)}
    found = {path.name for path in VENDOR.iterdir()} - {"SHA256SUMS"}
    assert found == set(sums)
    for name, wanted in sums.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == wanted, name


def test_every_vendored_script_stands_beside_its_licence() -> None:
    for path in VENDOR.glob("*.js"):
        licence = path.with_name(path.name.removesuffix(".js").removesuffix(".min") + ".LICENSE")
        assert "Zero" in licence.read_text(), path.name


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_inline_script_style_or_handler(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son[a-z]+=|hx-on|hx-vals|javascript:", text)
    assert "| safe" not in text, "what is put into a page is escaped"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_loads_nothing_from_elsewhere(path: Path) -> None:
    assert "//" not in re.sub(r"{#.*?#}", "", path.read_text()).replace("https://www.w3.org", "")


def test_our_script_makes_no_code_of_text() -> None:
    text = (HERE / "assets" / "fabric.js").read_text()
    assert not re.search(r"\beval\(|new Function|document\.write|setTimeout\([\"']", text)


def test_the_shelf_gives_only_what_pages_load() -> None:
    shelf = Shelf(HERE / "assets")
    assert shelf.get("fabric.css") is not None
    assert shelf.get("vendor/SHA256SUMS") is None
    assert shelf.get("../templates/base.html") is None


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("*a* **b** `c`", "<p><em>a</em> <strong>b</strong> <code>c</code></p>\n"),
        ("# Big", "<h3>Big</h3>\n"),
        ("~~gone~~", "<p><s>gone</s></p>\n"),
        ("<b>no</b>", "<p>&lt;b&gt;no&lt;/b&gt;</p>\n"),
        ("[x](https://a.example)", '<p><a href="https://a.example" rel="noopener noreferrer nofollow">x</a></p>\n'),
    ],
)
def test_markdown_becomes_plain_html(text: str, html: str) -> None:
    assert html_of(text) == html


@pytest.mark.parametrize(
    "text",
    [
        "![x](https://tracker.example/p.png)",
        '<img src="https://tracker.example/p.png">',
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>1</script>)",
        "[x]: javascript:alert(1)\n\n[x]",
        "<javascript:alert(1)>",
        "[x](/do/approve)",
        "[x](//elsewhere.example)",
        "[x](java&#x0A;script:alert(1))",
        "<svg onload=alert(1)>",
    ],
)
def test_markdown_loads_nothing_and_runs_nothing(text: str) -> None:
    made = html_of(text)
    assert not re.search(r"<(img|svg|script|iframe)|href=\"(?!https?://)", made)


def test_a_text_that_is_too_long_to_render_is_shown_as_it_is() -> None:
    made = html_of("*a*" * 100_000)
    assert made.startswith("<pre>*a*")


def test_deep_nesting_costs_no_more_than_a_moment() -> None:
    assert html_of("> " * 5000 + "x")
    assert html_of("[" * 5_000)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (540, "9 min"), (3600, "1 h"), (172800, "2 d"), (-1, "over")]
)
def test_a_duration_is_said_in_one_unit(seconds: int, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


def test_sizes_and_ticks_read_well() -> None:
    assert (size(512), size(2048), size(5 * 2**20)) == ("512 B", "2.0 KiB", "5.0 MiB")
    assert ticks("run `fabric <up>` now") == "run <code>fabric &lt;up&gt;</code> now"


@pytest.mark.parametrize("numbers", [[], [7], [3, 1, 2], [5, 2**40, 6], list(range(1, 4000, 7))])
def test_the_numbers_of_the_shown_cards_travel_in_an_address(numbers: list[int]) -> None:
    word = write_numbers(numbers)
    assert read_numbers(word) == sorted(numbers)
    assert len(word) <= 2 * len(numbers) + 14


@pytest.mark.parametrize("word", ["", "x", "1..2", ".", "-1", "1e9", "٣", "9" * 19])
def test_what_is_no_word_of_numbers_names_no_card(word: str) -> None:
    assert read_numbers(word) == []


NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def _told(text: str, kind: str) -> str:
    """A line of a thread as a reader in Berlin sees it."""
    entry = Entry(id=1, task_id=1, author="fabric", author_id=1, at=NOON, text=text, kind=kind)
    looks = Looks("0")
    looks._env.globals["entry"] = entry
    return looks._env.from_string("{{ entry | thread }}").render(zone=ZoneInfo("Europe/Berlin"), now=NOON)


def test_a_line_of_the_fabrics_says_its_instants_in_the_readers_zone() -> None:
    told = _told("🔒 claimed by `kimi` at 2026-12-01T17:00:00Z · epoch 3 · lease until 2026-12-01T17:10:00Z", "claimed")
    assert "<code>kimi</code>" in told
    assert ">18:00</time>" in told
    assert ">18:10</time>" in told
    assert "2026-12-01T17:10:00Z ·" not in told


def test_the_text_of_a_line_stays_markdown_and_harmless() -> None:
    told = _told("✅ **done** at 2026-12-01T17:00:00Z <img src=x>", "note")
    assert "<strong>done</strong> at 2026-12-01T17:00:00Z" in told
    assert "<img" not in told
    assert "<img" not in _told("👉 moved by `alice` from <img src=x> to Done", "moved")
    parked = _told("⏸ parked until 2026-12-01T17:00:00Z: **quota** <img src=x>", "parked")
    assert ">18:00</time>" in parked
    assert "<strong>quota</strong>" in parked
    assert "<img" not in parked


def test_a_reason_says_its_instants_in_the_readers_zone_and_its_commands_as_code() -> None:
    looks = Looks("0")
    text = "held until 2026-12-01T17:00:00Z: `fabric <why>`"
    looks._env.globals["text"] = text
    said = looks._env.from_string("{{ text | told }}").render(zone=ZoneInfo("Europe/Berlin"), now=NOON)
    assert ">18:00</time>: <code>fabric &lt;why&gt;</code>" in said


def test_the_last_hours_of_the_calendar_are_said_in_utc_where_the_zone_is_past_them() -> None:
    looks = Looks("0")
    looks._env.globals["moment"] = "9999-12-31T23:59:00Z"
    said = looks._env.from_string("{{ moment | when }}").render(zone=ZoneInfo("Europe/Berlin"), now=NOON)
    assert ">31 Dec 9999</time>" in said


def test_words_that_only_look_like_a_line_are_nobodys_but_their_authors() -> None:
    assert "<time" not in _told("🔒 claimed by `kimi` at 2026-12-01T17:00:00Z", "")


def test_a_card_does_not_say_its_status_twice() -> None:
    flags = Flag.BLOCKED | Flag.NEEDS_INPUT | Flag.VETO
    task = Task(
        id=1, queue="pool", project_id=1, title="x", status=Status.WAITING, flags=flags, tags=("home",),
        needs=("code",), created=NOON, updated_at=NOON,
    )  # fmt: skip
    assert labels(task) == ["home", "veto", "needs:code"]


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36",
            "Chrome on Linux",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_1) AppleWebKit/605.1.15 Version/17.1 Safari/605.1.15",
            "Safari on a Mac",
        ),
        ("Mozilla/5.0 (Linux; Android 14; Pixel 8) Gecko/126.0 Firefox/126.0", "Firefox on Android"),
        ("<script>", "<script>"),
        ("", "a browser"),
    ],
)
def test_a_browser_is_named_in_a_few_words(agent: str, said: str) -> None:
    assert browser(agent) == said
