"""The journal: append-only events, and the cursor from which they are replayed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.errors import BadInput

_CURSOR: Final = re.compile(r"([0-9]{1,20})-([0-9]{1,19})")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cursor:
    """A place in the journal: (transaction, event). Reading from it never skips an event that commits late."""

    xid: int = 0
    id: int = 0

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Raises BadInput for anything that ``str(cursor)`` did not make."""
        match = _CURSOR.fullmatch(text)
        # The bounds of PostgreSQL's xid8 and bigint: beyond them the database would refuse the query.
        if match is None or int(match[1]) >= 2**64 or int(match[2]) >= 2**63:
            raise BadInput(f"{text[:40]!r} is not a journal cursor", field="cursor")
        return cls(xid=int(match[1]), id=int(match[2]))

    def __str__(self) -> str:
        return f"{self.xid}-{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact. ``seq`` counts the events of one task without a gap."""

    cursor: Cursor
    kind: str  # submitted, claimed, done, parked, … refused
    at: datetime
    task_id: int | None
    seq: int | None
    project_id: int | None
    actor: str
    via: str
    epoch: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "cursor": str(self.cursor),
            "kind": self.kind,
            "at": self.at.isoformat().replace("+00:00", "Z"),
            "task": self.task_id,
            "seq": self.seq,
            "project_id": self.project_id,
            "actor": self.actor,
            "via": self.via,
            "epoch": self.epoch,
            "data": dict(self.data),
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Event:
        return cls(
            cursor=Cursor.parse(shape["cursor"]),
            kind=shape["kind"],
            at=datetime.fromisoformat(shape["at"]),
            task_id=shape["task"],
            seq=shape["seq"],
            project_id=shape["project_id"],
            actor=shape["actor"],
            via=shape["via"],
            epoch=shape["epoch"],
            data=shape["data"],
        )
