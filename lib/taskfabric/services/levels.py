"""Which level an action has in this house: the policy that ships, the file of the home, and what was accepted of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskfabric.domain.approval import Level
from taskfabric.domain.errors import BadInput
from taskfabric.domain.levels import ActionPolicy, Facts, Judged, example_of, facts_of, read_policy
from taskfabric.domain.principal import Caller
from taskfabric.services import approval_verbs, policy
from taskfabric.services.desk import Desk

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How the policy file stands."""

    source: str
    problem: str = ""  # why it cannot be used
    is_accepted: bool = False  # just this text was accepted, or ships


class Levels:
    """The house's policy. What a file asks less for than the accepted one holds only when it is accepted, too."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._read: dict[str, ActionPolicy] = {}
        self._told = ""

    def judged(self) -> Judged:
        """Both policies. A file that cannot be read leaves the accepted one."""
        accepted = self._parsed(self._accepted(), "the accepted policy")
        try:
            text, source = self._desk.inbox.policy()
            now = self._parsed(text, source)
        except BadInput as error:
            if error.message != self._told:
                self._told = error.message
                log.warning("policy not read reason=%r", error.message)
            now = accepted
        return Judged(now=now, accepted=accepted)

    def level_of(self, action: str, args: Mapping[str, Any], label: str) -> tuple[Level, Facts]:
        """What the house asks for, and what it read out of the arguments."""
        facts = facts_of(args)
        level = self.judged().level_of(action, recipient=facts.recipient, amount=facts.amount, label=label)
        return level, facts

    def _accepted(self) -> str:
        found = self._desk.approvals.accepted_policy()
        return self._desk.inbox.shipped_policy() if found is None else found

    def _parsed(self, text: str, source: str) -> ActionPolicy:
        found = self._read.get(text)
        if found is None:
            found = read_policy(text, source)
            if len(self._read) > 8:
                self._read.clear()
            self._read[text] = found
        return found

    def seen(self) -> Seen:
        """How the file stands."""
        accepted = self._accepted()
        try:
            text, source = self._desk.inbox.policy()
            self._parsed(text, source)
        except BadInput as error:
            return Seen(source="policy.toml", problem=error.message)
        return Seen(source=source, is_accepted=text == accepted)

    # -- the verbs -----------------------------------------------------------------------------------

    def show(self, caller: Caller, verb: approval_verbs.ShowPolicy) -> dict[str, Any]:
        policy.refuse_service(caller, "read the policy")
        seen, both = self.seen(), self.judged()
        patterns = dict.fromkeys(rule.pattern for rule in (*both.now.rules, *both.accepted.rules))
        return {
            "source": seen.source,
            "problem": seen.problem,
            "accepted": seen.is_accepted,
            "household": list(both.household),
            "confirm_expires": both.expires(Level.CONFIRM).total_seconds(),
            "secure_expires": both.expires(Level.SECURE).total_seconds(),
            "actions": [
                {
                    "action": pattern,
                    "kind": both.now.rule_for(example_of(pattern)).kind.value,
                    "level": max(p.rule_for(example_of(pattern)).level for p in (both.now, both.accepted)).word,
                }
                for pattern in patterns
            ],
        }

    def accept(self, caller: Caller, verb: approval_verbs.AcceptPolicy) -> dict[str, Any]:
        """Changing levels is itself a decision."""
        policy.need_admin(caller, "accepting a policy")
        policy.need_unlimited(caller, "accepting a policy")
        text, source = self._desk.inbox.policy()
        read_policy(text, source)
        policy.need_decision(self._desk, caller, verb.pin, "a changed policy")
        changed = text != self._accepted()
        if changed:
            self._desk.approvals.accept_policy(text, caller.stamp())
        return {"source": source, "changed": changed}
