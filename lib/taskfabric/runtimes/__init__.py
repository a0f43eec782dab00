"""What carries out a task: a model, a command, a Python function. ``make`` chooses; each is loaded only when used."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import assert_never

from taskfabric.domain.card import AgentCard, CardKind
from taskfabric.domain.errors import BadInput
from taskfabric.ports.runtime import Runtime

__all__ = ["make"]


def make(
    card: AgentCard, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC), keep: Path | None = None
) -> Runtime:
    """The runtime of a card; ``clock`` is by which it reckons when a provider's limit ends, and what must outlive it
    it keeps below the folder ``keep``.

    Raises BadInput for a card that no worker can serve, Refused for one that may not be served here.
    """
    match card.kind:
        case CardKind.PYTHON:
            from taskfabric.runtimes.python import PythonRuntime

            return PythonRuntime(card.entry)
        case CardKind.COMMAND:
            from taskfabric.runtimes.command import CommandRuntime

            return CommandRuntime(card, clock=clock)
        case CardKind.MODEL:
            from taskfabric.runtimes.model import ModelRuntime, absent

            runtime = ModelRuntime(card, clock=clock)
            if why := absent(card):
                raise BadInput(f"{card.name} cannot run here: {why}", card=card.name)
            return runtime
        case CardKind.REMOTE:
            from taskfabric.runtimes.remote import RemoteRuntime, records_in

            return RemoteRuntime(card, clock=clock, records=records_in(keep))
        case CardKind.HUMAN:
            raise BadInput(f"{card.name} is a human, who needs no worker", next="see `fabric inbox`", card=card.name)
        case _:
            assert_never(card.kind)
