"""Queues and projects as people arrange them: a viewer reads, a member works, a manager arranges.

The verbs about queues are here, and beside them the plain calls that surfaces with boards of their own build on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskfabric.domain.errors import BadInput, Refused, not_found
from taskfabric.domain.principal import Caller, Kind, Principal, ProjectRole, Viewer
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.target import checked_name
from taskfabric.ports.projects import Column, Member, Project, Swimlane
from taskfabric.services import policy, text, verbs
from taskfabric.services.desk import Desk


class Arranging:
    """Who may see and arrange which project."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    # -- queues --------------------------------------------------------------------------------------

    def create_queue(self, caller: Caller, verb: verbs.CreateQueue) -> Queue:
        """The queue exists, with these rules where they were given; made by whoever may, or found as it is."""
        policy.need_human(caller, "making a queue", "arrange")
        policy.need_unlimited(caller, "making a queue")
        owner = self._owner_of(verb)
        known = self._desk.projects.queue(verb.name)
        if known is None:
            if owner is None or owner.name != verb.name:
                checked_name(verb.name, "queue")
            owner_id = None if owner is None else owner.id
            if not policy.may_make_queue(caller, verb.kind, owner_id, None if owner is None else owner.owner_id):
                raise Refused("queues for others are made by administrators", next="ask one", rule="arrange")
        queue, _ = self._desk.projects.make_queue(
            verb.name, verb.kind, caller.stamp(), owner_id=None if owner is None else owner.id
        )
        rules = (verb.score_check, verb.needs_verified, verb.human_verify)
        if any(rule is not None for rule in rules):
            self._need_manager(caller, queue.project_id, "changing a queue's rules")
            queue = self._desk.projects.set_rules(
                queue.project_id,
                caller.stamp(),
                score_check=verb.score_check,
                needs_verified=verb.needs_verified,
                human_verify=verb.human_verify,
            )
        return queue

    def _owner_of(self, verb: verbs.CreateQueue) -> Principal | None:
        if verb.kind is QueueKind.POOL:
            if verb.owner is not None:
                raise BadInput("a pool has no owner", field="owner")
            return None
        wanted = Kind.HUMAN if verb.kind is QueueKind.INBOX else Kind.AGENT
        owner = self._desk.person(verb.owner or verb.name)
        if owner is None or owner.kind is not wanted:
            raise BadInput(
                f"there is no {wanted.value} called {(verb.owner or verb.name)[:40]!r} to own it",
                next="`fabric user list` shows who is; an agent is made by `fabric token create NAME`",
                field="owner",
            )
        return owner

    def list_queues(self, caller: Caller, verb: verbs.ListQueues) -> list[Queue]:
        """Those that the caller may see or submit to, with the counts of the rows it may see."""
        counts, limits = self._desk.board.count(Viewer.of(caller)), self._desk.projects.limits()
        return [
            replace(
                queue,
                counts={s.value: n for s, n in counts.get(queue.project_id, {}).items()},
                limits=dict(limits.get(queue.project_id, {})),
            )
            for queue in self._desk.projects.queues()
            if policy.sees_queue(self._desk, caller, queue)
        ]

    def set_member(self, caller: Caller, verb: verbs.SetMember) -> None:
        policy.need_human(caller, "changing the members of a queue", "arrange")
        queue = self._desk.named(caller, verb.queue)
        if queue is None or not policy.sees_queue(self._desk, caller, queue):
            raise not_found("queue")
        self._need_manager(caller, queue.project_id, "changing its members")
        member = self._desk.credentials.principal(verb.name)
        if member is None or member.kind is Kind.SERVICE:
            raise not_found("user")
        if verb.role is None:
            self._desk.projects.remove_member(queue.project_id, member.id, caller.stamp())
        elif member.id == queue.owner_id:
            raise BadInput(f"{member.name} owns {queue.name!r} and stays what it is there", field="name")
        else:
            if not self._is_his(caller, queue):
                policy.need_pin(self._desk, caller, verb.pin, f"a new member for {queue.name!r}")
            self._desk.projects.set_member(queue.project_id, member.id, verb.role, caller.stamp())

    def set_limit(self, caller: Caller, verb: verbs.SetLimit) -> dict[str, Any]:
        """The limit of work in progress of one column. For whoever manages the queue."""
        policy.need_human(caller, "limiting work in progress", "arrange")
        queue = self._desk.named(caller, verb.queue)
        if queue is None or not policy.sees_queue(self._desk, caller, queue):
            raise not_found("queue")
        self._need_manager(caller, queue.project_id, "limiting its work in progress")
        titles = {c.title.lower(): c for c in self._desk.projects.columns(queue.project_id)}
        column = titles.get(verb.column.lower())
        if column is None:
            raise not_found("column")
        self._desk.projects.update_column(column.id, caller.stamp(), title=column.title, task_limit=verb.limit)
        return {"queue": queue.name, "column": column.title, "limit": verb.limit}

    def _is_his(self, caller: Caller, queue: Queue) -> bool:
        """True for the caller's inbox and for the queues of his agents; a pool is everybody's."""
        owner = None if queue.owner_id is None else self._desk.credentials.principal(queue.owner_id)
        return owner is not None and caller.principal.id in (owner.id, owner.owner_id)

    # -- projects ------------------------------------------------------------------------------------

    def projects(self, caller: Caller) -> list[Project]:
        """The active projects that the caller belongs to; an administrator's are all of them."""
        return [p for p in self._desk.projects.all() if p.active and self._reads(caller, p.id)]

    def project(self, caller: Caller, project_id: int) -> Project:
        """Raises NotFound for one that is missing and for one that the caller does not belong to."""
        if not self._reads(caller, project_id):
            raise not_found("project")
        return self._desk.projects.get(project_id)

    def columns(self, caller: Caller, project_id: int) -> list[Column]:
        return self._desk.projects.columns(self.project(caller, project_id).id)

    def swimlanes(self, caller: Caller, project_id: int) -> list[Swimlane]:
        return self._desk.projects.swimlanes(self.project(caller, project_id).id)

    def members(self, caller: Caller, project_id: int) -> list[Member]:
        return self._desk.projects.members(self.project(caller, project_id).id)

    def create_project(self, caller: Caller, name: str, description: str = "") -> Project:
        policy.need_arranger(caller, "making a project")
        policy.need_unlimited(caller, "making a project")
        return self._desk.projects.create(_title(name), caller.stamp(), description=description)

    def rename(self, caller: Caller, project_id: int, name: str) -> Project:
        self._need_manager(caller, project_id, "renaming a project")
        return self._desk.projects.rename(project_id, _title(name), caller.stamp())

    def set_active(self, caller: Caller, project_id: int, active: bool) -> Project:
        self._need_manager(caller, project_id, "closing or opening a project")
        if not active:
            policy.refuse_closing(self._desk, project_id)
        return self._desk.projects.set_active(project_id, active, caller.stamp())

    def add_column(self, caller: Caller, project_id: int, title: str, task_limit: int = 0) -> Column:
        self._need_manager(caller, project_id, "adding a column")
        return self._desk.projects.add_column(project_id, _title(title), caller.stamp(), task_limit=task_limit)

    def update_column(
        self, caller: Caller, project_id: int, column_id: int, *, title: str, task_limit: int = 0
    ) -> Column:
        self._need_manager(caller, project_id, "changing a column")
        self._own_column(project_id, column_id)
        return self._desk.projects.update_column(column_id, caller.stamp(), title=_title(title), task_limit=task_limit)

    def move_column(self, caller: Caller, project_id: int, column_id: int, position: int) -> None:
        self._need_manager(caller, project_id, "moving a column")
        self._own_column(project_id, column_id)
        self._desk.projects.move_column(column_id, position, caller.stamp())

    def remove_column(self, caller: Caller, project_id: int, column_id: int) -> None:
        self._need_manager(caller, project_id, "removing a column")
        self._own_column(project_id, column_id)
        self._desk.projects.remove_column(column_id, caller.stamp())

    def add_swimlane(self, caller: Caller, project_id: int, name: str) -> Swimlane:
        self._need_manager(caller, project_id, "adding a swimlane")
        return self._desk.projects.add_swimlane(project_id, _title(name), caller.stamp())

    def _own_column(self, project_id: int, column_id: int) -> None:
        if all(column.id != column_id for column in self._desk.projects.columns(project_id)):
            raise not_found("column")

    def _reads(self, caller: Caller, project_id: int) -> bool:
        if not policy.in_scope(caller, project_id):
            return False
        if (caller.principal.is_admin and caller.principal.is_human) or policy.is_app(caller):
            return True
        if policy.owns(caller, self._desk.projects.queue(project_id)):
            return True
        return self._desk.projects.role_of(project_id, caller.principal.id) is not None

    def _need_manager(self, caller: Caller, project_id: int, what: str) -> None:
        """Raises NotFound for a project that the caller may not see, Refused if he does not manage it."""
        policy.need_arranger(caller, what)
        if policy.is_app(caller):
            return
        queue = self._desk.projects.queue(project_id)
        if not self._reads(caller, project_id) and (queue is None or not policy.sees_queue(self._desk, caller, queue)):
            raise not_found("project")
        if not policy.manages(self._desk, caller, project_id):
            raise Refused(
                f"{what} is for {ProjectRole.MANAGER.value}s", next="ask a manager of it", rule="not-a-manager"
            )


def _title(name: str) -> str:
    words = name.strip()
    text.plain(name, "name")
    if not words or len(words) > 255 or len(words.splitlines()) > 1:
        raise BadInput("a name is one line of 1 to 255 characters", field="name")
    return words
