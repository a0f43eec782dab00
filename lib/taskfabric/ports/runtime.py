"""The runtime: what carries out one task. A model, a command, a Python function; all end in one outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from taskfabric.domain.card import AgentCard
from taskfabric.domain.lease import Fence
from taskfabric.domain.limit import Limit
from taskfabric.domain.outcome import Outcome
from taskfabric.domain.task import Entry, Task

DRAINED: Final = "the worker stops"  # why a run must end that will be taken up again: by ``stopped``


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What a ref brought: its text (perhaps cut, and then visibly), or why there is none."""

    ref: str
    text: str = ""
    cut: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: the task as claimed, what was said on it, and what its refs point to."""

    task: Task
    fence: Fence
    card: AgentCard
    thread: tuple[Entry, ...] = ()
    materials: tuple[Material, ...] = ()
    persona: str = ""  # the text of the card's persona file
    workspace: Path = Path()  # a folder of this run's own
    url: str = ""  # the fabric's address, for programs that the run starts
    run_token: str = ""  # acts as the holder inside this run, until it ends; never shown to a model
    # Makes a child of the task, with the fields of a submission; raises the errors of one. None: not granted.
    submit: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    deadline: datetime | None = None  # by the worker's clock: max_runtime from now
    message: Mapping[str, Any] | None = None  # the A2A message that this run answers, in ProtoJSON; None: no such call
    context: str = ""  # and the context that it belongs to


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How the run ended, and what came with it."""

    outcome: Outcome
    attachments: tuple[Path, ...] = ()
    limit: Limit | None = None  # a provider's limit that was met; Exhausted closes the account
    usage: dict[str, int] = field(default_factory=dict)  # tokens and the like
    reply: Mapping[str, Any] | None = None  # to an A2A message: an answer that is no task's result, in ProtoJSON


class Progress(Protocol):
    """Where a run says that it moves. The watchdog listens: a heartbeat says that the worker lives, not that the work
    moves."""

    def chunk(self, text: str, *, stream: str = "out") -> None:
        """A piece of output; kept up to a cap, then counted only."""

    def artifact(self, update: Mapping[str, Any]) -> None:
        """A piece of the result that is more than text: ``{"artifact": …, "append": …, "lastChunk": …}`` of A2A's
        ProtoJSON. Whoever follows the task over A2A gets it; for others it is output."""

    def touch(self) -> None:
        """Something moved."""


class Runtime(Protocol):
    """Runs jobs one after another; several at once have an instance each."""

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        """The result. ``stopped`` says why the run must end (lease lost, cancelled, drained, out of time), or None; it
        is asked at least every second. An exception is a surprise: the worker makes it a Failed with a short reason."""

    def close(self) -> None:
        """Nothing of it is left: processes ended, connections closed."""
