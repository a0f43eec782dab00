"""Numbers for the tags that have no row: those that a rule uses are bits of the task and words of its lane."""

from __future__ import annotations

import zlib


def reserved_tag_id(name: str) -> int:
    """A number by which clients tell it from others: always the same, and negative, as no row's is."""
    return -1 - (zlib.crc32(name.encode()) & 0x3FFFFFFF)
