"""An outcome as a JSON object and back: for a spool on disk, and for a run in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import (
    Declined,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    Waiting,
    WaitingOnChildren,
)

_KINDS: Final[Mapping[str, type[Outcome]]] = {
    "done": Done,
    "parked": Parked,
    "waiting": Waiting,
    "waiting-on-children": WaitingOnChildren,
    "failed": Failed,
    "released": Released,
    "declined": Declined,
}
_WORDS: Final = {kind: word for word, kind in _KINDS.items()}


def shape_of(outcome: Outcome) -> dict[str, Any]:
    """The object that ``outcome_of`` reads back as the same value."""
    shape = {"kind": _WORDS[type(outcome)], **asdict(outcome)}
    if isinstance(outcome, Parked):
        shape["until"] = outcome.until.isoformat()
    return shape


def outcome_of(shape: Mapping[str, Any]) -> Outcome:
    """Raises BadInput for what ``shape_of`` did not make."""
    fields = {key: value for key, value in shape.items() if key != "kind"}
    kind = _KINDS.get(str(shape.get("kind")))
    try:
        if kind is None:
            raise TypeError("no such kind")
        if kind is Parked:
            fields["until"] = datetime.fromisoformat(fields["until"])
        return kind(**fields)
    except (KeyError, TypeError, ValueError) as cause:
        raise BadInput(f"{str(shape)[:80]} is no outcome: {cause}") from cause
