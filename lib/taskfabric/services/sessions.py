"""Signing in with a browser.

A token proves who it is, not that a person sits there: such a session may do all but decide, until the PIN is given. So
does a sign-in link that somebody else made. One that he made himself by a decision proves him; and so does the link of
whoever starts the server, while he has no PIN and nobody has reset him."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.errors import NotAuthenticated, Refused, not_found
from taskfabric.domain.principal import Caller, Principal, Stamp, Via
from taskfabric.domain.times import iso
from taskfabric.ports.sessions import Session, Signed
from taskfabric.services import inbox_verbs, policy
from taskfabric.services.desk import Desk

_NO: Final = "this does not sign anybody in, or no longer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Who sits in front of a browser."""

    caller: Caller
    session: Session
    csrf: str = field(repr=False)  # what every form of this session carries


class SignIn:
    """Sessions: before there is a caller, and the verbs about them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    # -- before there is a caller ----------------------------------------------------------------------

    def sign_in(self, token: str, agent: str) -> Signed:
        """An unproven session by a token of a human's. Raises NotAuthenticated."""
        caller = self._desk.credentials.authenticate(token)
        if caller is None or not caller.principal.is_human or caller.run is not None or caller.queues is not None:
            raise NotAuthenticated(_NO, next="use a token of your own that is not limited, or a sign-in link")
        return self._desk.inbox.sessions.begin(caller.principal.id, proven=False, agent=agent, stamp=caller.stamp())

    def by_link(self, secret: str, agent: str) -> Signed:
        """A session by a link, which is used up. Raises NotAuthenticated."""
        found = self._desk.inbox.sessions.use_link(secret)
        person, proven = (None, False) if found is None else (self._desk.person(found[0]), found[1])
        if person is None or not person.is_human:
            raise NotAuthenticated(_NO, next="a link works once, for 15 minutes; ask for another")
        stamp = Caller(principal=person, via=Via.SESSION if proven else Via.LOCAL).stamp()
        return self._desk.inbox.sessions.begin(person.id, proven=proven, agent=agent, stamp=stamp)

    def caller(self, secret: str) -> Admitted | None:
        """Who this browser's session stands for; None = nobody, it has to sign in."""
        found = self._desk.inbox.sessions.find(secret)
        if found is None:
            return None
        session, person = found
        via = Via.SESSION if session.proven else Via.LOCAL
        return Admitted(
            caller=Caller(principal=person, via=via, instance="web"),
            session=session,
            csrf=self._desk.inbox.sessions.csrf(secret),
        )

    def prove(self, secret: str, pin: str) -> Signed:
        """The session in a new secret, which may decide. Raises Refused for a wrong PIN, NotAuthenticated."""
        admitted = self.caller(secret)
        if admitted is None:
            raise NotAuthenticated(_NO, next="sign in again")
        if not self._desk.credentials.check_pin(admitted.caller.principal.id, pin):
            raise Refused("that is not your PIN", next="after five wrong ones it is locked for a while", rule="pin")
        signed = self._desk.inbox.sessions.rotate(secret, proven=True, stamp=admitted.caller.stamp())
        if signed is None:
            raise NotAuthenticated(_NO, next="sign in again")
        return signed

    def sign_out(self, secret: str) -> None:
        admitted = self.caller(secret)
        if admitted is not None:
            self._desk.inbox.sessions.end(admitted.session.id, admitted.caller.stamp())

    def link_for(self, person: Principal, stamp: Stamp, *, proven: bool) -> tuple[str, datetime]:
        """A secret that signs this human's browser in, once; and until when."""
        return self._desk.inbox.sessions.make_link(person.id, proven=proven, stamp=stamp)

    def link_of_the_house(self, person: Principal, stamp: Stamp) -> str:
        """Such a secret for whoever starts the server. Who has a PIN, or had one, proves himself."""
        credentials = self._desk.credentials
        proven = not credentials.has_pin(person.id) and not credentials.needs_code(person.id)
        return self.link_for(person, stamp, proven=proven)[0]

    # -- the verbs -----------------------------------------------------------------------------------

    def list(self, caller: Caller, verb: inbox_verbs.ListSessions) -> list[dict[str, Any]]:
        policy.need_human(caller, "listing sessions", "sessions")
        return [session.to_json() for session in self._desk.inbox.sessions.of(self._whose(caller, verb.name).id)]

    def revoke(self, caller: Caller, verb: inbox_verbs.RevokeSession) -> dict[str, Any]:
        policy.need_human(caller, "ending a session", "sessions")
        found = self._desk.inbox.sessions.get(verb.id)
        me = caller.principal
        if found is None or (found.principal_id != me.id and not (me.is_admin and caller.queues is None)):
            raise not_found("session")
        return {**found.to_json(), "revoked": True,
                "revoked_now": self._desk.inbox.sessions.end(found.id, caller.stamp())}  # fmt: skip

    def link(self, caller: Caller, verb: inbox_verbs.SignInLink) -> dict[str, Any]:
        """For oneself, or, by an administrator, for another who has lost his way in. Whoever has it may decide, so that
        making one is a decision."""
        policy.need_human(caller, "making a sign-in link", "sessions")
        policy.need_unlimited(caller, "making a sign-in link")
        person = self._whose(caller, verb.name)
        policy.need_decision(self._desk, caller, verb.pin, "a sign-in link")
        secret, until = self.link_for(person, caller.stamp(), proven=person.id == caller.principal.id)
        return {"name": person.name, "secret": secret, "expires": iso(until)}

    def _whose(self, caller: Caller, name: str | None) -> Principal:
        me = caller.principal
        if name is None or name == me.name:
            return me
        person = self._desk.person(name)
        if not me.is_admin or caller.queues is not None or person is None or not person.is_human:
            raise not_found("person")
        return person
