"""The ledger in PostgreSQL. An account's row is held while it is decided about, so several processes agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.account import Account
from taskfabric.domain.availability import Part
from taskfabric.domain.limit import Learned
from taskfabric.domain.principal import Stamp
from taskfabric.domain.quota import Span, Used, utc
from taskfabric.ports.ledger import Spending
from taskfabric.stores.credential_rows import every, journal, must, one

_ACCOUNT: Final = (
    "name, closed_until, closed_since, is_known, quota_window, evidence, probes, prober, probe_until, warned_until,"
    " overloads, is_told"
)
_USED: Final = """
SELECT coalesce(sum({unit}), 0)::bigint AS amount,
       coalesce(sum({unit}) FILTER (WHERE is_interactive), 0)::bigint AS interactive,
       min(at) FILTER (WHERE {unit} > 0) AS oldest
  FROM spendings WHERE account = %s AND at > %s
"""
_LEARN: Final = """
INSERT INTO learned_limits (account, quota_window, used, amount, reset) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (account, quota_window) DO UPDATE SET used = excluded.used, amount = excluded.amount,
    reset = excluded.reset, seen = excluded.seen
"""
# Without a reset it is of a short window: soon nothing is known any more.
_LEARNED: Final = """
SELECT * FROM learned_limits WHERE coalesce(reset, seen + interval '1 hour') > fabric_now()
 ORDER BY account, quota_window
"""
_PRUNE_EVERY: Final = 3600.0  # seconds
_COLUMN: Final = {"runs": "units", "tokens": "tokens", "cents": "cents"}


class PostgresLedger:
    """``ports.ledger.Ledger`` over the tables accounts, spendings and learned_limits. What was spent is kept for
    ``keep``, which is longer than any window reaches back."""

    def __init__(
        self,
        database: Database,
        *,
        keep: timedelta = timedelta(days=100),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._keep = keep
        self._clock = clock
        self._pruned = clock()

    def accounts(self) -> dict[str, Account]:
        with self._database.connection() as conn:
            return {row["name"]: _account(row) for row in every(conn, f"SELECT {_ACCOUNT} FROM accounts")}

    def account(self, name: str) -> Account:
        """One of which nothing is known is open."""
        with self._database.connection() as conn:
            row = one(conn, f"SELECT {_ACCOUNT} FROM accounts WHERE name = %s", (name,))
        return Account(name=name) if row is None else _account(row)

    def change(self, name: str, decide: Callable[[Account], Account], stamp: Stamp) -> tuple[Account, Account]:
        """The account is what ``decide`` makes of it; before and after."""

        def work(conn: Connection) -> tuple[Account, Account]:
            before = _held(conn, name)
            after = decide(before)
            if after != before:
                _write(conn, after)
            if after.closed_until != before.closed_until:
                kind = "account-opened" if after.closed_until is None else "account-closed"
                facts = {"account": name, "until": utc(after.closed_until), "window": after.window}
                journal(conn, kind, stamp, {**facts, "evidence": after.evidence, "probes": after.probes})
            return before, after

        return self._database.retrying(work)

    def used(self, account: str, spans: Sequence[Span]) -> list[Used]:
        """What was spent and reserved in each span."""
        if not spans:
            return []
        with self._database.connection() as conn:
            return _used(conn, account, spans)

    def reserve(
        self, new: Spending, spans: Sequence[Span], decide: Callable[[Account, Sequence[Used]], Account | Part]
    ) -> int | Part:
        """The number of the reservation, or the part that refuses; nobody else reserves of the account meanwhile."""

        def work(conn: Connection) -> int | Part:
            account = _held(conn, new.account)
            after = decide(account, _used(conn, new.account, spans))
            if isinstance(after, Part):
                return after
            if after != account:
                _write(conn, after)
            row = one(
                conn,
                "INSERT INTO spendings (account, user_id, task_id, epoch, is_interactive, units)"
                " VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
                (new.account, new.principal_id, new.task_id, new.epoch, new.interactive, new.units),
            )
            return int(must(row)["id"])

        return self._database.retrying(work)

    def settle(
        self, reservation: int, principal_id: int, *, units: int, tokens: int, cents: int, usage: dict[str, int]
    ) -> str | None:
        """The account's name. None: no open reservation of this caller."""
        with self._database.transaction() as conn:
            row = one(
                conn,
                "UPDATE spendings SET is_settled = true, units = %s, tokens = %s, cents = %s, usage = %s"
                " WHERE id = %s AND user_id = %s AND NOT is_settled RETURNING account",
                (units, tokens, cents, Jsonb(usage) if usage else None, reservation, principal_id),
            )
            if self._clock() - self._pruned >= _PRUNE_EVERY:
                self._pruned = self._clock()
                conn.execute("DELETE FROM spendings WHERE at < fabric_now() - %s", (self._keep,))
        return None if row is None else str(row["account"])

    def learn(self, account: str, windows: Sequence[Learned]) -> None:
        """The latest that the provider said of each of these windows is kept."""
        with self._database.transaction() as conn:
            conn.execute("SET LOCAL synchronous_commit = off")  # it says so again with its next answer
            for one in sorted(windows, key=lambda one: one.window):  # in one order, so that two never wait in a ring
                conn.execute(_LEARN, (account, one.window, one.used, one.amount, one.reset))

    def learned(self) -> dict[str, tuple[Learned, ...]]:
        """What providers said of windows that have not been reset since, by account."""
        found: dict[str, tuple[Learned, ...]] = {}
        with self._database.connection() as conn:
            for row in every(conn, _LEARNED):
                window = Learned(
                    window=row["quota_window"],
                    used=row["used"],
                    amount=row["amount"],
                    reset=row["reset"],
                    seen=row["seen"],
                )
                found[row["account"]] = (*found.get(row["account"], ()), window)
        return found


def _held(conn: Connection, name: str) -> Account:
    """The account, its row locked until the end of the transaction."""
    look = f"SELECT {_ACCOUNT} FROM accounts WHERE name = %s FOR UPDATE"
    row = one(conn, look, (name,))
    if row is None:
        conn.execute("INSERT INTO accounts (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
        row = one(conn, look, (name,))
    return _account(must(row))


def _write(conn: Connection, account: Account) -> None:
    conn.execute(
        "UPDATE accounts SET closed_until = %s, closed_since = %s, is_known = %s, quota_window = %s, evidence = %s,"
        " probes = %s, prober = %s, probe_until = %s, warned_until = %s, overloads = %s, is_told = %s WHERE name = %s",
        (
            account.closed_until,
            account.closed_since,
            account.known,
            account.window,
            account.evidence,
            account.probes,
            account.prober,
            account.probe_until,
            account.warned_until,
            account.overloads,
            account.told,
            account.name,
        ),
    )


def _used(conn: Connection, account: str, spans: Sequence[Span]) -> list[Used]:
    found: list[Used] = []
    for span in spans:
        row = must(one(conn, _USED.format(unit=_COLUMN[span.window.unit]), (account, span.since)))
        found.append(Used(span=span, amount=row["amount"], interactive=row["interactive"], oldest=row["oldest"]))
    return found


def _account(row: dict[str, Any]) -> Account:
    return Account(
        name=row["name"],
        closed_until=row["closed_until"],
        closed_since=row["closed_since"],
        known=row["is_known"],
        window=row["quota_window"],
        evidence=row["evidence"],
        probes=row["probes"],
        prober=row["prober"],
        probe_until=row["probe_until"],
        warned_until=row["warned_until"],
        overloads=row["overloads"],
        told=row["is_told"],
    )
