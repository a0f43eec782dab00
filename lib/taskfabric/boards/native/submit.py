"""Submit: new rows, all or none, with their keys, quotas and families checked in the same transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from taskfabric.boards.native.insert import insert
from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import FACE, task_of
from taskfabric.domain.ancestry import Limits, Parentage, check_child, check_quota
from taskfabric.domain.dependency import Effect, effect_of
from taskfabric.domain.errors import KeyConflict, Refused, not_found
from taskfabric.domain.principal import Kind, Stamp
from taskfabric.domain.status import OPEN_STATUSES, Flag, Status
from taskfabric.domain.task import NewTask, Submitted, Task


def submit(
    conn: Connection, names: Names, new: Sequence[NewTask], stamp: Stamp, limits: Limits, notify: Sequence[int]
) -> list[Submitted]:
    """All of ``new`` are rows afterwards, or none; keys that exist answer with the task they made."""
    same = _repeats(new)
    known = {
        i: task
        for i, item in enumerate(new)
        if i not in same and (task := by_key(conn, names, item, stamp)) is not None
    }
    fresh = [item for i, item in enumerate(new) if i not in known and i not in same]
    if not fresh:
        return [Submitted(task=known[same.get(i, i)], created=False) for i in range(len(new))]
    if stamp.kind is Kind.AGENT:
        within_quota(conn, fresh, stamp, limits)
    parents = lock_parents(conn, fresh, limits)
    blockers = [_lock_blockers(conn, item) if item.after else [] for item in fresh]
    made = iter(insert(conn, names, fresh, parents, blockers, stamp, notify))
    answers: list[Submitted] = []
    for i in range(len(new)):
        if i in same:
            answers.append(Submitted(task=answers[same[i]].task, created=False))
        elif i in known:
            answers.append(Submitted(task=known[i], created=False))
        else:
            answers.append(Submitted(task=next(made), created=True))
    return answers


def _repeats(new: Sequence[NewTask]) -> dict[int, int]:
    """Where a key stands again in one submission: its place, and that of the first. Raises KeyConflict."""
    first: dict[str, int] = {}
    same: dict[int, int] = {}
    for i, item in enumerate(new):
        if item.key is None:
            continue
        if (at := first.setdefault(item.key, i)) != i:
            if new[at].body_hash != item.body_hash:
                raise KeyConflict(f"the key {item.key!r} stands for two different tasks", key=item.key)
            same[i] = at
    return same


def take_key(conn: Connection, key: str, body_hash: bytes, task_id: int, stamp: Stamp) -> bool:
    """Whether this submitter's key is taken by this transaction; False: it was taken before. A concurrent call with
    the key waits until this transaction has ended (G11)."""
    taken = conn.execute(
        "INSERT INTO submissions (submitter_id, key, body_hash, task_id) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING",
        (stamp.principal_id, key, body_hash, task_id),
    )
    return taken.rowcount == 1


def by_key(conn: Connection, names: Names, item: NewTask, stamp: Stamp) -> Task | None:
    """The task that this submitter's key made before, or None: then the key is now taken by this transaction.

    A concurrent submit with the key makes this one wait until it has committed or rolled back (G11)."""
    if item.key is None or take_key(conn, item.key, item.body_hash, 0, stamp):
        return None
    # Locked first and read by a statement of its own: a row that was waited for is joined with the task of before.
    mine = (stamp.principal_id, item.key)
    conn.execute("SELECT 1 FROM submissions WHERE submitter_id = %s AND key = %s FOR UPDATE", mine)
    row = conn.execute(
        f"SELECT s.body_hash, {FACE} FROM submissions s LEFT JOIN tasks t ON t.id = s.task_id"
        " WHERE s.submitter_id = %s AND s.key = %s",
        mine,
    ).fetchone()
    if row is None:  # given back meanwhile
        return by_key(conn, names, item, stamp)
    gone = row[1] is None
    task = None if gone else task_of(conn, names, row[1:])
    if item.key_open and (task is None or task.status not in OPEN_STATUSES or task.status is Status.DONE):
        conn.execute(
            "UPDATE submissions SET body_hash = %s, task_id = 0, created_at = fabric_now()"
            " WHERE submitter_id = %s AND key = %s",
            (item.body_hash, stamp.principal_id, item.key),
        )
        return None
    if row[0] != item.body_hash or task is None:
        raise KeyConflict(
            f"the key {item.key!r} was used before for another task" + ("" if gone else f" (#{task and task.id})"),
            key=item.key,
            task=None if task is None else task.id,
        )
    return task


def within_quota(conn: Connection, fresh: Sequence[NewTask], stamp: Stamp, limits: Limits) -> None:
    """Raises Refused if the agent would go beyond its quota. Its own row is the lock, so two calls cannot both fit."""
    conn.execute("SELECT 1 FROM users WHERE id = %s FOR NO KEY UPDATE", (stamp.principal_id,))
    row = conn.execute(
        "SELECT (SELECT count(*) FROM tasks WHERE creator_id = %(me)s AND by_agent"
        "          AND date_creation > fabric_now() - interval '1 hour'),"
        "       (SELECT count(*) FROM tasks WHERE creator_id = %(me)s AND by_agent AND is_active)",
        {"me": stamp.principal_id},
    ).fetchone()
    assert row is not None
    check_quota(int(row[0]), int(row[1]), len(fresh), limits)
    again = Counter((item.title, item.parent) for item in fresh if item.parent is not None)
    for (title, parent), adding in again.items():
        seen = conn.execute(
            "SELECT count(*) FROM tasks WHERE parent_id = %s AND creator_id = %s AND title = %s"
            " AND date_creation > fabric_now() - interval '1 hour'",
            (parent, stamp.principal_id, title),
        ).fetchone()
        assert seen is not None
        if int(seen[0]) + adding > limits.same_title:
            raise Refused(
                f"the same title below #{parent} more than {limits.same_title} times an hour looks like a loop",
                next="look at what the earlier ones brought; ask a human if it is meant",
                rule="loop",
                limit=limits.same_title,
            )


def lock_parents(conn: Connection, fresh: Sequence[NewTask], limits: Limits) -> dict[int, tuple[int, int]]:
    """For each parent its root and depth; it counts its new children afterwards. Raises NotFound, Refused."""
    adding = Counter(item.parent for item in fresh if item.parent is not None)
    found: dict[int, tuple[int, int]] = {}
    for parent in sorted(adding):
        row = conn.execute(
            "SELECT depth, children, is_active, coalesce(root_id, id) FROM tasks WHERE id = %s FOR NO KEY UPDATE",
            (parent,),
        ).fetchone()
        if row is None:
            raise not_found("task")
        check_child(Parentage(depth=row[0], children=row[1] + adding[parent] - 1, is_open=row[2]), limits)
        conn.execute(
            "UPDATE tasks SET children = children + %(n)s, open_children = open_children + %(n)s WHERE id = %(id)s",
            {"n": adding[parent], "id": parent},
        )
        found[parent] = (row[3], row[0] + 1)
    return found


# A blocker's state towards a new dependent, by the rule of domain/dependency.py.
_BLOCKER: Final = """
SELECT t.status, t.flags, coalesce(q.needs_verified, false)
  FROM tasks t LEFT JOIN queues q ON q.project_id = t.project_id WHERE t.id = %s FOR NO KEY UPDATE OF t
"""
_ANCESTORS: Final = """
WITH RECURSIVE up AS (
    SELECT id, parent_id FROM tasks WHERE id = %s
    UNION ALL SELECT t.id, t.parent_id FROM tasks t JOIN up ON t.id = up.parent_id)
SELECT id FROM up
"""


def _lock_blockers(conn: Connection, item: NewTask) -> list[tuple[int, str]]:
    """Each blocker with the state of its link. Raises NotFound, and Refused for a ring: an ancestor that waits for
    this task to end can never release it."""
    above = {row[0] for row in conn.execute(_ANCESTORS, (item.parent,))} if item.parent is not None else set()
    found: list[tuple[int, str]] = []
    for blocker in sorted(set(item.after)):
        if blocker in above:
            raise Refused(
                f"#{blocker} is an ancestor: it cannot end before its descendants do",
                next="leave it out of --after",
                rule="cycle",
            )
        row = conn.execute(_BLOCKER, (blocker,)).fetchone()
        if row is None:
            raise not_found("task")
        found.append((blocker, link_state(Status(row[0]), Flag(row[1]), needs_verified=row[2])))
    return found


def link_state(status: Status, flags: Flag, *, needs_verified: bool) -> str:
    """The state of "is blocked by" for a blocker that stands so."""
    return {Effect.SATISFY: "satisfied", Effect.BREAK: "broken", Effect.WAIT: "open"}[
        effect_of(status, flags, needs_verified=needs_verified)
    ]
