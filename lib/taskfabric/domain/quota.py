"""Quota windows, and the governor: near the end of a window interactive work goes before background work. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from taskfabric.domain.availability import Part
from taskfabric.domain.card import Window

_LATE = 0.2  # the last part of a window, in which unused quota is about to lapse
_PLENTY = 0.5  # and how much of it must be left for background work then


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A window at one moment: since when its use counts."""

    window: Window
    since: datetime
    end: datetime | None  # of a calendar window; a rolling one ends when its oldest use leaves it


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What was spent and reserved in a span, in the window's unit."""

    span: Span
    amount: int
    interactive: int  # of it
    oldest: datetime | None  # the first use that still counts


def span_of(window: Window, zone: str, now: datetime) -> Span:
    """The span that ``now`` lies in. A calendar window begins and ends at local midnight, whatever the clocks do."""
    if not window.calendar:
        return Span(window=window, since=now - window.length, end=None)
    where = ZoneInfo(zone)
    today = now.astimezone(where).date()
    match window.calendar:
        case "day":
            begin, end = today, today + timedelta(days=1)
        case "week":
            begin = today - timedelta(days=today.weekday())
            end = begin + timedelta(days=7)
        case _:
            begin = today.replace(day=1)
            end = (begin + timedelta(days=32)).replace(day=1)
    return Span(window=window, since=_midnight(begin, where), end=_midnight(end, where))


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    """When the day begins: the first of two midnights, the end of the gap where there is none (both are fold 0)."""
    return datetime.combine(day, time(0), zone).astimezone(UTC)


def resets(used: Used, now: datetime) -> datetime:
    """When the window has room again at the latest: its calendar end, or when its oldest use leaves it."""
    if used.span.end is not None:
        return used.span.end
    return (used.oldest or now) + used.span.window.length


def share_left(used: Used) -> float:
    """The part of the limit that is neither spent nor reserved, 0 to 1."""
    return max(0.0, 1.0 - used.amount / used.span.window.limit)


def time_left(used: Used, now: datetime) -> float:
    """The part of the window that is still to come, 0 to 1."""
    begin = used.span.since if used.span.end is not None else (used.oldest or now)
    length = resets(used, now) - begin
    return min(1.0, max(0.0, (resets(used, now) - now) / length))


def governed(used: Used, now: datetime, *, units: int = 1) -> Part:
    """Whether the window lets ``units`` more of its unit be spent.

    Interactive work goes on to the last unit. Background work stops at the reserve: the card's share, or what
    interactive work may be expected to use until the reset if that is more; in the last fifth of the window it goes on
    only while more than half is left, since that would lapse.
    """
    window, reset = used.span.window, resets(used, now)
    asked = units if window.unit == "runs" else 1  # what a run will use of the others is known only afterwards
    if used.amount + asked > window.limit:
        reason = f"the {window.name} quota is used up ({used.amount} of {window.limit} {window.unit})"
        return Part(name=f"quota {window.name}", open=False, until=reset, reason=reason)
    left, coming = share_left(used), time_left(used, now)
    if coming <= _LATE:
        least = _PLENTY
    else:
        gone = 1.0 - coming
        expected = used.interactive / window.limit * (coming / gone) if gone > 0 else 0.0
        least = max(window.reserve, min(expected, 1.0))
    if left > least:
        return Part(name=f"quota {window.name}")
    reason = f"{left:.0%} of the {window.name} quota is left, which is kept for urgent work"
    return Part(name=f"quota {window.name}", open=False, until=reset, reason=reason, background=True)


def windows_of(declared: Sequence[tuple[str, Window]]) -> list[tuple[str, Window]]:
    """The account's windows from the (zone, window) of all cards on it: of the same name, the first."""
    found: dict[str, tuple[str, Window]] = {}
    for zone, window in declared:
        found.setdefault(window.name, (zone, window))
    return list(found.values())


def utc(moment: datetime | None) -> str | None:
    """As it travels."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
