"""How long texts may be, and which instants are sensible: checked before anything is asked of the board."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final
from unicodedata import category

from taskfabric.domain.errors import BadInput, Refused
from taskfabric.domain.status import RESERVED_PREFIXES, is_reserved
from taskfabric.services.desk import Rules

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BLANK: Final = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols that show nothing


def plain(text: str, field: str) -> None:
    """Raises BadInput for control characters other than those that end a line or indent: they would act on a screen
    instead of being read."""
    found = _CONTROL.search(text)
    if found is not None:
        code = f"U+{ord(found[0]):04X}"
        raise BadInput(f"the {field} has the control character {code}", next="leave it out", field=field)


def _is_seen(char: str) -> bool:
    return category(char)[0] in "LNPS" and char not in _BLANK


def title(text: str, rules: Rules) -> str:
    """One line with something to see in it, at most ``rules.title`` characters."""
    plain(text, "title")
    words = text.strip()
    if not any(_is_seen(char) for char in words):
        raise BadInput("a task has a title that can be seen", field="title")
    if len(words) > rules.title:
        raise BadInput(
            f"a title has at most {rules.title} characters; this one has {len(words)}",
            next="put the rest into the description",
            field="title",
            limit=rules.title,
        )
    if len(words.splitlines()) > 1:
        raise BadInput("a title is one line", next="put the rest into the description", field="title")
    return words


def description(text: str, rules: Rules) -> str:
    return _sized(text, rules.description, "description")


def note(text: str, rules: Rules, field: str = "note") -> str:
    return _sized(text, rules.note, field)


def needed_note(text: str, rules: Rules, what: str) -> str:
    """A note that says something. Raises BadInput for a blank one."""
    if not text.strip():
        raise BadInput(f"{what} needs a note that says something", next="give it with --note", field="note")
    return note(text, rules)


def tags(words: Iterable[str], rules: Rules) -> tuple[str, ...]:
    """People's tags, each once, in the order given. Raises Refused for one that a rule uses."""
    found = tuple(dict.fromkeys(word.strip() for word in words))
    if len(found) > rules.tags:
        raise BadInput(f"a task has at most {rules.tags} tags", field="tags", limit=rules.tags)
    for tag in found:
        plain(tag, "tags")
        if not tag or len(tag) > rules.tag_length or len(tag.splitlines()) > 1:
            raise BadInput(f"a tag is one line of 1 to {rules.tag_length} characters", field="tags")
        if is_reserved(tag) or tag.lower().startswith(RESERVED_PREFIXES):
            raise Refused(
                f"{tag[:40]!r} is a tag that a rule uses; only verbs change it",
                next="use the verb or the option that stands for it",
                rule="reserved-tag",
                tag=tag[:40],
            )
    return found


def refs(words: Iterable[str], rules: Rules) -> tuple[str, ...]:
    """References, each once. Raises BadInput for a blank one and for one that is not a line."""
    found = tuple(dict.fromkeys(word.strip() for word in words))
    for ref in found:
        plain(ref, "refs")
    if len(found) > rules.refs:
        raise BadInput(f"a task has at most {rules.refs} references", field="refs", limit=rules.refs)
    if any(not ref or len(ref.splitlines()) > 1 for ref in found):
        raise BadInput("a reference is one line, such as git:… or file:… or task:12", field="refs")
    return found


def instant(moment: datetime | None, field: str) -> datetime | None:
    """The instant in UTC. Raises BadInput outside the years 1970 to 9998."""
    if moment is None:
        return None
    try:
        exact = moment.astimezone(UTC)
    except OverflowError:
        exact = None
    if exact is None or not _EARLIEST <= exact < _LATEST:
        raise BadInput("an instant lies in the years 1970 to 9998", field=field)
    return exact


def _sized(text: str, limit: int, field: str) -> str:
    if len(text) > limit or (len(text) * 4 > limit and len(text.encode()) > limit):
        raise BadInput(
            f"the {field} may have at most {limit} bytes of UTF-8",
            next="attach the rest as a file",
            field=field,
            limit=limit,
        )
    return text


def different(numbers: Sequence[int], field: str) -> Sequence[int]:
    """The numbers, each of them once. Raises BadInput."""
    if len({*numbers}) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise BadInput(f"#{twice} is named twice", next="name each once", field=field)
    return numbers
