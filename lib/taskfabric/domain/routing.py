"""What ``auto`` decides: how large a model a task asks for, and what else it needs. Pure; without any encoder.

A route is a kind of task. Which one a text belongs to is judged by meaning, where an encoder is at hand, else by its
words and its length. What is then asked for is fitted to the agents that there are: a need that nobody offers would
keep the task from ever being claimed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskfabric.domain.tier import TIERS

_WORD: Final = re.compile(r"[\w-]+")
_LONG: Final = 3000  # characters: whoever writes so much asks for something large
_ENOUGH: Final = 20_000  # characters that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A kind of task."""

    name: str
    tier: str
    needs: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()  # what an encoder compares with
    words: tuple[str, ...] = ()  # what counts without one; "plan*" = all words that begin so


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a text was judged to be."""

    route: Route | None  # None: like nothing that is known
    sure: bool  # False: a person is asked
    why: str  # for the card


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one agent of a pool takes."""

    tiers: tuple[str, ...] | None  # None = every tier
    capabilities: tuple[str, ...] | None  # None = everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a task then asks for."""

    tier: str
    needs: tuple[str, ...]
    notes: tuple[str, ...] = ()  # where it differs from what its route would have asked for


def by_words(text: str, routes: Sequence[Route]) -> Verdict:
    """The route whose words the text has most of; of two that are level none. A very long text is a large task."""
    words = {word.casefold() for word in _WORD.findall(text[:_ENOUGH])}
    hits = {route.name: _hits(route, words) for route in routes}
    best = max(hits.values(), key=len, default=[])
    leading = [route for route in routes if best and len(hits[route.name]) == len(best)]
    if len(text) > _LONG:
        large = next((r for r in leading if r.tier == TIERS[-1]), None) or next(
            (r for r in routes if r.tier == TIERS[-1]), None
        )
        return Verdict(route=large, sure=large is not None, why=f"by its length of {len(text)} characters")
    if len({route.tier for route in leading}) == 1:
        return Verdict(route=leading[0], sure=True, why=f"by its words ({', '.join(sorted(best)[:4])})")
    return Verdict(route=leading[0] if leading else None, sure=False, why="its words do not say")


def _hits(route: Route, words: set[str]) -> list[str]:
    found = []
    for word in route.words:
        if word.endswith("*"):
            found += [one for one in sorted(words) if one.startswith(word[:-1])][:1]
        elif word in words:
            found.append(word)
    return found


def matters(offers: Sequence[Offer]) -> bool:
    """Whether it makes any difference what a task asks for: not while all agents take the same."""
    return len({(o.tiers, o.capabilities) for o in offers}) > 1


def fitted(route: Route, offers: Sequence[Offer], *, tier: str = "", asked: Sequence[str] = ()) -> Choice:
    """The route's tier and needs as far as an agent offers them; ``tier`` and ``asked`` are the submitter's own, and
    stand whatever anybody offers. The tier moves to the nearest that is offered, a larger one first."""
    notes: list[str] = []
    chosen = tier or route.tier
    if not tier:
        chosen = _nearest(route.tier, offers, asked)
        if chosen != route.tier:
            notes.append(f"no agent here takes {route.tier}")
    able = [o for o in offers if _takes(o, chosen, asked)]
    needs = [n for n in route.needs if n in asked or any(_has(o, (*asked, n)) for o in able)]
    while needs and not any(_has(o, (*asked, *needs)) for o in able):
        needs.pop()
    notes += [f"no agent of that tier offers {need}" for need in route.needs if need not in needs]
    return Choice(tier=chosen, needs=tuple(sorted({*asked, *needs})), notes=tuple(notes))


def _nearest(tier: str, offers: Sequence[Offer], asked: Sequence[str]) -> str:
    at = TIERS.index(tier)
    order = [*TIERS[at:], *reversed(TIERS[:at])]
    return next((t for t in order if any(_takes(o, t, asked) for o in offers)), tier)


def _takes(offer: Offer, tier: str, needs: Sequence[str]) -> bool:
    return (offer.tiers is None or tier in offer.tiers) and _has(offer, needs)


def _has(offer: Offer, needs: Sequence[str]) -> bool:
    return offer.capabilities is None or set(needs) <= set(offer.capabilities)


def rating(text: str) -> str | None:
    """The tier that a person's answer names: the first word of it that is one, else None."""
    return next((word for word in (w.casefold() for w in _WORD.findall(text)) if word in TIERS), None)


def told(choice: Choice, verdict: Verdict, *, sure: bool) -> str:
    """The comment on the card: what was decided, and why."""
    asks = choice.tier + "".join(f", needs {need}" for need in choice.needs)
    kind = f"; it is like {verdict.route.name!r}" if verdict.route is not None else ""
    rest = "".join(f"; {note}" for note in choice.notes)
    return f"auto: {asks}{'' if sure else ' (a guess)'}, {verdict.why}{kind}{rest}"


def by_name(routes: Sequence[Route]) -> Mapping[str, Route]:
    return {route.name: route for route in routes}
