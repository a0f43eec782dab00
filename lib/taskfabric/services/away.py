"""People's availability and their own settings: vacation, waking hours, who decides meanwhile, quiet hours."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

from taskfabric.domain.approval import Approval, Decider, How, State
from taskfabric.domain.availability import Availability, Part, compose, opening
from taskfabric.domain.errors import BadInput, not_found
from taskfabric.domain.letter import Quiet
from taskfabric.domain.principal import Caller, Principal
from taskfabric.domain.times import iso, zone_of
from taskfabric.ports.approvals import Look
from taskfabric.ports.away import Absence
from taskfabric.services import inbox_verbs, policy, text
from taskfabric.services.desk import Desk
from taskfabric.services.looking import every_approval
from taskfabric.services.notices import Notices
from taskfabric.services.openings import Openings


class Humans:
    """a(t) of humans: his card if he has one, his vacation, and his quiet hours."""

    def __init__(self, desk: Desk, notices: Notices) -> None:
        self._desk = desk
        self._notices = notices
        self._openings = Openings(desk)

    def absence(self, person: Principal) -> Absence | None:
        return self._desk.inbox.away.absence(person.id)

    def state(self, person: Principal) -> Availability:
        """Whether he is there now; otherwise why, and until when."""
        now = self._desk.board.now()
        absence, quiet = self.absence(person), self._notices.quiet(person)
        card = self._desk.cards.deck().cards.get(person.name)
        of_card = None if card is None or not card.enabled else self._openings.look([card])

        def parts(at: datetime) -> list[Part]:
            found = [_vacation(absence, at), _waking(quiet, person.zone, at)]
            return found if of_card is None or card is None else [*found, *of_card.parts(card, at)]

        here = compose(parts(now))
        if here.open:
            return here
        return Availability(
            open=False, background=False, until=opening(parts, now), reason=here.reason, parts=here.parts
        )

    def shown(self, person: Principal | None) -> dict[str, Any] | None:
        """What one who waits for him is told; None while he is there."""
        if person is None:
            return None
        state = self.state(person)
        if state.open:
            return None
        absence = self.absence(person)
        return {
            "name": person.name,
            "until": None if state.until is None else iso(state.until),
            "to": None if absence is None else absence.to,
            "note": state.reason,
        }

    def deciders(self, person: Principal, now: datetime) -> list[Decider]:
        """He himself, and who decides for him while he is away."""
        found = [Decider(principal_id=person.id, name=person.name, how=How.ASKED, since=now)]
        absence = self.absence(person)
        if absence is not None and absence.to_id is not None and absence.to is not None:
            found.append(_in_place_of(person, absence, now))
        return found

    # -- the verbs -----------------------------------------------------------------------------------

    def vacation(self, caller: Caller, verb: inbox_verbs.Vacation) -> dict[str, Any]:
        """He is away, or back; what waits for him meanwhile may be decided by whom he names, and is marked so."""
        policy.need_human(caller, "taking a vacation", "vacation")
        policy.need_unlimited(caller, "taking a vacation")
        if verb.to is not None:
            policy.refuse_reset(self._desk, caller, "letting somebody else decide")
        me, now = caller.principal, self._desk.board.now()
        if verb.off and (verb.until is not None or verb.to is not None):
            raise BadInput("away and back at once", next="give --until, or --off", field="off")
        if verb.to is not None and verb.until is None:
            raise BadInput("a delegation has an end", next="give --until", field="until")
        if verb.off:
            self._desk.inbox.away.come_back(me.id, caller.stamp())
            self._desk.approvals.end_delegations(me.id)
        elif verb.until is not None:
            until = text.instant(verb.until, "until")
            assert until is not None
            if until <= now:
                raise BadInput("a vacation ends in the future", next="name a later instant", field="until")
            to = None if verb.to is None else self._other(caller, verb.to)
            # Whoever could decide before decides no more: the new words are the whole of it.
            self._desk.approvals.end_delegations(me.id)
            note = text.note(verb.note, self._desk.rules)
            self._desk.inbox.away.leave(me.id, until, None if to is None else to.id, note, caller.stamp())
            absence = self.absence(me)
            if absence is not None and absence.to_id is not None:
                self._pass_on(caller, absence, now)
        absence = self.absence(me)
        return {
            "away": absence is not None,
            "until": None if absence is None else iso(absence.until),
            "to": None if absence is None else absence.to,
            "note": "" if absence is None else absence.note,
            "warning": "" if absence is None else self._warning(absence),
        }

    def _warning(self, absence: Absence) -> str:
        other = self._desk.person(absence.to)
        if absence.to is None or (other is not None and self._desk.comes_in(other)):
            return ""
        return f"{absence.to} has neither a token nor a browser, so nobody decides meanwhile"

    def _pass_on(self, caller: Caller, absence: Absence, now: datetime) -> None:
        """What is pending for him may be decided by the other as well."""
        me = caller.principal
        for approval in every_approval(self._desk.approvals, Look(decider_id=me.id, states=(State.PENDING,))):
            decider = approval.decider(me.id, now)
            if decider is not None and decider.how is How.ASKED and not _asked_by(approval, absence.to_id):
                self._desk.approvals.add_decider(approval.id, _in_place_of(me, absence, now), caller.stamp())

    def _other(self, caller: Caller, name: str) -> Principal:
        other = self._desk.person(name)
        if other is None or not other.is_human:
            raise not_found("person")
        if other.id == caller.principal.id:
            raise BadInput("somebody else decides while you are away", next="name another human", field="to")
        return other

    def me(self, caller: Caller, verb: inbox_verbs.Me) -> dict[str, Any]:
        policy.refuse_service(caller, "have settings")
        me = self._desk.credentials.principal(caller.principal.id) or caller.principal
        quiet = self._notices.quiet(me) if me.is_human else None
        return {
            "name": me.name,
            "role": me.role.value,
            "zone": me.zone,
            "quiet": None if quiet is None else {"begin": f"{quiet.begin:%H:%M}", "end": f"{quiet.end:%H:%M}"},
            "away": self.shown(me) if me.is_human else None,
            "pin": self._desk.credentials.has_pin(me.id),
            "pin_code": self._desk.credentials.needs_code(me.id),
            "may_decide": caller.may_decide,
            "letters": me.is_human and self._notices.reachable(me),
        }

    def set_me(self, caller: Caller, verb: inbox_verbs.SetMe) -> dict[str, Any]:
        policy.need_human(caller, "changing one's settings", "settings")
        policy.need_unlimited(caller, "changing one's settings")
        me, away = caller.principal, self._desk.inbox.away
        if (verb.quiet_begin is None) != (verb.quiet_end is None):
            raise BadInput("quiet hours have a begin and an end", next="give both", field="quiet_begin")
        if verb.no_quiet and verb.quiet_begin is not None:
            raise BadInput("quiet hours, and none at all, are asked for at once", next="give one", field="no_quiet")
        if verb.quiet_begin is not None and verb.quiet_begin == verb.quiet_end:
            raise BadInput("quiet hours end at another time than they begin", next="name another", field="quiet_end")
        if verb.zone is not None:
            zone_of(verb.zone)
            away.set_zone(me.id, verb.zone, caller.stamp())
        if verb.quiet_begin is not None and verb.quiet_end is not None:
            quiet = Quiet(begin=_clock(verb.quiet_begin), end=_clock(verb.quiet_end))
            away.set_quiet(me.id, quiet, caller.stamp())
        elif verb.no_quiet:
            away.set_quiet(me.id, None, caller.stamp())
        return self.me(caller, inbox_verbs.Me())


def _in_place_of(person: Principal, absence: Absence, now: datetime) -> Decider:
    assert absence.to_id is not None
    return Decider(
        principal_id=absence.to_id,
        name=absence.to or "",
        how=How.DELEGATED,
        since=now,
        for_whom=person.name,
        until=absence.until,
    )


def _asked_by(approval: Approval, principal_id: int | None) -> bool:
    return principal_id == approval.requester_id


def _vacation(absence: Absence | None, at: datetime) -> Part:
    if absence is None or at >= absence.until:
        return Part(name="vacation")
    meanwhile = f"; {absence.to} decides meanwhile, but nothing secure or private" if absence.to else ""
    reason = "away" + (f": {absence.note}" if absence.note else "") + meanwhile
    return Part(name="vacation", open=False, until=absence.until, reason=reason)


def _waking(quiet: Quiet | None, zone: str, at: datetime) -> Part:
    over = at if quiet is None else quiet.over(at, zone_of(zone))
    if over <= at:
        return Part(name="quiet hours")
    return Part(name="quiet hours", open=False, until=over, reason="in his quiet hours")


def _clock(word: str) -> time:
    hour, _, minute = word.partition(":")
    return time(int(hour), int(minute))
