"""The holder's verbs: claim, take, renew, and every way a run ends."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from datetime import timedelta

from taskfabric.domain.errors import BadInput, FabricError, NoFence, NotFound, Refused, not_found
from taskfabric.domain.lease import Fence, Renewal
from taskfabric.domain.outcome import (
    Declined,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    Waiting,
    WaitingOnChildren,
)
from taskfabric.domain.principal import Caller, Principal, Trust, Viewer
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.board import NewFile, Want
from taskfabric.services import policy, text, verbs
from taskfabric.services.desk import Desk
from taskfabric.services.routing import Routing


class Draining:
    """The verbs by which work is taken and ended."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._routing = Routing(desk)

    # -- taking --------------------------------------------------------------------------------------

    def claim(self, caller: Caller, verb: verbs.Claim) -> list[Claimed]:
        want = self.want(caller, verb.queue, verb.lease)
        return self._desk.board.claim(want, verb.limit, caller.stamp()) if want.queues else []

    def take(self, caller: Caller, verb: verbs.Take) -> Claimed:
        policy.refuse_service(caller, "take a task")
        task = self._desk.see(caller, verb.task)
        queue = self._desk.queue_of(task)
        if queue is None or not policy.may_claim(self._desk, caller, queue):
            raise Refused(
                f"only those who work in {task.queue!r} take its tasks",
                next="ask to become a member of the queue",
                rule="not-a-member",
                task=task.id,
            )
        return self._desk.board.take(task.id, self._want(caller, (queue.project_id,), verb.lease), caller.stamp())

    def want(self, caller: Caller, queue_name: str | None, lease: float | None) -> Want:
        """What this caller may claim: of one queue, or of its own queue and then of those it works in.

        Raises NotFound for a queue that is not there or that it may not claim from."""
        policy.refuse_service(caller, "claim a task")
        desk = self._desk
        if queue_name is None:
            mine = desk.projects.queues_of(caller.principal.id)
            found = tuple(q.project_id for q in mine if policy.may_claim(desk, caller, q))
        else:
            queue = desk.named(caller, queue_name)
            if queue is None or not policy.may_claim(desk, caller, queue):
                raise not_found("queue")
            found = (queue.project_id,)
        return self._want(caller, found, lease)

    def _want(self, caller: Caller, queues: tuple[int, ...], lease: float | None) -> Want:
        rules, me = self._desk.rules, caller.principal
        own = [q.project_id for q in self._desk.projects.queues_of(me.id) if q.owner_id == me.id]
        return Want(
            queues=queues,
            own=frozenset(own),
            tiers=None if me.is_human else me.tiers,
            capabilities=None if me.is_human else me.capabilities,
            trust=Trust.HUMAN if me.is_human else me.trust,
            lease=self._length(caller, lease) or (rules.human_lease if me.is_human else rules.lease),
            order=rules.take_order,
            aging=rules.aging,
            concurrency=me.concurrency,
        )

    def _length(self, caller: Caller, seconds: float | None) -> timedelta | None:
        """The length that was asked for. Raises BadInput for an agent that asks for more than the house allows."""
        if seconds is None:
            return None
        longest = self._desk.rules.max_lease.total_seconds()
        if not caller.principal.is_human and seconds > longest:
            raise BadInput(
                f"an agent's lease lasts at most {longest:g} s",
                next="claim for less, and renew while the work goes on",
                field="lease",
                limit=longest,
            )
        return timedelta(seconds=seconds)

    def renew(self, caller: Caller, verb: verbs.Renew) -> list[Renewal]:
        lease = self._length(caller, verb.lease)
        fences = [fence.value for fence in verb.fences]
        foreign = policy.outside(self._desk, caller, [fence.task_id for fence in fences], "renew")
        mine = [fence for fence in fences if fence.task_id not in foreign]
        renewed = iter(self._desk.board.renew(mine, lease, caller.stamp()) if mine else ())
        return [
            Renewal(task_id=f.task_id, epoch=f.epoch, until=None) if f.task_id in foreign else next(renewed)
            for f in fences
        ]

    # -- ending --------------------------------------------------------------------------------------

    def done(self, caller: Caller, verb: verbs.Done) -> Task:
        note = text.needed_note(verb.note, self._desk.rules, "finishing")
        read = [(file.name, decoded(file, self._desk.rules.attachment)) for file in verb.attach]
        target = self._target(caller, verb)
        self._routing.answered(caller, target, note)
        # Bytes in the store are nobody's until they are listed, and that is one transaction with the end.
        files = [NewFile(name=name, size=len(data), sha256=self._desk.files.put(data)) for name, data in read]
        return self._settle(caller, target, Done(note=note, verdict=verb.verdict), files)

    def done_many(self, caller: Caller, verb: verbs.DoneMany) -> list[Task | FabricError]:
        rules = self._desk.rules
        ends = [
            (end.fence.value, Done(note=text.needed_note(end.note, rules, "finishing"), verdict=end.verdict))
            for end in verb.ends
        ]
        if len({fence for fence, _ in ends}) < len(ends):
            raise BadInput("two of the finishes name the same lease", next="finish each task once", field="ends")
        foreign = policy.outside(self._desk, caller, [fence.task_id for fence, _ in ends], "done")
        mine = [end for end in ends if end[0].task_id not in foreign]
        settled = iter(self._desk.board.settle_many(mine, caller.stamp()) if mine else ())
        return [not_found("task") if fence.task_id in foreign else next(settled) for fence, _ in ends]

    def park(self, caller: Caller, verb: verbs.Park) -> Task:
        until = text.instant(verb.until, "until")
        assert until is not None
        now, longest = self._desk.board.now(), self._desk.rules.longest_park
        if until > now + longest:
            raise BadInput(f"a task is parked for at most {longest.days} days", field="until")
        reason = text.note(verb.note, self._desk.rules)
        return self._end(caller, verb, Parked(until=max(until, now), reason=reason, head=verb.head))

    def ask(self, caller: Caller, verb: verbs.Ask) -> Task:
        question = text.needed_note(verb.note, self._desk.rules, "a question")
        target = self._target(caller, verb)
        task_id = target.task_id if isinstance(target, Fence) else target
        asked = self._asked(caller, task_id, verb.of)
        of_id = None if asked is None else asked.id
        return self._settle(caller, target, Waiting(question=question, of_id=of_id, auth=verb.auth))

    def wait_for_children(self, caller: Caller, verb: verbs.WaitForChildren) -> Task:
        return self._end(caller, verb, WaitingOnChildren())

    def fail(self, caller: Caller, verb: verbs.Fail) -> Task:
        error = text.needed_note(verb.note, self._desk.rules, "a failure")
        return self._end(caller, verb, Failed(error=error, retry=not verb.final))

    def release(self, caller: Caller, verb: verbs.Release) -> Task:
        reason = text.note(verb.note, self._desk.rules)
        return self._end(caller, verb, Released(reason=reason, drained=verb.drained))

    def decline(self, caller: Caller, verb: verbs.Decline) -> Task:
        return self._end(caller, verb, Declined(reason=text.needed_note(verb.note, self._desk.rules, "a refusal")))

    def _end(self, caller: Caller, verb: verbs._End, outcome: Outcome) -> Task:
        return self._settle(caller, self._target(caller, verb), outcome)

    def _target(self, caller: Caller, verb: verbs._End) -> Fence | int:
        """The fence that was named, or, for a human's own act, the task. The server never infers a fence."""
        if verb.fence is not None:
            if verb.task not in (None, verb.fence.task):
                raise BadInput("the task and the fence name two different tasks", field="task")
            if policy.outside(self._desk, caller, [verb.fence.task], verb.method.removeprefix("fabric.")):
                raise not_found("task")
            policy.refuse_above(self._desk, caller, verb.fence.task, "ending")
            return verb.fence.value
        if verb.task is None:
            raise NoFence("no lease was named")
        if not caller.principal.is_human or caller.run is not None:
            raise NoFence(f"this needs the fence of the lease on #{verb.task}", task=verb.task)
        task = self._desk.see(caller, verb.task)
        policy.need_part(self._desk, caller, task, "ending it by hand")
        return task.id

    def _settle(self, caller: Caller, target: Fence | int, outcome: Outcome, files: Sequence[NewFile] = ()) -> Task:
        if isinstance(outcome, Done | Failed | Declined):
            policy.refuse_gate(self._desk, caller, target.task_id if isinstance(target, Fence) else target, "ending")
        if isinstance(target, Fence):
            return self._desk.board.settle(target, outcome, caller.stamp(), files)
        return self._desk.board.settle_by_hand(target, outcome, caller.stamp(), files)

    def _asked(self, caller: Caller, task_id: int, name: str | None) -> Principal | None:
        """Whom the question goes to: the one named, else the human it is made for, else any human member.

        Of a task that the caller may not see nothing is told here: the board then refuses the fence."""
        try:
            task = self._desk.board.get(task_id, Viewer.of(caller))
        except NotFound:
            return None
        if task.restricted:
            return None
        if name is None:
            return self._desk.person(task.on_behalf)
        asked = self._desk.person(name)
        if asked is None or not asked.is_human:
            raise not_found("person")
        # A question shows the task to the one asked: membership of a pool, where most see little, is no reason to.
        by_hand = caller.principal.is_human and caller.run is None
        queue = self._desk.queue_of(task)
        near = asked.id == task.submitter_id or asked.name == task.on_behalf
        if queue is None or queue.kind is not QueueKind.POOL:
            near = near or policy.is_of(self._desk, asked.id, task.project_id)
        if not by_hand and not near:
            raise Refused(
                f"{asked.name} has no part in this task",
                next="ask the human it is made for (leave --of out)",
                rule="cross-user",
                task=task.id,
            )
        return asked


def decoded(file: verbs.FileArg, limit: int) -> bytes:
    """The bytes of a file that came with a call. Raises BadInput if they are no base64 or too many."""
    name = file.name.strip()
    text.plain(name, "name")
    if not name or len(name.splitlines()) > 1 or "/" in name or name in (".", ".."):
        raise BadInput("a file has a plain name, without a folder", field="name")
    if len(file.data) > (limit + 2) // 3 * 4:
        raise BadInput(f"a file may have at most {limit} bytes", field="data", limit=limit)
    try:
        data = file.bytes
    except (binascii.Error, ValueError):
        raise BadInput("the file's data is not base64", field="data") from None
    if len(data) > limit:
        raise BadInput(f"a file may have at most {limit} bytes", field="data", limit=limit)
    return data
