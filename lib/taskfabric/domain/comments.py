"""The grammar of the fabric's own comments: one template a kind, from which both writer and reader are made.

No comment ever grants anything. These lines are the record for people: nothing reads them back as state, and a line
is the fabric's only if its author is the fabric's own user, whatever it looks like.

A template's bracketed parts are optional; a field outside brackets must be given, one that is not in the template
must not. The text follows the head on the same line, or begins below it, and is Markdown of any length: only the
first line is read as grammar, so a text that quotes such lines stays text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Final, Literal, assert_never

from taskfabric.domain.target import NAME
from taskfabric.domain.times import iso


class LineKind(StrEnum):
    """What a line records. The value is also the ``kind`` of a thread's entry."""

    CLAIMED = "claimed"
    RENEWED = "renewed"  # only read: boards of before have these, a renewal writes no comment now
    RELEASED = "released"
    PARKED = "parked"
    QUESTION = "question"
    WAITING = "waiting"  # on children
    ANSWER = "answer"
    SAID = "said"  # by a run on its way, gathered
    NOTE = "note"  # the result
    FAILED = "failed"
    DEAD = "dead"
    EXPIRED = "expired"
    VERIFIED = "verified"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    DECLINED = "declined"  # a runtime's refusal
    HELD = "held"
    REDRIVEN = "redriven"
    MOVED = "moved"  # by hand
    RESUMED = "resumed"  # what it waited for has come to an end
    LATE = "late"  # a result that came after the lease was lost


_INSTANCE: Final = re.compile(r"[^()\r\n]{1,200}")

_Field = Literal["agent", "instance", "at", "epoch", "until", "number", "of"]
_INSTANT = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:Z| ?UTC|[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
)
_PATTERNS: Final[dict[_Field, str]] = {
    "agent": NAME.pattern,
    "instance": _INSTANCE.pattern,
    "at": _INSTANT,
    "until": _INSTANT,
    "epoch": r"[0-9]{1,18}",
    "number": r"[0-9]{1,9}",
    "of": r"[0-9]{1,9}",
}
_FIELDS: Final = tuple(_PATTERNS)
_ABSENT: Final = ("", None)
_LIMITS: Final[dict[_Field, int]] = {"epoch": 10**18, "number": 10**9, "of": 10**9}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A stretch of a template: ``literals[0] field[0] literals[1] …``, present as a whole or absent as a whole."""

    literals: tuple[str, ...]
    fields: tuple[_Field, ...]
    optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A compiled template."""

    parts: tuple[_Part, ...]
    tail: str  # between the head and a text
    required: frozenset[_Field]
    allowed: frozenset[_Field]
    pattern: re.Pattern[str]


def _form(template: str, tail: str = ": ") -> _Form:
    parts = tuple(_part(piece) for piece in re.split(r"(\[[^]]*\])", template) if piece)
    head = "".join(_pattern_of(part) for part in parts)
    # An emoji may come back from other software with the selector that asks for its coloured shape.
    mark = re.escape(template[0])
    head = head.replace(mark, mark + "\ufe0f?", 1) if not template[0].isascii() else head
    return _Form(
        parts=parts,
        tail=tail,
        required=frozenset(f for part in parts if not part.optional for f in part.fields),
        allowed=frozenset(f for part in parts for f in part.fields),
        pattern=re.compile(rf"{head}(?:(?:{re.escape(tail)}|\n)(?P<text>[\s\S]*))?"),
    )


def _part(piece: str) -> _Part:
    optional = piece.startswith("[")
    bits = re.split(r"\{([a-z]+)\}", piece[1:-1] if optional else piece)
    known = {str(name): name for name in _PATTERNS}
    return _Part(literals=tuple(bits[::2]), fields=tuple(known[name] for name in bits[1::2]), optional=optional)


def _pattern_of(part: _Part) -> str:
    bits = [re.escape(part.literals[0])]
    for field, literal in zip(part.fields, part.literals[1:], strict=True):
        bits.append(rf"(?P<{field}>{_PATTERNS[field]}){re.escape(literal)}")
    return f"(?:{''.join(bits)})?" if part.optional else "".join(bits)


_BY: Final = "[ by `{agent}`]"
_FORMS: Final[dict[LineKind, _Form]] = {
    LineKind.CLAIMED: _form(
        "🔒 claimed by `{agent}`[ ({instance})] at {at}[ · epoch {epoch}][ · lease until {until}]", tail="\n"
    ),
    LineKind.RENEWED: _form("lease renewed by `{agent}` at {at}", tail="\n"),
    LineKind.RELEASED: _form("🔓 released" + _BY),
    LineKind.PARKED: _form("⏸ parked until {until}"),
    LineKind.QUESTION: _form("❓[ `{agent}`:]", tail=" "),  # the agent is the one asked
    LineKind.WAITING: _form("⏳ waiting for its children[ ({number} open)]"),
    LineKind.ANSWER: _form("💬 answered" + _BY),
    LineKind.SAID: _form("💭", tail=" "),
    LineKind.NOTE: _form("✅", tail=" "),
    LineKind.FAILED: _form("❌ attempt {number}/{of}"),
    LineKind.DEAD: _form("☠ dead letter"),
    LineKind.EXPIRED: _form("⏰ lease expired, swept[ · held by `{agent}`][ · epoch {epoch}]"),
    LineKind.VERIFIED: _form("✔ verified by `{agent}`"),
    LineKind.REJECTED: _form("↩ rejected" + _BY),
    LineKind.CANCELLED: _form("🚫 cancelled" + _BY),
    LineKind.DECLINED: _form("🛑 declined" + _BY),
    LineKind.HELD: _form("⛔ held"),
    LineKind.REDRIVEN: _form("♻ redriven" + _BY),
    LineKind.MOVED: _form("👉 moved by `{agent}`", tail=" "),  # the text goes on: from Ready to Done
    LineKind.RESUMED: _form("▶ resumed"),
    LineKind.LATE: _form("📎 late result kept[ of `{agent}`][ · epoch {epoch}]"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comment of the fabric. Instants are kept in UTC, to the second: that is what a comment can say.

    Raises ValueError for a field that its kind does not have or lacks, for a name or an instance that could not be
    read back, for a naive instant, and for one outside the years 1970 to 9999.
    """

    kind: LineKind
    agent: str = ""  # who the line is about: the holder, the one asked, who verified or moved
    instance: str = ""  # the program and host of a claimer, as it says itself
    at: datetime | None = None
    epoch: int | None = None
    until: datetime | None = None
    number: int | None = None  # an attempt; open children
    of: int | None = None  # attempts in all
    text: str = ""

    def __post_init__(self) -> None:
        form = _FORMS[self.kind]
        given = {f for f in _FIELDS if getattr(self, f) not in _ABSENT}
        if not form.required <= given <= form.allowed:
            missing, foreign = sorted(form.required - given), sorted(given - form.allowed)
            wrong = f"needs {', '.join(missing)}" if missing else f"has no {', '.join(foreign)}"
            raise ValueError(f"a line {self.kind.value!r} {wrong}")
        if self.agent and not NAME.fullmatch(self.agent):
            raise ValueError(f"{self.agent[:70]!r} is not a name")
        if self.instance and not _INSTANCE.fullmatch(self.instance):
            raise ValueError("an instance is 1 to 200 characters without parentheses or line breaks")
        for field, limit in _LIMITS.items():
            if (value := getattr(self, field)) is not None and not 0 <= value < limit:
                raise ValueError(f"{field} is out of range: {value}")
        object.__setattr__(self, "at", _to_the_second(self.at))
        object.__setattr__(self, "until", _to_the_second(self.until))


def _to_the_second(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError("an instant of a line has a zone")
    try:
        exact = moment.astimezone(UTC).replace(microsecond=0, fold=0)
    except OverflowError as error:
        raise ValueError("an instant of a line lies in the years 1970 to 9999") from error
    if exact.year < 1970:
        raise ValueError("an instant of a line lies in the years 1970 to 9999")
    return exact


def render(line: Line, zone: tzinfo | None = None) -> str:
    """The line as a comment, instants in UTC, or in ``zone`` with its offset. ``parse`` gives the same line back."""
    form = _FORMS[line.kind]
    head = "".join(_fill(part, line, zone) for part in form.parts)
    if not line.text:
        return head
    beside = f"{head}{form.tail}{line.text}"
    if line.kind is LineKind.QUESTION and not line.agent and parse(beside) != line:
        return f"{head}\n{line.text}"  # a question that begins like an address is not one: it goes below
    return beside


def _fill(part: _Part, line: Line, zone: tzinfo | None) -> str:
    shown = [_show(line, field, zone) for field in part.fields]
    if part.optional and "" in shown:
        return ""
    return part.literals[0] + "".join(a + b for a, b in zip(shown, part.literals[1:], strict=True))


def _show(line: Line, field: _Field, zone: tzinfo | None) -> str:
    match field:
        case "agent":
            return line.agent
        case "instance":
            return line.instance
        case "at":
            return _moment(line.at, zone)
        case "until":
            return _moment(line.until, zone)
        case "epoch":
            return _number(line.epoch)
        case "number":
            return _number(line.number)
        case "of":
            return _number(line.of)
        case _:
            assert_never(field)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _moment(moment: datetime | None, zone: tzinfo | None) -> str:
    if moment is None:
        return ""
    if zone is None:
        return iso(moment)
    try:
        return moment.astimezone(zone).isoformat()
    except OverflowError:  # the last hours of the year 9999: the same instant, said in UTC
        return iso(moment)


def parse(text: str) -> Line | None:
    """The line that ``render`` made this from, or that older boards wrote; None for any other text. Never raises.

    An instant without a zone, which only older lines have, is UTC.
    """
    for kind, form in _FORMS.items():
        match = form.pattern.fullmatch(text)
        if match is not None:
            try:
                return _line(kind, match)
            except (ValueError, OverflowError):  # 30 February, the year 0001
                return None
    return None


def _line(kind: LineKind, match: re.Match[str]) -> Line:
    found = match.groupdict()
    return Line(
        kind=kind,
        agent=found.get("agent") or "",
        instance=found.get("instance") or "",
        at=_read_instant(found.get("at")),
        epoch=_read_number(found.get("epoch")),
        until=_read_instant(found.get("until")),
        number=_read_number(found.get("number")),
        of=_read_number(found.get("of")),
        text=found.get("text") or "",
    )


def _read_number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _read_instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text.removesuffix("UTC").rstrip())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
