"""What happens in the wake of a change: a project's automatic actions, cards that come again, and webhooks.

The server follows the journal, so whatever changed a card, through whatever door, has its effect once, after its own
transaction and never inside the call. An action is no person: in a queue it colours and sorts, and leaves leases,
verdicts and what only a human does alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from taskfabric.domain import card_actions, recurrence
from taskfabric.domain.card_actions import (
    ACTIONS,
    Action,
    Assign,
    Card,
    Categorise,
    Close,
    DueIn,
    Effect,
    LogMove,
    MoveTo,
    Recolour,
)
from taskfabric.domain.errors import BadInput, FabricError, Refused
from taskfabric.domain.letter import rest
from taskfabric.domain.principal import Caller, Kind, Stamp, Trust, Via
from taskfabric.domain.recurrence import PENDING, Trigger
from taskfabric.domain.status import ColumnRole, Status
from taskfabric.domain.task import Task
from taskfabric.ports.faces import Row, Spot, Words
from taskfabric.ports.followers import Followed, Followers, Hook, Hooks
from taskfabric.services import card_rules, text
from taskfabric.services.desk import Desk

log = logging.getLogger(__name__)

_EVENTS: Final = 500  # of one look
_LOOKS: Final = 20  # of one round, while there is more
_HOOKS: Final = 20  # deliveries of one round
_BY_ACTION: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followings:
    """What one round did."""

    follows: bool = False  # whether there is anything to follow for
    events: int = 0
    actions: int = 0
    sent: int = 0
    failed: int = 0


class Following:
    """Rounds of several servers do not disturb each other: one has the turn."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._store: Followers = desk.kanboard.followers
        self._hooks: Hooks = desk.kanboard.hooks

    # -- a project's actions -------------------------------------------------------------------------

    def actions(self, project_id: int) -> list[Action]:
        return self._store.actions(project_id)

    def add(
        self, caller: Caller, project_id: int, event_name: str, action_name: str, params: Mapping[str, object]
    ) -> int:
        """Raises BadInput for an action, an event or a parameter that is not offered, or one that is missing."""
        kind = ACTIONS.get(action_name)
        if kind is None or event_name not in kind.events or set(params) != set(kind.params):
            raise BadInput("there is no such action with these parameters", field="action_name")
        told: dict[str, str] = {}
        for name, value in params.items():
            if not isinstance(value, str | int) or len(str(value)) > 200:
                raise BadInput(f"{name} is a number or a short text", field="params")
            text.plain(str(value), "params")
            told[name] = str(value)
        if not self._hooks.on and not self._store.actions(None):
            self._store.skip()  # what happened before there was any action is no cause for one
        return self._store.add_action(project_id, event_name, action_name, told, caller.stamp())

    def remove(self, caller: Caller, action_id: int) -> bool:
        return self._store.remove_action(action_id, caller.stamp())

    # -- rounds --------------------------------------------------------------------------------------

    def round(self) -> Followings:
        """Everything that happened since the last round has had its effects; hooks that are due were tried once.

        Raises Unavailable while the store is away."""
        with self._store.turn() as mine:
            if not mine:
                return Followings()
            actions, recurring = self._store.actions(None), self._store.recurring()
            if not actions and not recurring and not self._hooks.on:
                self._store.skip()
                return Followings()
            seen = done = 0
            by_project: dict[int, list[Action]] = {}
            for action in actions:
                by_project.setdefault(action.project_id, []).append(action)
            for _ in range(_LOOKS):
                events, before, after = self._store.events(_EVENTS)
                if before == after:
                    break
                for event in events:
                    done += self._act(event, by_project.get(event.project_id, []))
                    done += recurring and self._again(event)
                if not self._store.advance(before, after, [hook for event in events for hook in self._told(event)]):
                    break
                seen += len(events)
            sent, failed = self._deliver()
        if done or sent or failed:
            log.info("followed events=%d actions=%d hooks=%d failed=%d", seen, done, sent, failed)
        return Followings(follows=True, events=seen, actions=done, sent=sent, failed=failed)

    # -- actions -------------------------------------------------------------------------------------

    def _act(self, event: Followed, actions: Sequence[Action]) -> int:
        """How many actions had an effect. What an action does is no cause for another one."""
        if event.actor_id == _BY_ACTION.principal_id and event.via == Via.SYSTEM.value:
            return 0
        names = card_actions.events_of(event.kind, event.data)
        return sum(self._one(event.task_id, action) for action in actions if action.event_name in names)

    def _one(self, task_id: int, action: Action) -> bool:
        row = self._desk.kanboard.faces.card(task_id, None)
        if row is None or row["project_id"] != action.project_id:
            return False
        wanted = card_actions.effect(action, _standing(row))
        if wanted is None:
            return False
        try:
            self._carry_out(task_id, wanted)
        except Refused as error:
            facts: dict[str, object] = {"rule": error.facts.get("rule"), "message": error.message, "action": action.id}
            self._desk.board.refusal("action", task_id, _BY_ACTION, facts)
            return False
        except FabricError as error:
            log.warning("action failed action=%d task=%d reason=%r", action.id, task_id, error.message)
            return False
        return True

    def _carry_out(self, task_id: int, wanted: Effect) -> None:
        faces, task = self._desk.kanboard.faces, self._desk.board.get(task_id, None)
        match wanted:
            case Recolour():
                faces.change(task_id, Words(color_id=wanted.color_id), _BY_ACTION)
            case Categorise():
                if faces.categories([task.project_id]).get(wanted.category_id) is not None:
                    faces.change(task_id, Words(category_id=wanted.category_id), _BY_ACTION)
            case Assign():
                self._refuse_leased(task)
                if wanted.user_id == 0 or wanted.user_id in faces.assignable(task.project_id):
                    faces.change(task_id, Words(owner_id=wanted.user_id), _BY_ACTION)
            case MoveTo():
                self._may_move(task, wanted.column_id)
                spot = Spot(column_id=wanted.column_id, position=2**31 - 1)
                faces.place(task_id, task.project_id, spot, None, _BY_ACTION, self._desk.rules.limits)
            case Close():
                self._only_outside_queues(task, "closing")
                faces.close(task_id, _BY_ACTION, self._desk.rules.limits)
            case LogMove():
                said = f"Moved to column {task.column}"
                self._desk.kanboard.annex.create_comment(task_id, said, "", "app-user", _BY_ACTION)
            case DueIn():
                if task.due is None:
                    faces.change(task_id, Words(due=self._desk.board.now() + wanted.after), _BY_ACTION)
            case _:
                assert_never(wanted)

    def _refuse_leased(self, task: Task) -> None:
        if card_rules.leased(task):
            raise Refused("an action leaves a card alone that somebody holds", rule="leased", task=task.id)

    def _only_outside_queues(self, task: Task, what: str) -> None:
        if self._desk.queue_of(task) is not None:
            raise Refused(f"{what} a card of a queue is not for an action", rule="hand-move", task=task.id)

    def _may_move(self, task: Task, column_id: int) -> None:
        """In a queue only what nobody has taken, and to nowhere where that would begin or end its work."""
        self._refuse_leased(task)
        columns = self._desk.projects.columns(task.project_id)
        role = next((column.role for column in columns if column.id == column_id), None)
        waits = task.status in (Status.BACKLOG, Status.READY) and role in (ColumnRole.BACKLOG, None)
        if not waits:
            self._only_outside_queues(task, "moving")

    # -- cards that come again -----------------------------------------------------------------------

    def _again(self, event: Followed) -> bool:
        """Whether the task has come again by this event, as a new submission of the human who had submitted it."""
        if event.kind not in recurrence.CAUSES:
            return False
        row = self._desk.kanboard.faces.card(event.task_id, None)
        if row is None or row["recurrence_status"] != PENDING:
            return False
        task = self._desk.board.get(event.task_id, None)
        submitter = self._desk.credentials.principal(task.submitter)
        if submitter is None or not submitter.is_human or not submitter.active:
            return False
        stamp, limits = Caller(principal=submitter, via=Via.SYSTEM).stamp(), self._desk.rules.limits
        try:
            return self._desk.kanboard.faces.come_again(task.id, self._triggers(event, task), stamp, limits) is not None
        except FabricError as error:
            log.warning("a task does not come again task=%d reason=%r", task.id, error.message)
            return False

    def _triggers(self, event: Followed, task: Task) -> frozenset[Trigger]:
        """What befell the task. A dead letter that is put away, and what is cancelled, has not been done: it does not
        come again in a queue."""
        columns = self._desk.projects.columns(task.project_id)
        titles = {column.role: column.title for column in columns}
        first, last = columns[0].title, columns[-1].title
        match event.kind:
            case "closed":
                return frozenset({Trigger.CLOSED}) if self._desk.queue_of(task) is None else frozenset()
            case "verified":
                return frozenset({Trigger.CLOSED})
            case "claimed":
                return recurrence.passed(
                    titles.get(ColumnRole.READY, ""), titles.get(ColumnRole.WORKING, ""), first, last
                )
            case "done":  # a human's own is verified by that
                found = recurrence.passed(
                    titles.get(ColumnRole.WORKING, ""), titles.get(ColumnRole.DONE, ""), first, last
                )
                return found | {Trigger.CLOSED} if task.status is Status.VERIFIED else found
            case _:
                return recurrence.passed(str(event.data.get("from")), str(event.data.get("to")), first, last)

    # -- webhooks ------------------------------------------------------------------------------------

    def _told(self, event: Followed) -> list[Hook]:
        """What the receiver is told of it. A human's inbox is told to nobody."""
        if not self._hooks.on or event.private:
            return []
        names = [n for n in card_actions.events_of(event.kind, event.data) if n != card_actions.CREATE_UPDATE]
        if not names:  # what only actions listen for is told to no receiver
            return []
        data = {
            "task_id": event.task_id,
            "project_id": event.project_id,
            "task": self._desk.kanboard.faces.card(event.task_id, None),
            "changes": dict(event.data),
        }
        author = event.actor if event.actor_id else None
        return [
            Hook(
                event_id=event.id,
                event_name=name,
                body=json.dumps({"event_name": name, "event_data": data, "event_author": author}),
            )
            for name in names
        ]

    def _deliver(self) -> tuple[int, int]:
        sent = failed = 0
        for hook in self._store.due(_HOOKS) if self._hooks.on else ():
            try:
                self._hooks.send(hook.body)
            except FabricError as error:
                pause = rest(hook.attempts + 1)
                again = None if pause is None or isinstance(error, Refused) else self._desk.board.now() + pause
                self._store.failed(hook.id, error.message, again)
                attempt = hook.attempts + 1
                log.warning("webhook not delivered hook=%d attempt=%d reason=%r", hook.id, attempt, error.message)
                failed += 1
            else:
                self._store.sent(hook.id)
                sent += 1
        return sent, failed


def _standing(row: Row) -> Card:
    def number(name: str) -> int:
        value = row[name]
        return value if isinstance(value, int) else 0

    return Card(
        column_id=number("column_id"),
        swimlane_id=number("swimlane_id"),
        owner_id=number("owner_id"),
        creator_id=number("creator_id"),
        category_id=number("category_id"),
        color_id=str(row["color_id"]),
        priority=number("priority"),
        is_open=bool(row["is_active"]),
    )
