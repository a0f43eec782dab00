"""Claim and take: the head of a lane becomes a lease, in one statement.

The statement looks at the head of each lane that the claimer may serve, orders the lanes (a lane whose head has waited
past the aging bound first, then the take order), and locks the first head that nobody else has locked.

Expired leases and delayed tasks whose time has come are put in order first. When the next of them falls due is asked at
most once a second (``next_due``); until then the claim only compares the board's clock with that instant, and takes
nothing once it has passed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskfabric.boards.native.names import Connection, Names, array
from taskfabric.boards.native.rows import FACE, LEAN_FACE, Remark, as_signed, record, task_of
from taskfabric.db.hot import Hot
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import FabricError, HeldBy, IllegalMove, Refused, not_found
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import ColumnRole, Status, why_not
from taskfabric.domain.take_order import serves
from taskfabric.domain.task import Claimed
from taskfabric.ports.board import Want

_CLAIMABLE: Final = "status = 'ready' AND open_blockers = 0 AND NOT delayed"

_LOWEST: Final = -(2**63)  # no rank is below it

# The claimer's lanes, each with its head, in the order in which they are taken. Which lanes it may serve is decided
# from the cache of lanes (they never change); ``next_due`` tells of a lane that is not in the cache yet.
_LANES: Final = f"""
SELECT l.id, h.rank
  FROM unnest(%(lanes)s::int[], %(groups)s::int[]) AS l(id, grp)
  LEFT JOIN lane_floors f ON f.lane_id = l.id
  CROSS JOIN LATERAL (SELECT rank, ready_since FROM tasks
                       WHERE lane_id = l.id AND {_CLAIMABLE} AND rank >= coalesce(f.floor, {_LOWEST})
                       ORDER BY rank LIMIT 1) h
 ORDER BY CASE WHEN h.ready_since < (SELECT fabric_now()) - %(aging)s * interval '1 second' THEN h.ready_since
               ELSE 'infinity' END, l.grp, h.rank
"""

_COLUMN: Final = "(SELECT q.working_column FROM queues q WHERE q.project_id = t.project_id)"
_GRANT: Final = f"""
       role = 'working', status = 'working', column_id = {_COLUMN},
       owner_id = %(me)s, epoch = epoch + 1, lease_seconds = %(seconds)s::float8,
       lease_until = fabric_now() + %(seconds)s::float8 * interval '1 second',
       attempts = attempts + 1, seq = seq + 1, told = greatest(told, pg_current_xact_id()),
       date_started = fabric_now(), date_modification = fabric_now(),
       holder_instance = %(instance)s, flags = flags & ~8, delayed = false, ready_since = NULL
"""

_RECORDS: Final = """
m AS (INSERT INTO comments (task_id, user_id, kind, epoch, until, instance)
      SELECT id, %(me)s, 'claimed', epoch, lease_until, holder_instance FROM c),
j AS (INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch)
      SELECT told, id, seq, project_id, %(me)s, 'claimed', %(via)s, epoch FROM c)
"""

_IN_ORDER: Final = "(SELECT fabric_now()) < %(in_order_until)s"

# One task. The pick is a scalar subquery: measured nearly twice as fast as a join.
_ONE: Final = Hot(f"""
WITH c AS (
    UPDATE tasks t SET token = %(token)s, {_GRANT}
     WHERE t.id = (SELECT p.id FROM ({_LANES}) l
                    CROSS JOIN LATERAL (SELECT id FROM tasks WHERE lane_id = l.id AND rank >= l.rank AND {_CLAIMABLE}
                                         ORDER BY rank LIMIT 1 FOR UPDATE SKIP LOCKED) p
                    WHERE {_IN_ORDER}
                    LIMIT 1)
    RETURNING t.*),
{_RECORDS}
SELECT {LEAN_FACE}, t.seq FROM c t
""")
# The same for a claimer with a single lane, which is what a plain queue has: there is nothing to order.
_ONE_OF_ONE: Final = Hot(f"""
WITH c AS (
    UPDATE tasks t SET token = %(token)s, {_GRANT.replace(_COLUMN, "%(column)s")}
     WHERE t.id = (SELECT id FROM tasks WHERE lane_id = %(lane)s AND {_CLAIMABLE} AND {_IN_ORDER}
                      AND rank >= coalesce((SELECT floor FROM lane_floors WHERE lane_id = %(lane)s), {_LOWEST})
                    ORDER BY rank LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING t.*),
{_RECORDS}
SELECT {LEAN_FACE}, t.seq FROM c t
""")

_PICKED: Final = f"""
SELECT p.id FROM ({_LANES}) l
 CROSS JOIN LATERAL (SELECT id FROM tasks WHERE lane_id = l.id AND rank >= l.rank AND {_CLAIMABLE}
                      ORDER BY rank LIMIT %(limit)s FOR UPDATE SKIP LOCKED) p
 WHERE {_IN_ORDER}
 LIMIT %(limit)s
"""
_PICKED_OF_ONE: Final = f"""
SELECT id FROM tasks WHERE lane_id = %(lane)s AND {_CLAIMABLE} AND {_IN_ORDER}
   AND rank >= coalesce((SELECT floor FROM lane_floors WHERE lane_id = %(lane)s), {_LOWEST})
 ORDER BY rank LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
# Up to `limit` tasks of the first lanes; each gets a token of its own from the array, by its place among the picked.
_MANY: Final = f"""
WITH picked AS MATERIALIZED (SELECT p.id, row_number() OVER () AS nth FROM ({_PICKED}) p),
c AS (
    UPDATE tasks t SET token = (%(tokens)s::bigint[])[picked.nth], {_GRANT}
      FROM picked WHERE t.id = picked.id
    RETURNING t.*, picked.nth),
{_RECORDS}
SELECT {LEAN_FACE}, t.seq, t.token FROM c t ORDER BY t.nth
"""
_MANY_OF_ONE: Final = _MANY.replace(_PICKED, _PICKED_OF_ONE).replace(_COLUMN, "%(column)s")


def _grant(want: Want, stamp: Stamp) -> dict[str, Any]:
    return {
        "seconds": want.lease.total_seconds(),
        "me": stamp.principal_id,
        "instance": stamp.instance or None,
        "via": stamp.via.value,
    }


def _order(names: Names, want: Want) -> dict[str, Any]:
    served = names.served(want)
    return {"lanes": served.lanes, "groups": served.groups, "aging": want.aging.total_seconds()}


def claim(
    conn: Connection, names: Names, want: Want, limit: int, stamp: Stamp, *, in_order_until: datetime
) -> list[tuple[Claimed, int]]:
    """Up to ``limit`` fresh leases, each with the number of the task's events; none once the board's clock has reached
    ``in_order_until``."""
    values = {**_grant(want, stamp), "in_order_until": in_order_until}
    only = names.served(want).only
    if only is None:
        values |= _order(names, want)
    else:
        layout = names.layout(conn, names.lane(conn, only).project_id)
        values |= {"lane": only, "column": layout.column_for(ColumnRole.WORKING)}
    if limit == 1:
        token = secrets.randbits(64)
        row = (_ONE if only is None else _ONE_OF_ONE).row(conn, values | {"token": as_signed(token)})
        return [] if row is None else [(_claimed(conn, names, row[:-1], token), row[-1])]
    tokens = {as_signed(token): token for token in (secrets.randbits(64) for _ in range(limit))}
    values |= {"limit": limit, "tokens": array(tokens)}
    rows = conn.execute(_MANY if only is None else _MANY_OF_ONE, values).fetchall()
    return [(_claimed(conn, names, row[:-2], tokens[row[-1]]), row[-2]) for row in rows]


def _claimed(conn: Connection, names: Names, row: Sequence[Any], token: int) -> Claimed:
    task = task_of(conn, names, row)
    return Claimed(task=task, fence=Fence(task_id=task.id, epoch=task.epoch, token=token))


def room(conn: Connection, want: Want, stamp: Stamp) -> int:
    """How many leases the holder may still take. Its own row is locked until the end of the transaction, so two
    claims cannot both see the last place; expired leases do not count."""
    assert want.concurrency is not None
    conn.execute("SELECT 1 FROM users WHERE id = %s FOR NO KEY UPDATE", (stamp.principal_id,))
    return max(0, want.concurrency - held(conn, stamp))


def held(conn: Connection, stamp: Stamp) -> int:
    """How many leases the holder has now; expired ones do not count."""
    row = conn.execute(
        "SELECT count(*) FROM tasks WHERE owner_id = %s AND lease_until >= fabric_now()",
        (stamp.principal_id,),
    ).fetchone()
    assert row is not None
    return int(row[0])


# What lies within the next second; the bound keeps the look short where old index entries cannot be removed yet.
_NEXT_DUE: Final = """
SELECT fabric_now(),
       least((SELECT min(lease_until) FROM tasks WHERE lease_until < (SELECT fabric_now()) + interval '1 second'),
             (SELECT min(date_started) FROM tasks
               WHERE delayed AND date_started < (SELECT fabric_now()) + interval '1 second'),
             fabric_now() + interval '1 second'),
       (SELECT coalesce(max(id), 0) FROM lanes)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextDue:
    """When something must be put in order next, at most a second ahead, and up to where lanes go."""

    now: datetime
    at: datetime
    last_lane: int


def next_due(conn: Connection) -> NextDue:
    """What a claim must know before it may take anything."""
    row = conn.execute(_NEXT_DUE).fetchone()
    assert row is not None
    return NextDue(now=row[0], at=row[1], last_lane=row[2])


_WORK: Final = f"SELECT EXISTS ({_LANES})"


def has_work(conn: Connection, names: Names, want: Want) -> bool:
    """True if there is a head that the claimer may take."""
    row = conn.execute(_WORK, _order(names, want)).fetchone()
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
    values = {**_grant(want, stamp), "task": task_id, "token": as_signed(token)}
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


def raise_floors(conn: Connection, names: Names, want: Want) -> None:
    """Claims of these lanes begin at their heads from now on, not at what was claimed long ago."""
    conn.execute("SELECT fabric_raise_floors(%s::int[])", (names.served(want).lanes,))
