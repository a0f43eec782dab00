"""Text that looks like what it is: what has no shape of its own, or turns the rest around, is shown as an escape.

A person decides by what he sees. In a name or an argument a mark of direction can make one address look like another,
and two keys that differ by a character without width look the same.
"""

from __future__ import annotations

import unicodedata

_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})  # categories of Unicode
_PLAIN = frozenset("\n\t")


def visible(text: str) -> str:
    """The text with such characters as ``\\u202e``; line breaks and tabs stay. In JSON it means the same."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(c) if unicodedata.category(c) in _INVISIBLE and c not in _PLAIN else c for c in text)


def _escape(character: str) -> str:
    code = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
