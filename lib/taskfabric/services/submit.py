"""Submit: where a task goes, what it inherits, and what is written down of where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import assert_never

from taskfabric.domain.ancestry import inherited
from taskfabric.domain.errors import BadInput, Refused
from taskfabric.domain.letter import NOTIFY
from taskfabric.domain.principal import Caller, Trust, Viewer
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.target import Target, TargetKind, checked_need, checked_tier, checked_trust
from taskfabric.domain.task import NewTask, Submitted, Task
from taskfabric.domain.tier import TIERS, score_hold, tier_of
from taskfabric.services import policy, text, verbs
from taskfabric.services.desk import Desk
from taskfabric.services.routing import Routed, Routing


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a new task inherits, from rows that the server read (invariants 1 and 2)."""

    parent: Task | None
    trust: Trust
    label: str
    on_behalf_id: int | None


class Submitting:
    """The verbs that make tasks."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._routing = Routing(desk)

    def one(self, caller: Caller, verb: verbs.Submit) -> Submitted:
        return self._put(caller, [verb])[0]

    def many(self, caller: Caller, verb: verbs.SubmitMany) -> list[Submitted]:
        return self._put(caller, verb.tasks)

    def prepared(self, caller: Caller, verb: verbs.Submit, queue: Queue) -> NewTask:
        """The task as it would be made in this queue, into which the caller may submit. Raises as a submit does."""
        target = Target(kind=TargetKind.NAME, name=queue.name)
        return self._new(caller, verb, (target, queue), self.origin(caller, self._parent_of(caller, verb)))

    def _put(self, caller: Caller, wanted: Sequence[verbs.Submit]) -> list[Submitted]:
        origins: dict[int | None, Origin] = {}
        places: dict[str, tuple[Target, Queue]] = {}
        new: list[NewTask] = []
        routed: dict[int, Routed] = {}
        for verb in wanted:
            if verb.to not in places:
                target = Target.parse(verb.to)
                places[verb.to] = (target, self.resolve(caller, target))
            parent = self._parent_of(caller, verb)
            if parent not in origins:
                origins[parent] = self.origin(caller, parent)
            made = self._new(caller, verb, places[verb.to], origins[parent])
            made, decided = self._routing.applied(made, places[verb.to], asks=origins[parent].on_behalf_id)
            if decided is not None:
                routed[len(new)] = decided
            new.append(made)
        submitted = self._desk.board.submit(new, caller.stamp(), self._desk.rules.limits)
        for place, decided in routed.items():
            if submitted[place].created:
                self._routing.say(submitted[place].task, decided)
        return submitted

    def _new(self, caller: Caller, verb: verbs.Submit, place: tuple[Target, Queue], origin: Origin) -> NewTask:
        rules = self._desk.rules
        target, queue = place
        tier = _stricter_tier(target.tier, checked_tier(verb.tier) if verb.tier else "")
        needs = tuple(sorted({*target.needs, *(checked_need(need) for need in verb.needs)}))
        if len(needs) > rules.needs:
            raise BadInput(f"a task asks for at most {rules.needs} capabilities", field="needs", limit=rules.needs)
        asked = checked_trust(verb.trust) if verb.trust else Trust.UNTRUSTED
        below = Trust.UNTRUSTED if origin.parent is None else origin.parent.required_trust
        for blocker in dict.fromkeys(verb.after):
            self._desk.board.get(blocker, Viewer.of(caller))
        return NewTask(
            project_id=queue.project_id,
            title=text.title(verb.title, rules),
            description=text.description(verb.description, rules),
            priority=verb.priority,
            score=verb.score,
            tier=tier_of(verb.score, tier, rules.thresholds),
            needs=needs,
            required_trust=max(asked, below, target.trust or Trust.UNTRUSTED),
            tags=text.tags((*verb.tags, NOTIFY) if verb.notify else verb.tags, rules),
            refs=text.refs(verb.refs, rules),
            reference=verb.reference,
            due=text.instant(verb.due, "due"),
            not_before=text.instant(verb.not_before, "not_before"),
            parent=None if origin.parent is None else origin.parent.id,
            after=tuple(dict.fromkeys(verb.after)),
            backlog=verb.backlog,
            hold=score_hold(verb.score, tier, check=queue.score_check),
            human_verify=verb.human_verify or queue.human_verify,
            max_attempts=rules.max_attempts,
            key=verb.key,
            key_open=verb.key_scope == "open",
            body_hash=b"" if verb.key is None else body_hash(verb),
            trust=origin.trust,
            label="private" if verb.label == "private" else origin.label,  # raised, never lowered
            on_behalf_id=origin.on_behalf_id,
        )

    # -- where it comes from -------------------------------------------------------------------------

    def _parent_of(self, caller: Caller, verb: verbs.Submit) -> int | None:
        if caller.run is None:
            return verb.parent
        if verb.parent not in (None, caller.run.task_id):
            raise Refused(
                "what a run submits is a child of its own task",
                next="leave the parent out",
                rule="run-parent",
                task=caller.run.task_id,
            )
        return caller.run.task_id

    def origin(self, caller: Caller, parent_id: int | None) -> Origin:
        """What a task of this caller's inherits from this parent, or from himself."""
        me = caller.principal
        if parent_id is None:
            own = me.id if me.is_human else me.owner_id
            return Origin(parent=None, trust=me.trust, label="household", on_behalf_id=own)
        # A run's own task is read as the fabric: what its submissions inherit does not depend on what it may see.
        run_task = caller.run is not None
        parent = self._desk.board.get(parent_id, None) if run_task else self._desk.see(caller, parent_id)
        refusal = None if run_task else policy.may_have_child(self._desk, caller, parent)
        if refusal is not None:
            raise refusal
        behalf = self._desk.credentials.principal(parent.on_behalf) if parent.on_behalf else None
        if me.is_human and caller.run is None:
            behalf = me
        return Origin(
            parent=parent,
            trust=inherited([me.trust, parent.trust]),
            label=parent.label,
            on_behalf_id=me.owner_id if behalf is None else behalf.id,
        )

    # -- where it goes -------------------------------------------------------------------------------

    def resolve(self, caller: Caller, target: Target) -> Queue:
        """The queue that a target means. Raises NotFound or Refused if the caller may not submit there."""
        desk = self._desk
        match target.kind:
            case TargetKind.AUTO:
                queue = desk.projects.queue(desk.rules.default_pool)
            case TargetKind.ANY:
                queue = desk.projects.queue(target.name or desk.rules.default_pool)
                if queue is not None and queue.kind is not QueueKind.POOL:
                    queue = None
            case TargetKind.NAME:
                queue = desk.named(caller, target.name)
            case _:
                assert_never(target.kind)
        if queue is None:
            raise self._unknown(caller, target.name)
        refusal = policy.may_submit(desk, caller, queue)
        if refusal is not None:
            # A queue that the caller may not know of answers like one that does not exist, to the byte.
            raise refusal if isinstance(refusal, Refused) else self._unknown(caller, target.name)
        return queue

    def _unknown(self, caller: Caller, name: str) -> Exception:
        known = [q for q in self._desk.projects.queues() if policy.may_submit(self._desk, caller, q) is None]
        near = get_close_matches(name, {word for q in known for word in (q.name, q.owner or q.name)}, 1)
        error = policy.no_target()
        if near:
            error.next = f"did you mean {near[0]!r}?"
        return error


def _stricter_tier(one: str, other: str) -> str:
    return max(one, other, key=lambda tier: TIERS.index(tier) if tier else -1)


def body_hash(verb: verbs.Submit) -> bytes:
    """What makes two submits the same task (G11): everything but the key itself, written in one way.

    Arguments left at their default do not count, so that a key outlives a release which adds an argument."""
    body = verb.model_copy(
        update={"due": text.instant(verb.due, "due"), "not_before": text.instant(verb.not_before, "not_before")}
    ).model_dump(mode="json", exclude={"key", "key_scope"}, exclude_defaults=True)
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).digest()
