"""The face of a card: what of a task a person sees on a stock Kanboard, read from there and from our row alike."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from taskfabric.domain.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One card at one moment. Instants to the minute, which is all that Kanboard takes."""

    title: str
    text: str  # a digest of the description
    project_id: int
    column_id: int
    swimlane_id: int
    active: bool
    priority: int
    score: int  # 0 = unrated
    due: int  # epoch seconds, of a whole minute; 0 = none
    owner_id: int  # Kanboard's number of the assignee; 0 = nobody
    tags: tuple[str, ...]  # in order

    def to_json(self) -> dict[str, Any]:
        shape = {name: getattr(self, name) for name in self.__slots__}
        return shape | {"tags": list(self.tags)}

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Face:
        return cls(**{**shape, "tags": tuple(shape["tags"])})

    def differs(self, other: Face) -> frozenset[str]:
        """The names of the fields in which they are not the same."""
        return frozenset(name for name in self.__slots__ if getattr(self, name) != getattr(other, name))


def of_card(card: Mapping[str, Any], tags: Sequence[str]) -> Face:
    """What Kanboard says. Booleans are 1, "1" or true there, and unset numbers null."""
    return Face(
        title=str(card["title"]),
        text=digest(str(card.get("description") or "")),
        project_id=int(card["project_id"]),
        column_id=int(card["column_id"]),
        swimlane_id=int(card["swimlane_id"]),
        active=bool(int(card["is_active"])),
        priority=int(card.get("priority") or 0),
        score=int(card.get("score") or 0),
        due=minute(int(card.get("date_due") or 0)),
        owner_id=int(card.get("owner_id") or 0),
        tags=tuple(sorted(tags)),
    )


def of_task(task: Task, *, column_id: int, swimlane_id: int, owner_id: int) -> Face:
    """What our row says."""
    return Face(
        title=task.title,
        text=digest(task.description),
        project_id=task.project_id,
        column_id=column_id,
        swimlane_id=swimlane_id,
        active=task.is_open,
        priority=task.priority,
        score=task.score or 0,
        due=0 if task.due is None else minute(int(task.due.timestamp())),
        owner_id=owner_id,
        tags=tags_of(task),
    )


def tags_of(task: Task) -> tuple[str, ...]:
    """All tags of the card, each once: Kanboard finds them without regard to case."""
    return tuple(sorted({tag.lower(): tag for tag in reversed(task.all_tags)}.values()))


def digest(text: str) -> str:
    """Enough to see that a text is another one. Browsers send line ends of their own."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:16]


def minute(seconds: int) -> int:
    """The whole minute that this instant lies in."""
    return seconds - seconds % 60


def written(seconds: int) -> str:
    """An instant as Kanboard takes it, whose zone is UTC; "" clears."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}" if seconds else ""


def moment(seconds: int) -> datetime | None:
    """The instant; None for Kanboard's "unset"."""
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
