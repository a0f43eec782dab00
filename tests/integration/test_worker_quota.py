"""A worker that meets its provider's limit: the account closes, nothing is spent, and it opens again. Situation 12."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric import runtimes
from taskfabric.domain.card import AgentCard
from taskfabric.domain.limit import Confidence, Limit, LimitClass
from taskfabric.domain.outcome import Done, Failed
from taskfabric.domain.status import Status
from taskfabric.ports.runtime import Job, Progress, Result, Runtime
from taskfabric.testing import TestDatabase
from tests.integration.hiring import employ, hired, until
from tests.integration.serving import Served, serving
from tests.integration.test_worker import comments, roster, submit, task


@dataclass
class Provider:
    """A provider whose quota the test sets; the runtimes of all workers ask it."""

    limit: Limit | None = None
    asked: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self, card: AgentCard, *, clock: Callable[[], datetime], keep: Path | None = None) -> Runtime:
        return _Runtime(self)


class _Runtime:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        with self._provider.lock:
            self._provider.asked.append(job.task.title)
            limit = self._provider.limit
        if limit is None:
            return Result(outcome=Done(note="answered"), usage={"total_tokens": 10})
        return Result(outcome=Failed(error="429"), limit=limit)

    def close(self) -> None:
        pass


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path) -> Iterator[Served]:
    with serving(database.dsn, tmp_path) as made:
        yield made


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    made = Provider()
    monkeypatch.setattr(runtimes, "make", made.make)
    return made


def flat(served: Served, tmp_path: Path, name: str, **more: Any) -> None:
    employ(served, tmp_path, name, cost="flat", **more)


def exhausted(served: Served, after: timedelta | None) -> Limit:
    reset = None if after is None else served.house.board.now() + after
    return Limit(
        cls=LimitClass.EXHAUSTED,
        window="five_hour",
        reset=reset,
        confidence=Confidence.UNKNOWN if reset is None else Confidence.EXACT,
        evidence="usage limit reached",
    )


def test_a_wall_is_met_once_and_everything_resumes_after_the_reset(
    served: Served, provider: Provider, database: TestDatabase, tmp_path: Path
) -> None:
    """Situation 12: at most one probe before the reset, all resume after it, no attempt spent. G9."""
    flat(served, tmp_path, "ada", account="plan")
    provider.limit = exhausted(served, timedelta(hours=2))
    numbers = [submit(served, f"task {n}", "ada") for n in range(20)]
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: roster(served, "ada")["open"] is False and provider.asked, what="the account closes")
        until(lambda: task(served, numbers[0]).status is Status.READY, what="the task goes back")
        assert len(provider.asked) == 1
        met = task(served, numbers[0])
        assert (met.attempts, met.parks) == (0, 1)
        assert met.not_before is not None
        assert met.not_before > served.house.board.now() + timedelta(hours=2)
        assert "usage limit reached" in comments(served, numbers[0])
        assert all(task(served, n).not_before is None for n in numbers[1:])  # waiting tasks are not touched
        assert "five_hour" in str(roster(served, "ada")["why"])
        provider.limit = None
        database.clock.advance(timedelta(hours=2, minutes=3))
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: all(task(served, n).status is Status.DONE for n in numbers), within=60, what="all resume")
    assert {task(served, n).attempts for n in numbers} == {1}
    assert len(provider.asked) == 21


def test_the_other_card_of_the_account_stops_as_well_and_a_pool_task_goes_to_a_third(
    served: Served, provider: Provider, tmp_path: Path
) -> None:
    flat(served, tmp_path, "ada", account="plan")
    flat(served, tmp_path, "eve", account="plan")
    provider.limit = exhausted(served, timedelta(hours=2))
    pooled = submit(served, "for anybody", "pool")
    mine = submit(served, "for eve", "eve")
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: task(served, pooled).parks == 1, what="it goes back to the pool")
        with hired(served, "eve", tmp_path, poll=0.2):
            until(lambda: roster(served, "eve")["workers"], what="eve reports")
            assert provider.asked == ["for anybody"]
            assert task(served, mine).status is Status.READY
            assert roster(served, "eve")["open"] is False
            provider.limit = None
            flat(served, tmp_path, "bea", account="another")
            with hired(served, "bea", tmp_path, poll=0.2):
                until(lambda: task(served, pooled).status is Status.DONE, what="another one takes it")
    assert task(served, pooled).producer == "bea"
    assert task(served, pooled).attempts == 1
    assert provider.asked.count("for eve") == 0


def test_an_overload_is_waited_out_without_closing_the_account(
    served: Served, provider: Provider, tmp_path: Path
) -> None:
    flat(served, tmp_path, "ada", account="plan")
    provider.limit = Limit(cls=LimitClass.OVERLOAD, evidence="529")
    number = submit(served, "a task", "ada")
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: task(served, number).parks == 1, what="it goes back")
        until(lambda: roster(served, "ada")["workers"][0]["state"] == "closed", what="it keeps away")  # type: ignore[index]
    assert task(served, number).attempts == 0
    assert len(provider.asked) == 1


def test_an_unknown_reset_is_tried_once_by_one_worker(
    served: Served, provider: Provider, database: TestDatabase, tmp_path: Path
) -> None:
    """The probe: one run, and what it finds decides."""
    flat(served, tmp_path, "ada", account="plan", concurrency=4)
    provider.limit = exhausted(served, None)
    numbers = [submit(served, f"task {n}", "pool") for n in range(6)]
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: roster(served, "ada")["open"] is False, what="the account closes")
        until(lambda: roster(served, "ada")["running"] == 0, what="the runs are back")
    met = len(provider.asked)
    assert met <= 4  # those that were under way met the same wall
    database.clock.advance(timedelta(minutes=16))
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: len(provider.asked) == met + 1, what="one probe")
        until(lambda: roster(served, "ada")["running"] == 0, what="the probe is back")
    assert len(provider.asked) == met + 1
    provider.limit = None
    database.clock.advance(timedelta(minutes=31))
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: all(task(served, n).status is Status.DONE for n in numbers), within=30, what="all resume")


def test_a_spent_window_of_the_cards_own_stops_it_before_the_provider_does(
    served: Served, provider: Provider, tmp_path: Path
) -> None:
    """The ledger: reserved before, settled after."""
    flat(served, tmp_path, "ada", windows=[{"name": "five_hour", "length": "5h", "limit": 2, "reserve": 0.0}])
    numbers = [submit(served, f"task {n}", "ada") for n in range(3)]
    with hired(served, "ada", tmp_path, poll=0.2):
        until(lambda: sum(task(served, n).status is Status.DONE for n in numbers) == 2, what="two are done")
        until(lambda: roster(served, "ada")["open"] is False, what="it is closed")
    assert len(provider.asked) == 2
