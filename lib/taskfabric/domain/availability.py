"""a(t): whether an agent may start work, composed of parts that must all be open. Pure; every instant is an argument.

    parts = [paused(...), waking(card.hours, card.zone, now), account.part(now), ...]
    now_open = compose(parts)
    opening(lambda t: parts_at(t), now)      # when it will open, also across several reasons

A part is closed until an instant, or until somebody acts (None).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from taskfabric.domain.card import AgentCard, Cost, Hours

_STEPS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One condition of a(t)."""

    name: str
    open: bool = True
    until: datetime | None = None  # closed until then; None = until somebody acts
    reason: str = ""
    next: str = ""  # what would open it
    background: bool = False  # closed for background work only; interactive work may start

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "open": self.open,
            "until": None if self.until is None else self.until.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "reason": self.reason,
            "next": self.next,
            "background": self.background,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """a(t) at one moment."""

    open: bool  # interactive work may start
    background: bool  # so may background work
    until: datetime | None = None  # while anything is closed: when that ends; None = unknown
    reason: str = ""
    parts: tuple[Part, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "open": self.open,
            "background": self.background,
            "until": None if self.until is None else self.until.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "reason": self.reason,
            "parts": [part.to_json() for part in self.parts],
        }


def compose(parts: Sequence[Part]) -> Availability:
    """All parts must be open. ``until`` is the last of the instants, unless one of them is unknown; the reason is the
    one that lasts longest, and what closes everything comes before what closes only background work."""
    shut = [part for part in parts if not part.open]
    hard = [part for part in shut if not part.background]
    told = hard or shut
    first = max(told, key=_lasting, default=None)
    unknown = any(part.until is None for part in told)
    return Availability(
        open=not hard,
        background=not shut,
        until=None if unknown or not told else max(part.until for part in told if part.until is not None),
        reason="" if first is None else first.reason,
        parts=tuple(parts),
    )


def _lasting(part: Part) -> tuple[bool, datetime]:
    return (part.until is None, part.until or datetime.min.replace(tzinfo=UTC))


def opening(parts_at: Callable[[datetime], Sequence[Part]], now: datetime) -> datetime | None:
    """The first instant from ``now`` on at which everything is open for interactive work; None = nobody knows.

    Where one reason ends another may begin (a quota resets at night, the owner sleeps), so each end is looked at."""
    moment = now
    for _ in range(_STEPS):
        found = compose(parts_at(moment))
        if found.open:
            return moment
        if found.until is None:
            return None
        moment = max(found.until, moment + timedelta(seconds=1))
    return None


# -- the parts that need nothing but the card ------------------------------------------------------------


def switched_on(card: AgentCard) -> Part:
    """The card is enabled, and what costs money was allowed."""
    if not card.enabled:
        return Part(
            name="card",
            open=False,
            reason="its card is not enabled",
            next=f"set enabled = true in {card.name}.toml",
        )
    if card.cost is Cost.METERED and not card.allow_metered:
        return Part(
            name="card",
            open=False,
            reason="it is metered, and its card does not allow that",
            next=f"set allow_metered = true in {card.name}.toml",
        )
    return Part(name="card")


def waking(hours: Hours | None, zone: str, now: datetime) -> Part:
    """Open within the waking hours; else closed until they begin next. Days are those on which the hours begin."""
    if hours is None:
        return Part(name="hours")
    where = ZoneInfo(zone)
    today = now.astimezone(where).date()
    for ahead in range(-1, 9):
        day = today + timedelta(days=ahead)
        if day.weekday() not in hours.days:
            continue
        begin = local_instant(day, hours.begin, where)
        over = timedelta(days=1 if hours.end <= hours.begin else 0)
        end = local_instant(day + over, hours.end, where)
        if begin <= now < end:
            return Part(name="hours")
        if begin > now:
            return Part(name="hours", open=False, until=begin, reason="outside its waking hours")
    return Part(name="hours", open=False, reason="it has no waking hours")


def local_instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """This local time as an instant in UTC: the later one where the clocks skip or repeat it."""
    return max(datetime.combine(day, at.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1))


def paused(until: datetime | None, by: str, note: str, *, human: bool = False) -> Part:
    """A human has stopped it; for a human's own card that is his vacation."""
    word = "away" if human else f"paused by {by}"
    return Part(
        name="vacation" if human else "pause",
        open=False,
        until=until,
        reason=word + (f": {note}" if note else ""),
        next="`fabric resume` opens it",
    )


# -- residency: may this model be loaded beside what is loaded? ----------------------------------------------


def residency(
    card: AgentCard, loaded: Collection[str], cards: Mapping[str, AgentCard], *, gpu_mb: int | None, ram_mb: int | None
) -> tuple[Part, tuple[str, ...]]:
    """Whether the card's model fits, and which loaded cards are to be unloaded first, the fewest megabytes wasted.

    ``gpu_mb`` and ``ram_mb`` are the sizes of the whole; None = unknown, then nothing is held against it. Cards that
    keep loaded are never evicted; others stay only if each of them and this one allow each other.
    """
    if card.name in loaded or not (card.gpu_mb or card.ram_mb):
        return Part(name="residency"), ()
    others = [cards[name] for name in sorted(loaded) if name in cards]
    strangers = [other for other in others if not _together(card, other)]
    fixed = [other for other in strangers if other.keep_loaded]
    if fixed:
        names = ", ".join(other.name for other in fixed)
        return _no_room(f"{names} stays loaded and is not one of those it may stand beside"), ()
    evicted = list(strangers)
    staying = [other for other in others if other not in evicted]
    while not _fits([card, *staying], gpu_mb, ram_mb):
        movable = sorted((o for o in staying if not o.keep_loaded), key=lambda o: (-o.gpu_mb, -o.ram_mb, o.name))
        if not movable:
            return _no_room(_shortage(card, staying, gpu_mb, ram_mb)), ()
        staying.remove(movable[0])
        evicted.append(movable[0])
    return Part(name="residency"), tuple(other.name for other in evicted)


def _together(one: AgentCard, other: AgentCard) -> bool:
    # Only what uses the GPU contends for it; memory alone is a matter of size.
    return not (one.gpu_mb and other.gpu_mb) or (one.name in other.beside or other.name in one.beside)


def _fits(cards: Sequence[AgentCard], gpu_mb: int | None, ram_mb: int | None) -> bool:
    needed_gpu, needed_ram = sum(c.gpu_mb for c in cards), sum(c.ram_mb for c in cards)
    return (gpu_mb is None or needed_gpu <= gpu_mb) and (ram_mb is None or needed_ram <= ram_mb)


def _shortage(card: AgentCard, staying: Sequence[AgentCard], gpu_mb: int | None, ram_mb: int | None) -> str:
    has = ", ".join(
        f"{size} MB of {what}" for what, size in (("GPU memory", gpu_mb), ("memory", ram_mb)) if size is not None
    )
    beside = f" beside {', '.join(c.name for c in staying)}" if staying else ""
    return f"{card.name} needs {card.gpu_mb} MB of GPU memory and {card.ram_mb} MB of memory{beside}; there are {has}"


def _no_room(reason: str) -> Part:
    return Part(name="residency", open=False, reason=reason, next="unload another model, or change the card")
