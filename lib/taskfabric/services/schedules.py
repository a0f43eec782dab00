"""Schedules: reading ``schedules.toml`` strictly, and which instants a cron line names.

The zone's change of clocks is cronsim's to know: a repeated local hour counts once for a line that names its hour, a
missing one means the next valid minute.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final

from cronsim import CronSim, CronSimError

from taskfabric.domain.errors import BadInput
from taskfabric.domain.schedule import Missed, Overlap, Schedule
from taskfabric.domain.target import NAME, Target, checked_need, checked_tier
from taskfabric.domain.times import duration, zone_of

MOST: Final = 1000  # slots of one schedule that are looked at in one tick

_KEYS: Final = tuple(field.name.rstrip("_") for field in fields(Schedule) if field.name != "name")
_MUST: Final = ("cron", "title", "to")


def read(text: str, source: str) -> dict[str, Schedule | BadInput]:
    """The schedules of a file by name; one that is wrong is its error, and stops no other.

    Raises BadInput when the file as a whole is no TOML or not made of ``[name]`` tables."""
    try:
        tree = tomllib.loads(text)
    except ValueError as cause:
        raise BadInput(f"{source} is not valid TOML: {cause}", source=source) from cause
    found: dict[str, Schedule | BadInput] = {}
    for name, table in tree.items():
        try:
            if not isinstance(table, dict):
                raise BadInput(f"{source}: {name[:40]!r} is not a schedule", next="write it as [name] with its keys")
            found[name] = _schedule(name, table, source)
        except BadInput as error:
            found[name] = error
    return found


def _schedule(name: str, table: Mapping[str, Any], source: str) -> Schedule:
    where = f"{source}: schedule {name[:40]!r}"
    if not NAME.fullmatch(name):
        raise BadInput(f"{where}: a name is made of a-z, 0-9, '.', '_' and '-'")
    for key in table:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS)}"
            raise BadInput(f"{where} has no key {key[:40]!r}", next=hint, schedule=name)
    for key in _MUST:
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise BadInput(f"{where} needs {key}, a text", schedule=name)
    cron = str(table["cron"])
    try:
        made = Schedule(name=name, **{_field(key): _value(key, value) for key, value in table.items()})
        zone = zone_of(made.zone)
        Target.parse(made.to)
        next(CronSim(made.cron, datetime(2026, 1, 1, tzinfo=zone)))
    except CronSimError as error:
        raise BadInput(
            f"{where}: {cron[:40]!r} is no cron line ({error})",
            next='five fields: minute hour day month weekday, such as "30 7 * * 1-5"',
            schedule=name,
        ) from error
    except StopIteration:
        raise BadInput(f"{where}: {cron[:40]!r} names no instant at all", schedule=name) from None
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", next=error.next, schedule=name) from error
    return made


def _field(key: str) -> str:
    return "for_" if key == "for" else key  # a word of Python


def _value(key: str, value: Any) -> Any:
    match key:
        case "priority" if type(value) is int and 0 <= value <= 3:
            return value
        case "score" if type(value) is int and 0 <= value <= 1000:
            return value
        case "enabled" if isinstance(value, bool):
            return value
        case "needs" | "tags" | "refs" if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(checked_need(word) for word in value) if key == "needs" else tuple(value)
        case "grace" if isinstance(value, str):
            return duration(value)
        case "tier" if isinstance(value, str):
            return checked_tier(value) if value else value
        case "missed" if value in set(Missed):
            return Missed(value)
        case "overlap" if value in set(Overlap):
            return Overlap(value)
        case "for" if isinstance(value, str) and NAME.fullmatch(value):
            return value
        case "cron" | "title" | "to" | "zone" | "description" if isinstance(value, str):
            return value
    raise BadInput(f"{key} cannot be {value!r:.60}", next=_EXPECTED.get(key, "write a text"))


_EXPECTED: Final = {
    "priority": "a whole number from 0 to 3",
    "score": "a whole number from 0 to 1000",
    "enabled": "true or false",
    "needs": "a list of texts",
    "tags": "a list of texts",
    "refs": "a list of texts",
    "for": "the name of a person",
    "grace": 'a duration such as "10m"',
    "missed": "one of " + ", ".join(Missed),
    "overlap": "one of " + ", ".join(Overlap),
}


def slots(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """The instants in (after, until] that the schedule names, in UTC, oldest first; at most ``MOST``, then the rest is
    found from the last one on. Each local time is named once, however often the clocks show it."""
    found: list[datetime] = []
    for moment in _instants(schedule, after):
        if moment > until or len(found) == MOST:
            break
        found.append(moment)
    return found


def next_slot(schedule: Schedule, after: datetime) -> datetime | None:
    """The first instant after this one that the schedule names."""
    return next(_instants(schedule, after), None)


def _instants(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    zone = zone_of(schedule.zone)
    last = after
    for local in CronSim(schedule.cron, after.astimezone(zone)):
        moment = local.astimezone(UTC)
        # Asked within a repeated hour, the line is read in its second pass, which a named hour does not have.
        if moment > last and not _second_pass(schedule, local):
            last = moment
            yield moment


def _second_pass(schedule: Schedule, local: datetime) -> bool:
    """Whether a line that names its hours meets one of them for the second time in one night."""
    named = not schedule.cron.split()[1].startswith("*")
    return named and local.fold == 1
