"""Deciding: a human's yes, his other yes, his no. Nothing else leads there: no timer, no default, no agent (G10)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.approval import Act, Approval, Decider, How, Level, State, binding, canonical
from taskfabric.domain.errors import BadInput, FabricError, NeedsHuman, Refused, not_found
from taskfabric.domain.levels import facts_of
from taskfabric.domain.principal import Caller, Via
from taskfabric.ports.approvals import NewGrant, Verdict
from taskfabric.services import approval_verbs, policy, text
from taskfabric.services.approval_words import decided
from taskfabric.services.approvals import Asking
from taskfabric.services.desk import Desk
from taskfabric.services.grants import Grants
from taskfabric.services.levels import Levels
from taskfabric.services.showing import barred

log = logging.getLogger(__name__)

_COMMAND: Final = re.compile(r"/(approve|deny)(?:\s+(.*))?", re.DOTALL)


class Verdicts:
    """The verbs of those who decide."""

    def __init__(self, desk: Desk, asking: Asking, levels: Levels, grants: Grants) -> None:
        self._desk = desk
        self._asking = asking
        self._levels = levels
        self._grants = grants

    # -- the verbs -----------------------------------------------------------------------------------

    def approve(self, caller: Caller, verb: approval_verbs.Approve) -> dict[str, Any]:
        approval, decider = self._mine(caller, verb.task)
        _same(approval, verb.seen)
        args = approval.args if verb.args is None else verb.args
        edited = canonical(args) != canonical(approval.args)
        level = approval.level
        if edited:
            level = max(level, self._levels.level_of(approval.action, args, approval.label)[0])
        if level >= Level.SECURE and decider.how is How.DELEGATED:
            raise Refused("what is secure is decided by whom it is for", next="leave it to him", rule="secure")
        if verb.until is not None and not verb.always:
            raise BadInput("an end without a standing grant", next="give it together with --always", field="until")
        grant = None
        if verb.always:  # for what was decided, and not for what was asked
            self._grants.check(caller, approval.requester_id, approval.action, level, decider)
            grant = NewGrant(
                agent_id=approval.requester_id,
                action=approval.action,
                recipient=facts_of(args).recipient or "",
                until=self._grants.end(text.instant(verb.until, "until")),
            )
        proven = self._prove(caller, verb.pin, level, approval)
        act = Act.EDIT if edited else Act.APPROVE
        made = self._decide(proven, approval, decider, act, args, level, verb.note, grant)
        return self._asking.showing.shown(caller, made)

    def approve_many(self, caller: Caller, verb: approval_verbs.ApproveMany) -> list[dict[str, Any]]:
        """Each is looked at before any is decided; then each has its own receipt, or its own refusal."""
        found: list[tuple[Approval, Decider]] = []
        for item in verb.items:
            approval, decider = self._mine(caller, item.task)
            _same(approval, item.seen)
            if approval.level >= Level.SECURE:
                raise Refused(
                    f"approval {approval.id} is secure: it is never decided together with others",
                    next=f"`fabric approve {approval.ref} --pin`",
                    rule="batch",
                    approval=approval.id,
                )
            found.append((approval, decider))
        if len({approval.id for approval, _ in found}) < len(found):
            raise BadInput("two of the items are the same approval", next="name each once", field="items")
        first = found[0][0]
        proven = self._prove(caller, verb.pin, Level.CONFIRM, first)
        receipts: list[dict[str, Any]] = []
        for approval, decider in found:
            try:
                made = self._decide(proven, approval, decider, Act.APPROVE, approval.args, approval.level, "")
            except Refused as error:  # somebody was first; that is one item, not the others
                receipts.append({"id": approval.id, "task": approval.ref, "error": error.to_json()})
            else:
                receipts.append(self._asking.showing.shown(caller, made))
        return receipts

    def deny(self, caller: Caller, verb: approval_verbs.Deny) -> dict[str, Any]:
        approval, decider = self._mine(caller, verb.task)
        if verb.seen is not None:
            _same(approval, verb.seen)
        note = text.needed_note(verb.note, self._desk.rules, "a denial")
        # A no grants nothing, so a signed-in human says it without his PIN, also to what is secure.
        proven = self._prove(caller, verb.pin, Level.CONFIRM, approval)
        return self._asking.showing.shown(caller, self._decide(proven, approval, decider, Act.DENY, None, None, note))

    def comment(self, caller: Caller, task_id: int, words: str) -> bool:
        """``/approve`` and ``/deny reason`` as a comment with a human's own credential decide; whether it was one.

        Raises Refused where that is not the way: on a PIN level, and with a credential that lies on the machine."""
        match = _COMMAND.fullmatch(words.strip())
        if match is None or not caller.principal.is_human or caller.run is not None:
            return False
        found = self._desk.approvals.of_task(task_id)
        if found is None or found.decider(caller.principal.id, self._desk.board.now()) is None:
            return False
        approval, decider = self._mine(caller, task_id)
        how = f"`fabric {match[1]} {approval.ref}`, or the browser"
        if caller.via is Via.LOCAL:
            raise Refused(
                "a machine's credential, or one that somebody else made for you, decides nothing, in comments neither",
                next=f"use {how}",
                rule="decision",
            )
        if match[1] == "deny":
            note = (match[2] or "").strip()
            if not note:
                raise BadInput("a denial says why", next="write `/deny` and the reason", field="text")
            self._decide(caller, approval, decider, Act.DENY, None, None, text.note(note, self._desk.rules))
            return True
        if task_id != approval.gate_id:  # there it may be a later request than the one that he has read
            raise Refused("a yes is said on the request itself", next=f"use {how}", rule="seen")
        if match[2]:
            raise BadInput("`/approve` stands alone", next="to change something use the browser", field="text")
        if approval.level >= Level.SECURE:
            raise Refused(
                "this one needs your PIN, which is never written into a comment",
                next=f"use `fabric approve {approval.ref} --pin`, or the browser",
                rule="pin",
            )
        self._decide(caller, approval, decider, Act.APPROVE, approval.args, approval.level, "")
        return True

    # -- how a decision comes about --------------------------------------------------------------------

    def _mine(self, caller: Caller, task_id: int) -> tuple[Approval, Decider]:
        """The pending approval that this caller may decide, and as what. Raises NotFound, Refused."""
        policy.refuse_in_run(caller, "deciding")
        now = self._desk.board.now()
        approval = self._desk.approvals.of_task(task_id)
        me = caller.principal
        if approval is None or not me.is_human:
            raise not_found("approval")
        decider = approval.decider(me.id, now)
        if decider is None and me.id != approval.requester_id:
            raise not_found("approval")
        if approval.expired_by(now):
            approval = self._asking.over(approval, Act.EXPIRE)
        elif approval.state is State.PENDING and self._asking.is_moot(approval):
            approval = self._asking.over(approval, Act.WITHDRAW)
        if approval.state is not State.PENDING:
            raise decided(approval)
        why = barred(self._desk, caller, approval, now)
        if why or decider is None:
            raise Refused(why or "who asks never approves", next="leave it to somebody else", rule="requester")
        return approval, decider

    def _prove(self, caller: Caller, pin: str | None, level: Level, approval: Approval) -> Caller:
        """The caller, as one who may decide at this level. Raises NeedsHuman without PIN or session, Refused for a
        wrong PIN: five of them lock it."""
        what = f"approval {approval.id}"
        if level < Level.SECURE:
            policy.need_decision(self._desk, caller, pin, what)
            return caller if caller.may_decide else replace(caller, via=Via.PIN)
        if pin is None:
            has_pin = self._desk.credentials.has_pin(caller.principal.id)
            raise NeedsHuman(
                f"{what} is secure: it needs your PIN, also in a web session",
                next="repeat it with --pin" if has_pin else "set a PIN with `fabric pin set`, then use --pin",
                rule="pin",
            )
        if not self._desk.credentials.check_pin(caller.principal.id, pin):
            log.warning("wrong PIN principal=%d approval=%d", caller.principal.id, approval.id)
            raise Refused("that is not your PIN", next="after five wrong ones it is locked for a while", rule="pin",
                          approval=approval.id)  # fmt: skip
        return replace(caller, via=Via.PIN)

    def _decide(
        self,
        caller: Caller,
        approval: Approval,
        decider: Decider,
        act: Act,
        args: Mapping[str, Any] | None,
        level: Level | None,
        note: str,
        grant: NewGrant | None = None,
    ) -> Approval:
        now = self._desk.board.now()
        yes = act in (Act.APPROVE, Act.EDIT)
        hash = binding(approval.action, args, level) if yes and args is not None and level is not None else None
        verdict = Verdict(
            act=act,
            seen=approval.hash,
            args=args if yes else None,
            hash=hash,
            level=level,
            note=text.note(note, self._desk.rules),
            for_whom_id=self._whose(decider),
            use_until=_use_until(approval, now) if yes else None,
            grant=grant,
        )
        made = self._desk.approvals.decide(approval.id, verdict, caller.stamp())
        if made is None:
            raise decided(self._desk.approvals.get(approval.id) or approval)
        try:
            self._asking.finish(made, caller.stamp())
        except FabricError as error:  # it is decided; the keeper tells those who wait
            log.warning("decision not told yet approval=%d reason=%r", made.id, error.message)
        return self._desk.approvals.get(made.id) or made

    def _whose(self, decider: Decider) -> int | None:
        """For a delegated decision: whose it was."""
        if decider.how is not How.DELEGATED or decider.for_whom is None:
            return None
        whom = self._desk.credentials.principal(decider.for_whom)
        return None if whom is None else whom.id


def _use_until(approval: Approval, now: datetime) -> datetime:
    """What is approved is used within as long as it might have waited."""
    return now + (approval.expires - approval.created)


def _same(approval: Approval, seen: str) -> None:
    if seen != approval.hash:
        raise Refused(
            "what you were shown is not what is asked now",
            next=f"look at it again: `fabric show {approval.ref}`",
            rule="seen",
            approval=approval.id,
        )
