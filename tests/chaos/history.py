"""What clients did, call by call, and what the board wrote down about it.

A client writes one JSON line when it begins a call and one when it knows how it went: ``ok``, ``fail`` (certainly
nothing was done) or ``unknown`` (it may have been done: a time-out, a lost connection). A call that was only begun,
because its client was killed, counts as unknown. Instants are of the machine's monotonic clock, which all its
processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import psycopg

from taskfabric.domain.errors import FabricError, Unavailable

T = TypeVar("T")
State = Literal["ok", "fail", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A fence as a client was given it, or named it."""

    task: int
    epoch: int
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of one client."""

    client: str
    actor: int  # the principal's id
    verb: str  # submit, claim, renew, or how a run ended: done, failed, parked, released
    state: State
    begun: int  # monotonic nanoseconds
    ended: int | None = None  # None = the client was killed
    grants: tuple[Grant, ...] = ()  # claim: what was granted; renew and ends: the fences named
    key: str | None = None  # submit
    task: int | None = None  # submit: what the answer named
    error: str | None = None  # the error's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the journal, in the order of its cursor."""

    task: int
    seq: int | None  # None = a refusal: no transition
    kind: str
    actor: int
    epoch: int | None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A task as its row stands at the end."""

    task: int
    status: str
    shown: str  # what column, open and tags make of it
    epoch: int
    seq: int
    attempts: int
    leased: bool
    key: str | None = None


class Recorder:
    """Writes the calls of one client process to a file of its own."""

    def __init__(self, path: Path, *, client: str, actor: int) -> None:
        # Unbuffered and one write a line: a kill loses at most the line it cuts.
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._client, self._actor = client, actor
        self._number = 0

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def call(self, verb: str, work: Callable[[], T], answer: Callable[[T], Mapping[str, Any]], **asked: Any) -> T:
        """The value of ``work()``, with the call and its end on record. Errors are recorded and raised."""
        self._number += 1
        number = self._number
        self._write({"n": number, "what": "invoke", "verb": verb, **asked})
        try:
            value = work()
        except Unavailable as error:
            sure = error.facts.get("sent") is False
            self._write({"n": number, "what": "fail" if sure else "unknown", "error": error.name})
            raise
        except FabricError as error:
            self._write({"n": number, "what": "fail", "error": error.name})
            raise
        except BaseException as error:
            self._write({"n": number, "what": "unknown", "error": type(error).__name__})
            raise
        self._write({"n": number, "what": "ok", **answer(value)})
        return value

    def _write(self, facts: dict[str, Any]) -> None:
        line = {"client": self._client, "actor": self._actor, "at": time.monotonic_ns(), **facts}
        os.write(self._fd, json.dumps(line).encode() + b"\n")


def read_history(paths: Iterable[Path]) -> list[Call]:
    """The calls of these files in the order in which they began. A last line that a kill cut is ignored."""
    calls = [call for path in paths for call in _calls(_lines(path))]
    return sorted(calls, key=lambda call: call.begun)


def _lines(path: Path) -> list[dict[str, Any]]:
    whole, _, _cut = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def _calls(lines: Iterable[dict[str, Any]]) -> list[Call]:
    begun: dict[int, dict[str, Any]] = {}
    ended: dict[int, dict[str, Any]] = {}
    for line in lines:
        (begun if line["what"] == "invoke" else ended)[line["n"]] = line
    return [_call(line, ended.get(number)) for number, line in begun.items()]


def _call(asked: dict[str, Any], answer: dict[str, Any] | None) -> Call:
    state: State = "unknown" if answer is None else answer["what"]
    grants = asked.get("grants") or (answer or {}).get("grants") or ()
    return Call(
        client=asked["client"],
        actor=asked["actor"],
        verb=asked["verb"],
        state=state,
        begun=asked["at"],
        ended=None if answer is None else answer["at"],
        grants=tuple(Grant(task=g[0], epoch=g[1], token=g[2]) for g in grants),
        key=asked.get("key"),
        task=None if answer is None else answer.get("task"),
        error=None if answer is None else answer.get("error"),
    )


_EVENTS: Final = """
SELECT task_id, seq, kind, actor_id, epoch, data FROM journal WHERE task_id IS NOT NULL ORDER BY xid, id
"""
_ROWS: Final = """
SELECT t.id, t.status, fabric_status(t.role, t.is_active, t.flags), t.epoch, t.seq, t.attempts,
       t.token IS NOT NULL, x.key
  FROM tasks t LEFT JOIN task_texts x ON x.task_id = t.id ORDER BY t.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The board's own account: its journal, its rows, how often its epochs were lifted, who is human."""

    journal: tuple[Event, ...]
    rows: tuple[Row, ...]
    lifts: int = 0
    humans: frozenset[int] = frozenset()


def read_board(dsn: str) -> Board:
    """All of it as one snapshot."""
    with psycopg.connect(dsn) as conn:
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        events = [
            Event(task=task, seq=seq, kind=kind, actor=actor, epoch=epoch, data=data or {})
            for task, seq, kind, actor, epoch, data in conn.execute(_EVENTS)
        ]
        rows = [
            Row(task=task, status=status, shown=shown, epoch=epoch, seq=seq, attempts=attempts, leased=leased, key=key)
            for task, status, shown, epoch, seq, attempts, leased, key in conn.execute(_ROWS)
        ]
        lifts = conn.execute("SELECT count(*) FROM restores").fetchone()
        humans = conn.execute("SELECT id FROM users WHERE kind = 'human'").fetchall()
    assert lifts is not None
    return Board(
        journal=tuple(events), rows=tuple(rows), lifts=lifts[0], humans=frozenset(int(row[0]) for row in humans)
    )
