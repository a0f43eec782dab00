"""Bringing two acts to the same moment, and holding one of them still in the middle of its transaction."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

import psycopg

from tests.integration.conftest import Rig

T = TypeVar("T")

_PATIENCE: Final = 20.0  # seconds before a test gives up; nothing here takes that long
_PAUSE: Final = threading.Event()  # never set: a wait of a moment that yields the processor

_WAITING: Final = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def at_once(works: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Each work's value or error; all of them begin together, each on a thread of its own."""
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], T]) -> T | Exception:
        gate.wait(_PATIENCE)
        try:
            return work()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


@contextlib.contextmanager
def beside(work: Callable[[], T]) -> Iterator[Future[T]]:
    """The work on another thread; at the end of the block it is waited for."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(work)


def until(condition: Callable[[], bool]) -> None:
    """Returns as soon as the condition holds; fails the test when it never does."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        _PAUSE.wait(0.002)


def until_waiting(rig: Rig, sessions: int = 1) -> None:
    """So many sessions of this database wait for somebody's lock now."""
    watcher = rig.test_database.connect()

    def waiting() -> bool:
        row = watcher.execute(_WAITING).fetchone()
        return row is not None and row[0] == sessions

    until(waiting)


@contextlib.contextmanager
def transaction(rig: Rig) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection of the test's own in an open transaction: committed by the block's end unless it was rolled back."""
    with psycopg.connect(rig.test_database.dsn, options="-c timezone=UTC") as conn:
        yield conn


def row_of(rig: Rig, task_id: int, columns: str) -> tuple[Any, ...]:
    """These columns of the task's row."""
    row = rig.test_database.connect().execute(f"SELECT {columns} FROM tasks WHERE id = {task_id}".encode()).fetchone()
    assert row is not None
    return row


def events_of(rig: Rig, task_id: int) -> list[str]:
    """The kinds of the task's events in the order in which a reader of the journal sees them."""
    rows = rig.test_database.connect().execute(
        "SELECT kind FROM journal WHERE task_id = %s ORDER BY xid, id", (task_id,)
    )
    return [str(row[0]) for row in rows]
