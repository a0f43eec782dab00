"""Passing on: a decision that another may take as well, a question that is his for a while, work that moves to him."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from taskfabric.domain.approval import Act, Approval, Decider, How, Level, State
from taskfabric.domain.errors import BadInput, Refused, not_found
from taskfabric.domain.principal import Caller, Principal
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.domain.times import iso
from taskfabric.services import inbox_verbs, policy, text
from taskfabric.services.approval_words import decided
from taskfabric.services.approvals import FABRIC, Asking
from taskfabric.services.desk import Desk
from taskfabric.services.notices import Notices

_LENT: Final = timedelta(days=7)  # a question, unless something else is said
_ROUND: Final = 100


class Delegation:
    """The verb delegate, and what time does to it."""

    def __init__(self, desk: Desk, asking: Asking, notices: Notices) -> None:
        self._desk = desk
        self._asking = asking
        self._notices = notices

    def delegate(self, caller: Caller, verb: inbox_verbs.Delegate) -> dict[str, Any]:
        """An approval may be decided by the other as well, and that is marked; work moves to his inbox."""
        policy.need_human(caller, "delegating", "delegate")
        policy.need_unlimited(caller, "delegating")
        policy.refuse_reset(self._desk, caller, "delegating")
        self.take_back()
        other = self._desk.person(verb.to)
        if other is None or not other.is_human:
            raise not_found("person")
        if other.id == caller.principal.id:
            raise BadInput("it is yours already", next="name another human", field="to")
        until = self._end(verb)
        approval = self.decides(caller, verb.task)
        if approval is not None and approval.state is State.PENDING:
            return self._share(caller, verb, approval, other, until)
        task = self._desk.see(caller, verb.task)
        if task.status is Status.WAITING and task.asked == caller.principal.name:
            return self._ask_instead(caller, verb, task, other, until)
        if until is not None:
            raise BadInput("work is handed over for good", next="leave --until out", field="until")
        return self._hand_over(caller, verb, task, other)

    def decides(self, caller: Caller, task_id: int) -> Approval | None:
        """The approval behind this task that the caller may decide now."""
        found = self._desk.approvals.of_task(task_id)
        if found is None or caller.queues is not None:
            return None
        return found if found.decider(caller.principal.id, self._desk.board.now()) is not None else None

    def take_back(self) -> int:
        """Questions whose time with somebody else is over are again for whom they were; how many. He is told."""
        count = 0
        while found := self._desk.board.passed_over(_ROUND):
            for lent in found:
                words = f"↩ the time of {lent.to} is over: this question is for {lent.by} again"
                task = self._desk.board.take_back(lent.task_id, words, FABRIC)
                if task is not None:
                    self._notices.write(
                        [lent.by_id], f"again yours: {task.title}", words, "question", task.id, now=False
                    )
                    count += 1
        return count

    def _end(self, verb: inbox_verbs.Delegate) -> datetime | None:
        until, now = text.instant(verb.until, "until"), self._desk.board.now()
        if until is not None and not now < until <= now + self._desk.rules.longest_park:
            most = self._desk.rules.longest_park.days
            raise BadInput(f"what is passed on ends within {most} days", next="name a later instant, or a nearer one",
                           field="until")  # fmt: skip
        return until

    def _share(
        self, caller: Caller, verb: inbox_verbs.Delegate, approval: Approval, other: Principal, until: datetime | None
    ) -> dict[str, Any]:
        now = self._desk.board.now()
        if approval.expired_by(now):
            self._asking.over(approval, Act.EXPIRE)
            raise Refused("it has expired", next="nothing is to be decided any more", rule="expired")
        mine = approval.decider(caller.principal.id, now)
        if mine is None or mine.how is not How.ASKED:
            raise Refused("only whom it is for passes it on", next="leave it to him", rule="delegate")
        if approval.level >= Level.SECURE:
            raise Refused("what is secure is decided by whom it is for", next="decide it yourself", rule="secure")
        if approval.label == "private":
            raise Refused("what is private is decided by whom it is for", next="decide it yourself", rule="private")
        if other.id == approval.requester_id:
            raise Refused("who asks never approves", next="name somebody else", rule="requester")
        decider = Decider(
            principal_id=other.id,
            name=other.name,
            how=How.DELEGATED,
            since=now,
            for_whom=caller.principal.name,
            until=until,
        )
        if not self._desk.approvals.add_decider(approval.id, decider, caller.stamp()):
            found = self._desk.approvals.get(approval.id)
            if found is None or found.state is not State.PENDING:
                raise decided(found or approval)
            raise Refused(f"{other.name} can decide it already", next="name somebody else", rule="delegate")
        note = f" {verb.note}" if verb.note else ""
        subject = f"{caller.principal.name} passes on: {approval.action}{note}"
        self._asking.notify(approval, [decider], "approval", subject)
        return _receipt(approval.ref, other, "approval", min(until or approval.expires, approval.expires))

    def _ask_instead(
        self, caller: Caller, verb: inbox_verbs.Delegate, task: Task, other: Principal, until: datetime | None
    ) -> dict[str, Any]:
        """The question is for the other now. Whoever asked or sent the task reads so in its thread."""
        policy.refuse_gate(self._desk, caller, task.id, "passing it on")
        if self._desk.board.passed_on(task_id=task.id):
            raise Refused("only whom it is for passes it on", next="answer it, or leave it to him", rule="delegate")
        if task.label == "private":
            raise Refused("what is private is answered by whom it is for", next="answer it yourself", rule="private")
        if other.id in (task.holder_id, task.producer_id):
            raise Refused("who asks never answers", next="name somebody else", rule="requester")
        end = until or self._desk.board.now() + _LENT
        note = text.note(verb.note, self._desk.rules).strip()
        words = f"↪ {caller.principal.name} passes this question on to {other.name} until {iso(end)}"
        words += f": {note}" if note else ""
        self._desk.board.pass_on(task.id, other.id, words, caller.stamp(), end)
        subject = f"{caller.principal.name} passes on a question: {task.title}"
        self._notices.write([other.id], subject, words, "question", task.id, now=False)
        return _receipt(task.id, other, "question", end)

    def _hand_over(self, caller: Caller, verb: inbox_verbs.Delegate, task: Task, other: Principal) -> dict[str, Any]:
        queue = self._desk.queue_of(task)
        if queue is None or queue.owner_id != caller.principal.id:
            raise Refused(
                "only what is in one's own inbox is passed on", next="ask its owner", rule="delegate", task=task.id
            )
        theirs = self._inbox_of(other)
        self._desk.board.transfer(task.id, theirs, caller.stamp())
        if verb.note.strip():
            self._desk.board.comment(task.id, text.note(verb.note, self._desk.rules), caller.stamp())
        return _receipt(task.id, other, "work", None)

    def _inbox_of(self, other: Principal) -> int:
        for queue in self._desk.projects.queues():
            if queue.owner_id == other.id:
                return queue.project_id
        raise not_found("queue")


def _receipt(task_id: int | None, other: Principal, kind: str, until: datetime | None) -> dict[str, Any]:
    return {"task": task_id, "to": other.name, "kind": kind, "until": None if until is None else iso(until)}
