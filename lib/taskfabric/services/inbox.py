"""The inbox: what waits for this human, seen through his own eyes, and what he may do about each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.approval import Approval, How, State
from taskfabric.domain.errors import BadInput, NotFound
from taskfabric.domain.principal import Caller, Principal, Viewer
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task
from taskfabric.domain.times import iso
from taskfabric.ports.approvals import Look
from taskfabric.ports.board import Filter
from taskfabric.services import inbox_verbs, policy, text
from taskfabric.services.approval_words import headline
from taskfabric.services.approvals import Asking
from taskfabric.services.away import Humans
from taskfabric.services.delegation import Delegation
from taskfabric.services.desk import Desk
from taskfabric.services.looking import every, every_approval

_WAITS: Final = (Status.READY, Status.HELD, Status.WORKING, Status.WAITING, Status.DONE, Status.DEAD)

Item = dict[str, Any]


class Inboxes:
    """The verbs inbox and snooze."""

    def __init__(self, desk: Desk, asking: Asking, humans: Humans, delegation: Delegation) -> None:
        self._desk = desk
        self._asking = asking
        self._humans = humans
        self._delegation = delegation

    def inbox(self, caller: Caller, verb: inbox_verbs.Inbox) -> dict[str, Any]:
        """Oldest first. What was put off is left out unless it is asked for."""
        policy.need_human(caller, "an inbox", "inbox")
        self._delegation.take_back()
        me, now = caller.principal, self._desk.board.now()
        snoozed = self._desk.inbox.away.snoozed(me.id)
        approvals = self._approvals(caller, now)
        # The task that waits for an approval is not a question beside it.
        waiting = {item["approval"]["for"] for item in approvals}
        tasks = [task for task in self._tasks(caller) if task.id not in waiting]
        items = approvals + [item for task in tasks if (item := self._item(me, task, now)) is not None]
        self._say_for_whom(me, items)
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
        me, moment = caller.principal.id, self._asking.showing.moment()
        found: list[Item] = []
        for approval in every_approval(self._desk.approvals, Look(decider_id=me, states=(State.PENDING,))):
            mine = approval.decider(me, now)
            if approval.expired_by(now) or mine is None or approval.ref is None:
                continue
            own = mine.how is How.ASKED
            shown = self._asking.showing.shown(caller, approval, moment)
            found.append(
                {
                    "kind": "approval",
                    "ref": str(approval.ref),
                    "task": None,
                    "approval": shown,
                    "title": headline(approval),
                    "who": approval.requester,
                    "why": approval.why,
                    "since": iso(approval.created),
                    "until": iso(approval.expires),
                    "group": self._root(approval),
                    "on_yes": shown["on_yes"],
                    "on_no": shown["on_no"],
                    "on_silence": shown["on_silence"],
                    "actions": ["approve", "edit", "deny", *(["delegate"] if own else []), "snooze"],
                    "opens": own,  # the gate stands in the inbox of the first whom it concerns
                    "delegated": _lent(mine.for_whom, mine.until) if mine.for_whom else None,
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

    def _say_for_whom(self, me: Principal, items: list[Item]) -> None:
        """What is with him in another's place says so, and until when."""
        lent = {one.task_id: one for one in self._desk.board.passed_on(to_id=me.id)}
        for item in items:
            found = lent.get(int(item["ref"])) if item["kind"] == "question" else None
            item.setdefault("opens", True)
            item.setdefault("delegated", None if found is None else _lent(found.by, found.until))
            if found is not None:
                item["until"] = iso(found.until)
                item["on_silence"] = f"at {iso(found.until)} the question is for {found.by} again"

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
            if self._delegation.decides(caller, task) is None:
                self._desk.see(caller, task)
        for task in verb.tasks:
            self._desk.inbox.away.snooze(caller.principal.id, task, until)
        return [{"task": task, "until": None if until is None else iso(until)} for task in verb.tasks]


def _lent(by: str, until: datetime | None) -> dict[str, Any]:
    """In whose place it is with somebody, and until when; None: as long as it is open."""
    return {"by": by, "until": None if until is None else iso(until)}


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
