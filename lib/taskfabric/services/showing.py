"""How an approval is shown: to whoever asked, and to those who may decide it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.approval import YES, Approval, State
from taskfabric.domain.errors import NotFound
from taskfabric.domain.principal import Caller, Principal
from taskfabric.domain.times import iso
from taskfabric.services.away import Humans
from taskfabric.services.desk import Desk
from taskfabric.services.levels import Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What several approvals are looked at with."""

    now: datetime
    household: tuple[str, ...]  # to whom requests go on
    away: dict[int, dict[str, Any] | None] = field(default_factory=dict)  # by person, as far as it was asked for


class Showing:
    """Approvals as documents."""

    def __init__(self, desk: Desk, levels: Levels, humans: Humans) -> None:
        self._desk = desk
        self._levels = levels
        self._humans = humans

    def moment(self) -> Moment:
        """What is read once for all that is shown together."""
        return Moment(now=self._desk.board.now(), household=self._levels.judged().household)

    def shown(self, caller: Caller, approval: Approval, moment: Moment | None = None) -> dict[str, Any]:
        """The approval as its asker and its deciders see it."""
        moment = moment or self.moment()
        now = moment.now
        state = State.EXPIRED if approval.expired_by(now) else approval.state
        pending = state is State.PENDING
        first = self._desk.person(approval.deciders[0].principal_id) if approval.deciders else None
        why_not = barred(self._desk, caller, approval, now) if pending else f"it is {state.value}"
        return {
            "id": approval.id,
            "task": approval.ref,
            "for": approval.task_id,
            "run": None if approval.task_epoch is None else f"{approval.task_id}@{approval.task_epoch}",
            "state": state.value,
            "allowed": state in YES and not approval.unusable(now),
            "action": approval.action,
            "args": dict(approval.args),
            "hash": approval.hash,
            "level": approval.level.word,
            "requester": approval.requester,
            "why": approval.why,
            "recipient": approval.recipient,
            "amount": _plain(approval.amount),
            "created": iso(approval.created),
            "expires": iso(approval.expires),
            "deciders": [
                {
                    "name": d.name,
                    "how": d.how.value,
                    "since": iso(d.since),
                    "for": d.for_whom,
                    "until": None if d.until is None else iso(d.until),
                }
                for d in approval.deciders_at(now)
            ],
            "next": self._next(approval, moment) if pending else None,
            "on_yes": f"{approval.requester} may do exactly this, once",
            "on_no": f"{approval.requester} is told no, with your reason",
            "on_silence": f"at {iso(approval.expires)} it expires: nothing is done",
            "decided_by": approval.decided_by,
            "decided_at": None if approval.decided_at is None else iso(approval.decided_at),
            "decided_args": None if approval.decided_args is None else dict(approval.decided_args),
            "note": approval.note,
            "via": None if approval.via is None else approval.via.value,
            "for_whom": approval.for_whom,
            "use_until": None if approval.use_until is None else iso(approval.use_until),
            "consumed_at": None if approval.consumed_at is None else iso(approval.consumed_at),
            "grant": approval.grant_id,
            "away": self._away(first, moment) if pending else None,
            "may_decide": not why_not,
            "why_not": why_not,
        }

    def _away(self, person: Principal | None, moment: Moment) -> dict[str, Any] | None:
        if person is None:
            return None
        if person.id not in moment.away:
            moment.away[person.id] = self._humans.shown(person)
        return moment.away[person.id]

    def _next(self, approval: Approval, moment: Moment) -> dict[str, Any] | None:
        """To whom it goes on, and when, if nobody decides."""
        person = self.next_decider(approval, moment)
        if person is None:
            return None
        return {"name": person.name, "at": iso(max(moment.now, escalates_at(approval)))}

    def next_decider(self, approval: Approval, moment: Moment) -> Principal | None:
        """The next human of the household's order who cannot decide it yet. Nothing private goes on."""
        if approval.label == "private":
            return None
        known = {d.principal_id for d in approval.deciders_at(moment.now)} | {approval.requester_id}
        for name in moment.household:
            person = self._desk.person(name)
            if person is not None and person.is_human and person.id not in known:
                return person
        return None


def _plain(amount: float | None) -> float | int | None:
    """A whole amount without a fraction."""
    return int(amount) if amount is not None and amount.is_integer() else amount


ESCALATE: Final = 0.95  # of the time to expiry


def escalates_at(approval: Approval) -> datetime:
    """When a request that nobody decided goes on to the next human."""
    return approval.created + (approval.expires - approval.created) * ESCALATE


def barred(desk: Desk, caller: Caller, approval: Approval, now: datetime) -> str:
    """Why this caller may not decide it, whatever he proves; "" = he may."""
    me = caller.principal
    if not me.is_human:
        return "only humans decide"
    if caller.run is not None:
        return "nothing is decided inside a run"
    if caller.queues is not None:
        return "a token that is limited to some queues decides nothing"
    if me.id == approval.requester_id:
        return "who asks never approves"
    if approval.decider(me.id, now) is None:
        return "it is not yours to decide"
    if approval.task_id is not None:
        try:
            task = desk.board.get(approval.task_id, None)
        except NotFound:
            return ""
        if me.id in (task.holder_id, task.producer_id):
            return "who does the work never approves it"
    return ""
