"""Tokens: who may make one for whom, and what it is worth. The secret is shown once, in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskfabric.domain.errors import BadInput, LeaseLost, Refused, not_found
from taskfabric.domain.principal import Caller, Kind, Principal, ProjectRole, RunRef, Trust, Via
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.target import checked_name, checked_need, checked_tier, checked_trust
from taskfabric.ports.credentials import Credential, NewPrincipal
from taskfabric.services import policy, text, verbs
from taskfabric.services.desk import Desk


class Tokens:
    """The verbs about credentials."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def create(self, caller: Caller, verb: verbs.CreateToken) -> dict[str, Any]:
        """A token for oneself or for an own agent, which is made if there is none of the name."""
        policy.need_human(caller, "making a token", "tokens")
        policy.need_unlimited(caller, "making a token")
        expires = text.instant(verb.expires, "expires")
        if expires is not None and expires <= self._desk.board.now():
            raise BadInput("a token expires in the future", field="expires")
        name = checked_name(verb.name, "agent")
        target = self._desk.credentials.principal(name)
        made = target is None
        if target is None:
            target, scope = self._new_agent(caller, verb, name), None
        else:
            scope = self._known(caller, verb, target)
        token, credential = self._desk.credentials.create_token(
            target.id, name=verb.label, via=Via.TOKEN, stamp=caller.stamp(), queues=scope, expires=expires
        )
        return {**credential.to_json(), "name": target.name, "label": verb.label, "token": token,
                "kind": target.kind.value, "trust": target.trust.word, "created_principal": made}  # fmt: skip

    def _new_agent(self, caller: Caller, verb: verbs.CreateToken, name: str) -> Principal:
        trust = checked_trust(verb.trust)
        needs = None if verb.needs is None else tuple(sorted({checked_need(need) for need in verb.needs}))
        tiers = None if verb.tiers is None else tuple(dict.fromkeys(checked_tier(tier) for tier in verb.tiers))
        queues = [self._manageable(caller, word) for word in verb.queues] or [self._desk.pool()]
        if trust > Trust.SANDBOXED:
            policy.need_decision(self._desk, caller, verb.pin, f"trust {trust.word!r} for an agent")
        made = self._desk.credentials.add_principal(
            NewPrincipal(
                name=name,
                kind=Kind.AGENT,
                trust=trust,
                owner_id=caller.principal.id,
                zone=caller.principal.zone,
                tiers=tiers,
                capabilities=needs or (),
                concurrency=verb.concurrency,
            ),
            caller.stamp(),
        )
        for queue in queues:
            self._desk.projects.set_member(queue.project_id, made.id, ProjectRole.MEMBER, caller.stamp())
        return made

    def _manageable(self, caller: Caller, word: str) -> Queue:
        """A queue that a new agent may join on this caller's word: the default pool, or one that he manages."""
        queue = self._desk.named(caller, word)
        if queue is None or not policy.sees_queue(self._desk, caller, queue):
            raise not_found("queue")
        if queue.kind is QueueKind.INBOX:
            raise Refused("an agent works in no human's inbox", next="name a pool or an agent's queue", rule="inbox")
        default = queue.name == self._desk.rules.default_pool
        if not default and not policy.manages(self._desk, caller, queue.project_id):
            raise Refused(
                f"only who manages {queue.name!r} lets an agent join it", next="ask its manager", rule="not-a-manager"
            )
        return queue

    def _known(self, caller: Caller, verb: verbs.CreateToken, target: Principal) -> Sequence[int] | None:
        """The scope of one more token for an account that exists, if the caller may make it."""
        me = caller.principal
        mine = target.id == me.id or (target.kind is Kind.AGENT and (target.owner_id == me.id or me.is_admin))
        if not mine:
            raise Refused(
                "a token is made for oneself or for an own agent",
                next="an administrator resets another account with `fabric user reset`",
                rule="tokens",
            )
        if not target.active:
            raise Refused(f"{target.name} is disabled", next="enable it first", rule="disabled")
        given = [name for name in ("concurrency", "needs", "tiers") if getattr(verb, name) is not None]
        if verb.trust not in ("sandboxed", target.trust.word):
            given.append("trust")
        if given:
            raise BadInput(
                f"{target.name} is there already; its {', '.join(given)} cannot be given with a token",
                next="leave that out",
                field=given[0],
            )
        others = target.id != me.id and target.owner_id not in (me.id, None)
        if target.trust > Trust.SANDBOXED or others:  # it reads what its owner may read, and the caller perhaps not
            policy.need_decision(self._desk, caller, verb.pin, f"a token for {target.name}")
        if not verb.queues:
            return None
        scope = []
        for word in verb.queues:
            queue = self._desk.named(caller, word)
            if queue is None or not policy.sees_queue(self._desk, caller, queue):
                raise not_found("queue")
            scope.append(queue.project_id)
        return scope

    # -- revoking and listing ------------------------------------------------------------------------

    def revoke(self, caller: Caller, verb: verbs.RevokeToken) -> dict[str, Any]:
        policy.refuse_in_run(caller, "revoking a token")
        for credential in self._visible(caller):
            if credential.id == verb.id:
                revoked = self._desk.credentials.revoke_token(credential.id, caller.stamp())
                return {**credential.to_json(), "revoked": True, "revoked_now": revoked}
        raise not_found("token")

    def shown(self, caller: Caller, verb: verbs.ListTokens) -> list[dict[str, Any]]:
        return [credential.to_json() for credential in self._visible(caller)]

    def _visible(self, caller: Caller) -> list[Credential]:
        """Own tokens and those of own agents; an administrator's are all of them. A token that is limited to some
        queues shows its own account's only."""
        me = caller.principal
        if not me.is_human or caller.queues is not None:
            return self._desk.credentials.tokens(me.id)
        found = self._desk.credentials.tokens(None)
        if me.is_admin:
            return found
        own = {p.name for p in self._desk.credentials.principals() if me.id in (p.id, p.owner_id)}
        return [credential for credential in found if credential.principal in own]

    # -- runs ----------------------------------------------------------------------------------------

    def run(self, caller: Caller, verb: verbs.RunToken) -> dict[str, Any]:
        """A token that acts as the holder inside this run, and ends with the lease. The lease is renewed by this."""
        policy.refuse_in_run(caller, "making a token")
        fence = verb.fence.value
        if policy.outside(self._desk, caller, [fence.task_id], "token.run"):
            raise LeaseLost(
                f"the lease {fence} is not, or no longer, yours", task=fence.task_id, epoch=fence.epoch, holder=None
            )
        renewal = self._desk.board.renew([fence], None, caller.stamp())[0]
        if renewal.until is None:
            raise LeaseLost(
                f"the lease {fence} is not, or no longer, yours",
                task=fence.task_id,
                epoch=fence.epoch,
                holder=renewal.holder,
            )
        token, made = self._desk.credentials.create_token(
            caller.principal.id,
            name=f"run {fence}",
            via=Via.TOKEN,
            stamp=caller.stamp(),
            queues=None if caller.queues is None else sorted(caller.queues),
            run=RunRef(task_id=fence.task_id, epoch=fence.epoch),
        )
        return {"token": token, "id": made.id, "name": caller.principal.name, "run": str(fence)}
