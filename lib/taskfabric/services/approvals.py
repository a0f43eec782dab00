"""Asking for an approval, and using it: the gate in a human's inbox, the run that ends while it waits, the answer.

The row is kept first, then the gate is put into the inbox, then the run ends, then people are told. Each step can be
done again: what a crash left half done the keeper's ``tend`` finishes, and nothing of it decides.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from taskfabric.domain.approval import YES, Act, Approval, Decider, Grant, Level, State, binding, canonical
from taskfabric.domain.errors import IllegalMove, LeaseLost, NotFound, Refused, not_found
from taskfabric.domain.lease import Fence
from taskfabric.domain.levels import checked_action
from taskfabric.domain.outcome import Done, Waiting
from taskfabric.domain.principal import Caller, Kind, Principal, RunRef, Stamp, Trust, Via
from taskfabric.domain.queue import Queue
from taskfabric.domain.status import FINISHED, Flag, Status
from taskfabric.domain.task import NewTask, Task
from taskfabric.ports.approvals import Look, NewApproval
from taskfabric.services import approval_verbs, policy, text
from taskfabric.services.approval_words import decided, ending, face, headline, said
from taskfabric.services.away import Humans
from taskfabric.services.desk import Desk
from taskfabric.services.levels import Levels
from taskfabric.services.looking import every_approval
from taskfabric.services.notices import Notices
from taskfabric.services.showing import Showing

log = logging.getLogger(__name__)

FABRIC: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


class Asking:
    """The verbs of the one who asks, and what every end of an approval brings about."""

    def __init__(self, desk: Desk, levels: Levels, humans: Humans, notices: Notices) -> None:
        self._desk = desk
        self._levels = levels
        self._humans = humans
        self._notices = notices
        self.showing: Final = Showing(desk, levels, humans)
        self._shown: Final = self.showing.shown

    # -- asking --------------------------------------------------------------------------------------

    def request(self, caller: Caller, verb: approval_verbs.RequestApproval) -> dict[str, Any]:
        """What the house says to this action. While a human must decide, the run that asks has ended: it waits."""
        policy.refuse_service(caller, "ask for an approval")
        action = checked_action(verb.action)
        run, fence = self._run(caller, verb)
        if run is None and caller.principal.is_human:
            raise Refused("a human's own act needs nobody's approval", next="just do it", rule="own-act")
        task = None if run is None else self._desk.board.get(run.task_id, None)
        label = "household" if task is None else task.label
        house, facts = self._levels.level_of(action, verb.args, label)
        level = max(house, Level.AUTO if verb.level is None else Level.of(verb.level))
        hash = binding(action, verb.args, level)
        if level < Level.CONFIRM:
            return self._without(caller, action, verb.args, level, run)
        why = text.note(verb.why, self._desk.rules, "why")
        person = self._whom(caller, task)
        now = self._desk.board.now()
        deciders = [d for d in self._humans.deciders(person, now) if d.principal_id != caller.principal.id]
        wanted = NewApproval(
            action=action,
            args=verb.args,
            hash=hash,
            level=level,
            requester_id=caller.principal.id,
            why=why,
            recipient=facts.recipient,
            amount=facts.amount if facts.amount is None or facts.amount < float("inf") else None,
            label=label,
            task_id=None if run is None else run.task_id,
            task_epoch=None if run is None else run.epoch,
            expires=now + self._levels.judged().expires(level),
            deciders=tuple(deciders),
        )
        known = self._known(caller, wanted, again=verb.again)
        if known is not None:
            return self._shown(caller, known)
        granted = self._by_grant(caller, wanted, person)
        if granted is not None:
            return self._shown(caller, granted)
        return self._ask(caller, wanted, person, fence)

    def _run(self, caller: Caller, verb: approval_verbs.RequestApproval) -> tuple[RunRef | None, Fence | None]:
        """The run that asks, and the fence of its lease. Raises LeaseLost."""
        named = None if verb.fence is None else verb.fence.value
        run = caller.run if named is None else RunRef(task_id=named.task_id, epoch=named.epoch)
        if run is None:
            return None, None
        if caller.run is not None and run != caller.run:
            raise Refused("a run asks for itself", next="leave the fence out", rule="in-run")
        fence = self._desk.approvals.fence(run, caller.principal.id)
        if fence is None or (named is not None and named != fence):
            raise LeaseLost("this run does not hold the task any more", task=run.task_id, epoch=run.epoch)
        if policy.outside(self._desk, caller, [run.task_id], "approval.request"):
            raise not_found("task")
        return run, fence

    def _without(
        self, caller: Caller, action: str, args: Mapping[str, Any], level: Level, run: RunRef | None
    ) -> dict[str, Any]:
        """No human is needed."""
        if level is Level.LOGGED:
            facts = {"args": canonical(args), "task": None if run is None else run.task_id}
            self._desk.approvals.allowed(action, level, caller.stamp(), facts)
        return {"id": None, "state": "allowed", "allowed": True, "level": level.word, "action": action,
                "args": dict(args), "decided_args": dict(args)}  # fmt: skip

    def _known(self, caller: Caller, wanted: NewApproval, *, again: bool) -> Approval | None:
        """The approval that answers this request already; None: a human is to be asked (anew)."""
        found = self._desk.approvals.latest(wanted.requester_id, wanted.task_id, wanted.hash)
        now = self._desk.board.now()
        if found is not None and found.expired_by(now):
            found = self.over(found, Act.EXPIRE)
        if found is None:
            return None
        match found.state:
            case State.PENDING:
                return None  # it is asked again, and the run waits again
            case State.APPROVED | State.EDITED:
                return None if found.unusable(now) else found
            case State.DENIED:
                # Within one task a no stands: nobody is asked until he gives in.
                return None if again and wanted.task_id is None else found
            case State.EXPIRED:
                return None if again else found
            case State.SUPERSEDED | State.WITHDRAWN:
                return None

    def _by_grant(self, caller: Caller, wanted: NewApproval, person: Principal) -> Approval | None:
        """Approved by what this human, who would be asked now, granted before; a no to just this beats every grant."""
        me = caller.principal
        if wanted.level >= Level.SECURE or me.kind is not Kind.AGENT:
            return None
        grant = self._grant(me.id, wanted, person)
        if grant is None or self._desk.approvals.denied(me.id, wanted.action, wanted.args) is not None:
            return None
        opened, _ = self._desk.approvals.open(wanted, caller.stamp())
        now = self._desk.board.now()
        made = self._desk.approvals.decide_by_grant(opened.id, grant, now + (wanted.expires - now), caller.stamp())
        if made is not None:
            self.finish(made, FABRIC)
        return made

    def _grant(self, agent_id: int, wanted: NewApproval, person: Principal) -> Grant | None:
        now = self._desk.board.now()
        for grant in self._desk.approvals.grants(agent_id=agent_id):
            fits = grant.covers(agent_id, wanted.action, wanted.recipient, now)
            if fits and grant.grantor_id == person.id and wanted.label != "private":
                return grant
        return None

    def _ask(self, caller: Caller, wanted: NewApproval, person: Principal, fence: Fence | None) -> dict[str, Any]:
        if wanted.task_id is None and self._inbox(wanted.deciders) is None:
            raise Refused(
                f"{person.name} has no open inbox, so nothing stands for the question",
                next=f"open the project {person.name!r} again, or ask within a task",
                rule="no-inbox",
            )
        approval, made = self._desk.approvals.open(wanted, caller.stamp())
        if approval.state is not State.PENDING:  # decided in this moment
            return self._shown(caller, approval)
        approval = self.gate(approval)
        if fence is not None:
            question = f"May I? {approval.action} waits for {person.name}'s decision (#{approval.ref})"
            try:
                self._desk.board.settle(fence, Waiting(question=question, of_id=person.id, auth=True), caller.stamp())
            except LeaseLost:
                self.over(approval, Act.WITHDRAW)
                raise
        self._tell_those_before(approval)
        if made:
            deciders = approval.deciders_at(self._desk.board.now())
            self.notify(approval, deciders, "approval", f"{approval.requester} asks: {approval.action}")
        return self._shown(caller, self._looked_again(approval))

    def _looked_again(self, approval: Approval) -> Approval:
        """As it stands now. Who decided before the run had ended found nobody to wake."""
        found = self._desk.approvals.get(approval.id) or approval
        if found.state is not State.PENDING:
            self.finish(found, FABRIC)
        return found

    def _tell_those_before(self, approval: Approval) -> None:
        """What the same task asked for before is superseded; its gates are closed."""
        if approval.task_id is not None:
            for gone in every_approval(self._desk.approvals, Look(task_id=approval.task_id, untold=True)):
                self.finish(gone, FABRIC)

    def _whom(self, caller: Caller, task: Task | None) -> Principal:
        """Who decides: the human for whom it is done, else whom the agent answers to; never who asks, never the
        producer. Raises Refused when there is nobody."""
        me = caller.principal
        barred = {me.id} if task is None else {me.id, task.holder_id, task.producer_id}
        wanted = [None if task is None else task.on_behalf, me.owner_id, *self._levels.judged().household]
        for name in wanted:
            person = self._desk.person(name)
            if person is not None and person.is_human and person.id not in barred:
                return person
        raise Refused(
            "there is nobody who may decide this",
            next="name the people of the house as `household` in policy.toml",
            rule="nobody",
        )

    # -- the gate ------------------------------------------------------------------------------------

    def gate(self, approval: Approval) -> Approval:
        """The approval with its task in the inbox of the first whom it concerns; made once."""
        inbox = self._inbox(approval.deciders)
        if approval.gate_id is not None or inbox is None:
            return approval
        new = NewTask(
            project_id=inbox.project_id,
            title=f"Approve: {headline(approval)}",
            description=face(approval),
            priority=2,
            due=approval.expires,
            refs=() if approval.task_id is None else (f"task:{approval.task_id}",),
            key=f"approval/{approval.id}",
            trust=Trust.TRUSTED,
            label=approval.label,
            on_behalf_id=inbox.owner_id,
            human_verify=True,
        )
        made = self._desk.board.submit([new], FABRIC, self._desk.rules.limits)[0].task
        self._desk.approvals.set_gate(approval.id, made.id)
        return self._desk.approvals.get(approval.id) or approval

    def _inbox(self, deciders: Sequence[Decider]) -> Queue | None:
        """Of the first whom it concerns; None: he has none that is open."""
        owner_id = deciders[0].principal_id if deciders else None
        return next(
            (q for q in self._desk.projects.queues() if q.owner_id is not None and q.owner_id == owner_id), None
        )

    def notify(self, approval: Approval, to: Iterable[Decider], reason: str, subject: str) -> int:
        """A letter to those who may decide. What is secure does not wait for the end of quiet hours."""
        secure = approval.level is Level.SECURE
        words = f"{face(approval)}\n\n{ending(approval)}"
        who = [d.principal_id for d in to]
        return self._notices.write(who, subject, words, reason, approval.gate_id, now=secure)

    # -- how it ends ---------------------------------------------------------------------------------

    def over(self, approval: Approval, act: Act) -> Approval:
        """Expired or withdrawn, as far as it is pending; its gate is closed. The approval as it then stands."""
        ended = self._desk.approvals.end(approval.id, act, FABRIC)
        if ended is not None:
            self.finish(ended, FABRIC)
            if ended.state is State.EXPIRED:
                deciders = ended.deciders_at(self._desk.board.now())
                self.notify(ended, deciders, "approval-expired", f"expired, undecided: {ended.action}")
        return self._desk.approvals.get(approval.id) or approval

    def finish(self, approval: Approval, stamp: Stamp) -> None:
        """Gate and waiting task know how it ended. Only a decision wakes the task: silence never does."""
        if approval.gate_id is not None:
            self._close_gate(approval, approval.gate_id, stamp)
        if approval.task_id is not None:
            self._wake(approval, approval.task_id, stamp)
        self._desk.approvals.set_told(approval.id)

    def _close_gate(self, approval: Approval, gate_id: int, stamp: Stamp) -> None:
        words = said(approval)
        decided = approval.decided_by is not None
        try:
            if decided:
                end = Done(note=words, verdict="pass" if approval.state in YES else "fail")
                self._desk.board.settle_by_hand(gate_id, end, stamp)
            else:
                self._desk.board.cancel(gate_id, words, FABRIC)
        except (IllegalMove, NotFound):  # it was closed by hand; the approval's row is what counts
            log.debug("gate was closed before approval=%d gate=%d", approval.id, gate_id)

    def _wake(self, approval: Approval, task_id: int, stamp: Stamp) -> None:
        try:
            task = self._desk.board.get(task_id, None)
            if task.status is not Status.WAITING or not task.flags & Flag.NEEDS_AUTH:
                return
            if approval.state in (State.EXPIRED, State.WITHDRAWN):
                self._desk.board.comment(task_id, f"⏰ {said(approval)}; it goes on when a human answers", FABRIC)
            elif approval.decided_by is not None and not self._desk.approvals.is_pending(task_id):
                self._desk.board.answer(task_id, said(approval), stamp)
        except (IllegalMove, NotFound):
            log.debug("nothing waits any more approval=%d task=%d", approval.id, task_id)

    def is_moot(self, approval: Approval) -> bool:
        """Nothing will come of it: the task that asked has finished."""
        if approval.task_id is None:
            return False
        try:
            return self._desk.board.get(approval.task_id, None).status in FINISHED
        except NotFound:
            return True

    # -- using ---------------------------------------------------------------------------------------

    def consume(self, caller: Caller, verb: approval_verbs.Consume) -> dict[str, Any]:
        """It is used up by this call, or refused: the hash, the level and the time are judged again."""
        approval = self._asked_by(caller, verb.approval)
        if approval.task_id is not None and (caller.run is None or caller.run.task_id != approval.task_id):
            holds = caller.run is None and self._holds(caller, approval.task_id)
            if not holds:
                raise Refused(
                    "it was approved for a run of its task, and this is none", next="use it there", rule="other-task"
                )
        now = self._desk.board.now()
        why = approval.unusable(now)
        if why:
            raise Refused(f"approval {approval.id} cannot be used: {why}", next="ask again", rule="unusable",
                          state=approval.state.value)  # fmt: skip
        level, _ = self._levels.level_of(approval.action, verb.args, approval.label)
        if level > approval.level or (approval.grant_id is not None and level >= Level.SECURE):
            raise Refused(
                f"this asks for {level.word} by now, and was approved as {approval.level.word}",
                next="ask again",
                rule="level",
            )
        hash = binding(approval.action, verb.args, approval.level)
        if hash != approval.decided_hash:
            raise Refused("these are not the arguments that were approved", next="ask for these", rule="changed")
        if not self._desk.approvals.consume(approval.id, hash, caller.principal.id, caller.stamp()):
            raise Refused(f"approval {approval.id} cannot be used: it was used in this moment", next="ask again",
                          rule="unusable")  # fmt: skip
        return self._shown(caller, self._desk.approvals.get(approval.id) or approval)

    def _holds(self, caller: Caller, task_id: int) -> bool:
        task = self._desk.board.get(task_id, None)
        return task.status is Status.WORKING and task.holder_id == caller.principal.id

    def withdraw(self, caller: Caller, verb: approval_verbs.Withdraw) -> dict[str, Any]:
        approval = self._asked_by(caller, verb.approval)
        if approval.state is not State.PENDING:
            raise decided(approval)
        return self._shown(caller, self.over(approval, Act.WITHDRAW))

    def withdraw_all(self, decider_id: int) -> int:
        """Whatever is pending and could ever be decided by this person is withdrawn; how much that was."""
        ended = (
            self.over(approval, Act.WITHDRAW)
            for approval in every_approval(self._desk.approvals, Look(decider_id=decider_id, states=(State.PENDING,)))
        )
        return sum(approval.state is State.WITHDRAWN for approval in ended)

    def _asked_by(self, caller: Caller, approval_id: int) -> Approval:
        found = self._desk.approvals.get(approval_id)
        if found is None or found.requester_id != caller.principal.id:
            raise not_found("approval")
        return found

    # -- showing -------------------------------------------------------------------------------------

    def show(self, caller: Caller, verb: approval_verbs.ShowApproval) -> dict[str, Any]:
        found = None
        if verb.approval is not None:
            found = self._desk.approvals.get(verb.approval)
        elif verb.task is not None:
            found = self._desk.approvals.of_task(verb.task)
        if found is None or not self._concerns(caller, found):
            raise not_found("approval")
        return self._shown(caller, found)

    def list(self, caller: Caller, verb: approval_verbs.ListApprovals) -> list[dict[str, Any]]:
        me = caller.principal.id
        states = tuple(State(word) for word in verb.states)
        found = self._desk.approvals.find(Look(decider_id=me, requester_id=me, states=states, limit=verb.limit))
        moment = self.showing.moment()
        return [self._shown(caller, a, moment) for a in found if self._concerns(caller, a)]

    def _concerns(self, caller: Caller, approval: Approval) -> bool:
        me = caller.principal.id
        if caller.run is not None and approval.task_id != caller.run.task_id:
            return False
        if me == approval.requester_id or me == approval.decided_by_id:
            return True
        return caller.queues is None and approval.decider(me, self._desk.board.now()) is not None
