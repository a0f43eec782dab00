"""What the headers of a provider's answer say about its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from taskfabric.domain.limit import Confidence, Learned, Limit, LimitClass
from taskfabric.runtimes import reset_times

_UNIFIED: Final = "anthropic-ratelimit-unified-"
_CLAIMS: Final = {"five_hour": "five_hour", "seven_day": "weekly"}  # seven_day_opus and the like: by their beginning
_SLOTS: Final = ("primary", "secondary")
_BURST: Final = timedelta(hours=1)  # a provider that asks for more patience than this means a spent plan
_OVERLOADED: Final = frozenset({502, 503, 504, 529})


def from_headers(headers: Mapping[str, str], *, status: int | None, now: datetime) -> Limit | None:
    """What they say, or None when they say nothing. Keys in lower case."""
    for reader in (_unified, _codex, _axes, _retry_after):
        if found := reader(headers, status, now):
            return found
    return None


def _unified(headers: Mapping[str, str], status: int | None, now: datetime) -> Limit | None:
    """A subscription's plan: its status decides, never how full some other window is.

    That these headers are there at all is what tells a plan's limit from a burst. A refusal while the plan says
    "allowed" is a burst, so the other headers speak then.
    """
    verdict = headers.get(f"{_UNIFIED}status", "").lower()
    if verdict not in {"allowed", "allowed_warning", "rejected"}:
        return None
    if verdict == "allowed":
        if status is not None and status >= 400:
            return None
        return Limit(cls=LimitClass.OK, confidence=Confidence.EXACT, evidence=f"{_UNIFIED}status: allowed")
    claim = headers.get(f"{_UNIFIED}representative-claim", "")
    window = next((word for start, word in _CLAIMS.items() if claim.startswith(start)), claim)
    reset = reset_times.stamp(headers.get(f"{_UNIFIED}reset", ""), now=now)
    cls = LimitClass.EXHAUSTED if verdict == "rejected" else LimitClass.WARNING
    return _limit(cls, window, reset, f"{_UNIFIED}status: {verdict}, {claim}")


def _codex(headers: Mapping[str, str], status: int | None, now: datetime) -> Limit | None:
    """The fullest of two windows, each named by its length: which slot it sits in says nothing."""
    spent: list[tuple[float, str, datetime | None]] = []
    for slot in _SLOTS:
        used = _number(headers.get(f"x-codex-{slot}-used-percent"))
        minutes = _number(headers.get(f"x-codex-{slot}-window-minutes"))
        if used is None or minutes is None:
            continue
        reset = reset_times.epoch(headers.get(f"x-codex-{slot}-reset-at"), now=now) or reset_times.delay(
            headers.get(f"x-codex-{slot}-reset-after-seconds"), now=now
        )
        spent.append((used, window_of(timedelta(minutes=minutes)), reset))
    if not spent:
        return None
    full = [entry for entry in spent if entry[0] >= 100]
    if full:  # both full: open only when the later one has reset
        used, window, reset = max(full, key=lambda entry: (entry[2] or now, entry[0]))
        return _limit(LimitClass.EXHAUSTED, window, reset, f"x-codex: {window} {used:g} % used")
    if status is not None and status >= 400:
        return None
    used, window, reset = max(spent, key=lambda entry: entry[0])
    cls = LimitClass.WARNING if used >= 90 else LimitClass.OK
    return _limit(cls, window, reset, f"x-codex: {window} {used:g} % used")


def _axes(headers: Mapping[str, str], status: int | None, now: datetime) -> Limit | None:
    """Requests and tokens a minute: the axis that is at zero decides. Negative values say "no data"."""
    for family, window in (("anthropic-ratelimit-", "minute"), ("x-ratelimit-", "short")):
        spent: list[tuple[str, datetime | None]] = []
        for key, value in headers.items():
            axis = _axis(key, family, "remaining")
            if axis is None or _number(value) != 0:
                continue
            limit = _number(_value(headers, family, "limit", axis))
            if limit is not None and limit <= 0:
                continue
            reset = reset_times.stamp(_value(headers, family, "reset", axis) or "", now=now)
            spent.append((axis, reset if reset and reset > now else None))
        if not spent:
            continue
        axis, reset = max(spent, key=lambda entry: entry[1] or now)
        if status is None or status < 400:
            return _limit(LimitClass.WARNING, window, reset, f"{family}remaining-{axis}: 0")
        reset = _asked_patience(headers, now) or reset
        if reset and reset - now > _BURST:
            return _limit(LimitClass.EXHAUSTED, window_of(reset - now), reset, f"{family}remaining-{axis}: 0")
        return _limit(LimitClass.THROTTLE, window, reset, f"{family}remaining-{axis}: 0")
    return None


def _axis(key: str, family: str, part: str) -> str | None:
    """``tokens`` of ``x-ratelimit-remaining-tokens`` and of ``anthropic-ratelimit-tokens-remaining``."""
    if not key.startswith(family):
        return None
    rest = key.removeprefix(family)
    if rest.startswith(f"{part}-"):
        return rest.removeprefix(f"{part}-")
    return rest.removesuffix(f"-{part}") if rest.endswith(f"-{part}") else None


def _value(headers: Mapping[str, str], family: str, part: str, axis: str) -> str | None:
    return headers.get(f"{family}{part}-{axis}") or headers.get(f"{family}{axis}-{part}")


def _retry_after(headers: Mapping[str, str], status: int | None, now: datetime) -> Limit | None:
    """Only on a refusal; zero means "on your own schedule", never "at once"."""
    asked = headers.get("retry-after-ms") or headers.get("retry-after")
    if asked is None or status is None or status < 400 or status in {401, 403, 404}:
        return None
    evidence = f"retry-after: {asked}"
    reset = _asked_patience(headers, now)
    if status in _OVERLOADED:
        return _limit(LimitClass.OVERLOAD, "", reset, evidence)
    if reset and reset - now > _BURST:
        return _limit(LimitClass.EXHAUSTED, window_of(reset - now), reset, evidence)
    return _limit(LimitClass.THROTTLE, "short", reset, evidence)


def _asked_patience(headers: Mapping[str, str], now: datetime) -> datetime | None:
    if milliseconds := _number(headers.get("retry-after-ms")):
        return reset_times.delay(milliseconds / 1000, now=now)
    asked = headers.get("retry-after", "")
    reset = reset_times.delay(asked, now=now) or reset_times.stamp(asked, now=now)
    return reset if reset and reset > now else None


def window_of(length: timedelta) -> str:
    """The name of a window by its length, or by the time left in it: at most that long."""
    for name, longest in _LENGTHS:
        if length <= longest:
            return name
    return "monthly"


_LENGTHS: Final = (
    ("minute", timedelta(minutes=1)),
    ("hourly", timedelta(hours=1)),
    ("five_hour", timedelta(hours=5, minutes=1)),
    ("daily", timedelta(days=1)),
    ("weekly", timedelta(days=7, hours=1)),
)


# ---------------------------------------------------------------- how full the windows are

_PLAN_WINDOWS: Final = (("5h", "five_hour"), ("7d", "weekly"))
_MOST: Final = 8  # windows of one answer


def learned(headers: Mapping[str, str], *, now: datetime) -> tuple[Learned, ...]:
    """How full each window is, as far as the headers say; also of an answer that met no limit. Keys in lower case."""
    found: dict[str, Learned] = {}
    for slot, window in _PLAN_WINDOWS:
        used = _number(headers.get(f"{_UNIFIED}{slot}-utilization"))
        if used is not None and used >= 0:
            reset = reset_times.stamp(headers.get(f"{_UNIFIED}{slot}-reset", ""), now=now)
            found[window] = Learned(window=window, used=min(1.0, used), reset=reset)
    for slot in _SLOTS:
        percent = _number(headers.get(f"x-codex-{slot}-used-percent"))
        minutes = _number(headers.get(f"x-codex-{slot}-window-minutes"))
        if percent is not None and minutes is not None and percent >= 0:
            reset = reset_times.epoch(headers.get(f"x-codex-{slot}-reset-at"), now=now) or reset_times.delay(
                headers.get(f"x-codex-{slot}-reset-after-seconds"), now=now
            )
            window = window_of(timedelta(minutes=minutes))
            found[window] = Learned(window=window, used=min(1.0, percent / 100), reset=reset)
    for family in ("anthropic-ratelimit-", "x-ratelimit-"):
        for key, value in headers.items():
            axis = None if key.startswith(_UNIFIED) else _axis(key, family, "remaining")
            left = _number(value)
            most = None if axis is None else _number(_value(headers, family, "limit", axis))
            if axis is None or left is None or left < 0 or most is None or most <= 0:
                continue  # negative values and zeros say "no data"
            reset = reset_times.stamp(_value(headers, family, "reset", axis) or "", now=now)
            used = min(1.0, max(0.0, 1 - left / most))
            found[axis] = Learned(window=axis[:40], used=used, amount=int(most), reset=reset)
    return tuple(list(found.values())[:_MOST])


def _number(text: str | None) -> float | None:
    """A finite number that a header can mean, or None."""
    try:
        value = float(text.rstrip("%")) if text is not None else math.nan
    except ValueError:
        return None
    return value if abs(value) < 1e9 else None  # also for what is no number at all


def _limit(cls: LimitClass, window: str, reset: datetime | None, evidence: str) -> Limit:
    return Limit(
        cls=cls,
        window=window,
        reset=reset,
        confidence=Confidence.EXACT if reset else Confidence.UNKNOWN,
        evidence=evidence[:200],
    )
