"""The lease: who has a task until when, and the fence that each write of the holder names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from taskfabric.domain.errors import BadInput

_REF: Final = re.compile(r"#?(?P<id>[1-9][0-9]{0,17})(?:@(?P<epoch>[0-9]{1,18}))?")
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRef:
    """A task as people write it: ``12``, ``#12``, or ``12@3`` with the epoch of a lease."""

    id: int
    epoch: int | None = None

    @classmethod
    def parse(cls, text: str | int) -> TaskRef:
        """Raises BadInput for anything else than a positive number with an optional ``@epoch``."""
        match = _REF.fullmatch(str(text).strip())
        if match is None or int(match["id"]) > 2**63 - 1:
            raise BadInput(f"{str(text)[:40]!r} is not a task", next="write it as 12, '#12' or 12@3", field="task")
        return cls(id=int(match["id"]), epoch=int(match["epoch"]) if match["epoch"] else None)

    def __str__(self) -> str:
        return f"{self.id}" if self.epoch is None else f"{self.id}@{self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """(task, epoch, token): granted once, named by every write of the holder (G2)."""

    task_id: int
    epoch: int  # +1 at each claim, for the life of the task
    token: int  # 64 random bits, unsigned

    @property
    def hex(self) -> str:
        return f"{self.token:016x}"

    @classmethod
    def parse(cls, task_id: int, epoch: int, token: str) -> Fence:
        """Raises BadInput unless ``token`` is 16 hexadecimal digits."""
        if not _TOKEN.fullmatch(token):
            raise BadInput("a fence's token is 16 hexadecimal digits", field="token")
        return cls(task_id=task_id, epoch=epoch, token=int(token, 16))

    def __str__(self) -> str:
        return f"{self.task_id}@{self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A granted lease. ``until`` is by the board's clock."""

    fence: Fence
    holder: str
    until: datetime
    length: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The answer to one renewal: prolonged until an instant, or lost (and to whom)."""

    task_id: int
    epoch: int
    until: datetime | None  # None = the lease is lost
    holder: str | None = None  # who has the task now, when lost


def renew_every(lease: timedelta) -> timedelta:
    """A third of the lease: two renewals may fail before it is lost."""
    return lease / 3
