"""Situation 12 with the messages that providers really send: fifty ready tasks meet a wall, also in the two nights in
which the clocks change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from taskfabric import runtimes
from taskfabric.domain.account import JITTER
from taskfabric.domain.card import AgentCard
from taskfabric.domain.outcome import Done, Failed
from taskfabric.domain.status import Status
from taskfabric.ports.runtime import Job, Progress, Result, Runtime
from taskfabric.runtimes.limits import Channel, Signal, classify
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from tests.integration.hiring import employ, hired, until
from tests.integration.serving import Served, serving
from tests.integration.test_worker import roster, task

MADRID: Final = ZoneInfo("Europe/Madrid")
_TASKS: Final = 50
_CLI: Final = Signal(provider="claude-cli", channel=Channel.STDERR, failed=True)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@dataclass(frozen=True, kw_only=True)
class Wall:
    """A provider's refusal, received at ``now``, and when the account is really back."""

    now: datetime
    reset: datetime
    signal: Signal


def _codex(reset: datetime) -> Signal:
    body = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached"}}
    body["error"] |= {"resets_at": int(reset.timestamp()), "plan_type": "plus"}  # type: ignore[dict-item]
    return Signal(provider="codex", channel=Channel.BODY, status=429, text=json.dumps(body))


def _cli(text: str) -> Signal:
    return Signal(provider=_CLI.provider, channel=_CLI.channel, failed=True, text=text)


WALLS: Final = {
    "a coding CLI's words, at noon": Wall(
        now=instant("2026-11-30T12:00:00+01:00"),
        reset=instant("2026-11-30T15:00:00+01:00"),
        signal=_cli("Claude usage limit reached. Your limit resets 3pm (Europe/Madrid)."),
    ),
    "a chat plan's body, at noon": Wall(
        now=instant("2026-11-30T12:00:00+01:00"),
        reset=instant("2026-11-30T16:30:00+01:00"),
        signal=_codex(instant("2026-11-30T16:30:00+01:00")),
    ),
    "words, over the night that skips an hour": Wall(
        now=instant("2026-03-28T23:30:00+01:00"),
        reset=instant("2026-03-29T04:00:00+02:00"),
        signal=_cli("Claude usage limit reached. Your limit resets 4am (Europe/Madrid)."),
    ),
    "words, over the night that repeats an hour: the later of two": Wall(
        now=instant("2026-10-24T23:30:00+02:00"),
        reset=instant("2026-10-25T02:30:00+01:00"),
        signal=_cli("Claude usage limit reached. Your limit resets 2:30am (Europe/Madrid)."),
    ),
    "a body, over the night that repeats an hour": Wall(
        now=instant("2026-10-24T23:30:00+02:00"),
        reset=instant("2026-10-25T03:10:00+01:00"),
        signal=_codex(instant("2026-10-25T03:10:00+01:00")),
    ),
}


@dataclass
class Provider:
    """Refuses until its reset, by the board's clock; its answers are classified as a runtime does it."""

    wall: Wall
    now: Callable[[], datetime]
    early: bool = False  # the window is restarted half-way
    asked: list[datetime] = field(default_factory=list)

    def make(self, card: AgentCard, *, clock: Callable[[], datetime], keep: Path | None = None) -> Runtime:
        return _Runtime(self)

    def answers(self) -> bool:
        now = self.now()
        self.asked.append(now)
        half = self.wall.now + (self.wall.reset - self.wall.now) / 2
        return now >= (half if self.early else self.wall.reset)


class _Runtime:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        if self._provider.answers():
            return Result(outcome=Done(note="answered"))
        limit = classify(self._provider.wall.signal, now=self._provider.now(), host=MADRID)
        return Result(outcome=Failed(error="refused"), limit=limit)

    def close(self) -> None:
        pass


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    with serving(database.dsn, tmp_path) as made:
        yield made


def met(served: Served, wall: Wall, database: TestDatabase, patch: pytest.MonkeyPatch, **more: Any) -> Provider:
    """The board stands at the wall's moment, and the provider behind it is asked by all runtimes."""
    database.clock.set(wall.now)
    provider = Provider(wall=wall, now=served.house.board.now, **more)
    patch.setattr(runtimes, "make", provider.make)
    return provider


def submitted(served: Served) -> list[int]:
    with served.fabric("alice") as alice:
        many = tuple(verbs.Submit(title=f"task {n}", to="ada") for n in range(_TASKS))
        return [one.task.id for one in alice.call(verbs.SubmitMany(tasks=many))]


def closed(served: Served) -> bool:
    row = roster(served, "ada")
    return row["open"] is False and row["running"] == 0


@pytest.mark.parametrize("wall", WALLS.values(), ids=WALLS.keys())
def test_fifty_tasks_wait_for_the_reset_and_then_all_are_done(
    served: Served, database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: Wall
) -> None:
    """Situation 12: at most one probe before the reset, all resume after it, no attempt spent. G9."""
    employ(served, tmp_path, "ada", cost="flat", account="plan", zone="Europe/Madrid")
    provider = met(served, wall, database, monkeypatch)
    numbers = submitted(served)
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: provider.asked and closed(served), what="the account closes")
        database.clock.set(wall.now + (wall.reset - wall.now) * 0.6)
        until(lambda: len(provider.asked) == 2 and closed(served), what="it is tried once before")
        database.clock.set(wall.reset - timedelta(seconds=1))
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: roster(served, "ada")["workers"], what="it reports")
        assert closed(served)
        assert len(provider.asked) == 2, "one that met the wall, and one probe"
        assert sum(task(served, n).attempts for n in numbers) == 0
        assert sum(task(served, n).not_before is not None for n in numbers) <= 2, "waiting tasks are not touched"
        # A reset in a doubled hour counts five minutes later: it is not sure which of the two was meant.
        database.clock.set(wall.reset + JITTER[1] + timedelta(minutes=5, seconds=1))
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: all(task(served, n).status is Status.DONE for n in numbers), within=60, what="all resume")
    assert {task(served, n).attempts for n in numbers} == {1}
    assert len(provider.asked) == _TASKS + 2


def test_a_window_that_was_restarted_early_is_found_by_the_one_probe(
    served: Served, database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = WALLS["a chat plan's body, at noon"]
    employ(served, tmp_path, "ada", cost="flat", account="plan")
    provider = met(served, wall, database, monkeypatch, early=True)
    numbers = submitted(served)
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: provider.asked and closed(served), what="the account closes")
        database.clock.set(wall.now + (wall.reset - wall.now) * 0.6)
        # The one that met the wall was parked until the reset; everything else goes on at once.
        until(lambda: sum(task(served, n).status is Status.DONE for n in numbers) == _TASKS - 1, what="all go on")
    assert provider.asked[-1] < wall.reset
