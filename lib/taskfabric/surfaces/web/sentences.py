"""The journal's events as short sentences for people. Whatever an event says of itself stands there as plain text."""

from __future__ import annotations

import re
from typing import Final

from taskfabric.domain.journal import Event

_WORDS: Final = {
    "submitted": "made the task",
    "claimed": "took it",
    "done": "finished it",
    "parked": "put it back until later",
    "waiting": "stopped to ask",
    "asked": "asked a question",
    "answered": "answered",
    "failed": "failed at it",
    "dead": "ended as a dead letter",
    "released": "gave it back",
    "swept": "lease expired, taken back",
    "expired": "lease expired, taken back",
    "verified": "verified the result",
    "rejected": "sent the result back",
    "cancelled": "cancelled it",
    "refused": "was refused",
    "redriven": "put it back to work",
    "edited": "changed its words",
    "moved": "moved the card",
    "shifted": "moved the card within its column",
    "passed-on": "passed the question on",
    "transferred": "moved it to another queue",
    "commented": "said something",
    "attached": "attached a file",
    "resumed": "is ready again",
    "held": "was held",
}
_FACTS: Final = (
    "from",
    "to",
    "title",
    "queue",
    "name",
    "note",
    "reason",
    "message",
    "error",
    "until",
    "rule",
    "verdict",
)
_LONGEST: Final = 160  # characters of one fact


def sentence(event: Event) -> str:
    """What happened, without the name of who did it."""
    words = _WORDS.get(event.kind, re.sub(r"[-_.]", " ", event.kind))
    facts = [f"{name}: {text}" for name in _FACTS if (text := _fact(event.data.get(name)))]
    return f"{words} ({'; '.join(facts)})" if facts else words


def _fact(value: object) -> str:
    if value is None or isinstance(value, bool | dict | list):
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
