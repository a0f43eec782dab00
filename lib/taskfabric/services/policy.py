"""Who may do what: decisions from the caller, the task and its queue, never from what a caller says about itself.

Each rule that says no is named in the error's fact ``rule``; DESIGN.md lists them beside the invariants.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskfabric.domain.ancestry import Kinship, may_judge
from taskfabric.domain.errors import FabricError, NeedsHuman, NotFound, Refused
from taskfabric.domain.principal import AppRole, Caller, Kind, ProjectRole, Via, Viewer
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task
from taskfabric.services.desk import Desk

UNTAKEN = (Status.READY, Status.HELD, Status.BACKLOG)
WORKS = frozenset({ProjectRole.MEMBER, ProjectRole.MANAGER})


def refuse_in_run(caller: Caller, what: str) -> None:
    """Raises Refused inside a run: what a run is bound by, that run never changes (invariant 5)."""
    if caller.run is not None:
        raise Refused(
            f"{what} is refused inside a run", next="leave it to whoever is not part of the run", rule="in-run"
        )


def refuse_service(caller: Caller, what: str) -> None:
    """Raises Refused for a service of the fabric: it decides nothing."""
    if caller.principal.kind is Kind.SERVICE:
        raise Refused(f"a service of the fabric never does this: {what}", next="let a person do it", rule="service")


def need_human(caller: Caller, what: str, rule: str) -> None:
    """Raises Refused unless a human acts himself, outside any run."""
    refuse_in_run(caller, what)
    if not caller.principal.is_human:
        raise Refused(f"{what} is for humans", next="ask a human to do it", rule=rule)


def is_app(caller: Caller) -> bool:
    """True for the app token of the board API."""
    return caller.principal.is_app


def eyes(caller: Caller) -> Viewer | None:
    """Through whose eyes tasks are read; None = the app token, which sees all of them."""
    return None if caller.principal.is_app else Viewer.of(caller)


def need_arranger(caller: Caller, what: str) -> None:
    """Raises Refused unless a human acts himself, outside any run, or the app token does."""
    if not caller.principal.is_app:
        need_human(caller, what, "arrange")


def need_admin(caller: Caller, what: str) -> None:
    """Raises Refused unless a human administrator acts himself."""
    need_human(caller, what, "admin")
    if not caller.principal.is_admin:
        raise Refused(f"{what} is for administrators", next="ask an administrator", rule="admin")


def need_decision(desk: Desk, caller: Caller, pin: str | None, what: str) -> None:
    """Raises NeedsHuman unless a person signed in or gave the right PIN; a wrong PIN is Refused.

    A process on the owner's machine has the owner's local credential, so that alone never decides."""
    if caller.may_decide:
        return
    if not caller.principal.is_human or caller.run is not None:
        raise NeedsHuman(f"{what} is a human's decision", next="ask a human", rule="decision")
    if pin is None:
        has_pin = desk.credentials.has_pin(caller.principal.id)
        raise NeedsHuman(
            f"{what} is a decision: it needs your PIN or a web session",
            next="repeat it with --pin" if has_pin else "set a PIN with `fabric pin set`, then use --pin",
            rule="decision",
        )
    if not desk.credentials.check_pin(caller.principal.id, pin):
        raise Refused("that is not your PIN", next="after five wrong ones it is locked for a while", rule="pin")


def need_pin(desk: Desk, caller: Caller, pin: str | None, what: str) -> None:
    """As ``need_decision``, except for a person who has no PIN yet: without one the first people could not be made."""
    me = caller.principal
    if pin is None and me.is_human and not desk.credentials.has_pin(me.id) and not desk.credentials.needs_code(me.id):
        return
    need_decision(desk, caller, pin, what)


def refuse_reset(desk: Desk, caller: Caller, what: str) -> None:
    """Raises Refused while somebody else's reset is the only thing that this caller has to show: until his own new
    PIN, it may be that other who calls."""
    if not caller.may_decide and desk.credentials.needs_code(caller.principal.id):
        raise Refused(
            f"{what} waits until you have a PIN again: somebody else has reset your account",
            next="`fabric pin set --code`, with the code of your letter",
            rule="pin-code",
        )


def need_unlimited(caller: Caller, what: str) -> None:
    """Raises Refused for a token that is limited to some queues: what it made could reach further than itself."""
    if caller.queues is not None:
        raise Refused(
            f"{what} is not for a token that is limited to some queues",
            next="use a token without that limit",
            rule="scope",
        )


def refuse_above(desk: Desk, caller: Caller, task_id: int, what: str) -> None:
    """Raises Refused inside a run for the tasks that the run descends from (invariant 5)."""
    run = caller.run
    if run is not None and task_id != run.task_id and task_id in desk.board.ancestors(run.task_id):
        refuse_in_run(caller, f"{what} a task that the run descends from")


def refuse_own_line(desk: Desk, caller: Caller, task_id: int, what: str) -> None:
    """Raises Refused inside a run for the run's own task and for those that it descends from (invariant 5)."""
    if caller.run is not None and task_id == caller.run.task_id:
        refuse_in_run(caller, f"{what} the run's own task")
    refuse_above(desk, caller, task_id, what)


def refuse_gate(desk: Desk, caller: Caller, task_id: int, what: str) -> None:
    """Raises Refused for the gate of a pending approval: it ends by a decision, not by being done or cancelled."""
    if caller.principal.is_human and desk.approvals.is_pending(task_id):
        raise Refused(
            f"{what} #{task_id} decides nothing: an approval hangs on it",
            next=f"`fabric approve {task_id}`, or `fabric deny {task_id} --note …`",
            rule="approval",
            task=task_id,
        )


def outside(desk: Desk, caller: Caller, task_ids: Sequence[int], verb: str) -> frozenset[int]:
    """Those of the tasks that stand in no queue of the caller's token. Each refusal is in the journal; to the caller
    they are what they are to a stranger."""
    if caller.queues is None:
        return frozenset()
    found = frozenset(id for id, project in desk.board.places(task_ids).items() if project not in caller.queues)
    for task_id in sorted(found):
        desk.board.refusal(verb, task_id, caller.stamp(), {"rule": "scope"})
    return found


def in_scope(caller: Caller, project_id: int) -> bool:
    """True unless the token is limited to other queues."""
    return caller.queues is None or project_id in caller.queues


def owns(caller: Caller, queue: Queue | None) -> bool:
    return queue is not None and queue.owner_id == caller.principal.id


def works_in(desk: Desk, caller: Caller, project_id: int) -> bool:
    """True for the owner of the queue and for its members and managers."""
    return is_of(desk, caller.principal.id, project_id)


def is_of(desk: Desk, principal_id: int, project_id: int) -> bool:
    """True if this account owns the queue or works in the project."""
    queue = desk.projects.queue(project_id)
    if queue is not None and queue.owner_id == principal_id:
        return True
    return desk.projects.role_of(project_id, principal_id) in WORKS


def manages(desk: Desk, caller: Caller, project_id: int) -> bool:
    """True for a human who may arrange this project: its manager, a queue's owner, an administrator.

    An inbox is its owner's alone: an administrator who could make himself a member could read it (G13)."""
    me = caller.principal
    if not me.is_human:
        return False
    queue = desk.projects.queue(project_id)
    if owns(caller, queue) or desk.projects.role_of(project_id, me.id) is ProjectRole.MANAGER:
        return True
    return me.is_admin and (queue is None or queue.kind is not QueueKind.INBOX)


def has_part(desk: Desk, caller: Caller, task: Task) -> bool:
    """True for the submitter, the one it was made for, the holder, and whoever works in its queue."""
    me = caller.principal
    return (
        me.id in (task.submitter_id, task.holder_id)
        or task.on_behalf == me.name
        or works_in(desk, caller, task.project_id)
    )


def may_have_child(desk: Desk, caller: Caller, task: Task) -> FabricError | None:
    """Why this caller may make no child of the task, or None if he may.

    A family has room for few: its holder, its submitter, the human it is for, and the humans of its queue fill it."""
    me = caller.principal
    if me.id in (task.submitter_id, task.holder_id) or caller.via is Via.SYSTEM:
        return None
    if me.is_human and has_part(desk, caller, task):
        return None
    return Refused(
        "children of a task are made by its holder, its submitter and the people of its queue",
        next="submit it without a parent, or ask one of them",
        rule="family",
        task=task.id,
    )


def need_part(desk: Desk, caller: Caller, task: Task, what: str) -> None:
    """Raises Refused for one who may see the task and has no part in it."""
    if not has_part(desk, caller, task):
        raise Refused(
            f"{what} is for those who work in its queue", next="ask one of them", rule="not-a-member", task=task.id
        )


# -- judging and editing ---------------------------------------------------------------------------------


def need_judge(desk: Desk, caller: Caller, task: Task, what: str) -> None:
    """Raises Refused unless this caller may judge the task's result (invariants 3 and 5)."""
    refuse_in_run(caller, f"{what} a result")
    refuse_service(caller, "judge a result")
    queue = desk.queue_of(task)
    human_only = Flag.NEEDS_HUMAN_VERIFY in task.flags or (queue is not None and queue.human_verify)
    me = caller.principal
    relatives: frozenset[int] = frozenset() if me.is_human else desk.board.kinship(task.id)
    kin = Kinship(producer_id=task.producer_id, submitter_id=task.submitter_id, relatives=relatives)
    refusal = may_judge(me.id, me.kind, kin, human_only=human_only)
    if refusal is not None:
        raise refusal


def need_editor(desk: Desk, caller: Caller, task: Task, *, rates: bool) -> None:
    """Raises Refused unless this caller may change the task's words; ``rates``: its score or tier among them."""
    refuse_own_line(desk, caller, task.id, "editing")
    if task.submitter_id == 0:  # its words are what a human reads before he decides
        refuse_gate(desk, caller, task.id, "editing")
    if caller.principal.is_human and caller.run is None:
        need_part(desk, caller, task, "editing")
        return
    if task.submitter_id != caller.principal.id or task.status not in UNTAKEN:
        raise Refused(
            "an agent edits only what it submitted itself, before anybody has taken it",
            next="write a comment instead",
            rule="edit",
            task=task.id,
        )
    if rates and task.status is Status.HELD:
        raise Refused(
            "a held task is rated by a human: its score may be what it is held for",
            next="ask a human to rate it",
            rule="held",
            task=task.id,
        )


# -- submitting ------------------------------------------------------------------------------------------


def no_target() -> NotFound:
    """The one statement for a target that does not exist and for one that the caller may not see."""
    return NotFound(
        "no such target, or you may not see it",
        next="`fabric queue list` shows where you can submit; `pool` is anybody who fits",
    )


def may_submit(desk: Desk, caller: Caller, queue: Queue) -> FabricError | None:
    """Why this caller may not submit there, or None if it may."""
    me = caller.principal
    if not in_scope(caller, queue.project_id):
        return no_target()
    match me.kind:
        case Kind.SERVICE:
            return None
        case Kind.HUMAN:
            # Inside a run the act is the run's, not the human's own.
            if caller.run is None or queue.kind is not QueueKind.INBOX or owns(caller, queue):
                return None
            return _cross_user(queue)
        case Kind.AGENT:
            if owns(caller, queue) or queue.name == desk.rules.default_pool:
                return None
            if queue.kind is QueueKind.INBOX:
                return None if queue.owner_id == me.owner_id else _cross_user(queue)
            return None if works_in(desk, caller, queue.project_id) else no_target()


def _cross_user(queue: Queue) -> Refused:
    return Refused(
        f"an agent does not write into the inbox of {queue.owner}: that is not whom it answers to",
        next="submit to the human you answer to, and let him pass it on",
        rule="cross-user",
        queue=queue.name,
    )


def sees_queue(desk: Desk, caller: Caller, queue: Queue) -> bool:
    """True if the caller may know that this queue exists: he may submit there, or belongs to it."""
    if not in_scope(caller, queue.project_id):
        return False
    if may_submit(desk, caller, queue) is None:
        return True
    return desk.projects.role_of(queue.project_id, caller.principal.id) is not None


# -- claiming --------------------------------------------------------------------------------------------


def may_claim(desk: Desk, caller: Caller, queue: Queue) -> bool:
    """Own queue, or a queue it works in; an inbox is claimed from only by its owner, and never by an agent."""
    if not in_scope(caller, queue.project_id):
        return False
    if owns(caller, queue):
        return True
    return queue.kind is not QueueKind.INBOX and desk.projects.role_of(queue.project_id, caller.principal.id) in WORKS


# -- arranging -------------------------------------------------------------------------------------------


def refuse_closing(desk: Desk, project_id: int) -> None:
    """Raises Refused for a queue: what is addressed to it, and an approval that waits for its owner, would reach
    nobody, and its cards would be under no rule."""
    queue = desk.projects.get(project_id).queue
    if queue is not None:
        raise Refused(
            f"the queue {queue.name!r} is not closed: work is addressed to it",
            next="`fabric pause NAME` rests an agent, `fabric vacation` a human",
            rule="queue",
        )


def may_make_queue(caller: Caller, kind: QueueKind, owner_id: int | None, owner_answers_to: int | None) -> bool:
    """Administrators and managers make any queue; everybody else his own inbox and queues for his own agents."""
    me = caller.principal
    if me.role in (AppRole.ADMIN, AppRole.MANAGER):
        return True
    match kind:
        case QueueKind.POOL:
            return False
        case QueueKind.INBOX:
            return owner_id == me.id
        case QueueKind.AGENT:
            return owner_answers_to == me.id
