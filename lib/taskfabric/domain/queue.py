"""Queues: board projects that hold tasks for one agent, one human, or a pool."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class QueueKind(StrEnum):
    """Whose tasks a queue holds."""

    AGENT = "agent"
    INBOX = "inbox"
    POOL = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A project that is marked as a queue, with its rules and, where asked for, its counts for one viewer."""

    project_id: int
    name: str
    kind: QueueKind
    owner: str | None = None  # the agent or human whose queue it is
    owner_id: int | None = None
    score_check: bool = False  # unrated tasks wait
    needs_verified: bool = False  # a blocker here must be verified, not only done
    human_verify: bool = False  # only a human closes what is done here
    unmapped: tuple[str, ...] = ()  # column roles for which no column was found
    counts: dict[str, int] | None = None  # by status, visible rows only
    limits: dict[str, int] | None = None  # by column: how many cards it may hold

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.project_id,
            "name": self.name,
            "kind": self.kind.value,
            "owner": self.owner,
            "score_check": self.score_check,
            "needs_verified": self.needs_verified,
            "human_verify": self.human_verify,
            "unmapped": list(self.unmapped),
            "counts": self.counts,
            "limits": self.limits,
        }

    @classmethod
    def from_json(cls, shape: dict[str, Any]) -> Queue:
        return cls(
            project_id=shape["id"],
            name=shape["name"],
            kind=QueueKind(shape["kind"]),
            owner=shape["owner"],
            score_check=shape["score_check"],
            needs_verified=shape["needs_verified"],
            human_verify=shape["human_verify"],
            unmapped=tuple(shape["unmapped"]),
            counts=shape["counts"],
            limits=shape["limits"],
        )
