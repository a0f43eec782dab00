"""Kanboard's search language, read into conditions: ``status:open tag:"next week" due:<=2026-12-24 words of a title``.

Different fields narrow, the same field twice widens. What is no field is searched for in titles. Reading never fails: a
text that nobody understands is words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

_ALIASES: Final[Mapping[str, str]] = {
    "complexity": "score",
    "colour": "color",
    "ref": "reference",
    "desc": "description",
    "updated": "modified",
    "updatedrange": "modifiedrange",
}
FIELDS: Final = frozenset(
    {
        *("status", "assignee", "creator", "column", "swimlane", "category", "tag", "priority", "score", "color"),
        *("reference", "id", "title", "description", "comment", "link", "subtask:assignee"),
        *("due", "created", "modified", "moved", "started", "completed"),
        *("createdrange", "modifiedrange", "movedrange", "completedrange", "duerange"),
    }
)
# The longest name first: "created:" must not be taken for the beginning of another field.
_FIELD: Final = re.compile(
    "(" + "|".join(sorted(map(re.escape, {*FIELDS, *_ALIASES}), key=len, reverse=True)) + "):", re.IGNORECASE
)
_VALUE: Final = re.compile(
    r"[<=>]{0,2}[0-9]{4}-[0-9]{2}-[0-9]{2}(?:\.\.[0-9]{4}-[0-9]{2}-[0-9]{2})?"
    r'|[<=>]{1,2}"[^"]*"|[<=>]{1,2}[\w-]+|"[^"]*"|\S+'
)
_SPACE: Final = re.compile(r"\s+")
_OPERATOR: Final = re.compile(r"<=|>=|<|>")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardQuery:
    """What is searched for: for each field the values of which one must hold."""

    terms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> CardQuery:
        """The conditions of a query; none at all for a blank one."""
        terms: dict[str, list[str]] = {}
        words = ""
        at = 0
        while at < len(text):
            if (space := _SPACE.match(text, at)) is not None:
                words += space[0]
                at = space.end()
                continue
            named = _FIELD.match(text, at)
            start = at if named is None else named.end()
            value = _VALUE.match(text, start)
            if named is not None:
                name = named[1].lower()
                if value is not None:
                    terms.setdefault(_ALIASES.get(name, name), []).append(value[0].replace('"', ""))
            elif value is not None:
                words += value[0].replace('"', "")
            at = start if value is None else value.end()
        if words.strip():
            terms["title"] = [words.strip()]
        return cls(terms={name: tuple(values) for name, values in terms.items()})


def operator_of(value: str) -> tuple[str, str]:
    """The comparison that a value begins with, ``=`` if none, and the rest of it."""
    found = _OPERATOR.match(value)
    return ("=", value.removeprefix("=")) if found is None else (found[0], value[found.end() :])


def day_span(value: str, now: datetime, zone: tzinfo) -> tuple[datetime | None, datetime | None] | None:
    """The instants between which a date must lie (the second is excluded) for a value such as ``<=2026-12-24``,
    ``today`` or ``>-3 days``; None for a value that names no day. Days are those of ``zone``."""
    comparison, words = operator_of(value)
    day = _day(words.strip().lower(), now.astimezone(zone).date())
    if day is None:
        return None
    begin, end = _midnight(day, zone), _midnight(day + timedelta(days=1), zone)
    match comparison:
        case "<":
            return None, begin
        case "<=":
            return None, end
        case ">":
            return end, None
        case ">=":
            return begin, None
        case _:
            return begin, end


def range_span(value: str, zone: tzinfo) -> tuple[datetime, datetime] | None:
    """The instants of ``2026-12-01..2026-12-24``, both days included; None for anything else."""
    first, dots, last = value.partition("..")
    days = [_iso_day(first), _iso_day(last)] if dots else [None]
    begin, end = days[0], days[-1]
    if begin is None or end is None:
        return None
    return _midnight(begin, zone), _midnight(end + timedelta(days=1), zone)


_AWAY: Final = re.compile(r"([+-]?)([0-9]{1,5}) (day|week|month|year)s?( ago)?")
_UNITS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_NAMED: Final = {"today": 0, "now": 0, "tomorrow": 1, "yesterday": -1}


def _day(words: str, today: date) -> date | None:
    if words in _NAMED:
        return today + timedelta(days=_NAMED[words])
    found = _AWAY.fullmatch(words)
    if found is None:
        return _iso_day(words)
    days = int(found[2]) * _UNITS[found[3]]
    back = (found[1] == "-") != (found[4] is not None)
    try:
        return today + timedelta(days=-days if back else days)
    except OverflowError:
        return None


def _iso_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    # A day before or behind that one must be an instant in every zone.
    return day if 2 <= day.year <= 9998 else None


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)
