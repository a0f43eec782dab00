"""Where a task comes from, and what follows: depth, fan-out, cycles, inherited trust, and who may close.

Everything here is decided from rows that the server read, never from what a caller says about itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from taskfabric.domain.errors import FabricError, Refused
from taskfabric.domain.principal import Kind, Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one submitter may make; the hallway passes them to the board, which checks them before any write."""

    per_hour: int = 120  # submissions of one agent in an hour
    open_per_agent: int = 500  # open tasks that one agent has submitted
    depth: int = 4  # levels below a root
    fan_out: int = 12  # children of one task
    same_title: int = 2  # equal (agent, title, parent) within the loop window; one more is a loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Parentage:
    """The rows a new child's limits are derived from."""

    depth: int  # of the parent
    children: int  # that the parent has already
    is_open: bool


def check_child(parent: Parentage, limits: Limits) -> None:
    """Raises Refused if the parent may have no further child (invariant 6)."""
    if parent.depth + 1 > limits.depth:
        raise Refused(
            f"a task may stand at most {limits.depth} levels below its root",
            next="finish this level first, or ask a human to submit it",
            rule="depth",
            limit=limits.depth,
        )
    if parent.children + 1 > limits.fan_out:
        raise Refused(
            f"a task may have at most {limits.fan_out} children",
            next="put the rest into the children you have, or ask a human",
            rule="fan-out",
            limit=limits.fan_out,
        )


def check_quota(last_hour: int, still_open: int, adding: int, limits: Limits) -> None:
    """Raises Refused if an agent would submit more than its quota (invariant 6)."""
    if last_hour + adding > limits.per_hour:
        raise Refused(
            f"an agent may submit {limits.per_hour} tasks an hour; this one has made {last_hour}",
            next="submit fewer, or wait",
            rule="quota-hour",
            limit=limits.per_hour,
        )
    if still_open + adding > limits.open_per_agent:
        raise Refused(
            f"an agent may have {limits.open_per_agent} open tasks; this one has {still_open}",
            next="wait until some are finished, or cancel some",
            rule="quota-open",
            limit=limits.open_per_agent,
        )


def inherited(trusts: Iterable[Trust]) -> Trust:
    """The lowest of what made it (invariant 2); HUMAN for nothing at all."""
    return min(trusts, default=Trust.HUMAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinship:
    """Who must not judge a result: the agents that made it, its ancestors and its descendants."""

    producer_id: int | None
    submitter_id: int
    relatives: frozenset[int] = frozenset()  # agents that submitted, held or produced it, its ancestors or descendants


def may_judge(closer_id: int, kind: Kind, kin: Kinship, *, human_only: bool) -> FabricError | None:
    """Why this principal may not verify or reject, or None if it may (invariant 3). A human who submitted may."""
    if closer_id == kin.producer_id:
        return Refused(
            "whoever produced a result never verifies it",
            next="let somebody else look at it",
            rule="producer-never-closes",
        )
    if kind is not Kind.HUMAN and human_only:
        return Refused("this result waits for a human to verify", next="leave it to a human", rule="needs-human-verify")
    if kind is Kind.AGENT and (closer_id in kin.relatives or closer_id == kin.submitter_id):
        return Refused(
            "no agent of a result's ancestry or descent verifies it",
            next="let a human or an unrelated agent look at it",
            rule="kin-never-closes",
        )
    if kind is Kind.SERVICE:
        return Refused("a service of the fabric decides nothing", next="let a person look at it", rule="service")
    return None


def closes_a_cycle(blocker: int, dependent: int, blocked_by: Collection[int]) -> bool:
    """True if "``dependent`` is blocked by ``blocker``" would close a ring; ``blocked_by`` is all that the blocker
    itself waits for, directly or not."""
    return blocker == dependent or dependent in blocked_by
