"""How things look: the templates, and the filters by which they say times, sizes and durations.

Everything that is put into a template is escaped; the one exception is ``markdown``, which makes its own harmless HTML.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from taskfabric.domain.comments import parse, render
from taskfabric.domain.status import Flag
from taskfabric.domain.task import Entry, Task
from taskfabric.domain.visible import visible
from taskfabric.surfaces.web.markdown import html_of
from taskfabric.surfaces.web.sentences import sentence

HERE: Final = Path(__file__).resolve().parent
_UNITS: Final = ("B", "KiB", "MiB", "GiB")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")
_TICKED: Final = re.compile(r"`[^`]+`")
_MARKED: Final = re.compile(f"{_TICKED.pattern}|{_INSTANT.pattern}")
_BROWSERS: Final = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl")  # the first that is named is it
_SYSTEMS: Final = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "CrOS", "Linux")
# What the status says already: as tags these would be said twice.
_SAID_BY_STATUS: Final = frozenset(
    (
        Flag.BLOCKED
        | Flag.NEEDS_INPUT
        | Flag.NEEDS_AUTH
        | Flag.PARKED
        | Flag.DEAD_LETTER
        | Flag.CANCELLED
        | Flag.REJECTED
    ).tags
)
PRIORITIES: Final = ("low", "normal", "high", "urgent")


class Looks:
    """The templates of this process, compiled at first use."""

    def __init__(self, version: str) -> None:
        self._env = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._env.filters.update(
            when=when,
            left=left,
            markdown=html_of,
            size=size,
            sentence=sentence,
            iso=iso,
            face=face,
            zoned=zoned,
            ticks=ticks,
            told=told,
            thread=thread,
            labels=labels,
            browser=browser,
            weblink=weblink,
            visible=visible,
        )
        self._env.globals.update(version=version, asset=_asset_path, priorities=PRIORITIES)

    def page(self, template: str, values: Mapping[str, Any]) -> bytes:
        """The template as bytes of HTML."""
        return self._env.get_template(template).render(values).encode()

    def part(self, template: str, macro: str, values: Mapping[str, Any], *args: Any) -> str:
        """One macro of a template as HTML, with the values that pages have."""
        module = self._env.get_template(template).make_module(dict(values))
        made: str = getattr(module, macro)(*args)
        return made


def _asset_path(name: str) -> str:
    """The address of a file of ours; it changes with its contents, so that browsers may keep it for good."""
    path = HERE / "assets" / name
    digest = _DIGESTS.get(name)
    if digest is None:
        digest = _DIGESTS[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return f"/assets/{name}?{digest}"


_DIGESTS: Final[dict[str, str]] = {}


def iso(moment: datetime | str) -> str:
    """An instant in ISO 8601, UTC."""
    return _moment(moment).astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@pass_context
def when(context: Context, moment: datetime | str | None) -> Markup:
    """An instant in the reader's zone, shortly; the whole of it in the title. Nothing for None."""
    if moment is None:
        return Markup("")
    zone: tzinfo = context["zone"]
    here, today = _local(_moment(moment), zone), context["now"].astimezone(zone).date()
    match (here.date() - today).days:
        case 0:
            short = f"{here:%H:%M}"
        case 1:
            short = f"tomorrow {here:%H:%M}"
        case -1:
            short = f"yesterday {here:%H:%M}"
        case days if -7 < days < 7:
            short = f"{here:%a %H:%M}"
        case _:
            short = f"{here.day} {here:%b %H:%M}" if here.year == today.year else f"{here.day} {here:%b %Y}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        iso(moment), f"{here:%A %d %B %Y, %H:%M:%S} {here.tzname()}", short
    )


def _local(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:  # the last hours of the year 9999, east of Greenwich
        return moment.astimezone(UTC)


@pass_context
def left(context: Context, moment: datetime | str | None) -> Markup:
    """How long until then, as something that the page's script counts down. Nothing for None."""
    if moment is None:
        return Markup("")
    then = _moment(moment)
    return Markup('<time class="left" datetime="{0}" data-until="{0}">{1}</time>').format(
        iso(then), duration(then - context["now"])
    )


@pass_context
def zoned(context: Context, text: str) -> Markup:
    """A sentence of the fabric's, its instants in the reader's zone."""
    return _pieced(_INSTANT, text, lambda found: when(context, found))


def ticks(text: str) -> Markup:
    """A sentence of the fabric's, what stands between backticks as code."""
    return _pieced(_TICKED, text, lambda found: Markup("<code>{}</code>").format(found.strip("`")))


@pass_context
def told(context: Context, text: str) -> Markup:
    """A sentence of the fabric's: instants in the reader's zone, and what stands between backticks as code."""
    return _pieced(_MARKED, text, lambda found: ticks(found) if found.startswith("`") else when(context, found))


@pass_context
def thread(context: Context, entry: Entry) -> Markup:
    """A line of a thread as Markdown; the instants in the head of one of the fabric's in the reader's zone."""
    line = parse(entry.text) if entry.kind else None
    if line is None or (line.at is None and line.until is None):
        return html_of(entry.text)
    return Markup("<p>{}</p>{}").format(
        told(context, render(replace(line, text=""))), html_of(line.text) if line.text else ""
    )


def labels(task: Task) -> list[str]:
    """The tags of a card, without those that only repeat its status."""
    return [tag for tag in task.all_tags if tag not in _SAID_BY_STATUS]


def weblink(title: str, address: str) -> Markup:
    """A link that leads elsewhere on the web; what leads anywhere else is only said."""
    if not address.lower().startswith(("http://", "https://")):
        return Markup("{} <code>{}</code>").format(title, address)
    return Markup('<a href="{}" rel="noopener noreferrer nofollow"><bdi>{}</bdi></a>').format(address, title or address)


def browser(agent: str) -> str:
    """What a browser calls itself, in two words."""
    name = next((one for one in _BROWSERS if one in agent), "")
    system = next((one for one in _SYSTEMS if one in agent), "")
    names = {"Edg": "Edge", "OPR": "Opera", "Mac OS X": "a Mac", "CrOS": "ChromeOS"}
    found = [names.get(one, one) for one in (name, system) if one]
    return " on ".join(found) or agent[:40] or "a browser"


def _pieced(pattern: re.Pattern[str], text: str, shown: Callable[[str], Markup]) -> Markup:
    made, at = Markup(""), 0
    for found in pattern.finditer(text):
        made += escape(text[at : found.start()]) + shown(found[0])
        at = found.end()
    return made + escape(text[at:])


def duration(span: timedelta) -> str:
    """``45 s``, ``9 min``, ``3 h``, ``2 d``; ``over`` for what has passed."""
    seconds = int(span.total_seconds())
    if seconds < 0:
        return "over"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit != "d" and seconds >= length):
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def size(number: int) -> str:
    """A number of bytes for people."""
    amount = float(number)
    for unit in _UNITS[:-1]:
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {_UNITS[-1]}"


def face(task: Task) -> str:
    """The class of a card by what its reader should notice first."""
    return f"is-{task.status.value}" + (" is-urgent" if task.priority == 3 else "")


def _moment(moment: datetime | str) -> datetime:
    return datetime.fromisoformat(moment) if isinstance(moment, str) else moment
