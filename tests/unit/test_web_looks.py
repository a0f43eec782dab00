"""What pages load is what was vendored; templates keep to the strict policy; Markdown is harmless."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from pathlib import Path

import pytest

from taskfabric.surfaces.web.looks import HERE, duration, size, ticks
from taskfabric.surfaces.web.markdown import html_of
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
