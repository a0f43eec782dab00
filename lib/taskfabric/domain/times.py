"""Instants and durations as people write and read them; ``now`` and the zone are arguments.

A local time that the clocks skip, or that they pass twice, means the later of its two readings: what starts an
hour late has waited, what starts an hour early runs into the wall that it was told to avoid.
"""

from __future__ import annotations

import difflib
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from taskfabric.domain.errors import BadInput

ACCEPTED: Final = (
    "write 2026-12-01T09:00:00+01:00, 2026-12-01 09:00 (your zone), 2026-12-01, "
    "+2h, +1h30m, 09:00, today 18:00, tomorrow 09:00, monday 09:00 or now"
)
ACCEPTED_DURATION: Final = "write 45s, 10m, 1h30m, 2d or 1w"

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_ISO: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[t ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
    r" ?(?P<zone>z|utc|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_SPAN: Final = re.compile(
    r"(?:(?P<weeks>[0-9]{1,9})w)?(?:(?P<days>[0-9]{1,9})d)?(?:(?P<hours>[0-9]{1,9})h)?"
    r"(?:(?P<minutes>[0-9]{1,9})m)?(?:(?P<seconds>[0-9]{1,9})s)?"
)
_DAY_AND_TIME: Final = re.compile(r"(?P<day>[a-z]+)(?: +(?:at +)?(?P<time>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?))?")
_TIME: Final = re.compile(r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?")


def parse_when(text: str, *, now: datetime, zone: tzinfo) -> datetime:
    """The instant that ``text`` names, in UTC, between the years 1970 and 9999.

    Accepted are ISO 8601 with a zone; an ISO date and time without one, read in ``zone``; a date alone, which is its
    00:00 in ``zone``; ``+90s``, ``+2h``, ``+3d``, ``+1h30m`` (elapsed time, a day is 24 hours); ``now``; ``today``,
    ``tomorrow`` or the name of a day, alone (00:00) or with a time; and a time alone. A time alone and a named day
    mean the next such instant after ``now``; ``today 09:00`` may be past. Raises BadInput for all else.
    """
    wanted = text.strip().lower()
    try:
        moment = _read(wanted, now.astimezone(zone), zone)
        if moment is not None and moment.year < 1970:
            moment = None
    except (ValueError, OverflowError):  # 30 February, 25:00, the year 10000
        moment = None
    if moment is None:
        raise BadInput(f"{_shown(text)} is not a time", next=ACCEPTED)
    return moment


def _read(wanted: str, now: datetime, zone: tzinfo) -> datetime | None:
    if wanted == "now":
        return now.astimezone(UTC)
    if wanted.startswith("+"):
        span = _span(wanted[1:])
        return None if span is None else now.astimezone(UTC) + span
    if iso := _ISO.fullmatch(wanted):
        return _read_iso(iso, zone)
    if _TIME.fullmatch(wanted):
        return _next(now, _clock(wanted), zone, weekday=None)
    if named := _DAY_AND_TIME.fullmatch(wanted):
        at = _clock(named["time"] or "00:00")
        match named["day"]:
            case "today":
                return local_instant(now.date(), at, zone)
            case "tomorrow":
                return local_instant(now.date() + timedelta(days=1), at, zone)
            case word:
                weekday = next((i for i, day in enumerate(_DAYS) if word in (day, day[:3])), None)
                return None if weekday is None else _next(now, at, zone, weekday=weekday)
    return None


def _read_iso(match: re.Match[str], zone: tzinfo) -> datetime:
    day = date.fromisoformat(match["date"])
    at = time.fromisoformat(match["time"] or "00:00")
    match match["zone"]:
        case None:
            return local_instant(day, at, zone)
        case "z" | "utc":
            return datetime.combine(day, at, UTC)
        case offset:
            # Through fromisoformat, which knows the bounds of an offset.
            return datetime.fromisoformat(f"{day}T{at.isoformat()}{offset}").astimezone(UTC)


def _next(now: datetime, at: time, zone: tzinfo, *, weekday: int | None) -> datetime | None:
    """The first instant after ``now`` at this local time, on this day of the week (None = any)."""
    for ahead in range(9):
        day = now.date() + timedelta(days=ahead)
        if weekday is None or day.weekday() == weekday:
            moment = local_instant(day, at, zone)
            if moment > now.astimezone(UTC):
                return moment
    return None


def local_instant(day: date, at: time, zone: tzinfo) -> datetime:
    """This local time as an instant: the later one where the clocks skip or repeat it."""
    return max(datetime.combine(day, at.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1))


def _clock(text: str) -> time:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return time(int(match["hour"]), int(match["minute"]), int(match["second"] or 0))


def duration(text: str) -> timedelta:
    """The length that ``10m``, ``1h30m``, ``45s`` or ``2d`` names, largest unit first. Raises BadInput for all else."""
    span = _span(text.strip().lower())
    if span is None:
        raise BadInput(f"{_shown(text)} is not a duration", next=ACCEPTED_DURATION)
    return span


def _span(text: str) -> timedelta | None:
    match = _SPAN.fullmatch(text)
    if not text or match is None:
        return None
    try:
        return timedelta(**{unit: int(count) for unit, count in match.groupdict(default="0").items()})
    except OverflowError:
        return None


def iso(moment: datetime) -> str:
    """``2026-11-30T17:00:00Z``, with a fraction only if the instant has one."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def show(moment: datetime, zone: tzinfo, now: datetime) -> str:
    """How a person in ``zone`` says it: ``today 17:10``, ``tomorrow 09:00``, ``Mon 7 Dec 09:00``.

    The year appears where it is not the present one. The zone is not named: see ``abbreviation``.
    """
    try:
        local, here = moment.astimezone(zone), now.astimezone(zone)
    except OverflowError:  # the last hours of the year 9999, east of Greenwich
        return iso(moment)
    at = f"{local.hour:02}:{local.minute:02}"
    match (local.date() - here.date()).days:
        case -1:
            return f"yesterday {at}"
        case 0:
            return f"today {at}"
        case 1:
            return f"tomorrow {at}"
        case _:
            year = "" if local.year == here.year else f" {local.year}"
            weekday = _DAYS[local.weekday()][:3].capitalize()
            return f"{weekday} {local.day} {_MONTHS[local.month - 1]}{year} {at}"


def abbreviation(moment: datetime, zone: tzinfo) -> str:
    """What the zone is called at that instant: ``CET``, ``CEST``, or its offset where it has no name."""
    try:
        return moment.astimezone(zone).tzname() or "UTC"
    except OverflowError:
        return "UTC"


def ago(moment: datetime, now: datetime) -> str:
    """The distance in its largest whole unit: ``3 min ago``, ``in 8 min``, ``now`` within a second."""
    seconds = int(abs(moment - now) / timedelta(seconds=1))
    if seconds == 0:
        return "now"
    if seconds < 60:
        size = f"{seconds} s"
    elif seconds < 3600:
        size = f"{seconds // 60} min"
    elif seconds < 48 * 3600:
        size = f"{seconds // 3600} h"
    else:
        size = f"{seconds // 86400} days"
    return f"in {size}" if moment > now else f"{size} ago"


def zone_of(name: str) -> ZoneInfo:
    """The zone with this IANA name. Raises BadInput with the nearest known name for another."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; NUL, surrogates, ``..``; a folder such as ``Europe``
        raise BadInput(f"{_shown(name)} is not a known time zone", next=_nearest_zone(name)) from None


def _nearest_zone(name: str) -> str:
    by_folded = {known.lower(): known for known in available_timezones()}
    by_city = {known.rpartition("/")[2]: known for known in sorted(by_folded)}
    wanted = name[:64].strip().lower().replace(" ", "_")
    near = difflib.get_close_matches(wanted, [*by_folded, *by_city], n=1, cutoff=0.7)
    if not near:
        return "use an IANA name such as Europe/Berlin or UTC"
    known = near[0] if near[0] in by_folded else by_city[near[0]]
    return f"did you mean {by_folded[known]}?"


def _shown(text: str) -> str:
    """At most 40 characters of what was given, with everything unprintable escaped."""
    return repr(text[:40]) + ("…" if len(text) > 40 else "")
