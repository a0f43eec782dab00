"""When a limit ends, as providers say it: epoch seconds, dates, clock times, delays in words or in Go's notation.

A delay is turned into an instant once, where it is read. A clock time without a date is its next occurrence, and one
that the clocks skip or repeat is the later instant: to come back late costs minutes, to come back early costs runs.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from typing import Final
from zoneinfo import ZoneInfo

from taskfabric.domain import times
from taskfabric.domain.limit import Confidence

_FARTHEST: Final = timedelta(days=400)  # a "reset" beyond this is a misreading

_UNITS: Final = {
    "ms": 0.001, "millisecond": 0.001,
    "s": 1, "sec": 1, "second": 1,
    "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hr": 3600, "hour": 3600,
    "d": 86400, "day": 86400, "week": 604800,
}  # fmt: skip
_UNIT: Final = r"(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?)"
_PART: Final = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?)\s*{_UNIT}(?![a-z])", re.I)
_GO_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s)")
_DELAY: Final = re.compile(
    rf"\b(?:in|after|within|for)\s+(?:about\s+)?(?P<span>(?:\d{{1,9}}(?:\.\d{{1,9}})?\s*{_UNIT}(?![a-z])[\s,]*"
    r"(?:and\s+)?)+)",
    re.I,
)

_EPOCH: Final = re.compile(r"\|\s*(\d{13}|\d{10})(?!\d)")
_ISO: Final = re.compile(
    r"\b(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?\s?(Z|UTC|[+-]\d{2}:?\d{2})?(?![\d:])", re.I
)

_ANCHOR: Final = re.compile(
    r"\b(?:resets?(?:\s+(?:at|on))?|(?:try|retry|available|continue)\s+(?:again\s+)?(?:at|on)|renews?(?:\s+(?:at|on))?"
    r"|refreshes(?:\s+(?:at|on))?|until)[\s:,]+",
    re.I,
)
_CLOCK: Final = re.compile(
    r"(?<![\d:.])(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::\d{2})?)?\s?(?P<half>[ap]\.?\s?m\b\.?)?(?![\d:/]|\s?%)", re.I
)
_ZONE: Final = re.compile(
    r"\(([A-Za-z][\w+\-/: ]{0,40})\)|\b(UTC|GMT|Z)\b(?![+-])|\b((?:UTC|GMT)[+-]\d{1,2}(?::?\d{2})?)\b"
)
_MONTH_FIRST: Final = re.compile(
    r"(?P<month>[a-z]{3,10})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?![\d:])(?:,?\s+(?P<year>\d{4}))?", re.I
)
_DAY_FIRST: Final = re.compile(
    r"(?<![\d:])(?P<day>\d{1,2})(?:\.|st|nd|rd|th)?\s+(?:de\s+)?(?P<month>[a-z]{3,10})\.?(?:\s+(?:de\s+)?(?P<year>\d{4}))?",
    re.I,
)
# By their first letters without accents: English, German, Spanish, French, Italian, Portuguese, Dutch.
_MONTHS: Final = {
    "jan": 1, "ene": 1, "gen": 1, "feb": 2, "fev": 2, "mar": 3, "maa": 3, "mrt": 3, "apr": 4, "abr": 4, "avr": 4,
    "may": 5, "mai": 5, "mag": 5, "mei": 5, "jun": 6, "juin": 6, "giu": 6, "jul": 7, "juil": 7, "lug": 7,
    "aug": 8, "ago": 8, "aou": 8, "sep": 9, "set": 9, "oct": 10, "okt": 10, "ott": 10, "out": 10, "nov": 11,
    "dec": 12, "dez": 12, "dic": 12,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An instant in UTC, and how sure it is."""

    at: datetime
    confidence: Confidence = Confidence.EXACT


def epoch(value: object, *, now: datetime) -> datetime | None:
    """Seconds (or milliseconds) since 1970, as a number or its digits; None for anything that is no near instant."""
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    if seconds > 1e11:
        seconds /= 1000
    return near(datetime.fromtimestamp(seconds, UTC), now) if 1e9 < seconds < 1e11 else None


def delay(value: object, *, now: datetime) -> datetime | None:
    """A number of seconds from now; None unless it is more than nothing (zero says "on your own schedule")."""
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return now + timedelta(seconds=seconds) if 0 < seconds < _FARTHEST.total_seconds() else None


def go_duration(text: str, *, now: datetime) -> datetime | None:
    """``6m0s``, ``12ms`` or ``1h0m3.5s`` from now; None for nothing and for anything else."""
    parts = _GO_PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text.strip():
        return None
    return delay(sum(float(number) * _UNITS[unit] for number, unit in parts), now=now)


def stamp(text: str, *, now: datetime) -> datetime | None:
    """An RFC 3339 instant, an HTTP date, epoch seconds, or a Go duration."""
    text = text.strip()
    if (found := epoch(text, now=now)) or (found := go_duration(text, now=now)):
        return found
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
    return near(moment.astimezone(UTC), now) if moment.tzinfo is not None else None


def near(moment: datetime, now: datetime) -> datetime | None:
    """The instant, unless it is so far away that it cannot be a reset."""
    return moment if abs(moment - now) < _FARTHEST else None


def in_words(text: str, *, now: datetime, host: tzinfo) -> Reading | None:
    """The instant that a sentence names, absolute before relative; None when it names none."""
    if (bar := _EPOCH.search(text)) and (at := epoch(bar[1], now=now)):
        return Reading(at=at)
    if found := _iso(text, now, host):
        return found
    for anchor in _ANCHOR.finditer(text):
        if found := _wall(text[anchor.end() : anchor.end() + 80].partition("\n")[0], now, host):
            return found
    if spelled := _DELAY.search(text):
        seconds = sum(float(number) * _UNITS[_singular(unit)] for number, unit in _PART.findall(spelled["span"]))
        at = delay(seconds, now=now)
        return Reading(at=at) if at else None
    return None


def _singular(unit: str) -> str:
    unit = unit.lower()
    return unit if unit in _UNITS else unit.removesuffix("s")


def _iso(text: str, now: datetime, host: tzinfo) -> Reading | None:
    match = _ISO.search(text)
    if match is None:
        return None
    try:
        day, at = date.fromisoformat(match[1]), time.fromisoformat(match[2])
        if match[3]:
            offset = "+00:00" if match[3].upper() in {"Z", "UTC"} else match[3]
            moment = datetime.fromisoformat(f"{day}T{at.isoformat()}{offset}").astimezone(UTC)
            return Reading(at=moment) if near(moment, now) else None
    except ValueError:
        return None
    zone, confidence = _zone(text[match.end() :], host)
    return _placed(day, at, zone, confidence)


def _wall(said: str, now: datetime, host: tzinfo) -> Reading | None:
    """``3am``, ``Mar 15 at 12pm (Europe/London)``, ``10 de jul. de 2026, 11:52``."""
    zone, confidence = _zone(said, host)
    local = now.astimezone(zone)
    day, rest = _date(said, local.date())
    at = _clock(rest)
    if day is not None:
        return _placed(day, at or time(0), zone, confidence)
    if at is None:
        return None
    for ahead in range(3):
        found = _placed(local.date() + timedelta(days=ahead), at, zone, confidence)
        if found.at > now:
            return found
    return None


def _placed(day: date, at: time, zone: tzinfo, confidence: Confidence) -> Reading:
    """This local time as an instant; where the clocks skip or repeat it the later one, and not quite sure."""
    both = {datetime.combine(day, at.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1)}
    if len(both) > 1 and confidence is Confidence.EXACT:
        confidence = Confidence.AMBIGUOUS
    return Reading(at=times.local_instant(day, at, zone), confidence=confidence)


def _date(said: str, today: date) -> tuple[date | None, str]:
    """The date at the beginning of the words, and the words after it."""
    plain = _without_accents(said)
    for pattern in (_MONTH_FIRST, _DAY_FIRST):
        for match in pattern.finditer(plain):
            name = match["month"].lower()
            month = _MONTHS.get(name[:4]) or _MONTHS.get(name[:3])
            if month is None:
                continue
            rest = plain[: match.start()] + " " + plain[match.end() :]
            # Without a year it is the coming one: in December a day in January is next year's, and so may be
            # 29 February, which this year does not have.
            years = [int(match["year"])] if match["year"] else [today.year, today.year + 1]
            days = [day for year in years if (day := _day(year, month, int(match["day"]))) is not None]
            coming = days if match["year"] else [day for day in days if day >= today]
            if coming:
                return coming[0], rest
    return None, plain


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _clock(said: str) -> time | None:
    for match in _CLOCK.finditer(_ZONE.sub(" ", said)):
        half = (match["half"] or "").lower()[:1]
        if not half and match["minute"] is None:
            continue  # a bare number is no clock time
        hour = int(match["hour"])
        if half and 1 <= hour <= 12:
            hour = hour % 12 + (12 if half == "p" else 0)
        minute = int(match["minute"] or 0)
        if hour < 24 and minute < 60:
            return time(hour, minute)
    return None


def _zone(said: str, host: tzinfo) -> tuple[tzinfo, Confidence]:
    """The zone named in the words. One that no database has, and none at all, is the machine's own.

    Abbreviations are taken as their rules say but count as doubtful: programs print the winter's in summer.
    """
    match = _ZONE.search(said)
    if match is None:
        return host, Confidence.HOST_ZONE
    name = next(group for group in match.groups() if group).strip()
    if name.upper() in {"UTC", "GMT", "Z"}:
        return UTC, Confidence.EXACT
    if offset := re.fullmatch(r"(?:UTC|GMT)([+-])(\d{1,2})(?::?(\d{2}))?", name, re.I):
        shift = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        if shift <= timedelta(hours=14):
            return timezone(-shift if offset[1] == "-" else shift), Confidence.EXACT
        return host, Confidence.HOST_ZONE
    try:
        # Etc/GMT+5 is five hours *behind* UTC, as the database has it.
        return ZoneInfo(name), Confidence.EXACT if "/" in name else Confidence.AMBIGUOUS
    except (KeyError, ValueError, OSError):  # unknown, no name at all, or a folder of the database
        return host, Confidence.HOST_ZONE


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
