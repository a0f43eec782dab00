"""People's verbs: answer, verify, reject, cancel, redrive, and what a human does to a task by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, assert_never

from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import FACE, Remark, record, reread, task_of
from taskfabric.boards.native.settle import HEAD_RANK, LET_GO, EndRules, column_sql, end
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import IllegalMove, not_found
from taskfabric.domain.moves import BY_VERB
from taskfabric.domain.outcome import (
    Declined,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    Waiting,
    WaitingOnChildren,
)
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task

_TOUCH: Final = "seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()"


def locked(conn: Connection, names: Names, task_id: int) -> tuple[Task, datetime]:
    """The task, locked until the end of the transaction, and the board's time. Raises NotFound."""
    row = conn.execute(f"SELECT fabric_now(), {FACE} FROM tasks t WHERE t.id = %s FOR UPDATE", (task_id,)).fetchone()
    if row is None:
        raise not_found("task")
    return task_of(conn, names, row[1:]), row[0]


def illegal(verb: str, task: Task, hint: str = "") -> IllegalMove:
    """The refusal of a verb that the task's status does not allow."""
    sources = sorted(s.value for s in BY_VERB[verb].sources) if verb in BY_VERB else []
    needs = f"; {verb} needs it to be {' or '.join(sources)}" if sources else f", so it cannot {verb}"
    return IllegalMove(
        f"#{task.id} is {task.status}{needs}",
        next=hint or f"`fabric show {task.id}` shows how it stands",
        task=task.id,
        status=task.status.value,
    )


def _expect(verb: str, task: Task) -> None:
    if task.status not in BY_VERB[verb].sources:
        raise illegal(verb, task)


def _write(conn: Connection, sql: str, task_id: int, **values: Any) -> None:
    """The locked row is changed; its seq goes up for the event that must follow."""
    conn.execute(f"{sql} WHERE t.id = %(task)s", {"task": task_id, **values})


def answer(conn: Connection, names: Names, task_id: int, text: str, stamp: Stamp) -> Task:
    """The question is answered; the task is at the head of its lane."""
    task, _ = locked(conn, names, task_id)
    if task.status is not Status.WAITING or not task.flags & (Flag.NEEDS_INPUT | Flag.NEEDS_AUTH):
        raise illegal("answer", task, "it has no open question")
    _write(
        conn,
        f"UPDATE tasks t SET {column_sql('ready')}, status = 'ready', flags = flags & ~7, asked_id = NULL,"
        " ready_since = fabric_now(),"
        f" date_started = NULL, delayed = false, rank = {HEAD_RANK}, {_TOUCH}",
        task_id,
    )
    record(conn, task_id, "answered", stamp, Remark(kind=LineKind.ANSWER, text=text), {}, was=task.status)
    return reread(conn, names, task_id)


def verify(conn: Connection, names: Names, task_id: int, note: str, stamp: Stamp) -> Task:
    """The result is closed."""
    task, _ = locked(conn, names, task_id)
    _expect("verify", task)
    _write(conn, f"UPDATE tasks t SET is_active = false, status = 'verified', {_TOUCH}", task_id)
    record(
        conn,
        task_id,
        "verified",
        stamp,
        Remark(kind=LineKind.VERIFIED, text=note),
        {"epoch": task.epoch},
        was=task.status,
    )
    return reread(conn, names, task_id)


def reject(conn: Connection, names: Names, task_id: int, note: str, stamp: Stamp) -> Task:
    """The task is ready again with fresh attempts; the note is in its thread for the next run."""
    task, _ = locked(conn, names, task_id)
    _expect("reject", task)
    _write(conn, _REOPEN.format(flags="flags & ~(1|2|4|8|16|32)"), task_id)
    record(
        conn,
        task_id,
        "rejected",
        stamp,
        Remark(kind=LineKind.REJECTED, text=note),
        {"epoch": task.epoch},
        was=task.status,
    )
    return reread(conn, names, task_id)


_REOPEN: Final = (
    f"UPDATE tasks t SET {column_sql('ready')}, status = 'ready', flags = {{flags}}, is_active = true,"
    " attempts = 0, parks = 0, waits = 0, releases = 0, verdict = NULL, date_completed = NULL, date_started = NULL,"
    " delayed = false, ready_since = fabric_now(), hold_rule = NULL,"
    f" open_blockers = open_blockers - %(freed)s, {_TOUCH}"
).replace("%(freed)s", "0")
_REDRIVE: Final = _REOPEN.replace("open_blockers - 0", "open_blockers - %(freed)s")


def redrive(conn: Connection, names: Names, task_id: int, note: str, stamp: Stamp) -> Task:
    """A dead letter, or a held task, is ready again on purpose. A dependency that was broken no longer counts; one
    that is still open goes on to."""
    task, _ = locked(conn, names, task_id)
    _expect("redrive", task)
    freed = waive_broken(conn, task_id)
    _write(conn, _REDRIVE.format(flags="flags & ~(1|2|4|8|16|32)"), task_id, freed=freed)
    record(
        conn,
        task_id,
        "redriven",
        stamp,
        Remark(kind=LineKind.REDRIVEN, text=note),
        {"from": task.status.value, "dependencies_waived": freed},
        was=task.status,
    )
    return reread(conn, names, task_id)


def waive_broken(conn: Connection, task_id: int) -> int:
    """The task's broken dependencies no longer count, by a human's act; how many there were."""
    return conn.execute(
        "UPDATE task_has_links SET state = 'satisfied' WHERE task_id = %s AND link_id = 3 AND state = 'broken'",
        (task_id,),
    ).rowcount


def cancel(conn: Connection, names: Names, task_id: int, note: str, stamp: Stamp) -> Task:
    """The task and its unstarted descendants are cancelled; a holder's next write says that the lease is lost."""
    task, _ = locked(conn, names, task_id)
    _expect("cancel", task)
    _cancel_one(conn, task, note, stamp)
    children = conn.execute(
        "SELECT id FROM tasks WHERE parent_id = %s AND is_active AND epoch = 0"
        " AND status IN ('backlog', 'ready', 'held') ORDER BY id",
        (task_id,),
    ).fetchall()
    for (child_id,) in children:
        child, _ = locked(conn, names, child_id)
        if child.status in (Status.BACKLOG, Status.READY, Status.HELD) and child.epoch == 0:
            cancel(conn, names, child_id, f"its parent #{task_id} was cancelled", stamp)
    return reread(conn, names, task_id)


def _cancel_one(conn: Connection, task: Task, note: str, stamp: Stamp) -> None:
    _write(
        conn,
        "UPDATE tasks t SET is_active = false, status = 'cancelled', flags = (flags & ~(1|2|4|8)) | 64,"
        " asked_id = NULL, delayed = false,"
        f" hold_rule = NULL, date_completed = fabric_now(), {LET_GO}",
        task.id,
    )
    record(
        conn,
        task.id,
        "cancelled",
        stamp,
        Remark(kind=LineKind.CANCELLED, text=note),
        {"from": task.status.value, "holder": task.holder},
        was=task.status,
    )


def by_hand(conn: Connection, names: Names, task_id: int, outcome: Outcome, stamp: Stamp, rules: EndRules) -> Task:
    """A human's own act on a task, without a fence: a fact that ends whatever lease there is."""
    task, now = locked(conn, names, task_id)
    open_work = (Status.WORKING, Status.READY, Status.WAITING, Status.HELD, Status.BACKLOG)
    match outcome:
        case Done():
            if task.status not in open_work:
                raise illegal("done", task)
            _write(
                conn,
                f"UPDATE tasks t SET {column_sql('done')}, producer_id = %(me)s, verdict = %(verdict)s,"
                " flags = (flags & ~31) | CASE WHEN %(verdict)s::text = 'fail' THEN 16 ELSE 0 END, is_active = false,"
                " status = 'verified',"
                f" asked_id = NULL, hold_rule = NULL, delayed = false, date_completed = fabric_now(), {LET_GO}",
                task_id,
                me=stamp.principal_id,
                verdict=outcome.verdict,
            )
            remark = Remark(kind=LineKind.NOTE, text=outcome.note)
            record(conn, task_id, "done", stamp, remark, {"verdict": outcome.verdict, "by_hand": True}, was=task.status)
            return reread(conn, names, task_id)
        case Parked() | Waiting() | WaitingOnChildren() | Failed() | Released() | Declined():
            if task.status is not Status.WORKING:
                raise illegal(_VERB[type(outcome)], task)
            return end(conn, names, task, now, outcome, stamp, rules)
        case _:
            assert_never(outcome)


_VERB: Final[dict[type[Outcome], str]] = {
    Parked: "park",
    Waiting: "ask",
    WaitingOnChildren: "wait",
    Failed: "fail",
    Released: "release",
    Declined: "refuse",
}
