"""Reading the board: every answer holds only what its caller may see."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Final

from taskfabric.domain.approval import State
from taskfabric.domain.errors import not_found
from taskfabric.domain.journal import Cursor
from taskfabric.domain.principal import Caller, Kind, Principal, Viewer
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import OPEN_STATUSES, Hindrance, Reason, Status, why_not
from taskfabric.domain.take_order import serves
from taskfabric.domain.task import Kin, Task, Thread
from taskfabric.ports.board import Filter
from taskfabric.ports.projects import Project
from taskfabric.services import policy, text, verbs
from taskfabric.services.annex_verbs import ShowAnnex
from taskfabric.services.away import Humans
from taskfabric.services.desk import Desk
from taskfabric.services.openings import Openings

_NUMBER: Final = re.compile(r"#([0-9]{1,9})")
_OPEN = tuple(status for status in Status if status in OPEN_STATUSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A board that can be looked at."""

    project_id: int
    address: str  # what it is asked for by
    name: str  # what people call it
    queue: bool


class Reading:
    """The verbs that change nothing."""

    def __init__(self, desk: Desk, humans: Humans) -> None:
        self._desk = desk
        self._humans = humans
        self._openings = Openings(desk)

    def hello(self, caller: Caller, verb: verbs.Hello) -> verbs.Greeting:
        hi = self._desk.board.hello()
        me, rules = caller.principal, self._desk.rules
        own = next((q.name for q in self._desk.projects.queues_of(me.id) if q.owner_id == me.id), None)
        return verbs.Greeting(
            version=self._desk.version,
            board=hi.kind,
            now=hi.now,
            name=me.name,
            kind=me.kind.value,
            trust=me.trust.word,
            zone=me.zone,
            via=caller.via.value,
            facts={
                "role": me.role.value,
                "queue": own,
                "default_pool": rules.default_pool,
                "lease": (rules.human_lease if me.is_human else rules.lease).total_seconds(),
                "wait_cap": rules.wait_cap.total_seconds(),
                "may_decide": caller.may_decide,
                "run": None if caller.run is None else f"{caller.run.task_id}@{caller.run.epoch}",
            },
        )

    def show(self, caller: Caller, verb: verbs.Show) -> Thread:
        return self._desk.board.thread(verb.task, Viewer.of(caller))

    def annex(self, caller: Caller, verb: ShowAnnex) -> dict[str, Any]:
        """What people put beside the thread on a board of Kanboard's kind; ancestry is told by the tree."""
        task = self._desk.see(caller, verb.task)
        hung = self._desk.kanboard.annex
        return {
            "subtasks": [
                {"title": row["title"], "status": row["status_name"], "who": row["username"]}
                for row in hung.subtasks(task.id, 0)
            ],
            "links": [
                {"label": row["label"], "task": row["task_id"], "title": row["title"], "open": bool(row["is_active"])}
                for row in hung.links(task.id, Viewer.of(caller))
            ],
            "external_links": [
                {"title": row["title"], "url": row["url"], "label": row["dependency"]}
                for row in hung.external_links(task.id)
            ],
        }

    def find(self, caller: Caller, verb: verbs.List) -> list[Task]:
        queues = None if verb.queue is None else (self.readable(caller, verb.queue).project_id,)
        return self._desk.board.find(
            Filter(
                queues=queues,
                statuses=_OPEN if verb.statuses is None else verb.statuses,
                involves_id=caller.principal.id if verb.mine else None,
                parent=verb.parent,
                text=text.note(verb.text, self._desk.rules, "text"),
                overdue=verb.overdue,
                after_id=verb.after_id,
                limit=verb.limit,
            ),
            Viewer.of(caller),
        )

    def readable(self, caller: Caller, name: str) -> Queue:
        """The queue of this name. Raises NotFound if it is not there or the caller may not know of it."""
        queue = self._desk.named(caller, name)
        if queue is None or not policy.sees_queue(self._desk, caller, queue):
            raise not_found("queue")
        return queue

    def place(self, caller: Caller, name: str) -> Place:
        """The board of this name: a queue's, or by its number (``#7``) also a project's that is no queue, for those
        who belong to it. Raises NotFound if it is not there or the caller may not know of it."""
        number = _NUMBER.fullmatch(name)
        queue = None if number is None else self._desk.projects.queue(int(number[1]))
        if number is None or queue is not None:
            found = self.readable(caller, name if queue is None else queue.name)
            return Place(project_id=found.project_id, address=found.name, name=found.name, queue=True)
        project = next((p for p in plain_projects(self._desk, caller) if p.id == int(number[1])), None)
        if project is None:
            raise not_found("queue")
        return Place(project_id=project.id, address=name, name=project.name, queue=False)

    def tree(self, caller: Caller, verb: verbs.Tree) -> Kin:
        return self._desk.board.tree(verb.task, Viewer.of(caller))

    def events(self, caller: Caller, verb: verbs.Events) -> verbs.EventPage:
        viewer = Viewer.of(caller)
        queues = None if verb.queue is None else [self.place(caller, verb.queue).project_id]
        if verb.task is not None:
            self._desk.board.get(verb.task, viewer)
        if verb.cursor == "end":
            return verbs.EventPage(events=(), cursor=self._desk.journal.end())
        after = Cursor.parse(verb.cursor) if verb.cursor else Cursor()
        events, cursor = self._desk.journal.read(after, verb.limit, viewer, task_id=verb.task, queues=queues)
        return verbs.EventPage(events=tuple(events), cursor=cursor)

    def download(self, caller: Caller, verb: verbs.Download) -> verbs.FileArg:
        found = self._desk.board.attachment(verb.attachment, Viewer.of(caller))
        data = self._desk.files.get(found.sha256)
        return verbs.FileArg(name=found.name, data=base64.b64encode(data).decode())

    # -- why -----------------------------------------------------------------------------------------

    def why(self, caller: Caller, verb: verbs.Why) -> verbs.Explanation:
        """The one thing that holds the task, then everything; for a claimable one, who could take it."""
        task = self._desk.board.get(verb.task, Viewer.of(caller))
        reasons = why_not(task, self._desk.board.now())
        if not reasons and not task.restricted and self._desk.board.is_full(task.project_id):
            says = f"{task.queue!r} is full: something there must be finished or verified first, or a limit raised"
            reasons = [Reason(kind=Hindrance.FULL, text=says)]
        claimers: tuple[str, ...] = ()
        claimable = not reasons
        if task.status is Status.WAITING and not task.restricted:
            reasons = [*self._decision(task), *reasons, *self._asked_is_away(task)]
        if claimable and not task.restricted:
            members = [p for p in self._desk.credentials.principals() if self._could_come(caller, p, task)]
            claimers = tuple(p.name for p in members if self._fits(p, task))
            may_start = tuple(name for name in claimers if self._openings.all_closed([name]) is None)
            if not claimers:
                queue = self._desk.queue_of(task)
                inbox = queue is not None and queue.kind is QueueKind.INBOX
                says = f"only the owner of the inbox {task.queue!r} takes it" if inbox else _nobody(task)
                reasons = [Reason(kind=Hindrance.STATUS, text=says)]
            elif (closed := self._openings.all_closed(claimers)) is not None:
                reasons = [closed]
            else:
                reasons, claimers = self._owner_is_away(task), may_start
        return verbs.Explanation(
            task=task,
            claimable=claimable,
            first=reasons[0] if reasons else None,
            reasons=tuple(reasons),
            claimers=claimers,
        )

    def _decision(self, task: Task) -> list[Reason]:
        """A task that waits for an approval says which, and until when."""
        approval = self._desk.approvals.of_task(task.id)
        if approval is None or approval.task_id != task.id or approval.state is not State.PENDING:
            return []
        words = f"it waits for a decision of {task.asked or 'a human'}: `fabric inbox` has it as #{approval.ref}"
        return [Reason(kind=Hindrance.ASKED, text=words, until=approval.expires)]

    def _asked_is_away(self, task: Task) -> list[Reason]:
        """Whoever waits for a human is told until when he is away."""
        return self._away(self._desk.person(task.asked))

    def _owner_is_away(self, task: Task) -> list[Reason]:
        queue = self._desk.queue_of(task)
        inbox = queue is not None and queue.kind is QueueKind.INBOX
        return self._away(self._desk.person(queue.owner_id)) if queue is not None and inbox else []

    def _away(self, person: Principal | None) -> list[Reason]:
        if person is None or not person.is_human:
            return []
        state = self._humans.state(person)
        if state.open:
            return []
        return [Reason(kind=Hindrance.CLOSED, text=f"{person.name} is not there: {state.reason}", until=state.until)]

    def _could_come(self, caller: Caller, who: Principal, task: Task) -> bool:
        """Who is active, works in the task's queue, and is known to the caller: an agent, or an inbox's owner."""
        if not who.active or not knows(self._desk, caller, who):
            return False
        queue = self._desk.queue_of(task)
        if queue is not None and queue.kind is QueueKind.INBOX:
            return queue.owner_id == who.id
        return who.kind is Kind.AGENT and policy.is_of(self._desk, who.id, task.project_id)

    def _fits(self, agent: Principal, task: Task) -> bool:
        queue = self._desk.queue_of(task)
        return serves(
            tier=task.tier,
            needs=task.needs,
            required=task.required_trust,
            own_queue=queue is not None and queue.owner_id == agent.id,
            tiers=agent.tiers,
            capabilities=agent.capabilities,
            trust=agent.trust,
        )


def plain_projects(desk: Desk, caller: Caller) -> list[Project]:
    """The active projects that are no queues and that the caller belongs to."""
    me = caller.principal.id
    return [
        project
        for project in desk.projects.all()
        if project.active
        and project.queue is None
        and policy.in_scope(caller, project.id)
        and desk.projects.role_of(project.id, me) is not None
    ]


def _nobody(task: Task) -> str:
    asks = [f"needs {need}" for need in task.needs]
    if task.tier:
        asks.append(f"tier {task.tier}")
    if task.required_trust:
        asks.append(f"trust {task.required_trust.word}")
    return f"no agent of {task.queue!r} fits" + (f": {', '.join(asks)}" if asks else "; it has none")


def knows(desk: Desk, caller: Caller, other: Principal) -> bool:
    """True if the caller may know of the other: humans know everybody; an agent knows the human it answers to, and
    whoever belongs to a queue that it belongs to."""
    me = caller.principal
    if me.kind is not Kind.AGENT or other.id in (me.id, me.owner_id):
        return True
    return any(
        queue.owner_id == other.id or desk.projects.role_of(queue.project_id, other.id) is not None
        for queue in desk.projects.queues_of(me.id)
        if policy.in_scope(caller, queue.project_id)
    )
