"""The ends of a run other than done (which has its own file), renewals, and what follows when a lease is lost.

Each write is guarded by (id, epoch, token); no row means that the lease is lost. An end is one transaction: it locks
the row by its fence, asks the domain what follows, and writes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from psycopg.types.json import Jsonb

from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.read import VISIBLE, eyes
from taskfabric.boards.native.rows import FACE, Remark, as_signed, as_unsigned, record, reread, task_of
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import FabricError, IllegalMove, LeaseLost, not_found
from taskfabric.domain.lease import Fence, Renewal
from taskfabric.domain.outcome import (
    Backoff,
    Bounds,
    DeadLetter,
    Declined,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    Retry,
    Unfinished,
    Waiting,
    WaitingOnChildren,
    after_failure,
)
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task

LET_GO: Final = (
    "owner_id = NULL, token = NULL, lease_until = NULL, lease_seconds = NULL, holder_instance = NULL,"
    " seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()"
)


def column_sql(role: str) -> str:
    """The column that has this role, in the task's own project; where it has none the card stays."""
    return (
        f"role = '{role}', column_id = coalesce((SELECT q.{role}_column FROM queues q"
        " WHERE q.project_id = t.project_id), t.column_id)"
    )


HEAD_RANK: Final = (
    "coalesce((SELECT min(o.rank) FROM tasks o WHERE o.is_active AND o.project_id = t.project_id AND o.column_id ="
    " (SELECT q.ready_column FROM queues q WHERE q.project_id = t.project_id)), t.rank) - 1048576"
)

FENCE: Final = "t.id = %(task)s AND t.epoch = %(epoch)s AND t.token = %(token)s AND t.owner_id = %(me)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRules:
    """The board's settings for ends."""

    backoff: Backoff
    bounds: Bounds


def settle(
    conn: Connection, names: Names, fence: Fence, outcome: Unfinished, stamp: Stamp, rules: EndRules
) -> Task | None:
    """The task as its run has ended, or None: the fence is not the current one, and nothing was changed."""
    values: dict[str, Any] = {
        "task": fence.task_id,
        "epoch": fence.epoch,
        "token": as_signed(fence.token),
        "me": stamp.principal_id,
    }
    row = conn.execute(f"SELECT fabric_now(), {FACE} FROM tasks t WHERE {FENCE} FOR UPDATE", values).fetchone()
    if row is None:
        return None
    return end(conn, names, task_of(conn, names, row[1:]), row[0], outcome, stamp, rules)


_TO_READY: Final = f"""
UPDATE tasks t SET {column_sql("ready")}, attempts = greatest(0, attempts - %(refund)s),
       parks = parks + %(parks)s, waits = waits + %(waits)s, releases = releases + %(releases)s,
       date_started = %(start)s, delayed = coalesce(%(start)s::timestamptz > fabric_now(), false),
       ready_since = fabric_now(),
       flags = (flags & ~(1|2|4|8)) | %(flags)s, status = fabric_status('ready', true, %(flags)s),
       hold_rule = %(hold_rule)s, asked_id = NULL,
       rank = CASE WHEN %(head)s THEN {HEAD_RANK} ELSE rank END, {LET_GO}
 WHERE t.id = %(task)s AND t.epoch = %(epoch)s
"""
_TO_WAITING: Final = f"""
UPDATE tasks t SET flags = (flags & ~(1|2|4|8)) | %(flags)s, status = 'waiting', asked_id = %(asked)s,
       date_started = NULL,
       attempts = greatest(0, attempts - 1), waits = waits + 1, {LET_GO}
 WHERE t.id = %(task)s AND t.epoch = %(epoch)s
"""
_TO_DEAD: Final = f"""
UPDATE tasks t SET {column_sql("done")}, flags = (flags & ~(1|2|4|8)) | 32, status = 'dead',
       date_completed = fabric_now(), {LET_GO}
 WHERE t.id = %(task)s AND t.epoch = %(epoch)s
"""
_TO_REJECTED: Final = f"""
UPDATE tasks t SET is_active = false, flags = (flags & ~(1|2|4|8)) | 128, status = 'rejected',
       date_completed = fabric_now(), {LET_GO}
 WHERE t.id = %(task)s AND t.epoch = %(epoch)s
"""


def end(
    conn: Connection, names: Names, task: Task, now: datetime, outcome: Unfinished, stamp: Stamp, rules: EndRules
) -> Task:
    """A locked task ends its run this way; returns it as it then stands."""
    _End(conn, names, task, now, stamp, rules).carry_out(outcome)
    return reread(conn, names, task.id)


class _End:
    """One end in the making: the row is locked, the connection is in its transaction."""

    def __init__(
        self, conn: Connection, names: Names, task: Task, now: datetime, stamp: Stamp, rules: EndRules
    ) -> None:
        self.conn, self.names, self.task, self.now, self.stamp, self.rules = conn, names, task, now, stamp, rules

    def carry_out(self, outcome: Unfinished) -> None:
        match outcome:
            case Parked():
                self.park(outcome)
            case Waiting():
                self.ask(outcome)
            case WaitingOnChildren():
                self.wait_for_children()
            case Failed():
                self.fail(outcome)
            case Released():
                self.release(outcome)
            case Declined():
                self.write(_TO_REJECTED, {})
                self.note("rejected", Remark(kind=LineKind.DECLINED, text=outcome.reason), {"reason": outcome.reason})
            case _:
                assert_never(outcome)

    def park(self, outcome: Parked) -> None:
        start = max(outcome.until, self.now)
        held = self.over("parks", self.task.parks, self.rules.bounds.parks)
        self.to_ready(parks=1, start=start, flags=Flag.PARKED, head=outcome.head, held=held)
        remark = Remark(kind=LineKind.PARKED, until=start, text=outcome.reason)
        self.note("parked", remark, {"until": _z(start), "reason": outcome.reason})
        self.hold(held)

    def ask(self, outcome: Waiting) -> None:
        flags = Flag.BLOCKED | (Flag.NEEDS_AUTH if outcome.auth else Flag.NEEDS_INPUT)
        held = self.over("waits", self.task.waits, self.rules.bounds.waits)
        if held:
            self.to_ready(waits=1, held=held)
        else:
            self.write(_TO_WAITING, {"flags": int(flags), "asked": outcome.of_id})
        asked = self.names.user(self.conn, outcome.of_id)
        self.note("asked", Remark(kind=LineKind.QUESTION, text=outcome.question), {"of": asked, "auth": outcome.auth})
        self.hold(held)

    def wait_for_children(self) -> None:
        left = self.task.open_children
        if self.task.children == 0:
            # Nothing is promoted because a set is empty: who waits for children must have made some.
            raise IllegalMove(
                f"#{self.task.id} has no children to wait for",
                next="submit them first, inside the run",
                task=self.task.id,
            )
        held = self.over("waits", self.task.waits, self.rules.bounds.waits)
        if held or left == 0:
            self.to_ready(waits=1, head=True, held=held)
        else:
            self.write(_TO_WAITING, {"flags": int(Flag.BLOCKED), "asked": None})
        if left == 0:
            self.note("resumed", Remark(kind=LineKind.RESUMED, text="all of its children have finished"), {})
        else:
            self.note("waiting", Remark(kind=LineKind.WAITING, number=left), {"open": left})
        self.hold(held)

    def fail(self, outcome: Failed) -> None:
        task = self.task
        decision = after_failure(task.attempts, task.max_attempts, retry=outcome.retry, backoff=self.rules.backoff)
        tried = Remark(
            kind=LineKind.FAILED, text=outcome.error, number=task.attempts, of=task.max_attempts, epoch=task.epoch
        )
        data: dict[str, Any] = {"error": outcome.error[:2000], "attempt": task.attempts}
        match decision:
            case Retry():
                start = self.now + decision.rest
                self.to_ready(refund=0, start=start)
                self.note("failed", tried, data | {"retry_at": _z(start)})
            case DeadLetter():
                self.write(_TO_DEAD, {})
                self.note("dead", Remark(kind=LineKind.DEAD, text=outcome.error, epoch=task.epoch), data)
            case _:
                assert_never(decision)

    def release(self, outcome: Released) -> None:
        held = self.over("releases", self.task.releases, self.rules.bounds.releases)
        self.to_ready(releases=1, head=True, held=held)
        self.note("released", Remark(kind=LineKind.RELEASED, text=outcome.reason), {"drained": outcome.drained})
        self.hold(held)

    # -- what they are made of -----------------------------------------------------------------------

    def write(self, sql: str, values: dict[str, Any]) -> None:
        self.conn.execute(sql, {"task": self.task.id, "epoch": self.task.epoch, **values})

    def note(self, event: str, remark: Remark, data: dict[str, Any]) -> None:
        record(self.conn, self.task.id, event, self.stamp, remark, data, was=self.task.status)

    def to_ready(
        self,
        *,
        start: datetime | None = None,
        flags: Flag = Flag.NONE,
        held: tuple[str, str] | None = None,
        refund: int = 1,
        head: bool = False,
        parks: int = 0,
        waits: int = 0,
        releases: int = 0,
    ) -> None:
        self.write(
            _TO_READY,
            {
                "refund": refund,
                "parks": parks,
                "waits": waits,
                "releases": releases,
                "start": start,
                "flags": int(flags | Flag.BLOCKED if held else flags),
                "hold_rule": held[0] if held else None,
                "head": head,
            },
        )

    def over(self, rule: str, before: int, bound: int) -> tuple[str, str] | None:
        """Why a human must look, if this end is one too many of its kind (G9); None otherwise."""
        if before + 1 < bound:
            return None
        return rule, f"it has ended without a result {before + 1} times ({rule}); a human must look"

    def hold(self, held: tuple[str, str] | None) -> None:
        """The reason of a hold is in the thread and in the journal."""
        if held is not None:
            self.conn.execute(
                "UPDATE tasks SET seq = seq + 1, told = greatest(told, pg_current_xact_id()) WHERE id = %s",
                (self.task.id,),
            )
            self.note("held", Remark(kind=LineKind.HELD, text=held[1], by_fabric=True), {"rule": held[0]})


def _z(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


# -- renewals ----------------------------------------------------------------------------------------------

# Relaxed commit: a renewal lost in a crash costs a lease its last minutes, nothing else.
_RENEW: Final = """
UPDATE tasks t SET lease_until = fabric_now() + make_interval(secs => coalesce(%(seconds)s, t.lease_seconds)),
       lease_seconds = coalesce(%(seconds)s, t.lease_seconds)
  FROM unnest(%(tasks)s::bigint[], %(epochs)s::bigint[], %(tokens)s::bigint[]) AS f(id, epoch, token)
 WHERE t.id = f.id AND t.epoch = f.epoch AND t.token = f.token AND t.owner_id = %(me)s
   AND (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
RETURNING t.id, t.epoch, t.token, t.lease_until
"""


def renew(conn: Connection, fences: Sequence[Fence], lease: timedelta | None, stamp: Stamp) -> dict[Fence, Renewal]:
    """The renewals that were granted, each by its fence: a stale one of the same task is not among them."""
    ordered = sorted(fences, key=lambda f: f.task_id)  # two batches lock rows in one order
    rows = conn.execute(
        _RENEW,
        {
            "tasks": [f.task_id for f in ordered],
            "epochs": [f.epoch for f in ordered],
            "tokens": [as_signed(f.token) for f in ordered],
            "seconds": None if lease is None else lease.total_seconds(),
            "me": stamp.principal_id,
        },
    ).fetchall()
    return {
        Fence(task_id=id_, epoch=epoch, token=as_unsigned(token)): Renewal(task_id=id_, epoch=epoch, until=until)
        for id_, epoch, token, until in rows
    }


# -- lost leases ---------------------------------------------------------------------------------------------


# A holder of before, and whoever may see the task, is told who has it now; to others nothing is said.
_KNOWN: Final = f"""
SELECT {VISIBLE} OR EXISTS (SELECT FROM journal WHERE task_id = t.id AND kind = 'claimed' AND actor_id = %(me)s), {FACE}
  FROM tasks t WHERE t.id = %(task)s
"""


def lost(
    conn: Connection, names: Names, fence: Fence, verb: str, stamp: Stamp, outcome: Outcome | None, keep: int
) -> FabricError:
    """The refusal for a fence that is not the current one, journaled (G3): LeaseLost, or NotFound for a caller to whom
    the task is none of its business. A late result is kept, up to ``keep`` bytes of it."""
    viewer = Viewer(principal_id=stamp.principal_id, kind=stamp.kind)
    row = conn.execute(_KNOWN, {"task": fence.task_id, **eyes(viewer)}).fetchone()
    if row is None:
        return not_found("task")
    task = task_of(conn, names, row[1:])
    data = {"verb": verb, "rule": "fence", "epoch": fence.epoch, "current": task.epoch}
    conn.execute(
        "INSERT INTO journal (task_id, project_id, actor_id, kind, via, epoch, data)"
        " VALUES (%s, %s, %s, 'refused', %s, %s, %s)",
        (fence.task_id, task.project_id, stamp.principal_id, stamp.via.value, fence.epoch, Jsonb(data)),
    )
    if not row[0]:
        return not_found("task")
    # A run that waits has ended itself: what its worker makes of that afterwards is no result.
    waits = task.status is Status.WAITING and task.epoch == fence.epoch and not isinstance(outcome, Done)
    if outcome is not None and not waits:
        _keep_late(conn, fence, outcome, stamp, keep)
    until = task.lease_until
    return LeaseLost(
        f"the lease {fence} is lost: " + _whose(task),
        task=task.id,
        epoch=task.epoch,
        holder=task.holder,
        until=None if until is None else _z(until),
        status=task.status.value,
    )


def _whose(task: Task) -> str:
    if task.status is Status.WORKING and task.holder is not None:
        until = f" until {_z(task.lease_until)}" if task.lease_until else ""
        return f"{task.holder} has the task now (epoch {task.epoch}){until}"
    return f"the task is {task.status} (epoch {task.epoch})"


# Only who was granted that epoch may leave a result for it, and once.
_KEEP: Final = """
WITH k AS (
    INSERT INTO late_results (task_id, epoch, user_id, outcome, text)
    SELECT %(task)s, %(epoch)s, %(me)s, %(outcome)s, %(text)s
     WHERE EXISTS (SELECT FROM journal WHERE task_id = %(task)s AND kind = 'claimed' AND epoch = %(epoch)s
                      AND actor_id = %(me)s)
    ON CONFLICT DO NOTHING RETURNING task_id, epoch)
INSERT INTO comments (task_id, user_id, kind, epoch, text) SELECT task_id, %(me)s, 'late', epoch, %(text)s FROM k
"""


def _keep_late(conn: Connection, fence: Fence, outcome: Outcome, stamp: Stamp, keep: int) -> None:
    text = _text_of(outcome).encode()[:keep].decode(errors="ignore")
    if text:
        conn.execute(
            _KEEP,
            {
                "task": fence.task_id,
                "epoch": fence.epoch,
                "me": stamp.principal_id,
                "outcome": type(outcome).__name__.lower(),
                "text": text,
            },
        )


def _text_of(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return outcome.note
        case Failed():
            return outcome.error
        case Waiting():
            return outcome.question
        case Parked() | Released() | Declined():
            return outcome.reason
        case WaitingOnChildren():
            return ""
        case _:
            assert_never(outcome)
