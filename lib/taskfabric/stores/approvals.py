"""Approvals and standing grants in PostgreSQL.

``pending`` is left by one statement that repeats its whole condition (the state, the time, the hash of what was
shown), so that of two clicks one counts, a late one finds the time over, and nothing else ever makes a yes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.approval import (
    HUMAN_ACTS,
    YES,
    Act,
    Approval,
    Decider,
    Grant,
    How,
    Level,
    State,
    after,
    canonical,
)
from taskfabric.domain.errors import FabricError
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import RunRef, Stamp, Via
from taskfabric.ports.approvals import Look, NewApproval, NewGrant, Verdict
from taskfabric.stores.credential_rows import every, journal, must, one

_SELECT: Final = """
SELECT a.*, r.username AS requester, d.username AS decider, w.username AS whom,
       (SELECT jsonb_agg(jsonb_build_object('id', x.user_id, 'name', u.username, 'how', x.how, 'since', x.since,
                                            'for', f.username, 'until', x.until) ORDER BY x.since, x.user_id)
          FROM approval_deciders x JOIN users u ON u.id = x.user_id LEFT JOIN users f ON f.id = x.for_whom
         WHERE x.approval_id = a.id) AS deciders
  FROM approvals a JOIN users r ON r.id = a.requester_id
  LEFT JOIN users d ON d.id = a.decided_by LEFT JOIN users w ON w.id = a.for_whom
"""
_OPEN: Final = """
INSERT INTO approvals (action, args, hash, level, requester_id, why, recipient, amount, label, task_id, task_epoch,
                       expires)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (requester_id, coalesce(task_id, 0), hash) WHERE state = 'pending' DO NOTHING RETURNING id
"""
_DECIDE: Final = """
UPDATE approvals SET state = %(state)s, decided_by = %(by)s, decided_at = fabric_now(), decided_args = %(args)s,
       decided_hash = %(decided)s, level = coalesce(%(level)s, level), for_whom = %(whom)s, note = %(note)s,
       via = %(via)s, use_until = %(use_until)s
 WHERE id = %(id)s AND state = 'pending' AND expires > fabric_now() AND hash = %(seen)s
RETURNING id
"""
# The grant's row is held: one that is revoked in this moment counts either before or after, never in between.
_BY_GRANT: Final = """
UPDATE approvals a SET state = 'approved', decided_by = g.grantor_id, decided_at = fabric_now(), decided_args = a.args,
       decided_hash = a.hash, via = %(via)s, use_until = %(use_until)s, grant_id = g.id
  FROM (SELECT * FROM grants WHERE id = %(grant)s AND revoked_at IS NULL AND until > fabric_now() FOR UPDATE) g
 WHERE a.id = %(id)s AND a.state = 'pending' AND a.expires > fabric_now() AND a.level < 3
   AND a.requester_id = g.agent_id
RETURNING a.id
"""
_END: Final = """
UPDATE approvals SET state = %(state)s WHERE id = %(id)s AND state = 'pending'
   AND (%(state)s <> 'expired' OR expires <= fabric_now())
RETURNING id
"""
_CONSUME: Final = """
UPDATE approvals SET consumed_at = fabric_now()
 WHERE id = %(id)s AND requester_id = %(me)s AND state IN ('approved', 'edited-approved') AND consumed_at IS NULL
   AND decided_hash = %(hash)s AND (use_until IS NULL OR use_until > fabric_now())
RETURNING id
"""
_GRANT: Final = """
SELECT g.*, h.username AS grantor, a.username AS agent
  FROM grants g JOIN users h ON h.id = g.grantor_id JOIN users a ON a.id = g.agent_id
"""


class PostgresApprovals:
    """``ports.approvals.Approvals``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- asking --------------------------------------------------------------------------------------

    def open(self, new: NewApproval, stamp: Stamp) -> tuple[Approval, bool]:
        def write(conn: Connection) -> tuple[Approval, bool]:
            row = one(
                conn,
                _OPEN,
                (
                    new.action,
                    canonical(new.args),
                    new.hash,
                    int(new.level),
                    new.requester_id,
                    new.why,
                    new.recipient,
                    new.amount,
                    new.label,
                    new.task_id,
                    new.task_epoch,
                    new.expires,
                ),
            )
            if row is None:
                found = one(
                    conn,
                    f"{_SELECT} WHERE a.requester_id = %s AND coalesce(a.task_id, 0) = %s AND a.hash = %s"
                    " ORDER BY a.id DESC LIMIT 1",
                    (new.requester_id, new.task_id or 0, new.hash),
                )
                return _approval(must(found)), False
            made: int = row["id"]
            for decider in new.deciders:
                self._add(conn, made, decider)
            if new.task_id is not None:
                older = every(
                    conn,
                    "UPDATE approvals SET state = 'superseded' WHERE task_id = %s AND id < %s AND state = 'pending'"
                    " RETURNING id",
                    (new.task_id, made),
                )
                for gone in older:
                    journal(conn, "approval-superseded", stamp, {"approval": gone["id"], "by": made})
            facts = {"approval": made, "action": new.action, "hash": new.hash, "level": new.level.word}
            journal(conn, "approval-asked", stamp, {**facts, "task": new.task_id})
            return _approval(must(self._get(conn, made))), True

        return self._db.retrying(write)

    def set_gate(self, approval_id: int, gate_id: int) -> None:
        with self._db.transaction() as conn:
            conn.execute("UPDATE approvals SET gate_id = %s WHERE id = %s", (gate_id, approval_id))

    def set_told(self, approval_id: int) -> None:
        with self._db.transaction() as conn:
            conn.execute("UPDATE approvals SET is_told = true WHERE id = %s", (approval_id,))

    def fence(self, run: RunRef, principal_id: int) -> Fence | None:
        with self._db.connection() as conn:
            row = one(
                conn,
                "SELECT token FROM tasks WHERE id = %s AND epoch = %s AND owner_id = %s AND token IS NOT NULL",
                (run.task_id, run.epoch, principal_id),
            )
        return None if row is None else Fence(task_id=run.task_id, epoch=run.epoch, token=row["token"] % 2**64)

    # -- looking -------------------------------------------------------------------------------------

    def get(self, approval_id: int) -> Approval | None:
        return self._one("a.id = %s", approval_id)

    def of_task(self, task_id: int) -> Approval | None:
        return self._one("(a.gate_id = %s OR a.task_id = %s) ORDER BY a.state = 'pending' DESC, a.id DESC LIMIT 1",
                         task_id, task_id)  # fmt: skip

    def is_pending(self, task_id: int) -> bool:
        with self._db.connection() as conn:
            query = "SELECT 1 AS one FROM approvals WHERE state = 'pending' AND (gate_id = %s OR task_id = %s)"
            return one(conn, query, (task_id, task_id)) is not None

    def latest(self, requester_id: int, task_id: int | None, hash: str) -> Approval | None:
        return self._one(
            "a.requester_id = %s AND coalesce(a.task_id, 0) = %s AND a.hash = %s ORDER BY a.id DESC LIMIT 1",
            requester_id,
            task_id or 0,
            hash,
        )

    def denied(self, requester_id: int, action: str, args: Mapping[str, Any]) -> Approval | None:
        found = self._one(
            "a.requester_id = %s AND a.action = %s AND a.args = %s AND a.decided_by IS NOT NULL AND a.grant_id IS NULL"
            " ORDER BY a.decided_at DESC, a.id DESC LIMIT 1",
            requester_id,
            action,
            canonical(args),
        )
        return found if found is not None and found.state is State.DENIED else None

    def find(self, look: Look) -> list[Approval]:
        conditions, values = ["true"], list[object]()
        who: list[str] = []
        if look.decider_id is not None:
            who.append("EXISTS (SELECT FROM approval_deciders x WHERE x.approval_id = a.id AND x.user_id = %s)")
            values.append(look.decider_id)
        if look.requester_id is not None:
            who.append("a.requester_id = %s")
            values.append(look.requester_id)
        if who:
            conditions.append(f"({' OR '.join(who)})")
        if look.states:
            conditions.append("a.state = ANY (%s)")
            values.append([state.value for state in look.states])
        if look.untold:
            conditions.append("a.state <> 'pending' AND NOT a.is_told")
        for column, comparison, value in (("task_id", "=", look.task_id), ("id", "<", look.before_id)):
            if value is not None:
                conditions.append(f"a.{column} {comparison} %s")
                values.append(value)
        return self._all(f"{' AND '.join(conditions)} ORDER BY a.id DESC LIMIT %s", *values, look.limit)

    # -- deciding ------------------------------------------------------------------------------------

    def decide(self, approval_id: int, verdict: Verdict, stamp: Stamp) -> Approval | None:
        state = after(State.PENDING, verdict.act)
        if state is None or verdict.act not in HUMAN_ACTS or not stamp.is_human:
            raise FabricError(f"{verdict.act.value} is not a human's decision")
        values = {
            "id": approval_id,
            "state": state.value,
            "by": stamp.principal_id,
            "args": None if verdict.args is None or state not in YES else canonical(verdict.args),
            "decided": verdict.hash if state in YES else None,
            "level": None if verdict.level is None else int(verdict.level),
            "whom": verdict.for_whom_id,
            "note": verdict.note,
            "via": stamp.via.value,
            "use_until": verdict.use_until,
            "seen": verdict.seen,
        }
        facts = {"hash": verdict.seen, "decided": verdict.hash, "for": verdict.for_whom_id}

        def with_it(conn: Connection) -> None:
            if verdict.grant is not None:
                self._grant(conn, verdict.grant, stamp)

        return self._change(approval_id, _DECIDE, values, f"approval-{state.value}", stamp, facts, with_it)

    def decide_by_grant(self, approval_id: int, grant: Grant, use_until: datetime, stamp: Stamp) -> Approval | None:
        values = {"id": approval_id, "grant": grant.id, "use_until": use_until, "via": Via.SYSTEM.value}
        facts = {"grant": grant.id, "by": grant.grantor_id}

        def with_it(conn: Connection) -> None:
            conn.execute("UPDATE grants SET used = used + 1 WHERE id = %s", (grant.id,))

        return self._change(approval_id, _BY_GRANT, values, "approval-granted", stamp, facts, with_it)

    def end(self, approval_id: int, act: Act, stamp: Stamp) -> Approval | None:
        state = after(State.PENDING, act)
        if state is None or act in HUMAN_ACTS:
            raise FabricError(f"{act.value} is a human's decision")
        return self._change(
            approval_id, _END, {"id": approval_id, "state": state.value}, f"approval-{state.value}", stamp, {}
        )

    def consume(self, approval_id: int, hash: str, requester_id: int, stamp: Stamp) -> bool:
        values = {"id": approval_id, "hash": hash, "me": requester_id}
        return self._change(approval_id, _CONSUME, values, "approval-used", stamp, {"hash": hash}) is not None

    def _change(
        self,
        approval_id: int,
        sql: str,
        values: Mapping[str, Any],
        kind: str,
        stamp: Stamp,
        facts: dict[str, Any],
        with_it: Callable[[Connection], None] = lambda conn: None,
    ) -> Approval | None:
        """The approval as it then stands, changed by this guarded statement, with whatever belongs to the change."""

        def write(conn: Connection) -> Approval | None:
            if conn.execute(sql.encode(), values).fetchone() is None:
                return None
            journal(conn, kind, stamp, {"approval": approval_id, **facts})
            with_it(conn)
            return _approval(must(self._get(conn, approval_id)))

        return self._db.retrying(write)

    def remind(self, approval_id: int, percent: int) -> bool:
        with self._db.transaction() as conn:
            done = conn.execute(
                "UPDATE approvals SET reminded = %s WHERE id = %s AND state = 'pending' AND reminded < %s",
                (percent, approval_id, percent),
            )
            return done.rowcount == 1

    def add_decider(self, approval_id: int, decider: Decider, stamp: Stamp) -> bool:
        with self._db.transaction() as conn:
            row = one(conn, "SELECT state FROM approvals WHERE id = %s FOR UPDATE", (approval_id,))
            if row is None or row["state"] != State.PENDING.value or not self._add(conn, approval_id, decider):
                return False
            facts = {"approval": approval_id, "to": decider.principal_id, "how": decider.how.value}
            journal(conn, "approval-passed-on", stamp, facts)
            return True

    def end_delegations(self, for_whom_id: int) -> int:
        with self._db.transaction() as conn:
            return conn.execute(
                "UPDATE approval_deciders SET until = fabric_now() WHERE for_whom = %s AND until > fabric_now()",
                (for_whom_id,),
            ).rowcount

    def _add(self, conn: Connection, approval_id: int, decider: Decider) -> bool:
        done = conn.execute(
            "INSERT INTO approval_deciders AS x (approval_id, user_id, how, for_whom, since, until)"
            " SELECT %s, %s, %s, (SELECT id FROM users WHERE username = %s), fabric_now(), %s"
            " ON CONFLICT (approval_id, user_id) DO UPDATE"
            " SET how = excluded.how, for_whom = excluded.for_whom, since = excluded.since, until = excluded.until"
            # Only what lets him decide longer, or in his own name, takes the place of what there was.
            " WHERE x.until < excluded.until OR x.until IS NOT NULL AND excluded.until IS NULL"
            " OR x.how = 'delegated' AND excluded.how <> 'delegated'",
            (approval_id, decider.principal_id, decider.how.value, decider.for_whom, decider.until),
        )
        return done.rowcount == 1

    def allowed(self, action: str, level: Level, stamp: Stamp, facts: Mapping[str, Any]) -> None:
        with self._db.transaction() as conn:
            journal(conn, "action-allowed", stamp, {"action": action, "level": level.word, **facts})

    # -- standing grants -----------------------------------------------------------------------------

    def add_grant(self, new: NewGrant, stamp: Stamp) -> Grant:
        with self._db.transaction() as conn:
            return self._grant(conn, new, stamp)

    def _grant(self, conn: Connection, new: NewGrant, stamp: Stamp) -> Grant:
        row = one(
            conn,
            "INSERT INTO grants (grantor_id, agent_id, action, recipient, until) VALUES (%s, %s, %s, %s, %s)"
            " RETURNING id",
            (stamp.principal_id, new.agent_id, new.action, new.recipient, new.until),
        )
        made: int = must(row)["id"]
        journal(conn, "grant-made", stamp, {"grant": made, "agent": new.agent_id, "action": new.action})
        return _grant(must(one(conn, f"{_GRANT} WHERE g.id = %s", (made,))))

    def grants(self, *, grantor_id: int | None = None, agent_id: int | None = None) -> list[Grant]:
        with self._db.connection() as conn:
            rows = every(
                conn,
                f"{_GRANT} WHERE (%s::int IS NULL OR g.grantor_id = %s) AND (%s::int IS NULL OR g.agent_id = %s)"
                " ORDER BY g.id",
                (grantor_id, grantor_id, agent_id, agent_id),
            )
        return [_grant(row) for row in rows]

    def revoke_grant(self, grant_id: int, stamp: Stamp) -> bool:
        with self._db.transaction() as conn:
            sql = "UPDATE grants SET revoked_at = fabric_now() WHERE id = %s AND revoked_at IS NULL"
            if not conn.execute(sql, (grant_id,)).rowcount:
                return False
            journal(conn, "grant-revoked", stamp, {"grant": grant_id})
            return True

    # -- the policy ----------------------------------------------------------------------------------

    def accepted_policy(self) -> str | None:
        with self._db.connection() as conn:
            row = one(conn, "SELECT text FROM policies ORDER BY id DESC LIMIT 1")
        return None if row is None else str(row["text"])

    def accept_policy(self, text: str, stamp: Stamp) -> None:
        with self._db.transaction() as conn:
            was = one(conn, "SELECT text FROM policies ORDER BY id DESC LIMIT 1")
            conn.execute("INSERT INTO policies (text, by_id) VALUES (%s, %s)", (text, stamp.principal_id))
            journal(conn, "policy-accepted", stamp, {"was": None if was is None else was["text"], "is": text})

    # -- rows ----------------------------------------------------------------------------------------

    def _get(self, conn: Connection, approval_id: int) -> dict[str, Any] | None:
        return one(conn, f"{_SELECT} WHERE a.id = %s", (approval_id,))

    def _one(self, where: str, *values: object) -> Approval | None:
        found = self._all(where, *values)
        return found[0] if found else None

    def _all(self, where: str, *values: object) -> list[Approval]:
        with self._db.connection() as conn:
            return [_approval(row) for row in every(conn, f"{_SELECT} WHERE {where}", values)]


def _approval(row: Mapping[str, Any]) -> Approval:
    return Approval(
        id=row["id"],
        state=State(row["state"]),
        action=row["action"],
        args=json.loads(row["args"]),
        hash=row["hash"],
        level=Level(row["level"]),
        requester=row["requester"],
        requester_id=row["requester_id"],
        why=row["why"],
        recipient=row["recipient"],
        amount=row["amount"],
        label=row["label"],
        task_id=row["task_id"],
        task_epoch=row["task_epoch"],
        gate_id=row["gate_id"],
        created=row["created"],
        expires=row["expires"],
        deciders=_deciders(row["deciders"] or ()),
        decided_by=row["decider"],
        decided_by_id=row["decided_by"],
        decided_at=row["decided_at"],
        decided_args=None if row["decided_args"] is None else json.loads(row["decided_args"]),
        decided_hash=row["decided_hash"],
        for_whom=row["whom"],
        note=row["note"],
        via=None if row["via"] is None else Via(row["via"]),
        use_until=row["use_until"],
        consumed_at=row["consumed_at"],
        grant_id=row["grant_id"],
        reminded=row["reminded"],
        is_told=row["is_told"],
    )


def _deciders(shapes: Sequence[Mapping[str, Any]]) -> tuple[Decider, ...]:
    return tuple(
        Decider(
            principal_id=shape["id"],
            name=shape["name"],
            how=How(shape["how"]),
            since=datetime.fromisoformat(shape["since"]),
            for_whom=shape["for"],
            until=None if shape["until"] is None else datetime.fromisoformat(shape["until"]),
        )
        for shape in shapes
    )


def _grant(row: Mapping[str, Any]) -> Grant:
    return Grant(
        id=row["id"],
        grantor=row["grantor"],
        grantor_id=row["grantor_id"],
        agent=row["agent"],
        agent_id=row["agent_id"],
        action=row["action"],
        recipient=row["recipient"],
        created=row["created"],
        until=row["until"],
        revoked=row["revoked_at"],
        used=row["used"],
    )
