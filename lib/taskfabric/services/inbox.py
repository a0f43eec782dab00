"""The inbox: what waits for this human, seen through his own eyes, and what he may do about each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.approval import Act, Approval, Decider, How, Level, State
from taskfabric.domain.errors import BadInput, NotFound, Refused, not_found
from taskfabric.domain.principal import Caller, Principal, Viewer
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task
from taskfabric.domain.times import iso
from taskfabric.ports.approvals import Look
from taskfabric.ports.board import Filter
from taskfabric.services import inbox_verbs, policy, text
from taskfabric.services.approval_words import decided
from taskfabric.services.approvals import Asking
from taskfabric.services.away import Humans
from taskfabric.services.desk import Desk
from taskfabric.services.looking import every
from taskfabric.services.notices import Notices

_MOST: Final = 1000  # approvals that one look reads
_WAITS: Final = (Status.READY, Status.HELD, Status.WORKING, Status.WAITING, Status.DONE, Status.DEAD)

Item = dict[str, Any]


class Inboxes:
    """The verbs inbox, snooze and delegate."""

    def __init__(self, desk: Desk, asking: Asking, humans: Humans, notices: Notices) -> None:
        self._desk = desk
        self._asking = asking
        self._humans = humans
        self._notices = notices

    def inbox(self, caller: Caller, verb: inbox_verbs.Inbox) -> dict[str, Any]:
        """Oldest first. What was put off is left out unless it is asked for."""
        policy.need_human(caller, "an inbox", "inbox")
        me, now = caller.principal, self._desk.board.now()
        snoozed = self._desk.inbox.away.snoozed(me.id)
        approvals = self._approvals(caller, now)
        # The task that waits for an approval is not a question beside it.
        waiting = {item["approval"]["for"] for item in approvals}
        tasks = [task for task in self._tasks(caller) if task.id not in waiting]
        items = approvals + [item for task in tasks if (item := self._item(me, task, now)) is not None]
        for item in items:
            until = snoozed.get(int(item["ref"]))
            item["snoozed_until"] = None if until is None else iso(until)
        shown = [item for item in items if verb.snoozed or item["snoozed_until"] is None]
        return {
            "items": sorted(shown, key=lambda item: (item["since"], int(item["ref"]))),
            "away": self._humans.shown(me),
            "snoozed": sum(item["snoozed_until"] is not None for item in items),
        }

    def _approvals(self, caller: Caller, now: datetime) -> list[Item]:
        if caller.queues is not None:
            return []
        me = caller.principal.id
        found: list[Item] = []
        for approval in self._desk.approvals.find(Look(decider_id=me, states=(State.PENDING,), limit=_MOST)):
            if approval.expired_by(now) or approval.decider(me, now) is None or approval.gate_id is None:
                continue
            shown = self._asking.shown(caller, approval)
            found.append(
                {
                    "kind": "approval",
                    "ref": str(approval.gate_id),
                    "task": None,
                    "approval": shown,
                    "title": f"{approval.action}" + (f" to {approval.recipient}" if approval.recipient else ""),
                    "who": approval.requester,
                    "why": approval.why,
                    "since": iso(approval.created),
                    "until": iso(approval.expires),
                    "group": self._root(approval),
                    "on_yes": shown["on_yes"],
                    "on_no": shown["on_no"],
                    "on_silence": shown["on_silence"],
                    "actions": ["approve", "edit", "deny", "delegate", "snooze"],
                }
            )
        return found

    def _root(self, approval: Approval) -> int | None:
        if approval.task_id is None:
            return None
        try:
            task = self._desk.board.get(approval.task_id, None)
        except NotFound:
            return None
        return task.root or task.id

    def _tasks(self, caller: Caller) -> list[Task]:
        """What may wait for him and he may see; an inbox of his, and what he is asked or has submitted."""
        me, viewer = caller.principal, Viewer.of(caller)
        own = [q.project_id for q in self._desk.projects.queues() if q.owner_id == me.id]
        board = self._desk.board
        wanted = [
            Filter(asked_id=me.id, statuses=(Status.WAITING,)),
            Filter(submitter_id=me.id, statuses=(Status.DONE, Status.DEAD)),
            Filter(submitter_id=me.id, statuses=_WAITS, overdue=True),
        ]
        if own:
            wanted.append(Filter(queues=tuple(own), statuses=_WAITS))
        return list({task.id: task for one in wanted for task in every(board, one, viewer)}.values())

    def _item(self, me: Principal, task: Task, now: datetime) -> Item | None:
        """The task as an item of his list; None: it does not wait for him."""
        if task.restricted or self._is_gate(task):
            return None
        queue = self._desk.queue_of(task)
        own = queue is not None and queue.owner_id == me.id
        overdue = task.due is not None and task.due < now
        if (
            task.status is Status.WAITING
            and task.flags & (Flag.NEEDS_INPUT | Flag.NEEDS_AUTH)
            and task.asked == me.name
        ):
            return _shape("question", task, "an answer lets it go on", "it goes on waiting", ["answer", "delegate"])
        if task.status is Status.DONE and me.id in (task.submitter_id,) and task.producer_id != me.id:
            return _shape("verify", task, "verified and closed", "it stays done and unverified", ["verify", "reject"])
        if task.status is Status.DONE and own and task.producer_id != me.id:
            return _shape("verify", task, "verified and closed", "it stays done and unverified", ["verify", "reject"])
        if task.status is Status.DEAD and task.is_open and (own or task.submitter_id == me.id):
            return _shape("dead", task, "redriven with fresh attempts", "it stays a dead letter", ["redrive", "cancel"])
        if own and task.status in (Status.READY, Status.HELD, Status.WORKING):
            kind = "overdue" if overdue else "held" if task.status is Status.HELD else "work"
            return _shape(kind, task, "done by you", "it stays in your inbox", ["done", "delegate", "cancel"])
        if overdue and task.submitter_id == me.id and task.status is not Status.DONE:
            return _shape("overdue", task, "", "it stays overdue", ["show", "cancel"])
        return None

    def _is_gate(self, task: Task) -> bool:
        """Gates are shown as the approvals that they stand for."""
        return task.submitter_id == 0 and task.key is not None and task.key.startswith("approval/")

    # -- putting off -----------------------------------------------------------------------------------

    def snooze(self, caller: Caller, verb: inbox_verbs.Snooze) -> dict[str, Any]:
        (receipt,) = self.snooze_many(caller, inbox_verbs.SnoozeMany(tasks=(verb.task,), until=verb.until))
        return receipt

    def snooze_many(self, caller: Caller, verb: inbox_verbs.SnoozeMany) -> list[dict[str, Any]]:
        policy.need_human(caller, "putting off", "inbox")
        until = text.instant(verb.until, "until")
        if until is not None and until <= self._desk.board.now():
            raise BadInput("it is put off until an instant in the future", next="name a later one", field="until")
        for task in text.different(verb.tasks, "tasks"):
            if not self._decides(caller, task):
                self._desk.see(caller, task)
        for task in verb.tasks:
            self._desk.inbox.away.snooze(caller.principal.id, task, until)
        return [{"task": task, "until": None if until is None else iso(until)} for task in verb.tasks]

    def _decides(self, caller: Caller, task_id: int) -> Approval | None:
        found = self._desk.approvals.of_task(task_id)
        if found is None or caller.queues is not None:
            return None
        return found if found.decider(caller.principal.id, self._desk.board.now()) is not None else None

    # -- passing on ------------------------------------------------------------------------------------

    def delegate(self, caller: Caller, verb: inbox_verbs.Delegate) -> dict[str, Any]:
        """An approval may be decided by the other as well, and that is marked; work moves to his inbox."""
        policy.need_human(caller, "delegating", "delegate")
        policy.need_unlimited(caller, "delegating")
        other = self._desk.person(verb.to)
        if other is None or not other.is_human:
            raise not_found("person")
        if other.id == caller.principal.id:
            raise BadInput("it is yours already", next="name another human", field="to")
        approval = self._decides(caller, verb.task)
        if approval is not None and approval.state is State.PENDING:
            return self._pass_on(caller, verb, approval, other)
        task = self._desk.see(caller, verb.task)
        if task.status is Status.WAITING and task.asked == caller.principal.name:
            return self._ask_instead(caller, verb, task, other)
        return self._hand_over(caller, verb, task, other)

    def _pass_on(
        self, caller: Caller, verb: inbox_verbs.Delegate, approval: Approval, other: Principal
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
            principal_id=other.id, name=other.name, how=How.DELEGATED, since=now, for_whom=caller.principal.name
        )
        if not self._desk.approvals.add_decider(approval.id, decider, caller.stamp()):
            found = self._desk.approvals.get(approval.id)
            if found is None or found.state is not State.PENDING:
                raise decided(found or approval)
            raise Refused(f"{other.name} can decide it already", next="name somebody else", rule="delegate")
        note = f" {verb.note}" if verb.note else ""
        subject = f"{caller.principal.name} passes on: {approval.action}{note}"
        self._asking.notify(approval, [decider], "approval", subject)
        return {"task": approval.gate_id, "to": other.name, "kind": "approval"}

    def _ask_instead(self, caller: Caller, verb: inbox_verbs.Delegate, task: Task, other: Principal) -> dict[str, Any]:
        """The question is for the other now. Whoever asked or sent the task reads so in its thread."""
        policy.refuse_gate(self._desk, caller, task.id, "passing it on")
        if task.label == "private":
            raise Refused("what is private is answered by whom it is for", next="answer it yourself", rule="private")
        if other.id in (task.holder_id, task.producer_id):
            raise Refused("who asks never answers", next="name somebody else", rule="requester")
        note = text.note(verb.note, self._desk.rules).strip()
        words = f"↪ {caller.principal.name} passes this question on to {other.name}" + (f": {note}" if note else "")
        self._desk.board.pass_on(task.id, other.id, words, caller.stamp())
        subject = f"{caller.principal.name} passes on a question: {task.title}"
        self._notices.write([other.id], subject, words, "question", task.id, now=False)
        return {"task": task.id, "to": other.name, "kind": "question"}

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
        return {"task": task.id, "to": other.name, "kind": "work"}

    def _inbox_of(self, other: Principal) -> int:
        for queue in self._desk.projects.queues():
            if queue.owner_id == other.id:
                return queue.project_id
        raise not_found("queue")


def _shape(kind: str, task: Task, on_yes: str, on_silence: str, actions: Sequence[str]) -> Item:
    since = task.completed if kind == "verify" and task.completed is not None else task.updated_at
    return {
        "kind": kind,
        "ref": str(task.id),
        "task": task.to_json(),
        "approval": None,
        "title": task.title,
        "who": task.producer if kind == "verify" else task.submitter,
        "why": task.error or "" if kind == "dead" else task.hold or "",
        "since": iso(since if kind != "work" else task.created),
        "until": None if task.due is None else iso(task.due),
        "group": task.root or task.id,
        "on_yes": on_yes,
        "on_no": {"verify": "back to Ready, your note is shown to the next run"}.get(kind, ""),
        "on_silence": on_silence,
        "actions": [*actions, "snooze"],
    }
