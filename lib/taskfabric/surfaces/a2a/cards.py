"""Agent cards as A2A shows them: made from the fabric's own cards, with an ETag, signed where there is a key."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

import orjson

from taskfabric import __version__
from taskfabric.domain.card import AgentCard
from taskfabric.domain.errors import BadInput
from taskfabric.settings import A2A as Rules

Shape = dict[str, Any]

VERIFICATION: Final = "https://taskfabric.dev/extensions/verification/v1"
BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
_KEPT: Final = 500  # cards that are remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A card, ready to be sent."""

    body: bytes
    etag: bytes
    modified: bytes  # as HTTP writes an instant


class Cards:
    """Makes cards and remembers them, so that showing one costs next to nothing."""

    def __init__(self, rules: Rules, *, schemes: Mapping[str, Any], requirements: Sequence[Any]) -> None:
        self._rules = rules
        self._schemes = schemes
        self._requirements = requirements
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], tuple[AgentCard, Served]] = {}
        self._signer = _signer(Path(rules.signing_key).expanduser()) if rules.signing_key else None

    def served(self, card: AgentCard, url: str) -> Served:
        """The public card of an agent whose address is ``url``."""
        kept = self._made.get((url, card.name))
        if kept is not None and kept[0] == card:
            return kept[1]
        unsigned = self.public(card, url)
        body = orjson.dumps(unsigned)
        tag = hashlib.sha256(body).hexdigest()[:32]
        if self._signer is not None:
            body = orjson.dumps(self._signer(unsigned))
        made = Served(body=body, etag=b'"%b"' % tag.encode(), modified=formatdate(time.time(), usegmt=True).encode())
        with self._lock:
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[url, card.name] = (card, made)
        return made

    def public(self, card: AgentCard, url: str) -> Shape:
        """What everybody may know of the agent, in ProtoJSON."""
        rules = self._rules
        modes = [mode.strip() for mode in rules.input_modes.split(",") if mode.strip()]
        return {
            "name": card.name,
            "description": card.description or f"The agent {card.name}.",
            "version": __version__,
            "supportedInterfaces": [
                {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
                for binding in ("JSONRPC", "HTTP+JSON")
            ],
            "capabilities": {
                "streaming": rules.streaming,
                "pushNotifications": rules.push,
                "extendedAgentCard": rules.extended_card,
                "extensions": [
                    {
                        "uri": VERIFICATION,
                        "description": "Task.metadata says whether a completed task was verified by somebody else.",
                        "required": False,
                    }
                ],
            },
            "securitySchemes": dict(self._schemes),
            "securityRequirements": list(self._requirements),
            "defaultInputModes": modes,
            "defaultOutputModes": ["text/plain"],
            "skills": _skills(card),
        }

    def extended(self, card: AgentCard, url: str, *, queue: str) -> Shape:
        """What a caller may know who has shown who he is."""
        shape = self.public(card, url)
        shape["skills"] = [
            *shape["skills"],
            {
                "id": "fabric",
                "name": "How it works here",
                "description": (
                    f"kind {card.kind.value}, trust {card.trust.word}, tiers {', '.join(card.tiers) or 'all'},"
                    f" at most {card.concurrency} task(s) at once, tools {', '.join(card.tools) or 'none'};"
                    f" its tasks stand in the queue {queue} of the board."
                    f" A blocking send waits at most {self._rules.wait_cap.total_seconds():g} s."
                ),
                "tags": ["fabric"],
            },
        ]
        return self._signer(shape) if self._signer is not None else shape


def _skills(card: AgentCard) -> list[Shape]:
    found = [
        {
            "id": word,
            "name": word,
            "description": f"{card.name} offers {word}.",
            "tags": [word, *card.tiers],
        }
        for word in card.capabilities
    ]
    general = {
        "id": card.name,
        "name": card.name,
        "description": card.description or f"Whatever {card.name} is asked for in words.",
        "tags": [card.kind.value, *card.tiers],
    }
    return [general, *(skill for skill in found if skill["id"] != card.name)]


def _signer(file: Path) -> Any:
    """Signs a card with the private key in this file. Raises BadInput."""
    from a2a.types import AgentCard as Wire
    from a2a.utils.signing import create_agent_card_signer
    from google.protobuf.json_format import MessageToDict, ParseDict

    try:
        key = file.read_text()
        kid = hashlib.sha256(key.encode()).hexdigest()[:16]
        protected: Any = {"kid": kid, "alg": "ES256", "typ": "JOSE"}  # without a jku: readers pin the key
        sign = create_agent_card_signer(key, protected)
        sign(ParseDict({"name": "probe", "description": "probe", "version": "1"}, Wire()))
    except Exception as error:
        raise BadInput(
            f"a2a.signing_key cannot be used: {type(error).__name__}",
            next="name a file with a private key for ES256 in PEM: openssl ecparam -genkey -name prime256v1 -noout",
            setting="a2a.signing_key",
        ) from error

    def signed(shape: Shape) -> Shape:
        done: Shape = MessageToDict(sign(ParseDict(shape, Wire())))
        return done

    return signed
