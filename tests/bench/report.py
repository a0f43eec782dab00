"""What was measured, as lines of a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table. ``value`` is what is held against ``must`` and ``aim``."""

    number: str  # of the measure
    what: str
    ours: float
    baseline: float | None = None  # None: the value stands for itself
    unit: str = ""
    value: float
    must: float | None = None  # None: for comparison only
    aim: float | None = None
    better: Literal["more", "less"] = "more"
    note: str = ""
    samples: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """aim, must or MISSED; a dash for a line that is for comparison only."""
        if self.must is None:
            return "-"
        if self.aim is not None and self._reaches(self.aim):
            return "aim"
        return "must" if self._reaches(self.must) else "MISSED"

    def _reaches(self, bound: float) -> bool:
        return self.value >= bound if self.better == "more" else self.value <= bound

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


_HEAD = ("", "measure", "ours", "baseline", "unit", "value", "must", "aim", "")


def table(lines: Sequence[Line]) -> str:
    """The lines for a terminal."""
    rows = [_HEAD]
    for line in lines:
        sign = "" if line.must is None else ("≥" if line.better == "more" else "≤")
        rows.append(
            (
                line.number,
                line.what,
                _short(line.ours),
                "" if line.baseline is None else _short(line.baseline),
                line.unit,
                _short(line.value),
                "" if line.must is None else sign + _short(line.must),
                "" if line.aim is None else sign + _short(line.aim),
                line.verdict,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    left = {0, 1, 4, 8}
    out = []
    for number, row in enumerate(rows):
        cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        out.append("  ".join(cells).rstrip())
        if number and lines[number - 1].note:
            out.append(" " * (widths[0] + 4) + lines[number - 1].note)
    return "\n".join(out)


def _short(x: float) -> str:
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest value that ``q`` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def spread(values: Sequence[float]) -> str:
    """Minimum, median and maximum for people."""
    return f"{_short(min(values))} / {_short(median(values))} / {_short(max(values))}"
