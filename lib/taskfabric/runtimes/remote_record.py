"""What a remote runtime remembers of a task between runs: under which key it was sent, and what it is called there.

One small file for each task, written before the message leaves, so that a worker that is started again asks for what
it sent instead of sending it a second time.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.comments import LineKind
from taskfabric.domain.task import Entry, Task

log = logging.getLogger(__name__)

_OLD: Final = 90 * 86_400.0  # seconds after which nobody asks any more
# After one of these the task begins anew: what the other side made of it before is no answer to what is asked now.
_ENDS: Final = frozenset(
    kind.value
    for kind in (
        LineKind.NOTE,
        LineKind.FAILED,
        LineKind.DEAD,
        LineKind.REJECTED,
        LineKind.REDRIVEN,
        LineKind.CANCELLED,
        LineKind.DECLINED,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One sending of one task."""

    key: str  # task@epoch and when the task was made; the other side takes a second message with it for the first
    begun: int  # the epoch in which it was sent
    epoch: int  # the epoch of the run that has it in hand now
    message: Mapping[str, Any]  # as it was sent
    remote: str = ""  # the other side's name for it; "" = not known to have arrived
    context: str = ""
    answered: int = 0  # the last line of the thread that went there as an answer


class Records:
    """The records of one agent, in ``folder``; None: nothing is remembered beyond a run."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def adopt(self, task: Task, epoch: int, thread: Iterable[Entry]) -> Record | None:
        """The record of this task, in the hands of this run from now on; None when there is none that still counts."""
        found = self._read(task)
        if found is None or found.epoch > epoch:
            return None
        if _has_ended(found, thread):
            self.drop(task)
            return None
        adopted = replace(found, epoch=epoch)
        self.write(task, adopted)
        return adopted

    def write(self, task: Task, record: Record) -> None:
        """It is on disk. What cannot be written is not remembered, and the run goes on."""
        if self._folder is None:
            return
        file = self._file(task)
        draft = file.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
                json.dump(asdict(record), out)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
        except OSError as error:
            log.warning("sending not remembered task=%d reason=%s", task.id, error.strerror)

    def is_ours(self, task: Task, epoch: int) -> bool:
        """Whether no later run of this task has taken the record over."""
        found = self._read(task)
        return found is None or found.epoch <= epoch

    def drop(self, task: Task) -> None:
        """Nothing is remembered of this task."""
        if self._folder is not None:
            self._file(task).unlink(missing_ok=True)

    def clean(self) -> None:
        """What nobody asked for in months is gone."""
        if self._folder is None or not self._folder.is_dir():
            return
        for file in self._folder.iterdir():
            try:
                if time.time() - file.stat().st_mtime > _OLD:
                    file.unlink()
            except OSError as error:
                log.debug("old record stays file=%s reason=%s", file.name, error.strerror)

    def _file(self, task: Task) -> Path:
        assert self._folder is not None
        return self._folder / f"{task.id}-{int(task.created.timestamp()):x}.json"

    def _read(self, task: Task) -> Record | None:
        if self._folder is None:
            return None
        try:
            return Record(**json.loads(self._file(task).read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            log.warning("record not readable task=%d reason=%s", task.id, type(error).__name__)
            return None


def key_of(task: Task, epoch: int) -> str:
    """The same for the same sending, and for no other one, also of another fabric with the same numbers."""
    return f"{task.id}@{epoch}-{int(task.created.timestamp() * 1000):x}"


def _has_ended(record: Record, thread: Iterable[Entry]) -> bool:
    since = False
    for entry in thread:
        if entry.kind == LineKind.CLAIMED.value and entry.epoch == record.begun:
            since = True
        elif since and entry.kind in _ENDS:
            return True
    return False
