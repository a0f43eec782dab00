"""A run of a runtime as a worker would make it, and what it told meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskfabric.domain.card import AgentCard, CardKind
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Trust
from taskfabric.ports.runtime import Job
from tests.unit.making import make_task


@dataclass
class Told:
    """Everything that a run told, and a signal for its first word."""

    chunks: list[tuple[str, str]] = field(default_factory=list)
    touches: int = 0
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    heard: threading.Event = field(default_factory=threading.Event)

    def chunk(self, text: str, *, stream: str = "out") -> None:
        self.chunks.append((stream, text))
        self.heard.set()

    def artifact(self, update: Mapping[str, Any]) -> None:
        self.artifacts.append(dict(update))
        self.heard.set()

    def touch(self) -> None:
        self.touches += 1

    def text(self, stream: str = "out") -> str:
        return "".join(text for where, text in self.chunks if where == stream)


def never() -> str | None:
    """Nobody ends the run."""
    return None


def make_card(**fields: Any) -> AgentCard:
    plain: dict[str, Any] = {"name": "coder", "kind": CardKind.COMMAND, "trust": Trust.SANDBOXED}
    return AgentCard(**(plain | fields))


def make_job(card: AgentCard, workspace: Path, *, task: dict[str, Any] | None = None, **fields: Any) -> Job:
    return Job(
        task=make_task(**({"title": "Fix the parser", "description": "It drops the date."} | (task or {}))),
        fence=Fence(task_id=12, epoch=3, token=1),
        card=card,
        workspace=workspace,
        **fields,
    )
