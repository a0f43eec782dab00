"""Numbers in Prometheus' text form. Labels are states of the fabric's own words: never a name, a queue or a title."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskfabric.domain.letter import LetterState
from taskfabric.domain.schedule import SlotState
from taskfabric.domain.status import Status

# What each number is, its help, and the label that its values have ("" = none).
_KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    "tasks": ("Tasks by status.", "status"),
    "leases": ("Leases by state; expired ones wait for a sweep.", "state"),
    "schedule_slots": ("Slots of schedules by what became of them.", "state"),
    "outbox": ("Letters by state.", "state"),
    "oldest_ready_seconds": ("How long the oldest claimable task has waited.", ""),
    "last_round_seconds": ("Seconds since the last round of the fabric's services.", "service"),
}
# The values that a label has: who watches a number must see it at zero too.
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "tasks": tuple(status.value for status in Status if status is not Status.RECORD),
    "leases": ("live", "expired"),
    "schedule_slots": tuple(SlotState),
    "outbox": tuple(LetterState),
}
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def text(figures: Mapping[str, Mapping[str, float]]) -> str:
    """The exposition: HELP, TYPE, samples, each metric once, in the order of labels; an empty state is 0."""
    lines: list[str] = []
    for name, (said, label) in _KNOWN.items():
        if name not in figures:
            continue
        lines += [f"# HELP fabric_{name} {said}", f"# TYPE fabric_{name} gauge"]
        found = {**dict.fromkeys(_VALUES.get(name, ()), 0.0), **figures[name]}
        for value, number in sorted(found.items()):
            labels = f'{{{label}="{value}"}}' if label else ""
            lines.append(f"fabric_{name}{labels} {number:.15g}")
    return "\n".join(lines) + "\n"


def samples(exposition: str) -> dict[str, float]:
    """The samples of such a text, by name and label: ``fabric_tasks{status="ready"}``."""
    rows = (line.rsplit(" ", 1) for line in exposition.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in rows}
