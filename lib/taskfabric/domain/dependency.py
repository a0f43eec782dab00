"""What the end of one task does to those that wait for it."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from taskfabric.domain.status import Flag, Status


class Effect(StrEnum):
    """What a blocker's new status means for a dependent."""

    SATISFY = "satisfy"  # one blocker less
    BREAK = "break"  # it can never be satisfied: the dependent is held for a human
    WAIT = "wait"  # still open


def effect_of(blocker: Status, flags: Flag, *, needs_verified: bool) -> Effect:
    """Only "is blocked by" gates, and only a blocker done without veto releases (or a verified one, where the queue
    asks for it). A blocker that ends otherwise breaks the dependency; nothing is promoted because a set is empty."""
    match blocker:
        case Status.DONE:
            if Flag.VETO in flags:
                return Effect.BREAK
            return Effect.WAIT if needs_verified else Effect.SATISFY
        case Status.VERIFIED:
            return Effect.BREAK if Flag.VETO in flags else Effect.SATISFY
        case Status.DEAD | Status.CANCELLED | Status.REJECTED | Status.RECORD:
            return Effect.BREAK
        case Status.BACKLOG | Status.READY | Status.HELD | Status.WORKING | Status.WAITING:
            return Effect.WAIT
        case _:
            assert_never(blocker)


def broken_reason(blocker: int, status: Status, flags: Flag) -> str:
    """Why a dependent is held, for people."""
    how = "ended with a veto" if Flag.VETO in flags else f"is {status}"
    return f"#{blocker}, which blocks it, {how}"
