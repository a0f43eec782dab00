"""The holder's verbs: claim, take, renew, and every way a run ends."""

from __future__ import annotations

import binascii
import contextlib
from collections.abc import Sequence
from datetime import timedelta

from taskfabric.domain.errors import BadInput, FabricError, LeaseLost, NoFence, NotFound, Refused, not_found
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
from taskfabric.domain.task import Claimed, Task
from taskfabric.ports.board import Want
from taskfabric.services import policy, text, verbs
from taskfabric.services.desk import Desk


class Draining:
    """The verbs by which work is taken and ended."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

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
        usual = rules.human_lease if me.is_human else rules.lease
        own = [q.project_id for q in self._desk.projects.queues_of(me.id) if q.owner_id == me.id]
        return Want(
            queues=queues,
            own=frozenset(own),
            tiers=None if me.is_human else me.tiers,
            capabilities=None if me.is_human else me.capabilities,
            trust=Trust.HUMAN if me.is_human else me.trust,
            lease=usual if lease is None else timedelta(seconds=lease),
            order=rules.take_order,
            aging=rules.aging,
            concurrency=me.concurrency,
        )

    def renew(self, caller: Caller, verb: verbs.Renew) -> list[Renewal]:
        lease = None if verb.lease is None else timedelta(seconds=verb.lease)
        return self._desk.board.renew([fence.value for fence in verb.fences], lease, caller.stamp())

    # -- ending --------------------------------------------------------------------------------------

    def done(self, caller: Caller, verb: verbs.Done) -> Task:
        note = text.needed_note(verb.note, self._desk.rules, "finishing")
        files = [decoded(file, self._desk.rules.attachment) for file in verb.attach]
        target = self._target(caller, verb)
        outcome = Done(note=note, verdict=verb.verdict)
        if not isinstance(target, Fence):  # by hand: a refused act leaves no file behind
            done = self._settle(caller, target, outcome)
            self._attach(caller, target, verb.attach, files)
            return done
        # Without the lease the finish is refused as well, and its words are kept (G3).
        with contextlib.suppress(LeaseLost):
            self._attach(caller, target, verb.attach, files)
        return self._settle(caller, target, outcome)

    def _attach(self, caller: Caller, target: Fence | int, named: Sequence[verbs.FileArg], files: list[bytes]) -> None:
        task_id, fence = (target.task_id, target) if isinstance(target, Fence) else (target, None)
        for file, data in zip(named, files, strict=True):
            sha256 = self._desk.files.put(data)
            self._desk.board.attach(task_id, file.name, len(data), sha256, caller.stamp(), fence)

    def done_many(self, caller: Caller, verb: verbs.DoneMany) -> list[Task | FabricError]:
        rules = self._desk.rules
        ends = [
            (end.fence.value, Done(note=text.needed_note(end.note, rules, "finishing"), verdict=end.verdict))
            for end in verb.ends
        ]
        found: list[Task | FabricError] = []
        for end in self._desk.board.settle_many(ends, caller.stamp()):
            if isinstance(end, Exception) and not isinstance(end, FabricError):
                raise end
            found.append(end)
        return found

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
            return verb.fence.value
        if verb.task is None:
            raise NoFence("no lease was named")
        if not caller.principal.is_human or caller.run is not None:
            raise NoFence(f"this needs the fence of the lease on #{verb.task}", task=verb.task)
        task = self._desk.see(caller, verb.task)
        policy.need_part(self._desk, caller, task, "ending it by hand")
        return task.id

    def _settle(self, caller: Caller, target: Fence | int, outcome: Outcome) -> Task:
        if isinstance(target, Fence):
            return self._desk.board.settle(target, outcome, caller.stamp())
        return self._desk.board.settle_by_hand(target, outcome, caller.stamp())

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
        me = caller.principal
        queue = self._desk.queue_of(task)
        near = (
            me.is_human
            or asked.id in (task.submitter_id, me.owner_id)
            or asked.name == task.on_behalf
            or (queue is not None and queue.owner_id == asked.id)
            or self._desk.projects.role_of(task.project_id, asked.id) in policy.WORKS
        )
        if not near:
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
