"""A schedule: a task that is submitted again and again, and what becomes of each instant that it names.

A slot is such an instant, in UTC. It yields at most one task (G12): ``due`` → ``made``; or it is ``missed`` (it came
too late), ``skipped`` (the task of before is still open), or ``waiting`` for that one to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never


class Missed(StrEnum):
    """What becomes of slots for which it is too late."""

    RECORD = "record"  # each is written down, none runs
    LATEST_ONCE = "latest-once"  # the latest of them runs, once


class Overlap(StrEnum):
    """What becomes of a slot while the task of an earlier one is still open."""

    SKIP = "skip"  # nothing, and that is written down
    QUEUE_ONE = "queue-one"  # one waits for its end; the others are skipped
    PARALLEL = "parallel"  # it runs beside it


class SlotState(StrEnum):
    """What a slot has come to."""

    DUE = "due"  # its task is about to be made
    MADE = "made"
    MISSED = "missed"
    SKIPPED = "skipped"
    WAITING = "waiting"  # for the task of an earlier slot to end


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One entry of ``schedules.toml``."""

    name: str
    cron: str  # five fields, as cron reads them
    title: str
    to: str
    for_: str = ""  # whose task it is: "" = the household's
    zone: str = "UTC"  # IANA
    description: str = ""
    priority: int = 1
    score: int | None = None
    tier: str = ""
    needs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    grace: timedelta = timedelta(minutes=10)  # how late a slot may still run
    missed: Missed = Missed.RECORD
    overlap: Overlap = Overlap.SKIP
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """An instant of a schedule, and what became of it."""

    schedule: str
    at: datetime
    state: SlotState
    reason: str = ""
    task_id: int | None = None


def decide(schedule: Schedule, slots: Sequence[datetime], now: datetime, *, running: bool, waiting: bool) -> list[Slot]:
    """What becomes of each new slot, oldest first. ``running``: a task of an earlier slot is open; ``waiting``: a slot
    waits for it already."""
    fresh = [at for at in slots if now - at <= schedule.grace]
    if not fresh and slots and schedule.missed is Missed.LATEST_ONCE:
        fresh = [slots[-1]]
    found: list[Slot] = []
    for at in slots:
        if at not in fresh:
            late, grace = ((span // timedelta(minutes=1)) for span in (now - at, schedule.grace))
            state, reason = SlotState.MISSED, f"{late} min late, the grace is {grace} min"
        elif not running or schedule.overlap is Overlap.PARALLEL:
            state, reason, running = SlotState.DUE, "", True
        else:
            match schedule.overlap:
                case Overlap.SKIP:
                    state, reason = SlotState.SKIPPED, "the task of an earlier slot is still open"
                case Overlap.QUEUE_ONE if waiting:
                    state, reason = SlotState.SKIPPED, "one slot waits already"
                case Overlap.QUEUE_ONE:
                    state, reason, waiting = SlotState.WAITING, "the task of an earlier slot is still open", True
                case _:
                    assert_never(schedule.overlap)
        found.append(Slot(schedule=schedule.name, at=at, state=state, reason=reason))
    return found
