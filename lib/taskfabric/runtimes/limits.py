"""The classifier of providers' limits: the one place where "the quota is spent" is recognised.

    structured body  ->  headers  ->  text

It says what an answer means for the *account*: nothing, stop background work, wait a moment, the provider has trouble,
or closed until an instant. Text counts only where a program or a provider speaks for itself: in the body of a refusal,
on a program's error channel, or at the end of the output of a program that failed. A model that quotes the words of a
limit, or a log that holds them, means nothing.
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any, Final

from taskfabric.domain.limit import Confidence, Limit, LimitClass
from taskfabric.runtimes import limit_words, reset_times
from taskfabric.runtimes.limit_headers import from_headers, learned, window_of

log = logging.getLogger(__name__)

_TAIL_LINES: Final = 12  # a program that ends because of a limit says so at its end
_TAIL_CHARS: Final = 4000
_LINE: Final = 600  # a line longer than this is content, not a message
_PLANS: Final = ("claude", "codex")  # subscriptions with a five-hour and a weekly window
_OVERLOADED: Final = frozenset({502, 503, 504, 529})
_MEANT: Final = {
    LimitClass.OK: "within its limits",
    LimitClass.WARNING: "close to a limit",
    LimitClass.THROTTLE: "asked to wait",
    LimitClass.OVERLOAD: "overloaded",
    LimitClass.EXHAUSTED: "usage limit reached",
    LimitClass.UNKNOWN: "refused",
}


class Channel(StrEnum):
    """Where a text was read."""

    BODY = "body"  # of an HTTP answer, or of a program's structured error
    STDERR = "stderr"
    STDOUT = "stdout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What a provider, or the program that speaks to it, answered."""

    provider: str = ""  # claude-cli, codex, kimi, openai, …; "" = not known
    channel: Channel = Channel.BODY
    status: int | None = None  # of HTTP; None = there was none
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    failed: bool = False  # the program ended with a failure


def classify(signal: Signal, *, now: datetime, host: tzinfo) -> Limit:
    """What the signal means. ``now`` is when it was received; ``host`` the zone in which unnamed clock times are read.

    The reset is None when the provider named none; then its confidence is unknown. ``Limit.reopens`` is when to try.
    The evidence is in our words; the provider's are in the log.
    """
    headers = {key.lower(): value for key, value in signal.headers.items()}
    found = _classified(signal, headers, now, host)
    if found.evidence:
        if found.cls is not LimitClass.OK:
            log.info("limit met provider=%s class=%s said=%s", signal.provider, found.cls, found.evidence)
        found = replace(found, evidence=_in_our_words(found, signal))
    return replace(found, learned=learned(headers, now=now)) if headers else found


def _in_our_words(limit: Limit, signal: Signal) -> str:
    """What was met, for cards and for availability, which others read: what it was read from may hold anything."""
    parts = (_MEANT[limit.cls], limit.window, f"HTTP {signal.status}" if signal.status else "")
    return ", ".join(part for part in parts if part)


def _classified(signal: Signal, headers: Mapping[str, str], now: datetime, host: tzinfo) -> Limit:
    body = _structure(signal.text) if signal.channel is Channel.BODY else None
    if body is not None and (found := _from_body(body, signal, headers, now, host)):
        return found
    if found := from_headers(headers, status=signal.status, now=now):
        return found
    if found := _from_text(signal, now, host):
        return found
    refused = signal.failed or (signal.status is not None and signal.status >= 400)
    if signal.status in _OVERLOADED:
        return Limit(cls=LimitClass.OVERLOAD, evidence=f"HTTP {signal.status}")
    if signal.status == 429 and not headers:
        return Limit(cls=LimitClass.THROTTLE, evidence="HTTP 429")
    return Limit(cls=LimitClass.UNKNOWN if refused else LimitClass.OK)


# ---------------------------------------------------------------- structured bodies


def _structure(text: str) -> dict[str, Any] | None:
    """The object in the text: JSON, or as a Python program prints it."""
    begin, end = text.find("{"), text.rfind("}")
    if not 0 <= begin < end or end - begin > 100_000:
        return None
    try:
        found = json.loads(text[begin : end + 1])
    except ValueError:
        try:
            found = ast.literal_eval(text[begin : end + 1])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def _from_body(
    body: Mapping[str, Any], signal: Signal, headers: Mapping[str, str], now: datetime, host: tzinfo
) -> Limit | None:
    """Only what the body decides by itself: an instant, or a type that means one thing."""
    if signal.status is not None and signal.status < 400:
        return None
    error = body.get("error")
    shape: Mapping[str, Any] = error if isinstance(error, dict) else body
    kind = " ".join(str(shape.get(key, "")) for key in ("type", "code", "status"))
    message = str(shape.get("message") or (error if isinstance(error, str) else ""))
    evidence = f"{kind.strip()}: {message}"
    reset = reset_times.epoch(shape.get("resets_at"), now=now) or reset_times.delay(
        shape.get("resets_in_seconds"), now=now
    )
    cls = limit_words.class_of(f"{kind} {message}")
    if reset is not None:
        if cls not in {LimitClass.THROTTLE, LimitClass.OVERLOAD}:
            cls = LimitClass.EXHAUSTED
        return _limit(cls, signal, f"{kind} {message}", reset_times.Reading(at=reset), evidence, now)
    spelled = reset_times.in_words(message, now=now, host=host) or _retry_delay(shape, now)
    if cls in {LimitClass.EXHAUSTED, LimitClass.OVERLOAD} or (cls is LimitClass.THROTTLE and spelled):
        if spelled is None and (by_header := from_headers(headers, status=signal.status, now=now)):
            spelled = reset_times.Reading(at=by_header.reset) if by_header.reset else None
        return _limit(cls, signal, f"{kind} {message}", spelled, evidence, now)
    return None


def _retry_delay(shape: Mapping[str, Any], now: datetime) -> reset_times.Reading | None:
    """Google's way: a detail ``{"retryDelay": "34s"}``."""
    details = shape.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and (at := reset_times.go_duration(str(detail.get("retryDelay", "")), now=now)):
            return reset_times.Reading(at=at)
    return None


# ---------------------------------------------------------------- text


def _from_text(signal: Signal, now: datetime, host: tzinfo) -> Limit | None:
    """The last message about a limit that is the program's or the provider's own."""
    for line in reversed(_own_lines(signal)):
        cls = limit_words.class_of(line)
        if cls is None:
            continue
        reading = reset_times.in_words(line, now=now, host=host)
        if cls is LimitClass.THROTTLE and reading and reading.at - now > timedelta(hours=1):
            cls = LimitClass.EXHAUSTED  # nobody means a burst by that
        return _limit(cls, signal, line, reading, line, now)
    return None


def _own_lines(signal: Signal) -> list[str]:
    match signal.channel:
        case Channel.BODY:
            refused = signal.failed or signal.status is None or signal.status >= 400
            return [signal.text[:_TAIL_CHARS]] if refused else []
        case Channel.STDOUT if not signal.failed:
            return []
        case Channel.STDERR | Channel.STDOUT:
            lines = [line.strip() for line in signal.text[-_TAIL_CHARS:].splitlines() if line.strip()]
            return [line for line in lines[-_TAIL_LINES:] if len(line) <= _LINE and limit_words.own_words(line)]


def _limit(
    cls: LimitClass, signal: Signal, words: str, reading: reset_times.Reading | None, evidence: str, now: datetime
) -> Limit:
    window = limit_words.window_in(words)
    if reading is None:
        return Limit(cls=cls, window=window, evidence=evidence.strip()[:200])
    limit = Limit(
        cls=cls, window=window, reset=reading.at, confidence=reading.confidence, evidence=evidence.strip()[:200]
    )
    if cls is LimitClass.THROTTLE and not window:
        return replace(limit, window="short")
    left = reading.at - now
    sure = reading.confidence is Confidence.EXACT or left > timedelta(days=1)
    several = len([w for w in ("5h", "week") if w in words]) > 1
    if not window and sure and not several and signal.provider.startswith(_PLANS):
        limit = replace(limit, window=_plan_window(left))
    if limit.window == "five_hour" and left > timedelta(hours=5, minutes=15):
        # The next occurrence of a time that has just passed: it may well open before.
        limit = replace(limit, confidence=Confidence.AMBIGUOUS)
    return limit


def _plan_window(left: timedelta) -> str:
    return "five_hour" if window_of(left) in {"minute", "hourly", "five_hour"} else "weekly"
