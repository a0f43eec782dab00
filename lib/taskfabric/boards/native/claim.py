"""Claim and take: the head of a lane becomes a lease, in one statement.

The statement looks at the head of each lane that the claimer may serve, orders the lanes (a lane whose head has waited
past the aging bound first, then the take order), and locks the first head that nobody else has locked. It does nothing
at all while an expired lease or a delayed task whose time has come is about: those are put in order first.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import FACE, Remark, as_signed, record, task_of
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import FabricError, HeldBy, IllegalMove, Refused, not_found
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import Status, why_not
from taskfabric.domain.take_order import serves
from taskfabric.domain.task import Claimed
from taskfabric.ports.board import Want

_CLAIMABLE: Final = "status = 'ready' AND open_blockers = 0 AND NOT delayed"

# Lanes the claimer may serve, each with its head, in the order in which they are taken.
_LANES: Final = f"""
SELECT l.id, h.rank
  FROM lanes l
  CROSS JOIN LATERAL (SELECT rank, ready_since FROM tasks
                       WHERE lane_id = l.id AND {_CLAIMABLE} ORDER BY rank LIMIT 1) h
 WHERE l.project_id = ANY(%(queues)s::int[])
   AND (%(tiers)s::text[] IS NULL OR l.tier = '' OR l.tier = ANY(%(tiers)s) OR l.project_id = ANY(%(own)s::int[]))
   AND (%(capabilities)s::text[] IS NULL OR l.needs <@ %(capabilities)s)
   AND l.trust <= %(trust)s
 ORDER BY CASE WHEN h.ready_since < (SELECT fabric_now()) - %(aging)s THEN h.ready_since ELSE 'infinity' END,
          array_position(%(queues)s, l.project_id), array_position(%(order)s::int[], l.priority::int), h.rank
"""

_GRANT: Final = """
       role = 'working', column_id = (SELECT q.working_column FROM queues q WHERE q.project_id = t.project_id),
       owner_id = %(me)s, epoch = epoch + 1, lease_until = fabric_now() + %(lease)s, lease_seconds = %(seconds)s,
       attempts = attempts + 1, seq = seq + 1, date_started = fabric_now(), date_modification = fabric_now(),
       holder_instance = %(instance)s, flags = flags & ~8, delayed = false, ready_since = NULL
"""

_RECORDS: Final = """
m AS (INSERT INTO comments (task_id, user_id, kind, epoch, until, instance)
      SELECT id, %(me)s, 'claimed', epoch, lease_until, holder_instance FROM c),
j AS (INSERT INTO journal (task_id, seq, project_id, actor_id, kind, via, epoch)
      SELECT id, seq, project_id, %(me)s, 'claimed', %(via)s, epoch FROM c)
"""

NOTHING_DUE: Final = """
NOT EXISTS (SELECT FROM tasks WHERE token IS NOT NULL AND lease_until < (SELECT fabric_now()))
AND NOT EXISTS (SELECT FROM tasks WHERE delayed AND date_started <= (SELECT fabric_now()))
"""

# One task. The pick is a scalar subquery: measured nearly twice as fast as a join.
_ONE: Final = f"""
WITH c AS (
    UPDATE tasks t SET token = %(token)s, {_GRANT}
     WHERE t.id = (SELECT p.id FROM ({_LANES}) l
                    CROSS JOIN LATERAL (SELECT id FROM tasks WHERE lane_id = l.id AND rank >= l.rank AND {_CLAIMABLE}
                                         ORDER BY rank LIMIT 1 FOR UPDATE SKIP LOCKED) p
                    WHERE %(untidy)s OR ({NOTHING_DUE})
                    LIMIT 1)
    RETURNING t.*),
{_RECORDS}
SELECT {FACE} FROM c t
"""

# Up to `limit` tasks of the first lanes; each gets a token of its own from the array, by its place among the picked.
_MANY: Final = f"""
WITH picked AS MATERIALIZED (
    SELECT p.id, row_number() OVER () AS nth
      FROM (SELECT p.id FROM ({_LANES}) l
             CROSS JOIN LATERAL (SELECT id FROM tasks WHERE lane_id = l.id AND rank >= l.rank AND {_CLAIMABLE}
                                  ORDER BY rank LIMIT %(limit)s FOR UPDATE SKIP LOCKED) p
             WHERE %(untidy)s OR ({NOTHING_DUE})
             LIMIT %(limit)s) p),
c AS (
    UPDATE tasks t SET token = (%(tokens)s::bigint[])[picked.nth], {_GRANT}
      FROM picked WHERE t.id = picked.id
    RETURNING t.*, picked.nth),
{_RECORDS}
SELECT {FACE}, t.token FROM c t ORDER BY t.nth
"""


def params(want: Want, stamp: Stamp) -> dict[str, Any]:
    """What every form of claim needs to know of the claimer."""
    return {
        "queues": list(want.queues),
        "own": list(want.own),
        "tiers": None if want.tiers is None else list(want.tiers),
        "capabilities": None if want.capabilities is None else list(want.capabilities),
        "trust": int(want.trust),
        "aging": want.aging,
        "order": list(want.order),
        "me": stamp.principal_id,
        "lease": want.lease,
        "seconds": want.lease.total_seconds(),
        "instance": stamp.instance or None,
        "via": stamp.via.value,
    }


def claim(conn: Connection, names: Names, want: Want, limit: int, stamp: Stamp, *, untidy: bool) -> list[Claimed]:
    """Up to ``limit`` fresh leases. With ``untidy`` False nothing is claimed while something is due to be put in
    order first; an empty list then says nothing."""
    values = params(want, stamp)
    values["untidy"] = untidy
    if limit == 1:
        token = secrets.randbits(64)
        row = conn.execute(_ONE, {**values, "token": as_signed(token)}).fetchone()
        return [] if row is None else [_claimed(conn, names, row, token)]
    tokens = [secrets.randbits(64) for _ in range(limit)]
    by_stored = {as_signed(token): token for token in tokens}
    rows = conn.execute(_MANY, {**values, "limit": limit, "tokens": list(by_stored)}).fetchall()
    return [_claimed(conn, names, row[:-1], by_stored[row[-1]]) for row in rows]


def _claimed(conn: Connection, names: Names, row: Sequence[Any], token: int) -> Claimed:
    task = task_of(conn, names, row)
    return Claimed(task=task, fence=Fence(task_id=task.id, epoch=task.epoch, token=token))


def room(conn: Connection, want: Want, stamp: Stamp) -> int:
    """How many leases the holder may still take. Its own row is locked until the end of the transaction, so two
    claims cannot both see the last place; expired leases do not count."""
    assert want.concurrency is not None
    conn.execute("SELECT 1 FROM users WHERE id = %s FOR NO KEY UPDATE", (stamp.principal_id,))
    row = conn.execute(
        "SELECT count(*) FROM tasks WHERE owner_id = %s AND is_active AND lease_until >= fabric_now()",
        (stamp.principal_id,),
    ).fetchone()
    assert row is not None
    return max(0, want.concurrency - int(row[0]))


_WORK: Final = f"SELECT EXISTS ({_LANES})"


def has_work(conn: Connection, want: Want, stamp: Stamp) -> bool:
    """True if a claim now would get something, or would have to put something in order first."""
    row = conn.execute(f"{_WORK} OR NOT ({NOTHING_DUE})", params(want, stamp)).fetchone()
    return row is not None and bool(row[0])


_TAKE: Final = f"""
UPDATE tasks t SET token = %(token)s, {_GRANT}
 WHERE t.id = %(task)s AND t.status = 'ready' AND t.open_blockers = 0
   AND (t.date_started IS NULL OR t.date_started <= fabric_now() OR NOT t.delayed)
RETURNING {FACE}
"""


def take(conn: Connection, names: Names, task_id: int, want: Want, stamp: Stamp) -> Claimed:
    """A lease on this very task. Raises HeldBy, IllegalMove, Refused, NotFound."""
    row = conn.execute(f"SELECT {FACE} FROM tasks t WHERE t.id = %s", (task_id,)).fetchone()
    if row is None:
        raise not_found("task")
    task = task_of(conn, names, row)
    if task.project_id not in want.queues:
        raise not_found("task")
    fits = serves(
        tier=task.tier,
        needs=task.needs,
        required=task.required_trust,
        own_queue=task.project_id in want.own,
        tiers=want.tiers,
        capabilities=want.capabilities,
        trust=want.trust,
    )
    if not fits:
        raise Refused(
            f"#{task_id} asks for more than {stamp.name} offers",
            next=f"it needs tier {task.tier or 'any'}, {', '.join(task.needs) or 'no capability'},"
            f" trust {task.required_trust.word}",
            rule="card-does-not-fit",
            task=task_id,
        )
    token = secrets.randbits(64)
    values = {**params(want, stamp), "task": task_id, "token": as_signed(token)}
    row = conn.execute(_TAKE, values).fetchone()
    if row is None:
        raise _why_not_taken(conn, names, task_id)
    got = _claimed(conn, names, row, token)
    remark = Remark(kind=LineKind.CLAIMED, epoch=got.task.epoch, until=got.task.lease_until)
    record(conn, task_id, "claimed", stamp, remark)
    return got


def _why_not_taken(conn: Connection, names: Names, task_id: int) -> FabricError:
    row = conn.execute(f"SELECT fabric_now(), {FACE} FROM tasks t WHERE t.id = %s", (task_id,)).fetchone()
    if row is None:
        return not_found("task")
    now, task = row[0], task_of(conn, names, row[1:])
    if task.status is Status.WORKING and task.holder is not None:
        until = None if task.lease_until is None else task.lease_until.isoformat().replace("+00:00", "Z")
        return HeldBy(
            f"#{task_id} is held by {task.holder}" + (f" until {until}" if until else ""),
            task=task_id,
            holder=task.holder,
            until=until,
            epoch=task.epoch,
        )
    reasons = why_not(task, now)
    text = reasons[0].text if reasons else "it changed at this very moment"
    return IllegalMove(
        f"#{task_id} cannot be taken: {text}",
        next=f"`fabric why {task_id}` says more",
        task=task_id,
        status=task.status.value,
    )


def no_room(want: Want, stamp: Stamp) -> FabricError:
    """The refusal of a take beyond the holder's concurrency."""
    return Refused(
        f"{stamp.name} already holds {want.concurrency} task(s), which is its limit",
        next="finish or release one of them first",
        rule="concurrency",
        limit=want.concurrency,
    )
