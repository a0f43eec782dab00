"""Accounts and tokens in PostgreSQL. Secrets are stored hashed: tokens with sha256, PINs with scrypt.

A token has 256 random bits, so a plain hash of it cannot be searched backwards; a PIN is short, so its hash is dear.
What is known of a token is kept for a few seconds; a revocation made by this process acts at once, one made by
another after those seconds at the latest. A run's own token is looked up each time: it ends with the run.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from psycopg.errors import UniqueViolation

from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, Refused, Unavailable, not_found
from taskfabric.domain.principal import Caller, Principal, RunRef, Stamp, Trust, Via
from taskfabric.ports.credentials import Credential, NewPrincipal, PinSet
from taskfabric.stores import pin as pins
from taskfabric.stores.credential_rows import (
    AUTHENTICATE,
    CREDENTIAL,
    PRINCIPAL,
    TOUCH,
    caller_of,
    credential_of,
    every,
    journal,
    must,
    one,
    principal_of,
)

log = logging.getLogger(__name__)

PREFIX: Final = "fab_"
_FRESH: Final = 5.0  # seconds for which an answer is used again
_KEPT: Final = 4096  # tokens remembered at most
_STORED_VIA: Final = (Via.LOCAL, Via.TOKEN, Via.SESSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A token that was good a moment ago; instants by the process' monotonic clock."""

    caller: Caller
    seen: float
    fresh_until: float


class PostgresCredentials:
    """``ports.credentials.Credentials`` over the tables users and credentials."""

    def __init__(
        self,
        database: Database,
        *,
        remember: timedelta = timedelta(minutes=5),
        pin_tries: int = 5,
        pin_lock: timedelta = timedelta(minutes=15),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._remember = remember.total_seconds()
        self._pin_tries = pin_tries
        self._pin_lock = pin_lock
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, _Known] = {}
        self._people: dict[int | str, tuple[Principal, float]] = {}
        self._generation = 0  # raised by each local change: an answer read before it is not remembered

    # -- who is it -----------------------------------------------------------------------------------

    def authenticate(self, token: str) -> Caller | None:
        """The caller whose token this is, or None. Takes the same time for every wrong token."""
        digest = _digest(token)
        known = self._known.get(digest)
        if known is not None and self._clock() < known.fresh_until:
            return known.caller
        generation = self._generation
        with self._database.connection() as conn:
            row = one(conn, AUTHENTICATE, (digest,))
        if row is None:
            with self._lock:
                self._known.pop(digest, None)
            return None
        caller = caller_of(row)
        if row["stale"]:
            self._touch(caller)
        if caller.run is None:
            lasts = _FRESH if row["lasts"] is None else min(_FRESH, row["lasts"])
            self._keep(digest, caller, generation, lasts)
        return caller

    def recent(self, token: str) -> Caller | None:
        """The caller if this token was good in the last minutes; for use only while the database is away (G14)."""
        known = self._known.get(_digest(token))
        return known.caller if known is not None and self._clock() - known.seen <= self._remember else None

    def _keep(self, digest: bytes, caller: Caller, generation: int, lasts: float) -> None:
        now = self._clock()
        with self._lock:
            if generation != self._generation:
                return
            self._known.pop(digest, None)
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[digest] = _Known(caller=caller, seen=now, fresh_until=now + lasts)

    def _touch(self, caller: Caller) -> None:
        try:
            with self._database.transaction() as conn:
                conn.execute("SET LOCAL synchronous_commit = off")
                conn.execute(TOUCH, (caller.credential_id,))
        except Unavailable as error:  # when it was last used is worth less than the call itself
            log.warning("last use of a token not noted credential=%s reason=%s", caller.credential_id, error.message)

    def forget(self, principal_id: int) -> None:
        """The next question about this account is answered anew."""
        with self._lock:
            self._generation += 1
            self._people.clear()
            for digest in [d for d, known in self._known.items() if known.caller.principal.id == principal_id]:
                del self._known[digest]

    # -- principals ----------------------------------------------------------------------------------

    def principal(self, name_or_id: str | int) -> Principal | None:
        """The account of this name or number, disabled ones too; a change is seen within seconds."""
        kept = self._people.get(name_or_id)
        if kept is not None and self._clock() < kept[1]:
            return kept[0]
        generation = self._generation
        column = "id" if isinstance(name_or_id, int) else "username"
        with self._database.connection() as conn:
            row = one(conn, f"SELECT {PRINCIPAL} FROM users u WHERE u.{column} = %s", (name_or_id,))
        if row is None:
            return None
        found = principal_of(row)
        with self._lock:
            if generation == self._generation:
                self._people[found.id] = self._people[found.name] = (found, self._clock() + _FRESH)
        return found

    def principals(self) -> list[Principal]:
        with self._database.connection() as conn:
            query = f"SELECT {PRINCIPAL} FROM users u WHERE NOT u.removed ORDER BY u.id"
            return [principal_of(row) for row in every(conn, query)]

    def add_principal(self, new: NewPrincipal, stamp: Stamp) -> Principal:
        """Raises BadInput if the name is taken."""
        try:
            with self._database.transaction() as conn:
                row = one(
                    conn,
                    "INSERT INTO users AS u (username, name, kind, role, trust, email, timezone, owner_id, tiers,"
                    " capabilities, concurrency) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                    f" RETURNING {PRINCIPAL}",
                    (
                        new.name,
                        new.full_name,
                        new.kind.value,
                        new.role.value,
                        int(new.trust),
                        new.email,
                        new.zone,
                        new.owner_id,
                        None if new.tiers is None else list(new.tiers),
                        None if new.capabilities is None else list(new.capabilities),
                        new.concurrency,
                    ),
                )
                made = principal_of(must(row))
                facts = {"name": made.name, "kind": made.kind.value, "trust": made.trust.word, "role": made.role.value}
                journal(conn, "user-added", stamp, facts)
        except UniqueViolation:
            raise BadInput(f"the name {new.name!r} is taken", next="choose another name", field="name") from None
        self.forget(made.id)
        return made

    def describe(
        self,
        principal_id: int,
        *,
        trust: Trust,
        tiers: Sequence[str] | None,
        capabilities: Sequence[str],
        concurrency: int,
        stamp: Stamp,
    ) -> bool:
        """The agent is as its card says; whether that is a change. Raises NotFound for another kind of account."""
        look = f"SELECT {PRINCIPAL} FROM users u WHERE id = %s AND kind = 'agent' FOR UPDATE"
        with self._database.transaction() as conn:
            row = one(conn, look, (principal_id,))
            if row is None:
                raise not_found("agent")
            was = principal_of(row)
            wanted = replace(
                was,
                trust=trust,
                tiers=None if tiers is None else tuple(tiers),
                capabilities=tuple(capabilities),
                concurrency=concurrency,
            )
            if wanted == was:
                return False
            conn.execute(
                "UPDATE users SET trust = %s, tiers = %s, capabilities = %s, concurrency = %s WHERE id = %s",
                (int(trust), None if tiers is None else list(tiers), list(capabilities), concurrency, principal_id),
            )
            facts = {"name": was.name, "was": was.trust.word, "is": trust.word, "concurrency": concurrency}
            journal(conn, "agent-described", stamp, facts)
        self.forget(principal_id)
        return True

    def set_active(self, principal_id: int, active: bool, stamp: Stamp) -> None:
        with self._database.transaction() as conn:
            look = "SELECT username, is_active FROM users WHERE id = %s AND NOT removed FOR UPDATE"
            was = one(conn, look, (principal_id,))
            if was is None:
                raise not_found("user")
            conn.execute("UPDATE users SET is_active = %s WHERE id = %s", (active, principal_id))
            if not active:  # a browser that is signed in is not signed in again when he is back
                ended = "UPDATE sessions SET revoked_at = fabric_now() WHERE user_id = %s AND revoked_at IS NULL"
                conn.execute(ended, (principal_id,))
            facts = {"name": was["username"], "was": was["is_active"], "is": active}
            journal(conn, "user-enabled" if active else "user-disabled", stamp, facts)
        self.forget(principal_id)

    # -- tokens --------------------------------------------------------------------------------------

    def create_token(
        self,
        principal_id: int,
        *,
        name: str,
        via: Via,
        stamp: Stamp,
        queues: Sequence[int] | None = None,
        expires: datetime | None = None,
        run: RunRef | None = None,
        secret: str | None = None,
    ) -> tuple[str, Credential]:
        """The secret, shown this once, and what is stored of it."""
        if via not in _STORED_VIA:
            raise BadInput(f"no token can stand for the door {via.value!r}", field="via")
        token = secret or PREFIX + secrets.token_urlsafe(32)
        with self._database.transaction() as conn:
            row = one(
                conn,
                "INSERT INTO credentials (user_id, hash, name, via, queues, run_task, run_epoch, created_by,"
                " expires_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
                # Only a secret that a setting has can have been here before.
                " ON CONFLICT (hash) DO UPDATE SET revoked_at = NULL WHERE credentials.user_id = excluded.user_id"
                " RETURNING id",
                (
                    principal_id,
                    _digest(token),
                    name,
                    via.value,
                    None if queues is None else sorted(queues),
                    None if run is None else run.task_id,
                    None if run is None else run.epoch,
                    stamp.principal_id,
                    expires,
                ),
            )
            made = credential_of(must(one(conn, f"{CREDENTIAL} WHERE c.id = %s", (must(row)["id"],))))
            facts = {"credential": made.id, "principal": made.principal, "name": name, "via": via.value}
            journal(conn, "token-created", stamp, facts)
        return token, made

    def revoke_token(self, credential_id: int, stamp: Stamp) -> bool:
        """True if it was worth something until now."""
        with self._database.transaction() as conn:
            row = one(
                conn,
                "UPDATE credentials SET revoked_at = fabric_now() WHERE id = %s AND revoked_at IS NULL"
                " RETURNING user_id",
                (credential_id,),
            )
            if row is not None:
                journal(conn, "token-revoked", stamp, {"credential": credential_id})
        if row is None:
            return False
        self.forget(row["user_id"])
        return True

    def revoke_all(self, principal_id: int, stamp: Stamp) -> int:
        """How many tokens of this account were worth something until now."""
        with self._database.transaction() as conn:
            rows = every(
                conn,
                "UPDATE credentials SET revoked_at = fabric_now() WHERE user_id = %s AND revoked_at IS NULL"
                " RETURNING id",
                (principal_id,),
            )
            facts = {"principal": principal_id, "credentials": [row["id"] for row in rows]}
            journal(conn, "tokens-revoked", stamp, facts)
        self.forget(principal_id)
        return len(rows)

    def tokens(self, principal_id: int | None) -> list[Credential]:
        """Of one account, or all; those of runs are left out, they come and go by themselves."""
        of = "" if principal_id is None else "AND c.user_id = %s"
        with self._database.connection() as conn:
            rows = every(
                conn,
                f"{CREDENTIAL} WHERE c.run_task IS NULL {of} ORDER BY c.id",
                () if principal_id is None else (principal_id,),
            )
        return [credential_of(row) for row in rows]

    # -- PINs ----------------------------------------------------------------------------------------

    def set_pin(self, principal_id: int, pin: str, stamp: Stamp, code: str = "") -> None:
        """Stored with scrypt; a lock is lifted."""
        hashed = pins.hashed(pin)
        with self._database.transaction() as conn:
            was = one(
                conn,
                "SELECT username, pin_hash IS NULL AS first, pin_code FROM users WHERE id = %s FOR UPDATE",
                (principal_id,),
            )
            if was is None:
                raise not_found("user")
            if was["pin_code"] is not None and bytes(was["pin_code"]) != _digest(code):
                raise Refused(
                    "that is not the code of your reset", next="have the account reset again", rule="pin-code"
                )
            conn.execute(
                "UPDATE users SET pin_hash = %s, pin_failures = 0, pin_locked_until = NULL, pin_code = NULL"
                " WHERE id = %s",
                (hashed, principal_id),
            )
            facts = {"name": was["username"], "principal": principal_id, "first": was["first"]}
            journal(conn, "pin-set", stamp, facts)

    def forget_pin(self, principal_id: int, stamp: Stamp) -> str:
        """A lock goes with it."""
        code = secrets.token_urlsafe(16)
        with self._database.transaction() as conn:
            done = conn.execute(
                "UPDATE users SET pin_hash = NULL, pin_failures = 0, pin_locked_until = NULL, pin_code = %s"
                " WHERE id = %s",
                (_digest(code), principal_id),
            )
            if not done.rowcount:
                raise not_found("user")
            journal(conn, "pin-forgotten", stamp, {"principal": principal_id})
        return code

    def needs_code(self, principal_id: int) -> bool:
        with self._database.connection() as conn:
            row = one(conn, "SELECT pin_code IS NOT NULL AS needed FROM users WHERE id = %s", (principal_id,))
        return row is not None and bool(row["needed"])

    def check_pin(self, principal_id: int, pin: str) -> bool:
        """True for the right PIN. Five wrong ones lock it for 15 minutes: then raises Refused, also for the right."""
        with self._database.transaction() as conn:
            # The row is held while the PIN is compared: guesses made side by side are counted one after another.
            row = one(
                conn,
                "SELECT pin_hash, coalesce(pin_locked_until > fabric_now(), false) AS locked, pin_locked_until,"
                " pin_failures FROM users WHERE id = %s FOR UPDATE",
                (principal_id,),
            )
            if row is None or row["pin_hash"] is None:
                return False
            if row["locked"]:
                until = row["pin_locked_until"].isoformat().replace("+00:00", "Z")
                raise Refused(
                    f"the PIN is locked until {until}, after too many wrong ones",
                    next="wait until then",
                    rule="pin-locked",
                    until=until,
                )
            right = pins.matches(pin, row["pin_hash"])
            failures = 0 if right else row["pin_failures"] + 1
            locks = failures >= self._pin_tries
            conn.execute(
                "UPDATE users SET pin_failures = %s, pin_locked_until = CASE WHEN %s THEN fabric_now() + %s END"
                " WHERE id = %s",
                (0 if locks else failures, locks, self._pin_lock, principal_id),
            )
        if locks:
            log.warning("PIN locked principal=%d for=%s", principal_id, self._pin_lock)
        return right

    def has_pin(self, principal_id: int) -> bool:
        with self._database.connection() as conn:
            row = one(conn, "SELECT pin_hash IS NOT NULL AS has FROM users WHERE id = %s", (principal_id,))
        return row is not None and bool(row["has"])

    def pins_set(self) -> dict[int, PinSet]:
        """For each account the last setting of its PIN, as far as the journal goes back."""
        with self._database.connection() as conn:
            rows = every(conn, _PINS_SET)
        return {
            row["principal"]: PinSet(at=row["at"], by=row["username"] or "", via=Via(row["via"]), first=row["first"])
            for row in rows
        }


_PINS_SET: Final = """
SELECT DISTINCT ON (j.data ->> 'principal') (j.data ->> 'principal')::int AS principal, j.at, u.username, j.via,
       coalesce((j.data ->> 'first')::boolean, false) AS first
  FROM journal j LEFT JOIN users u ON u.id = j.actor_id
 WHERE j.kind = 'pin-set' AND j.task_id IS NULL AND j.data ? 'principal'
 ORDER BY j.data ->> 'principal', j.id DESC
"""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
