"""Whom a task is for: a name, the pool, a set of constraints, or ``auto``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Trust
from taskfabric.domain.tier import TIERS

NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
CAPABILITY: Final = re.compile(r"[a-z0-9][a-z0-9._+/-]{0,62}")
_HELP: Final = "write a name, `pool`, `auto`, or `any:tier=large,needs=tools+vision,trust=trusted,cost=flat`"
_KEYS: Final = ("tier", "needs", "trust", "cost", "queue")
COSTS: Final = ("local", "flat", "metered")  # from what costs least


class TargetKind(StrEnum):
    """How a target names its receivers."""

    NAME = "name"  # an agent's queue, a human's inbox, or a queue's own name
    ANY = "any"  # any agent that fits, through a pool
    AUTO = "auto"  # the fabric decides tier and needs, then as ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed target. Constraints add to those that the task itself names."""

    kind: TargetKind
    name: str = ""  # for NAME; for ANY a pool's name, "" = the default pool
    tier: str = ""
    needs: tuple[str, ...] = ()
    trust: Trust | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """Raises BadInput, with what may be written instead."""
        word = text.strip()
        if word == "auto":
            return cls(kind=TargetKind.AUTO)
        if word in ("pool", "any"):
            return cls(kind=TargetKind.ANY)
        if word.startswith("any:"):
            return cls._constraints(word[4:])
        if not NAME.fullmatch(word):
            raise BadInput(f"{word[:40]!r} is not a target", next=_HELP, field="to")
        return cls(kind=TargetKind.NAME, name=word)

    @classmethod
    def _constraints(cls, text: str) -> Target:
        tier, name = "", ""
        trust: Trust | None = None
        needs: list[str] = []
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise BadInput(
                "`any:` names no constraint", next=f"leave the colon out for the whole pool; {_HELP}", field="to"
            )
        for part in parts:
            key, equals, value = part.partition("=")
            if not equals or not value:
                raise BadInput(f"{part[:40]!r} is not KEY=VALUE", next=_HELP, field="to")
            match key:
                case "tier":
                    tier = checked_tier(value)
                case "needs":
                    needs += [checked_need(n) for n in value.split("+")]
                case "trust":
                    trust = checked_trust(value)
                case "cost":
                    needs.append(_cost_need(value))
                case "queue":
                    if not NAME.fullmatch(value):
                        raise BadInput(f"{value[:40]!r} is not a queue's name", next=_HELP, field="to")
                    name = value
                case _:
                    hint = get_close_matches(key, _KEYS, 1)
                    mean = f"; did you mean {hint[0]!r}?" if hint else ""
                    raise BadInput(f"a target has no {key[:40]!r}{mean}", next=_HELP, field="to")
        return cls(kind=TargetKind.ANY, name=name, tier=tier, needs=tuple(sorted(set(needs))), trust=trust)


def costs_at_most(cost: str) -> tuple[str, ...]:
    """The capabilities of an agent of this cost: what ``any:cost=…`` asks for is one of them."""
    return tuple(f"cost/{word}" for word in COSTS[COSTS.index(cost) :])


def _cost_need(word: str) -> str:
    if word not in COSTS:
        raise BadInput(f"{word[:40]!r} is not a cost", next=f"one of {', '.join(COSTS)}", field="to")
    return f"cost/{word}"


def checked_tier(word: str) -> str:
    """The tier's name. Raises BadInput for another word."""
    if word not in TIERS:
        raise BadInput(f"{word[:40]!r} is not a tier", next=f"one of {', '.join(TIERS)}", field="tier")
    return word


def checked_need(word: str) -> str:
    """A capability's name. Raises BadInput for anything that cannot be one."""
    if not CAPABILITY.fullmatch(word):
        raise BadInput(f"{word[:40]!r} is not a capability", next="lower case, digits, . _ + / -", field="needs")
    return word


def checked_trust(word: str) -> Trust:
    """The trust class. Raises BadInput for another word."""
    try:
        return Trust.of(word)
    except KeyError:
        names = ", ".join(t.word for t in Trust)
        raise BadInput(f"{word[:40]!r} is not a trust class", next=f"one of {names}", field="trust") from None


def checked_name(word: str, what: str) -> str:
    """A name for a queue, a user or an agent. Raises BadInput for anything that cannot be one."""
    if not NAME.fullmatch(word):
        raise BadInput(
            f"{word[:40]!r} cannot be a {what}'s name",
            next="lower case letters, digits, . _ -; at most 63 characters",
            field="name",
        )
    if word in {"auto", "any", "pool", "me"}:
        raise BadInput(f"{word!r} is a word of the target grammar; choose another name", field="name")
    return word
