"""What an Ollama has in memory at present, by its own list: true sizes, also of models that no card of ours loaded."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from taskfabric.domain.card import AgentCard

_PREFIXES: Final = ("ollama/", "ollama_chat/")
_ANSWER: Final = 3.0  # seconds
_MOST: Final = 1 << 20  # bytes of an answer
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Megabytes that a loaded model takes."""

    gpu: int
    ram: int


def model_of(card: AgentCard) -> str:
    """Its model as Ollama names it; "" for a card that runs on something else."""
    model = card.model.model if card.model else ""
    name = next((model.removeprefix(prefix) for prefix in _PREFIXES if model.startswith(prefix)), "")
    return name if not name or ":" in name else f"{name}:latest"


def loaded(card: AgentCard) -> dict[str, Size]:
    """The models that the card's Ollama has loaded; none for another kind of card, or when it does not answer."""
    if not model_of(card) or card.model is None:
        return {}
    place = urlsplit(card.model.endpoint or "http://127.0.0.1:11434")
    make = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    try:
        with contextlib.closing(make(place.hostname or "", place.port, timeout=_ANSWER)) as line:
            line.request("GET", "/api/ps")
            shape = json.loads(line.getresponse().read(_MOST))
        return dict(_sized(entry) for entry in shape["models"])
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return {}


def _sized(entry: Mapping[str, Any]) -> tuple[str, Size]:
    whole, gpu = int(entry.get("size") or 0), int(entry.get("size_vram") or 0)
    return str(entry["name"]), Size(gpu=gpu // _MB, ram=max(0, whole - gpu) // _MB)


def measured(card: AgentCard, sizes: Mapping[str, Size]) -> AgentCard:
    """The card with the sizes that its model has in truth, where it is loaded; else with those that it declares."""
    size = sizes.get(model_of(card))
    return card if size is None else replace(card, gpu_mb=size.gpu, ram_mb=size.ram)


def of_strangers(cards: Iterable[AgentCard], sizes: Mapping[str, Size]) -> Size:
    """What models take that none of these cards uses: somebody else loaded them."""
    ours = {model_of(card) for card in cards}
    others = [size for name, size in sizes.items() if name not in ours]
    return Size(gpu=sum(size.gpu for size in others), ram=sum(size.ram for size in others))
