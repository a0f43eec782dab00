"""Lengths of time and sizes as people write them: ``"10m"``, ``"4MiB"``; read, and shown again."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)", re.ASCII)
_MILLISECONDS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_LONGEST: Final = 3650 * _MILLISECONDS["d"]
_SIZE: Final = re.compile(r"(\d{1,13})\s?(B|KiB|MiB|GiB)", re.ASCII)
_BYTES: Final = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}


def duration(text: str) -> timedelta:
    """``"1h30m"`` as a timedelta. Raises ValueError unless it is longer than nothing and at most ten years."""
    parts = _DURATION.findall(text)
    milliseconds = sum(float(number) * _MILLISECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not 0 < milliseconds <= _LONGEST:
        raise ValueError('a duration such as "200ms", "55s", "10m", "1h30m" or "14d"')
    return timedelta(milliseconds=milliseconds)


def show_duration(length: timedelta) -> str:
    """The form that ``duration`` reads back as the same length, to the millisecond: ``"3m20s"``."""
    left = round(length / timedelta(milliseconds=1))
    shown = ""
    for unit, worth in _MILLISECONDS.items():
        count, left = divmod(left, worth)
        shown += f"{count}{unit}" if count else ""
    return shown or "0ms"


def size(text: str) -> int:
    """``"4MiB"`` in bytes. Raises ValueError unless it is at least one byte and below 1024 GiB."""
    match = _SIZE.fullmatch(text)
    count = int(match[1]) * _BYTES[match[2]] if match else 0
    if not 0 < count < 2**40:
        raise ValueError('a size such as "500B", "64KiB", "4MiB" or "1GiB"')
    return count


def show_size(count: int) -> str:
    """The size in the largest unit that divides it: ``"64KiB"``."""
    unit = next(unit for unit, worth in _BYTES.items() if count % worth == 0)
    return f"{count // _BYTES[unit]}{unit}"
