"""The tags that a rule uses. They are bits of the task and words of its lane, and have no row of their own."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from taskfabric.domain.status import FLAG_OF_TAG, RESERVED_PREFIXES, Flag


def reserved_tag_id(name: str) -> int:
    """A number by which clients tell it from others: always the same, and negative, as no row's is."""
    return -1 - (zlib.crc32(name.encode()) & 0x3FFFFFFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The tags of a card, told apart: people's, and those that a rule uses."""

    plain: tuple[str, ...]
    flags: Flag
    tier: str
    needs: tuple[str, ...]
    trust: str  # the word; "" = none


def words(tags: Sequence[str]) -> Words:
    """What the tags say."""
    flags, plain = Flag.NONE, []
    given: dict[str, list[str]] = {prefix: [] for prefix in RESERVED_PREFIXES}
    for name in tags:
        tag = name.strip()
        prefix = next((p for p in RESERVED_PREFIXES if tag.lower().startswith(p)), None)
        if tag.lower() in FLAG_OF_TAG:
            flags |= FLAG_OF_TAG[tag.lower()]
        elif prefix is not None:
            given[prefix].append(tag[len(prefix) :].strip().lower())
        else:
            plain.append(name)
    return Words(
        plain=tuple(plain),
        flags=flags,
        tier=next(iter(given["tier:"]), ""),
        needs=tuple(sorted(set(given["needs:"]))),
        trust=next(iter(given["trust:"]), ""),
    )
