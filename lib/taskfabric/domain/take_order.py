"""In which order ready tasks are taken: by lanes, with aging.

A lane holds the ready tasks of one queue that share priority, tier, needs and trust; within a lane the board's
position decides. A claim looks only at the heads of the lanes it may serve. A lane whose head has waited longer than
the aging bound goes before all others, the longest wait first, so that a flood of urgent work starves nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Trust

PRIORITIES: Final = (0, 1, 2, 3)
HIGHEST_FIRST: Final = (3, 2, 1, 0)
HOUSEHOLD: Final = (1, 2, 0, 3)  # the other known household rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first ready task of a lane."""

    task_id: int
    priority: int
    queue_order: int  # the claimer's own queue is 0, then its pools in their order
    rank: int  # board position
    ready_since: datetime


def checked(order: Sequence[int]) -> tuple[int, ...]:
    """The take order as a tuple. Raises BadInput unless it names each priority 0..3 once."""
    if sorted(order) != list(PRIORITIES):
        raise BadInput("a take order names each priority 0, 1, 2, 3 exactly once", field="take_order")
    return tuple(order)


def first(heads: Iterable[Head], order: Sequence[int], *, aging: timedelta, now: datetime) -> Head | None:
    """The head that a claim takes. The claim's SQL does the same; a property test holds the two together."""

    def key(head: Head) -> tuple[object, ...]:
        usual = (head.queue_order, order.index(head.priority), head.rank, head.task_id)
        if now - head.ready_since > aging:
            return (0, head.ready_since, *usual)
        return (1, *usual)

    return min(heads, key=key, default=None)


def serves(
    *,
    tier: str,
    needs: Iterable[str],
    required: Trust,
    own_queue: bool,
    tiers: Sequence[str] | None,
    capabilities: Iterable[str] | None,
    trust: Trust,
) -> bool:
    """True if an agent with these tiers, capabilities and trust may take a task of this lane.

    A task in the agent's own queue was addressed to it by name, so the tier does not matter there; needs and trust do.
    """
    fits_tier = own_queue or not tier or tiers is None or tier in tiers
    fits_needs = capabilities is None or set(needs) <= set(capabilities)
    return fits_tier and fits_needs and trust >= required
