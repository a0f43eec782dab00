"""The values of a card's table, read one by one; what is wrong is collected, so that it is all told at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import time, timedelta
from difflib import get_close_matches
from typing import Any, Final, TypeVar, overload

from taskfabric.domain.errors import BadInput
from taskfabric.domain.times import duration

T = TypeVar("T")

_LONGEST: Final = timedelta(days=366)
_MANY: Final = 200  # words in a list
_LONG: Final = 4000  # characters in a text


class Table:
    """One table of a file. Every reader gives a value of its type, the default where there is none or a wrong one."""

    def __init__(self, shape: Mapping[str, Any], path: str, problems: list[str] | None = None) -> None:
        self.problems: Final[list[str]] = [] if problems is None else problems
        self._shape = shape
        self._path = path
        self._asked: set[str] = set()

    def wrong(self, key: str, why: str) -> None:
        """Something is wrong with this key."""
        self.problems.append(f"{self._path}{key} {why}")

    def has(self, key: str) -> bool:
        return key in self._shape

    def names(self) -> tuple[str, ...]:
        """The keys that are there, in their order."""
        return tuple(self._shape)

    def unknown(self) -> None:
        """Every key that nobody asked for is a problem, with the nearest one that somebody did."""
        for key in self._shape:
            if key not in self._asked:
                near = get_close_matches(str(key), sorted(self._asked), 1)
                self.wrong(str(key)[:60], "is not a key" + (f"; did you mean {near[0]!r}?" if near else ""))

    def checked(self, key: str, check: Callable[[], T]) -> T | None:
        """What ``check`` returns; a BadInput that it raises is a problem of this key."""
        try:
            return check()
        except BadInput as error:
            self.wrong(key, f"is wrong: {error.message}" + (f" ({error.next})" if error.next else ""))
            return None

    # -- values --------------------------------------------------------------------------------------

    def text(self, key: str, default: str, *, required: bool = False) -> str:
        value = self._value(key, str, "a text", required=required)
        if value is None:
            return default
        if required and not value.strip():
            self.wrong(key, "is empty")
        if len(value) > _LONG or "\x00" in value:
            self.wrong(key, f"is longer than {_LONG} characters, or contains NUL")
        return str(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, bool, "true or false")
        return default if value is None else bool(value)

    def whole(self, key: str, default: int, *, least: int, most: int, required: bool = False) -> int:
        value = self._value(key, int, "a whole number", required=required)
        if value is None:
            return default
        if not least <= value <= most:
            self.wrong(key, f"is {value}; it lies between {least} and {most}")
            return default
        return int(value)

    @overload
    def number(self, key: str, *, least: float, most: float, default: float) -> float: ...
    @overload
    def number(self, key: str, *, least: float, most: float, default: None = None) -> float | None: ...
    def number(self, key: str, *, least: float, most: float, default: float | None = None) -> float | None:
        value = self._value(key, (int, float), "a number")
        if value is None:
            return default
        if not least <= value <= most:  # NaN, too
            self.wrong(key, f"is {value}; it lies between {least:g} and {most:g}")
            return default
        return float(value)

    def words(
        self,
        key: str,
        default: Sequence[str],
        check: Callable[[str], object] | None = None,
        *,
        required: bool = False,
    ) -> tuple[str, ...]:
        """A list of texts, each checked where a check is given."""
        value = self._value(key, list, "a list of texts", required=required)
        if value is None:
            return tuple(default)
        if any(not isinstance(word, str) or "\x00" in word for word in value) or len(value) > _MANY:
            self.wrong(key, f"is a list of at most {_MANY} texts")
            return tuple(default)
        if required and not value:
            self.wrong(key, "is empty")
        for word in value:
            if check is not None:
                self.checked(key, lambda word=word: check(word))  # type: ignore[misc]
        return tuple(value)

    def one_of(self, key: str, choices: Sequence[str], *, default: str = "", required: bool = False) -> str:
        value = self._value(key, str, "a text", required=required)
        if value is None:
            return default
        if value not in choices:
            near = get_close_matches(value[:40], choices, 1)
            mean = f"; did you mean {near[0]!r}?" if near else ""
            known = ", ".join(choice or '""' for choice in choices)
            self.wrong(key, f"is {value[:40]!r}, not one of {known}{mean}")
            return default
        return str(value)

    @overload
    def length(self, key: str, default: timedelta, *, least: timedelta = ..., most: timedelta = ...) -> timedelta: ...
    @overload
    def length(self, key: str, default: None, *, least: timedelta = ..., most: timedelta = ...) -> timedelta | None: ...
    def length(
        self,
        key: str,
        default: timedelta | None,
        *,
        least: timedelta = timedelta(seconds=1),
        most: timedelta = _LONGEST,
    ) -> timedelta | None:
        """A length of time such as "10m"."""
        value = self._value(key, str, 'a length of time such as "10m"')
        if value is None:
            return default
        read = self.checked(key, lambda: duration(value))
        if read is None:
            return default
        if not least <= read <= most:
            self.wrong(key, f"is {value}; it lies between {show_length(least)} and {show_length(most)}")
            return default
        return read

    def clock(self, key: str) -> time:
        """A time of the day, "08:30" or TOML's own 08:30:00; midnight for a wrong one."""
        value = self._value(key, (str, time), 'a time such as "08:30"', required=True)
        if isinstance(value, time):
            return value.replace(second=0, microsecond=0)
        try:
            hour, _, minute = (value or "0:0").partition(":")
            return time(int(hour), int(minute))
        except ValueError:
            self.wrong(key, f'is {value!r}, not a time such as "08:30"')
            return time(0)

    # -- tables --------------------------------------------------------------------------------------

    def table(self, key: str) -> Table | None:
        """The table below this key; None if there is none."""
        value = self._value(key, Mapping, "a table")
        return None if value is None else Table(value, f"{self._path}{key}.", self.problems)

    def tables(self, key: str) -> list[Table]:
        """The tables of a list ``[[key]]``."""
        value = self._value(key, list, "a list of tables")
        if value is None:
            return []
        if any(not isinstance(part, Mapping) for part in value):
            self.wrong(key, "is a list of tables")
            return []
        return [Table(part, f"{self._path}{key}[{n}].", self.problems) for n, part in enumerate(value, 1)]

    def strings(self, key: str) -> dict[str, str]:
        """A table of texts with keys of the owner's own choice."""
        value = self._value(key, Mapping, "a table of texts")
        if value is None:
            return {}
        if any(not isinstance(text, str) for text in value.values()):
            self.wrong(key, "is a table of texts")
            return {}
        return {str(name): text for name, text in value.items()}

    def _value(self, key: str, kind: Any, what: str, *, required: bool = False) -> Any:
        self._asked.add(key)
        if key not in self._shape:
            if required:
                self.wrong(key, "is missing")
            return None
        value = self._shape[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.wrong(key, f"is not {what}")
            return None
        return value


def show_length(length: timedelta) -> str:
    """The form that a card reads back: ``1h30m``; whole seconds."""
    left = int(length.total_seconds())
    shown = ""
    for unit, worth in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, worth)
        shown += f"{count}{unit}" if count else ""
    return shown or "0s"
