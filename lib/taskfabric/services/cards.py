"""Cards through Kanboard's API: read, made, changed, moved, ended. The caller's role was asked before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from taskfabric.domain.card_dates import card_instant
from taskfabric.domain.card_query import CardQuery
from taskfabric.domain.errors import BadInput, Refused, not_found
from taskfabric.domain.principal import Caller, Trust
from taskfabric.domain.queue import Queue
from taskfabric.domain.recurrence import Recurrence
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.task import NewTask, Task
from taskfabric.domain.tier import score_hold, tier_of
from taskfabric.ports.faces import Dress, Elsewhere, Faces, NewCard, Row, Spot, Words
from taskfabric.services import card_rules, policy, text
from taskfabric.services.desk import Desk
from taskfabric.services.submit import Submitting

ZONE: Final = UTC  # in which dates are read that name none
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)  # for what names no date, the time is not asked
_REFERENCE: Final = 191  # characters
_COLOR: Final = 50
_PRIORITIES: Final = range(4)
_MILLENNIUM: Final = 24.0 * 366 * 1000  # hours that a task may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A card as a client asks for it; None and 0 mean what they mean to Kanboard."""

    title: str
    project_id: int
    color_id: str = ""
    column_id: int = 0
    owner_id: int = 0
    creator_id: int = 0
    date_due: object = ""
    description: str = ""
    category_id: int = 0
    score: int = 0
    swimlane_id: int | None = None
    priority: int = 0
    recurrence: Recurrence = field(default_factory=Recurrence)
    reference: str = ""
    tags: Sequence[object] = ()
    date_started: object = ""
    time_spent: float | None = None
    time_estimated: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a client wants changed; None leaves alone."""

    title: str | None = None
    color_id: str | None = None
    owner_id: int | None = None
    date_due: object = None
    description: str | None = None
    category_id: int | None = None
    score: int | None = None
    priority: int | None = None
    recurrence: Mapping[str, int] = field(default_factory=dict)
    reference: str | None = None
    tags: Sequence[object] | None = None
    date_started: object = None
    time_spent: float | None = None
    time_estimated: float | None = None


class Cards:
    """Reading needs no rule beyond what the caller sees; a write to a queue asks ``card_rules``."""

    def __init__(self, desk: Desk, submitting: Submitting) -> None:
        self._desk = desk
        self._submitting = submitting
        self._faces: Faces = desk.kanboard.faces

    # -- reading -------------------------------------------------------------------------------------

    def get(self, caller: Caller, task_id: int) -> Row | None:
        return self._faces.card(task_id, policy.eyes(caller))

    def by_reference(self, caller: Caller, project_id: int, reference: str) -> Row | None:
        """None for a blank reference, which every task without one would have."""
        return self._faces.by_reference(project_id, reference, policy.eyes(caller)) if reference else None

    def all(self, caller: Caller, project_id: int, active: bool, dress: Dress) -> list[bytes]:
        return self._faces.cards(project_id, active, policy.eyes(caller), dress)

    def board(self, caller: Caller, project_id: int) -> list[Row]:
        return self._faces.board(project_id, policy.eyes(caller))

    def search(self, caller: Caller, project_id: int, query: str) -> list[Row]:
        me = 0 if policy.is_app(caller) else caller.principal.id
        wanted = CardQuery.parse(query)
        return self._faces.search(project_id, wanted, policy.eyes(caller), me, self._desk.board.now(), ZONE)

    def overdue(self, caller: Caller, project_id: int | None) -> list[Row]:
        return self._faces.overdue(policy.eyes(caller), project_id)

    def my_overdue(self, caller: Caller) -> list[Row]:
        return self._faces.overdue(policy.eyes(caller), None, caller.principal.id)

    def dashboard(self, caller: Caller) -> list[Row]:
        return self._faces.dashboard(caller.principal.id, policy.eyes(caller))

    # -- making --------------------------------------------------------------------------------------

    def create(self, caller: Caller, draft: Draft) -> int:
        """The number of the new task. Raises BadInput, NotFound, Refused."""
        self._assignable(draft.project_id, draft.owner_id)
        self._assignable(draft.project_id, draft.creator_id)
        new = self._new(caller, draft)
        return self._faces.create(new, caller.stamp(), self._desk.rules.limits)

    def _new(self, caller: Caller, draft: Draft) -> NewCard:
        desk, rules = self._desk, self._desk.rules
        queue = desk.projects.queue(draft.project_id)
        if queue is not None and (refusal := policy.may_submit(desk, caller, queue)) is not None:
            raise refusal
        roles = self._faces.columns(draft.project_id)
        column_id = draft.column_id or next(iter(roles), 0)
        if column_id not in roles:
            raise not_found("column")
        role = roles[column_id]
        if queue is not None:
            card_rules.need_creator(caller, role)
        self._category(draft.project_id, draft.category_id)
        now = desk.board.now() if draft.date_due or draft.date_started else _LONG_AGO
        score = draft.score if draft.score > 0 else None
        origin = self._submitting.origin(caller, None if caller.run is None else caller.run.task_id)
        task = NewTask(
            project_id=draft.project_id,
            title=card_rules.title(draft.title, queue, rules),
            description=text.description(draft.description, rules),
            priority=min(max(draft.priority, 0), 3),
            score=draft.score or None,
            tier="" if queue is None else tier_of(score, "", rules.thresholds),
            required_trust=Trust.UNTRUSTED if origin.parent is None else origin.parent.required_trust,
            tags=card_rules.people_tags(draft.tags, (), queue, rules),
            reference=_short(draft.reference, _REFERENCE, "reference"),
            due=_instant(draft.date_due, now, "date_due"),
            not_before=_instant(draft.date_started, now, "date_started"),
            parent=None if origin.parent is None else origin.parent.id,
            column_id=column_id,
            swimlane_id=draft.swimlane_id or None,
            hold=score_hold(score, "", check=queue.score_check) if queue is not None else None,
            human_verify=queue is not None and queue.human_verify,
            max_attempts=rules.max_attempts,
            trust=origin.trust,
            label=origin.label,
            on_behalf_id=origin.on_behalf_id,
        )
        begun = queue is not None and role is ColumnRole.WORKING
        return NewCard(
            task=task,
            owner_id=draft.owner_id or (caller.principal.id if begun else None),
            color_id=_short(draft.color_id, _COLOR, "color_id") or "yellow",
            category_id=draft.category_id,
            priority=None if draft.priority in _PRIORITIES else draft.priority,
            time_spent=_hours(draft.time_spent),
            time_estimated=_hours(draft.time_estimated),
            recurrence=draft.recurrence,
        )

    def duplicate(self, caller: Caller, task_id: int, there: Elsewhere) -> int:
        """A copy of the task's words in that project, or in its own."""
        task, face = self._whole(caller, task_id)
        draft = self._like(task, face, there)
        return self._faces.duplicate(task_id, self._new(caller, draft), True, caller.stamp(), self._desk.rules.limits)

    def _whole(self, caller: Caller, task_id: int) -> tuple[Task, Row]:
        task = self._desk.see(caller, task_id)
        face = self._faces.card(task_id, policy.eyes(caller))
        if face is None:
            raise not_found("task")
        return task, face

    def _like(self, task: Task, face: Row, there: Elsewhere) -> Draft:
        """What a copy is asked for: column, swimlane and category by their names, the assignee if he may be."""
        project_id = there.project_id
        columns = self._desk.projects.columns(project_id)
        swimlanes = self._desk.projects.swimlanes(project_id)
        queue = self._desk.projects.queue(project_id)
        same = next((c for c in columns if c.title == task.column), None)
        # A copy of work, or of what is done, is new work.
        if queue is not None and same is not None and same.role in (ColumnRole.WORKING, ColumnRole.DONE):
            same = next((c for c in columns if c.role is ColumnRole.READY), None)
        categories = self._faces.categories([task.project_id, project_id])
        named = categories.get(_number(face["category_id"]), (0, ""))[1]
        category = next((i for i, (p, name) in categories.items() if p == project_id and name == named), 0)
        owner = task.holder_id if there.owner_id is None else there.owner_id
        return Draft(
            title=task.title,
            project_id=project_id,
            color_id=str(face["color_id"]),
            column_id=there.column_id or (0 if same is None else same.id),
            owner_id=owner if owner and owner in self._faces.assignable(project_id) else 0,
            description=task.description,
            category_id=category if there.category_id is None else there.category_id,
            score=task.score or 0,
            swimlane_id=there.swimlane_id or next((s.id for s in swimlanes if s.name == task.swimlane), None),
            priority=_number(face["priority"]),
            recurrence=Recurrence(
                status=_number(face["recurrence_status"]),
                trigger=_number(face["recurrence_trigger"]),
                factor=_number(face["recurrence_factor"]),
                timeframe=_number(face["recurrence_timeframe"]),
                basedate=_number(face["recurrence_basedate"]),
            ),
            reference=task.reference,
            tags=task.tags,
            date_due=task.due,
            time_spent=0.0,
            time_estimated=_float(face["time_estimated"]),
        )

    # -- changing ------------------------------------------------------------------------------------

    def change(self, caller: Caller, task_id: int, changes: Changes) -> bool:
        """The card says so; True also if it did already. Raises BadInput, Refused."""
        desk, rules = self._desk, self._desk.rules
        task = desk.see(caller, task_id)
        queue = desk.queue_of(task)
        if queue is not None:
            if changes.owner_id is not None and (changes.owner_id or None) != task.holder_id:
                card_rules.refuse_leased(caller, task, "reassigning")
            policy.need_editor(desk, caller, task, rates=changes.score is not None)
        if changes.owner_id:
            self._assignable(task.project_id, changes.owner_id)
        if changes.category_id:
            self._category(task.project_id, changes.category_id)
        now = desk.board.now() if changes.date_due or changes.date_started else _LONG_AGO
        words = Words(
            title=None if changes.title is None else card_rules.title(changes.title, queue, rules),
            description=None if changes.description is None else text.description(changes.description, rules),
            reference=None if changes.reference is None else _short(changes.reference, _REFERENCE, "reference"),
            owner_id=changes.owner_id,
            score=changes.score,
            tier=None if queue is None else self._tier(task, changes.score),
            priority=changes.priority,
            due=_instant(changes.date_due, now, "date_due"),
            clear_due=changes.date_due == "",
            started=_instant(changes.date_started, now, "date_started"),
            clear_started=changes.date_started == "",
            color_id=None if changes.color_id is None else _short(changes.color_id, _COLOR, "color_id"),
            category_id=changes.category_id,
            time_spent=_hours(changes.time_spent),
            time_estimated=_hours(changes.time_estimated),
            recurrence=changes.recurrence,
            tags=None if changes.tags is None else card_rules.people_tags(changes.tags, task.all_tags, queue, rules),
        )
        if words == Words():
            return True
        self._faces.change(task_id, words, caller.stamp())
        return True

    def _tier(self, task: Task, score: int | None) -> str | None:
        """What follows from a new score, unless a tier was chosen before."""
        thresholds = self._desk.rules.thresholds
        if score is None or task.tier != tier_of(task.score, "", thresholds):
            return None
        return tier_of(score if score > 0 else None, "", thresholds)

    # -- moving --------------------------------------------------------------------------------------

    def place(self, caller: Caller, task_id: int, project_id: int, spot: Spot) -> bool:
        """False: it stood there already, or there is no such place."""
        if spot.position < 1:
            return False
        if self._desk.projects.queue(project_id) is not None:
            task = self._desk.see(caller, task_id)
            column = next((c for c in self._desk.projects.columns(project_id) if c.id == spot.column_id), None)
            if column is None:
                return False
            card_rules.need_mover(self._desk, caller, task, column.role, stays=column.title == task.column)
        limits = self._desk.rules.limits
        return self._faces.place(task_id, project_id, spot, policy.eyes(caller), caller.stamp(), limits)

    def move_to(self, caller: Caller, task_id: int, there: Elsewhere) -> bool:
        """The task is in another project. Where a queue is left or entered, only by a human's own hand."""
        task = self._desk.see(caller, task_id)
        here, queue = self._desk.queue_of(task), self._desk.projects.queue(there.project_id)
        if here is not None or queue is not None:
            card_rules.need_hand(self._desk, caller, task, "moving a task into or out of a queue")
        if queue is not None:
            self._may_enter(caller, queue)
        return self._faces.move_to(task_id, there, caller.stamp())

    def _may_enter(self, caller: Caller, queue: Queue) -> None:
        refusal = policy.may_submit(self._desk, caller, queue)
        if refusal is not None:
            raise refusal if isinstance(refusal, Refused) else not_found("project")

    # -- ends ----------------------------------------------------------------------------------------

    def close(self, caller: Caller, task_id: int) -> bool:
        task = self._desk.see(caller, task_id)
        if task.is_open and self._desk.queue_of(task) is not None:
            with card_rules.about(task_id):
                policy.refuse_gate(self._desk, caller, task_id, "closing")
                card_rules.need_closer(self._desk, caller, task)
        return self._faces.close(task_id, caller.stamp(), self._desk.rules.limits)

    def reopen(self, caller: Caller, task_id: int) -> bool:
        task = self._desk.see(caller, task_id)
        if not task.is_open and self._desk.queue_of(task) is not None:
            with card_rules.about(task_id):
                card_rules.need_hand(self._desk, caller, task, "reopening")
        return self._faces.reopen(task_id, caller.stamp())

    def remove(self, caller: Caller, task_id: int) -> bool:
        task = self._desk.see(caller, task_id)
        if self._desk.queue_of(task) is not None:
            with card_rules.about(task_id):
                card_rules.need_hand(self._desk, caller, task, "removing a task")
        return self._faces.remove(task_id, caller.stamp())

    # -- what a client may name ----------------------------------------------------------------------

    def _assignable(self, project_id: int, user_id: int) -> None:
        """Raises BadInput for somebody who is no active member of the project; 0 is nobody."""
        if user_id and user_id not in self._faces.assignable(project_id):
            raise BadInput("that user is no member of the project", field="owner_id")

    def _category(self, project_id: int, category_id: int) -> None:
        if category_id and self._faces.categories([project_id]).get(category_id) is None:
            raise BadInput("this project has no such category", field="category_id")


def _instant(given: object, now: datetime, name: str) -> datetime | None:
    """The instant that a client names; None for nothing and for "". Raises BadInput for other forms than Kanboard's."""
    if given is None or given == "":
        return None
    if isinstance(given, datetime):
        return given
    found = card_instant(given, now, ZONE) if isinstance(given, str) else None
    if found is None:
        raise BadInput("a date is YYYY-MM-DD, YYYY-MM-DD HH:MM, MM/DD/YYYY or MM/DD/YYYY HH:MM", field=name)
    return found


def _short(given: str, limit: int, name: str) -> str:
    if len(given) > limit:
        raise BadInput(f"at most {limit} characters", field=name, limit=limit)
    text.plain(given, name)
    return given


def _hours(given: float | None) -> float | None:
    if given is not None and not 0 <= given <= _MILLENNIUM:
        raise BadInput("hours are a number from 0 on", field="time")
    return given


def _float(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
