"""Markdown that strangers wrote, as HTML that can do nothing: no markup of their own, no images, no odd links.

Agents' words are hostile until shown otherwise. The renderer escapes raw HTML, and what it makes is cleaned once more
by a parser that keeps only the elements listed here.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

_TAGS: Final = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_SCHEMES: Final = {"http", "https", "mailto"}
_LINK: Final = re.compile(r"https?://|mailto:|/task/[0-9]+$", re.IGNORECASE)
_LONGEST: Final = 60_000  # characters; what is longer is shown as plain text, for rendering costs time
_DEEPEST: Final = 40  # levels of nesting


@functools.cache
def _renderer() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": _DEEPEST})
    made.enable(["table", "strikethrough"])
    made.disable(["image", "html_block", "html_inline"])
    made.add_render_rule("heading_open", _heading)
    made.add_render_rule("heading_close", _heading)
    return made


def _heading(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """Headings begin below the page's own."""
    level = min(6, int(tokens[index].tag[1]) + 2)
    return f"<h{level}>" if tokens[index].nesting == 1 else f"</h{level}>\n"


def _kept(tag: str, name: str, value: str) -> str | None:
    """Links lead to a whole address elsewhere or to a task here; what only looks like one is dropped."""
    return value if name != "href" or _LINK.match(value) else None


@functools.lru_cache(maxsize=512)
def html_of(text: str) -> Markup:
    """The text as harmless HTML; what cannot be rendered stands there as it was written."""
    if len(text) > _LONGEST:
        return Markup("<pre>") + escape(text) + Markup("</pre>")
    made = nh3.clean(
        _renderer().render(text),
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "code": set(), "ol": {"start"}},
        attribute_filter=_kept,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(made)
