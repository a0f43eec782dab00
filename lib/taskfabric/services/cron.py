"""The ticker: each slot of a schedule becomes at most one task, and what does not become one is written down (G12)."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from taskfabric.domain.errors import BadInput, FabricError, Unavailable
from taskfabric.domain.principal import Caller, Trust
from taskfabric.domain.queue import Queue
from taskfabric.domain.schedule import Missed, Schedule, Slot, SlotState, decide
from taskfabric.domain.target import Target
from taskfabric.domain.task import NewTask, Submitted
from taskfabric.domain.tier import score_hold, tier_of
from taskfabric.domain.times import iso
from taskfabric.services import keeper_verbs, policy, schedules, text
from taskfabric.services.desk import Desk
from taskfabric.services.keeping import need_service
from taskfabric.services.routing import Routing
from taskfabric.services.submit import Submitting
from taskfabric.services.upkeep import CRON, Upkeep

log = logging.getLogger(__name__)


class Cron:
    """The verbs of the schedules' submitter."""

    def __init__(self, desk: Desk, upkeep: Upkeep, submitting: Submitting) -> None:
        self._desk = desk
        self._upkeep = upkeep
        self._submitting = submitting
        self._routing = Routing(desk)

    def tick(self, caller: Caller, verb: keeper_verbs.Tick) -> dict[str, Any]:
        """One look at every schedule. A schedule that cannot be read or submitted stops no other."""
        need_service(caller, CRON, "running schedules")
        now = self._desk.board.now()
        self._upkeep.keeping.turn(
            "cron", caller.instance or "cron", timedelta(seconds=1)
        )  # for the metric; several may tick
        known, problems = self._read()
        counts: Counter[str] = Counter()
        for schedule in known:
            try:
                counts.update(slot.state.value for slot in self._one(caller, schedule, now))
            except Unavailable:
                raise
            except FabricError as error:
                problems.append(f"{schedule.name}: {error.message}")
                log.warning("schedule not run schedule=%s reason=%r", schedule.name, error.message)
        upcoming = [at for s in known if s.enabled and (at := schedules.next_slot(s, now)) is not None]
        return {
            **{state.value: counts.get(state.value, 0) for state in SlotState},
            "problems": problems,
            "next": iso(min(upcoming)) if upcoming else None,
            "now": iso(now),
        }

    def shown(self, caller: Caller, verb: keeper_verbs.ListSlots) -> dict[str, Any]:
        """Reads only: looking at schedules never moves one."""
        policy.need_admin(caller, "looking at the schedules")
        now = self._desk.board.now()
        known, problems = self._read()
        return {
            "schedules": [
                {
                    "name": s.name,
                    "cron": s.cron,
                    "zone": s.zone,
                    "to": s.to,
                    "for": s.for_ or None,
                    "title": s.title,
                    "enabled": s.enabled,
                    "next": iso(at) if s.enabled and (at := schedules.next_slot(s, now)) is not None else None,
                }
                for s in known
            ],
            "slots": [_shown(slot) for slot in self._upkeep.slots.recent(verb.limit)],
            "problems": problems,
        }

    def _read(self) -> tuple[list[Schedule], list[str]]:
        try:
            content, source = self._upkeep.schedules()
            found = schedules.read(content, source)
        except BadInput as error:
            return [], [error.message]
        known = [entry for entry in found.values() if isinstance(entry, Schedule)]
        wrong = [entry for entry in found.values() if isinstance(entry, BadInput)]
        return known, [f"{e.message}; {e.next}" if e.next else e.message for e in wrong]

    def _one(self, caller: Caller, schedule: Schedule, now: datetime) -> list[Slot]:
        """What became of this schedule's slots up to now."""
        store = self._upkeep.slots
        cursor = store.cursor(schedule.name, now)
        if cursor < now:
            new = schedules.slots(schedule, cursor, now) if schedule.enabled else []
            until = new[-1] if len(new) == schedules.MOST else now
            waiting = any(slot.state is SlotState.WAITING for slot in store.unsettled(schedule.name))
            verdicts = decide(schedule, new, now, running=store.running(schedule.name), waiting=waiting)
            if not store.open(schedule.name, verdicts, cursor, until):
                return []  # another ticker was here first
        else:
            verdicts = []
        made = [self._settled(caller, schedule, slot, now) for slot in store.unsettled(schedule.name)]
        return [slot for slot in verdicts if slot.state in (SlotState.MISSED, SlotState.SKIPPED)] + made

    def _settled(self, caller: Caller, schedule: Schedule, slot: Slot, now: datetime) -> Slot:
        """A due slot is made; one that waits is made when the task of before has ended. Its key makes a repetition
        after a crash find the task that there is (G11, G12)."""
        store = self._upkeep.slots
        if slot.state is SlotState.WAITING and store.running(schedule.name):
            return slot
        late = slot.state is SlotState.DUE and now - slot.at > schedule.grace
        if late and schedule.missed is Missed.RECORD:
            end = replace(slot, state=SlotState.MISSED, reason="it could not be submitted in time")
        else:
            try:
                submitted = self._submitted(caller, schedule, slot)
                end = replace(slot, state=SlotState.MADE, reason="", task_id=submitted.task.id)
            except Unavailable:
                raise
            except FabricError as error:
                store.settle(replace(slot, reason=error.message[:500]))
                raise
        store.settle(end)
        return end

    def _submitted(self, caller: Caller, schedule: Schedule, slot: Slot) -> Submitted:
        target = Target.parse(schedule.to)
        queue = self._submitting.resolve(caller, target)
        new = self._task(caller, schedule, slot, (target, queue))
        new, routed = self._routing.applied(new, (target, queue), asks=new.on_behalf_id)
        made = self._desk.board.submit([new], caller.stamp(), self._desk.rules.limits)[0]
        if routed is not None and made.created:
            self._routing.say(made.task, routed)
        return made

    def _task(self, caller: Caller, schedule: Schedule, slot: Slot, place: tuple[Target, Queue]) -> NewTask:
        rules = self._desk.rules
        target, queue = place
        tier = schedule.tier or target.tier
        key = f"{schedule.name}/{iso(slot.at)}"
        return NewTask(
            project_id=queue.project_id,
            title=text.title(schedule.title, rules),
            description=text.description(schedule.description, rules),
            priority=schedule.priority,
            score=schedule.score,
            tier=tier_of(schedule.score, tier, rules.thresholds),
            needs=tuple(sorted({*schedule.needs, *target.needs})),
            required_trust=target.trust or Trust.UNTRUSTED,
            tags=text.tags(schedule.tags, rules),
            refs=text.refs(schedule.refs, rules),
            hold=score_hold(schedule.score, tier, check=queue.score_check),
            human_verify=queue.human_verify,
            max_attempts=rules.max_attempts,
            key=key,
            body_hash=hashlib.sha256(key.encode()).digest(),
            trust=caller.principal.trust,
            on_behalf_id=self._human(schedule),
        )

    def _human(self, schedule: Schedule) -> int | None:
        """The person whom the schedule is for. Raises BadInput where there is none of that name."""
        if not schedule.for_:
            return None
        person = self._desk.person(schedule.for_)
        if person is None or not person.is_human:
            raise BadInput(f"there is no person called {schedule.for_[:40]!r}", next="`fabric user list` shows who is")
        return person.id


def _shown(slot: Slot) -> dict[str, Any]:
    return {
        "schedule": slot.schedule,
        "slot": iso(slot.at),
        "state": slot.state.value,
        "reason": slot.reason,
        "task": slot.task_id,
    }
