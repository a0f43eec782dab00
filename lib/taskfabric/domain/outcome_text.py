"""The texts of a run's end, made fit for the board: sound, not empty and not too long."""

from __future__ import annotations

from typing import Final

NOTE: Final = 262_144  # bytes of a result's note
ERROR: Final = 2000  # characters of a failure's reason
WHOLE: Final = "result.md"  # the file that has a note which was cut


def sound(text: str) -> str:
    """Without NUL and without halves of surrogate pairs."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def short(text: str, otherwise: str, most: int = ERROR) -> str:
    """At most so many characters of it, or what is said instead of nothing."""
    words = sound(text).strip()
    return (words if len(words) <= most else f"{words[: most - 1]}…") or otherwise


def cut(note: str) -> tuple[str, bytes | None]:
    """The note as the board takes it; where that is not all of it, it says so, and the whole is to be attached."""
    data = note.encode()
    if len(data) <= NOTE:
        return note, None
    mark = f"\n\n[… cut here; all {len(data)} bytes are in {WHOLE} …]"
    return data[: NOTE - len(mark.encode())].decode("utf-8", "ignore") + mark, data
