"""The verbs of the keeper. It speaks for nobody: it reminds, mends and counts, and never decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, assert_never

from taskfabric.domain.errors import BadInput, Refused, not_found
from taskfabric.domain.letter import NewLetter
from taskfabric.domain.principal import Caller, Kind, Principal, Trust, Viewer
from taskfabric.domain.status import OPEN_STATUSES, Status
from taskfabric.domain.task import NewTask, Task
from taskfabric.domain.times import iso, zone_of
from taskfabric.domain.watch import Concern, Matter, Reader
from taskfabric.domain.watch import Turn as Granted
from taskfabric.ports.board import Filter
from taskfabric.services import digest, keeper_verbs, metrics, policy
from taskfabric.services.desk import Desk
from taskfabric.services.looking import every
from taskfabric.services.upkeep import CRON, KEEPER, METRICS, Upkeep

_WAITS: Final = (*(s for s in Status if s in OPEN_STATUSES), Status.DEAD)


class Keeping:
    """The keeper's verbs, and the metrics."""

    def __init__(self, desk: Desk, upkeep: Upkeep) -> None:
        self._desk = desk
        self._upkeep = upkeep

    def turn(self, caller: Caller, verb: keeper_verbs.Turn) -> Granted:
        need_service(caller, KEEPER, "keeping")
        length = timedelta(seconds=verb.length)
        mine, gap = self._upkeep.keeping.turn("keeper", verb.instance, length)
        rules = self._desk.rules
        return Granted(mine=mine, now=self._desk.board.now(), gap=gap, lease=rules.lease, renew_every=rules.lease / 3)

    def watch(self, caller: Caller, verb: keeper_verbs.Watch) -> list[Concern]:
        need_service(caller, KEEPER, "watching every queue")
        return self._upkeep.keeping.concerns(verb.matter, verb.limit)

    def tell(self, caller: Caller, verb: keeper_verbs.Tell) -> bool:
        need_service(caller, KEEPER, "reminding")
        task = self._desk.board.get(verb.task, None)
        if verb.matter in (Matter.CHILDREN, Matter.BLOCKERS):
            raise BadInput("this is mended, not told", field="matter")
        concern = Concern(matter=verb.matter, task_id=task.id, occasion=verb.occasion, since=task.updated_at)
        return self._upkeep.keeping.tell(
            concern, verb.level, _words(verb.matter, task), self._whom(verb.matter, task, verb.level), caller.stamp()
        )

    def mend(self, caller: Caller, verb: keeper_verbs.Mend) -> bool:
        need_service(caller, KEEPER, "mending")
        if verb.matter not in (Matter.CHILDREN, Matter.BLOCKERS):
            raise BadInput("this is told, not mended", field="matter")
        return self._upkeep.keeping.mend(verb.matter, verb.task)

    def reconcile(self, caller: Caller, verb: keeper_verbs.Reconcile) -> dict[str, int]:
        need_service(caller, KEEPER, "reconciling")
        return self._upkeep.keeping.reconcile(verb.limit)

    def _whom(self, matter: Matter, task: Task, level: int) -> list[int]:
        """The humans whom it concerns and who may see the task (G13): first who has it, later who wanted it too."""
        queue = self._desk.queue_of(task)
        owner = None if queue is None or queue.owner_id is None else self._desk.person(queue.owner_id)
        submitter, behalf = self._desk.person(task.submitter_id), self._desk.person(task.on_behalf)
        match matter:
            case Matter.QUESTION:
                asked = self._desk.person(task.asked)
                chosen = [asked or behalf]
            case Matter.OVERDUE | Matter.DEAD:
                first = owner if _is_human(owner) else behalf or submitter
                chosen = [owner, behalf, submitter] if level > 0 else [first]
            case Matter.CHILDREN | Matter.BLOCKERS:
                chosen = []
            case _:
                assert_never(matter)
        people = [p for p in chosen if p is not None and p.is_human]
        return list(dict.fromkeys(p.id for p in people if self._may_see(p, task.id)))

    def _may_see(self, person: Principal, task_id: int) -> bool:
        viewer = Viewer(principal_id=person.id, kind=person.kind)
        return any(t.id == task_id for t in self._desk.board.find(Filter(after_id=task_id - 1, limit=1), viewer))

    # -- digests -------------------------------------------------------------------------------------

    def readers(self, caller: Caller, verb: keeper_verbs.Readers) -> list[Reader]:
        need_service(caller, KEEPER, "writing digests")
        last = self._upkeep.keeping.last_digests()
        return [
            Reader(
                name=p.name,
                zone=p.zone,
                hour=self._upkeep.notifier.habits(p.name).digest,
                last=last[p.id].isoformat() if p.id in last else None,
            )
            for p in self._desk.credentials.principals()
            if p.is_human and p.active
        ]

    def digest(self, caller: Caller, verb: keeper_verbs.Digest) -> bool:
        need_service(caller, KEEPER, "writing digests")
        person = self._desk.person(verb.name)
        if person is None or not person.is_human:
            raise not_found("person")
        inbox = next((q for q in self._desk.projects.queues() if q.owner_id == person.id), None)
        now, zone = self._desk.board.now(), zone_of(person.zone)
        found = digest.sections(person.id, None if inbox is None else inbox.project_id, self._his(person), now)
        if not self._upkeep.keeping.digest(person.id, verb.day):
            return False
        text = digest.page(person.name, zone, now, found)
        card: int | None = None
        if inbox is not None:
            card = self._keep(caller, inbox.project_id, person, f"digest-{verb.day.isoformat()}.md", text)
        if found and self._upkeep.notifier.reach(person.name).addressed:
            letter = NewLetter(
                to_id=person.id, subject=digest.subject(found), body=text, reason="digest", task_id=card, due=now
            )
            self._upkeep.outbox.write([letter])
        return True

    def _his(self, person: Principal) -> list[Task]:
        """What he has a part in and may see, through his own eyes (G13)."""
        viewer = Viewer(principal_id=person.id, kind=person.kind)
        inbox = [q.project_id for q in self._desk.projects.queues() if q.owner_id == person.id]
        wanted = Filter(involves_id=person.id, statuses=_WAITS), Filter(queues=tuple(inbox), statuses=_WAITS)
        return [task for one in wanted for task in every(self._desk.board, one, viewer)]

    def _keep(self, caller: Caller, project_id: int, person: Principal, name: str, text: str) -> int:
        """The digest is a file on the one open card in his inbox that keeps them."""
        new = NewTask(
            project_id=project_id,
            title="Digests",
            description="The fabric keeps your daily digests here, as files. Cancel this card to begin a new one.",
            reference=digest.REFERENCE,
            backlog=True,
            key=f"digest/{person.name}",
            key_open=True,
            trust=Trust.TRUSTED,
            on_behalf_id=person.id,
        )
        task = self._desk.board.submit([new], caller.stamp(), self._desk.rules.limits)[0].task
        data = text.encode()
        self._desk.board.attach(task.id, name, len(data), self._desk.files.put(data), caller.stamp(), None)
        return task.id

    # -- numbers -------------------------------------------------------------------------------------

    def metrics(self, caller: Caller, verb: keeper_verbs.Metrics) -> str:
        me = caller.principal
        if me.kind is Kind.SERVICE and me.name in (KEEPER, CRON, METRICS) and caller.run is None:
            return metrics.text(self._upkeep.keeping.figures())
        counts = self._desk.board.count(Viewer.of(caller)).values()
        visible: dict[str, float] = {}
        for by_status in counts:
            for status, number in by_status.items():
                visible[status.value] = visible.get(status.value, 0) + number
        return metrics.text({"tasks": visible})


def need_service(caller: Caller, name: str, what: str) -> None:
    """Raises Refused unless the fabric's own service of this name calls, outside any run."""
    policy.refuse_in_run(caller, what)
    if caller.principal.kind is not Kind.SERVICE or caller.principal.name != name:
        raise Refused(f"{what} is for the fabric's own services", next="`fabric up` runs them", rule="service")


def _is_human(person: Principal | None) -> bool:
    return person is not None and person.is_human


def _words(matter: Matter, task: Task) -> str:
    """The sentence in the thread."""
    match matter:
        case Matter.OVERDUE:
            return f"⏰ overdue since {iso(task.due)}" if task.due is not None else "⏰ overdue"
        case Matter.DEAD:
            return "⏰ this dead letter waits for a decision: redrive it, or cancel it"
        case Matter.QUESTION:
            return "⏰ the question still waits for an answer"
        case Matter.CHILDREN | Matter.BLOCKERS:
            return "⏰ what it waited for has ended"
        case _:
            assert_never(matter)
