"""Standing grants: what a human lets an agent of his do without asking. They end, are listed, and can be revoked;
never for what is secure; and a no to just that beats every one of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from taskfabric.domain.approval import Decider, Grant, How, Level
from taskfabric.domain.errors import BadInput, Refused, not_found
from taskfabric.domain.levels import checked_pattern, example_of
from taskfabric.domain.principal import Caller, Kind
from taskfabric.domain.times import iso
from taskfabric.ports.approvals import NewGrant
from taskfabric.services import approval_verbs, policy, text
from taskfabric.services.desk import Desk
from taskfabric.services.levels import Levels


class Grants:
    """The verbs about standing grants."""

    def __init__(self, desk: Desk, levels: Levels) -> None:
        self._desk = desk
        self._levels = levels

    def create(self, caller: Caller, verb: approval_verbs.MakeGrant) -> dict[str, Any]:
        policy.need_human(caller, "making a standing grant", "grants")
        policy.need_unlimited(caller, "making a standing grant")
        action = checked_pattern(verb.action)
        agent = self._desk.person(verb.agent)
        if agent is None or agent.kind is not Kind.AGENT:
            raise not_found("agent")
        level = self._levels.judged().level_of(example_of(action), recipient=None, amount=None, label="household")
        self.check(caller, agent.id, action, level, None)
        end = self.end(text.instant(verb.until, "until"))
        policy.need_decision(self._desk, caller, verb.pin, f"a standing grant for {agent.name}")
        new = NewGrant(agent_id=agent.id, action=action, recipient=verb.recipient, until=end)
        return shown(self._desk.approvals.add_grant(new, caller.stamp()))

    def check(self, caller: Caller, agent_id: int, action: str, level: Level, decider: Decider | None) -> None:
        """Raises Refused where no standing grant may be made."""
        if level >= Level.SECURE:
            raise Refused(f"{action} is secure: there is no standing grant for it", next="decide each", rule="secure")
        agent = self._desk.credentials.principal(agent_id)
        if agent is None or agent.kind is not Kind.AGENT or agent.owner_id != caller.principal.id:
            raise Refused(
                "a standing grant is made for an agent of one's own", next="decide this one alone", rule="grants"
            )
        if decider is not None and decider.how is not How.ASKED:
            raise Refused(
                "who decides for somebody else makes no standing grant", next="decide this one alone", rule="grants"
            )

    def end(self, until: datetime | None) -> datetime:
        """When a grant that is made now ends. Raises BadInput for an end that is over, or too far away."""
        now = self._desk.board.now()
        end = now + self._levels.judged().grant_lasts if until is None else until
        if end <= now:
            raise BadInput("a standing grant ends in the future", next="name a later instant", field="until")
        if end > now + self._desk.rules.longest_park:
            most = self._desk.rules.longest_park.days
            raise BadInput(f"a standing grant lasts at most {most} days", next="name an earlier instant", field="until")
        return end

    def list(self, caller: Caller, verb: approval_verbs.ListGrants) -> list[dict[str, Any]]:
        me = caller.principal
        if me.is_human:
            return [shown(grant) for grant in self._desk.approvals.grants(grantor_id=me.id)]
        return [shown(grant) for grant in self._desk.approvals.grants(agent_id=me.id)]

    def revoke(self, caller: Caller, verb: approval_verbs.RevokeGrant) -> dict[str, Any]:
        """To grant less needs no proof. For the grantor, and for administrators."""
        policy.need_human(caller, "revoking a standing grant", "grants")
        me = caller.principal
        for grant in self._desk.approvals.grants(grantor_id=None if me.is_admin else me.id):
            if grant.id == verb.id:
                done = self._desk.approvals.revoke_grant(grant.id, caller.stamp())
                return {**shown(grant), "revoked_now": done}
        raise not_found("grant")


def shown(grant: Grant) -> dict[str, Any]:
    return {
        "id": grant.id,
        "agent": grant.agent,
        "action": grant.action,
        "recipient": grant.recipient,
        "grantor": grant.grantor,
        "created": iso(grant.created),
        "until": iso(grant.until),
        "revoked": None if grant.revoked is None else iso(grant.revoked),
        "used": grant.used,
    }
