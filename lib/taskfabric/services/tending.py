"""What time does to approvals: reminders, passing on, expiry; and what a crash left half told. It decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from taskfabric.domain.approval import Act, Approval, Decider, How, State
from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.principal import Caller
from taskfabric.domain.watch import REMINDERS
from taskfabric.ports.approvals import Look
from taskfabric.services import approval_verbs
from taskfabric.services.approvals import FABRIC, Asking
from taskfabric.services.delegation import Delegation
from taskfabric.services.desk import Desk
from taskfabric.services.keeping import need_service
from taskfabric.services.looking import every_approval
from taskfabric.services.showing import escalates_at
from taskfabric.services.upkeep import KEEPER

log = logging.getLogger(__name__)


class Tending:
    """The keeper's verb about approvals."""

    def __init__(self, desk: Desk, asking: Asking, delegation: Delegation) -> None:
        self._desk = desk
        self._asking = asking
        self._delegation = delegation

    def tend(self, caller: Caller, verb: approval_verbs.Tend) -> dict[str, Any]:
        need_service(caller, KEEPER, "tending approvals")
        counts = dict.fromkeys(("told", "expired", "withdrawn", "gates", "reminded", "passed_on"), 0)
        for approval in every_approval(self._desk.approvals, Look(untold=True)):
            counts["told"] += self._safely(approval, self._told)
        for approval in every_approval(self._desk.approvals, Look(states=(State.PENDING,))):
            self._safely(approval, lambda a: self._one(a, counts))
        counts["taken_back"] = self._delegation.take_back()
        return counts

    def _told(self, approval: Approval) -> None:
        self._asking.finish(approval, FABRIC)

    def _safely(self, approval: Approval, act: Callable[[Approval], None]) -> bool:
        """One that cannot be tended stops no other."""
        try:
            act(approval)
        except Unavailable:
            raise
        except FabricError as error:
            log.warning("approval not tended approval=%d reason=%r", approval.id, error.message)
            return False
        return True

    def _one(self, approval: Approval, counts: dict[str, int]) -> None:
        now = self._desk.board.now()
        if approval.expired_by(now):
            self._asking.over(approval, Act.EXPIRE)
            counts["expired"] += 1
            return
        if self._asking.is_moot(approval):
            self._asking.over(approval, Act.WITHDRAW)
            counts["withdrawn"] += 1
            return
        if approval.gate_id is None:
            approval = self._asking.gate(approval)
            counts["gates"] += approval.gate_id is not None
        whole = approval.expires - approval.created
        mark = next((mark for mark in REMINDERS if (now - approval.created) * 100 >= whole * mark), 0)
        if mark and self._desk.approvals.remind(approval.id, mark):
            deciders = approval.deciders_at(now)
            self._asking.notify(approval, deciders, "approval-reminder", f"still undecided: {approval.action}")
            counts["reminded"] += 1
        if now >= escalates_at(approval):
            counts["passed_on"] += self._pass_on(approval)

    def _pass_on(self, approval: Approval) -> bool:
        """To the next human of the household's order, one for each request: the others find it expired."""
        person = self._asking.showing.next_decider(approval, self._asking.showing.moment())
        if person is None or any(d.how is How.ESCALATED for d in approval.deciders):
            return False
        decider = Decider(principal_id=person.id, name=person.name, how=How.ESCALATED, since=approval.created)
        if not self._desk.approvals.add_decider(approval.id, decider, FABRIC):
            return False
        self._asking.notify(approval, [decider], "approval", f"nobody decided: {approval.action}")
        return True
