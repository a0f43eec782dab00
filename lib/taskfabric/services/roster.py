"""The roster: humans, agents and their PINs. Every change of it is a human's act, and is in the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from zoneinfo import ZoneInfo

from taskfabric.domain.errors import BadInput, NeedsHuman, Refused, not_found
from taskfabric.domain.principal import AppRole, Caller, Kind, Principal, ProjectRole, Trust, Via
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.target import checked_name
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.services import policy, verbs
from taskfabric.services.desk import Desk
from taskfabric.services.reading import knows

_PIN_LENGTH: Final = range(6, 65)


class Roster:
    """The verbs about accounts."""

    def __init__(self, desk: Desk, let_go: Callable[[int, str, str, bool], int]) -> None:
        self._desk = desk
        self._let_go = let_go  # tells a person who reset him, with his code; what of his was withdrawn

    def add_user(self, caller: Caller, verb: verbs.AddUser) -> dict[str, Any]:
        """A human with an inbox of his name, who works in the default pool; the answer holds his first token."""
        self._may_add(caller, verb)
        made = self._made(caller, verb)
        # Whoever adds him has seen it: it decides nothing. One of his own takes his PIN.
        token, _ = self._desk.credentials.create_token(made.id, name="first", via=Via.LOCAL, stamp=caller.stamp())
        return {"name": made.name, "token": token, "inbox": made.name}

    def enrolled(self, caller: Caller, verb: verbs.AddUser) -> Principal:
        """As ``add_user``, but there is no token yet. The app token may do that too: nobody can sign in by it."""
        if not policy.is_app(caller):
            self._may_add(caller, verb)
        return self._made(caller, verb)

    def _may_add(self, caller: Caller, verb: verbs.AddUser) -> None:
        policy.need_admin(caller, "adding a person")
        policy.need_unlimited(caller, "adding a person")
        policy.need_pin(self._desk, caller, verb.pin, "adding a person")

    def _made(self, caller: Caller, verb: verbs.AddUser) -> Principal:
        desk, stamp = self._desk, caller.stamp()
        name, pool = checked_name(verb.name, "user"), desk.pool()
        if desk.projects.queue(name) is not None:
            raise BadInput(f"there is a queue called {name!r}; a person's inbox has his name", field="name")
        made = desk.credentials.add_principal(
            NewPrincipal(
                name=name,
                kind=Kind.HUMAN,
                trust=Trust.HUMAN,
                role=AppRole(verb.role),
                full_name=verb.full_name,
                email=verb.email,
                zone=_zone(verb.zone),
                capabilities=None,
            ),
            stamp,
        )
        desk.projects.make_queue(name, QueueKind.INBOX, stamp, owner_id=made.id, role=ProjectRole.MANAGER)
        desk.projects.set_member(pool.project_id, made.id, ProjectRole.MEMBER, stamp)
        return made

    def list_users(self, caller: Caller, verb: verbs.ListUsers) -> list[dict[str, Any]]:
        everybody = self._desk.credentials.principals()
        known = [p for p in everybody if knows(self._desk, caller, p) and not _hidden(caller, p)]
        owned = {queue.owner_id: queue.name for queue in self._desk.projects.queues() if queue.owner_id is not None}
        names = {p.id: p.name for p in known}
        return [_shown(p, owned.get(p.id), names.get(p.owner_id) if p.owner_id is not None else None) for p in known]

    def disable_user(self, caller: Caller, verb: verbs.DisableUser) -> dict[str, Any]:
        """The account answers nobody (or answers again). For administrators, and for an agent's own human."""
        what = "enabling an account" if verb.enable else "disabling an account"
        policy.need_human(caller, what, "admin")
        policy.need_unlimited(caller, what)
        target = self._account(caller, verb.name)
        if target.id == caller.principal.id:
            raise Refused("nobody disables his own account", next="let another administrator do it", rule="self")
        policy.need_pin(self._desk, caller, verb.pin, what)
        self._desk.credentials.set_active(target.id, verb.enable, caller.stamp())
        return {"name": target.name, "active": verb.enable}

    def reset_user(self, caller: Caller, verb: verbs.ResetUser) -> dict[str, Any]:
        """All tokens of the account are revoked, its sessions end, and there is one new token, in the answer.

        Whoever asked for it has seen that token, so a human's decides nothing; and unless his PIN is left to him, the
        next one takes a code which goes past the one who asked."""
        policy.need_human(caller, "resetting an account", "admin")
        policy.need_unlimited(caller, "resetting an account")
        target = self._account(caller, verb.name)
        me = caller.principal
        if verb.forget_pin and (target.id == me.id or not target.is_human):
            raise Refused(
                "another human's lost PIN is forgotten, never one's own",
                next="ask another administrator; who knows the old one changes it with `fabric pin set`",
                rule="self",
            )
        if target.id != me.id and target.trust > Trust.SANDBOXED:
            policy.need_decision(self._desk, caller, verb.pin, f"a new token for {target.name}")
        else:
            policy.need_pin(self._desk, caller, verb.pin, f"a new token for {target.name}")
        other = target.is_human and target.id != me.id
        lived_in = bool(self._desk.credentials.tokens(target.id) or self._desk.inbox.sessions.of(target.id))
        # The machine's own credential is replaced by its like: it still may not decide.
        via = Via.LOCAL if other or (caller.via is Via.LOCAL and target.id == me.id) else Via.TOKEN
        revoked = self._desk.credentials.revoke_all(target.id, caller.stamp())
        self._desk.inbox.sessions.end_all(target.id, caller.stamp())
        withdrawn, kept = 0, None
        if other and (verb.forget_pin or (lived_in and not self._desk.credentials.has_pin(target.id))):
            # A reset that broke off is repeated as a whole; each has its own code.
            code = self._desk.credentials.forget_pin(target.id, caller.stamp())
            kept = self._desk.inbox.codes.keep(target.name, code)
            withdrawn = self._let_go(target.id, me.name, code, verb.forget_pin)
        token, made = self._desk.credentials.create_token(target.id, name="reset", via=via, stamp=caller.stamp())
        return {"name": target.name, "revoked": revoked, "withdrawn": withdrawn, "token": token, "id": made.id,
                "code_kept": kept}  # fmt: skip

    def _account(self, caller: Caller, name: str) -> Principal:
        """The account, if the caller may manage it: an administrator any, everybody himself and his own agents."""
        target = self._desk.credentials.principal(name)
        if target is None or target.id == 0:
            raise not_found("user")
        me = caller.principal
        if not me.is_admin and me.id not in (target.id, target.owner_id):
            raise Refused(f"{target.name} is managed by administrators", next="ask an administrator", rule="admin")
        return target

    # -- PINs ----------------------------------------------------------------------------------------

    def set_pin(self, caller: Caller, verb: verbs.SetPin) -> dict[str, Any]:
        """The caller's PIN is this one. The first is set without more; to change it takes the old one."""
        policy.need_human(caller, "setting a PIN", "pin")
        policy.need_unlimited(caller, "setting a PIN")
        credentials, me = self._desk.credentials, caller.principal
        if len(verb.pin) not in _PIN_LENGTH:
            raise BadInput("a PIN has 6 to 64 characters", field="pin")
        if credentials.has_pin(me.id):
            if verb.old is None:
                raise NeedsHuman("changing a PIN needs the old one", next="give it as well", rule="pin")
            if not credentials.check_pin(me.id, verb.old):
                raise Refused("that is not your old PIN", next="after five wrong ones it is locked", rule="pin")
        elif verb.code is None and credentials.needs_code(me.id):
            raise NeedsHuman(
                "somebody else has reset your account: a new PIN takes the code of your letter",
                next=f"`fabric pin set --code`; whoever keeps the server finds it in codes/{me.name}.txt, too",
                rule="pin-code",
            )
        credentials.set_pin(me.id, verb.pin, caller.stamp(), verb.code or "")
        self._desk.inbox.codes.drop(me.name)
        return {"name": me.name, "set": True}


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInput(f"{name[:40]!r} is not a time zone", next="write it as Europe/Berlin", field="zone") from None
    return name


def _hidden(caller: Caller, other: Principal) -> bool:
    """The fabric's own services are no members of the household."""
    return other.kind is Kind.SERVICE and other.id != caller.principal.id


def _shown(who: Principal, queue: str | None, owner: str | None) -> dict[str, Any]:
    return {
        "name": who.name,
        "kind": who.kind.value,
        "trust": who.trust.word,
        "role": who.role.value,
        "active": who.active,
        "queue": queue,
        "owner": owner,
        "tiers": None if who.tiers is None else list(who.tiers),
        "capabilities": None if who.capabilities is None else list(who.capabilities),
        "concurrency": who.concurrency,
        "zone": who.zone,
    }
