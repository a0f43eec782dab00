"""Submit: new rows, all or none, with their keys, quotas and families checked in the same transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from taskfabric.boards.native.names import Connection, Lane, Names
from taskfabric.boards.native.rows import FACE, task_of
from taskfabric.domain.ancestry import Limits, Parentage, check_child, check_quota
from taskfabric.domain.dependency import Effect, effect_of
from taskfabric.domain.errors import KeyConflict, Refused, not_found
from taskfabric.domain.principal import Kind, Stamp
from taskfabric.domain.status import OPEN_STATUSES, ColumnRole, Flag, Status, status_of
from taskfabric.domain.task import NewTask, Submitted, Task

# All rows of one call in one statement. Each array has one element a task; ids are drawn here, so that texts and
# events can name them. `refs` are joined by newlines, which a ref cannot contain.
_INSERT: Final = """
WITH new AS MATERIALIZED (
    SELECT nextval('tasks_id_seq') AS id, u.*
      FROM unnest(%(project)s::int[], %(column)s::int[], %(swimlane)s::int[], %(lane)s::int[], %(role)s::text[],
                  %(flags)s::int[], %(title)s::text[], %(score)s::int[], %(reference)s::text[],
                  %(due)s::timestamptz[], %(start)s::timestamptz[], %(delayed)s::bool[], %(attempts)s::smallint[],
                  %(trust)s::smallint[], %(label)s::text[], %(behalf)s::int[], %(hold)s::text[],
                  %(blockers)s::int[], %(parent)s::bigint[], %(root)s::bigint[], %(depth)s::smallint[],
                  %(description)s::text[], %(refs)s::text[], %(key)s::text[], %(tagged)s::bool[])
        WITH ORDINALITY AS u(project_id, column_id, swimlane_id, lane_id, role, flags, title, score, reference,
             date_due, date_started, delayed, max_attempts, trust, label, interlocutor_id, hold_rule, open_blockers,
             parent_id, root_id, depth, description, refs, key, has_tags, ord)
), t AS (
    INSERT INTO tasks (id, project_id, column_id, swimlane_id, lane_id, role, status, flags, title, score, reference,
           date_due, date_started, delayed, max_attempts, trust, label, interlocutor_id, hold_rule, open_blockers,
           parent_id, root_id, depth, has_tags, has_text, creator_id, by_agent, run_task, run_epoch, ready_since)
    SELECT id, project_id, column_id, swimlane_id, lane_id, role, fabric_status(role, true, flags), flags, title,
           score, reference,
           date_due, date_started, delayed, max_attempts, trust, label, interlocutor_id, hold_rule, open_blockers,
           parent_id, root_id, depth, has_tags, description <> '' OR refs <> '' OR key IS NOT NULL,
           %(creator)s, %(by_agent)s, %(run_task)s, %(run_epoch)s, fabric_now()
      FROM new
), x AS (
    INSERT INTO task_texts (task_id, description, refs, key)
    SELECT id, description, CASE WHEN refs = '' THEN '{}' ELSE string_to_array(refs, E'\\n') END, key FROM new
     WHERE description <> '' OR refs <> '' OR key IS NOT NULL
), j AS (
    INSERT INTO journal (task_id, seq, project_id, actor_id, kind, via, epoch, run_task, run_epoch)
    SELECT id, 1, project_id, %(creator)s, 'submitted', %(via)s, 0, %(run_task)s, %(run_epoch)s FROM new
)
SELECT array_agg(id ORDER BY ord), fabric_now(),
       (SELECT count(pg_notify('fabric', 'q:' || q)) FROM unnest(%(notify)s::int[]) AS q)
  FROM new
"""


def submit(
    conn: Connection, names: Names, new: Sequence[NewTask], stamp: Stamp, limits: Limits, notify: Sequence[int]
) -> list[Submitted]:
    """All of ``new`` are rows afterwards, or none; keys that exist answer with the task they made."""
    same = _repeats(new)
    known = {
        i: task
        for i, item in enumerate(new)
        if i not in same and (task := _by_key(conn, names, item, stamp)) is not None
    }
    fresh = [item for i, item in enumerate(new) if i not in known and i not in same]
    if not fresh:
        return [Submitted(task=known[same.get(i, i)], created=False) for i in range(len(new))]
    if stamp.kind is Kind.AGENT:
        _check_quota(conn, fresh, stamp, limits)
    parents = _lock_parents(conn, fresh, limits)
    made = iter(_insert(conn, names, fresh, parents, stamp, notify))
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


def _by_key(conn: Connection, names: Names, item: NewTask, stamp: Stamp) -> Task | None:
    """The task that this submitter's key made before, or None: then the key is now taken by this transaction.

    A concurrent submit with the key makes this one wait until it has committed or rolled back (G11)."""
    if item.key is None:
        return None
    taken = conn.execute(
        "INSERT INTO submissions (submitter_id, key, body_hash, task_id) VALUES (%s, %s, %s, 0) ON CONFLICT DO NOTHING",
        (stamp.principal_id, item.key, item.body_hash),
    ).rowcount
    if taken:
        return None
    # Locked first and read by a statement of its own: a row that was waited for is joined with the task of before.
    mine = (stamp.principal_id, item.key)
    conn.execute("SELECT 1 FROM submissions WHERE submitter_id = %s AND key = %s FOR UPDATE", mine)
    row = conn.execute(
        f"SELECT s.body_hash, {FACE} FROM submissions s LEFT JOIN tasks t ON t.id = s.task_id"
        " WHERE s.submitter_id = %s AND s.key = %s",
        mine,
    ).fetchone()
    assert row is not None, "a key is never removed"
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


def _check_quota(conn: Connection, fresh: Sequence[NewTask], stamp: Stamp, limits: Limits) -> None:
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


def _lock_parents(conn: Connection, fresh: Sequence[NewTask], limits: Limits) -> dict[int, tuple[int, int]]:
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


def _insert(
    conn: Connection,
    names: Names,
    fresh: Sequence[NewTask],
    parents: dict[int, tuple[int, int]],
    stamp: Stamp,
    notify: Sequence[int],
) -> list[Task]:
    blockers = [_lock_blockers(conn, item) for item in fresh]
    now_row = conn.execute("SELECT fabric_now()").fetchone() if any(i.not_before for i in fresh) else None
    now = None if now_row is None else now_row[0]
    faces = [_face(conn, names, item, waiting) for item, waiting in zip(fresh, blockers, strict=True)]
    family = [parents.get(item.parent, (None, 0)) if item.parent is not None else (None, 0) for item in fresh]
    row = conn.execute(
        _INSERT,
        {
            "project": [i.project_id for i in fresh],
            "column": [f.column_id for f in faces],
            "swimlane": [f.swimlane_id for f in faces],
            "lane": [f.lane_id for f in faces],
            "role": [f.role.value for f in faces],
            "flags": [int(f.flags) for f in faces],
            "title": [i.title for i in fresh],
            "score": [i.score for i in fresh],
            "reference": [i.reference for i in fresh],
            "due": [i.due for i in fresh],
            "start": [i.not_before for i in fresh],
            "delayed": [_later(i.not_before, now) for i in fresh],
            "attempts": [i.max_attempts for i in fresh],
            "trust": [int(i.trust) for i in fresh],
            "label": [i.label for i in fresh],
            "behalf": [i.on_behalf_id for i in fresh],
            "hold": [f.hold_rule for f in faces],
            "blockers": [len([b for b in waiting if b[1] != "satisfied"]) for waiting in blockers],
            "parent": [i.parent for i in fresh],
            "root": [root for root, _ in family],
            "depth": [depth for _, depth in family],
            "description": [i.description for i in fresh],
            "refs": ["\n".join(i.refs) for i in fresh],
            "key": [i.key for i in fresh],
            "tagged": [bool(i.tags) for i in fresh],
            "creator": stamp.principal_id,
            "by_agent": stamp.kind is Kind.AGENT,
            "run_task": None if stamp.run is None else stamp.run.task_id,
            "run_epoch": None if stamp.run is None else stamp.run.epoch,
            "via": stamp.via.value,
            "notify": list(notify),
        },
    ).fetchone()
    assert row is not None
    ids, made_at = row[0], row[1]
    for item, task_id, waiting, face in zip(fresh, ids, blockers, faces, strict=True):
        _attach_rest(conn, item, task_id, waiting, face, stamp)
    return [
        _made(conn, names, item, task_id, face, waiting, root, depth, stamp, made_at)
        for item, task_id, face, waiting, (root, depth) in zip(fresh, ids, faces, blockers, family, strict=True)
    ]


class _Face:
    """Where a new task stands, and why it may be held."""

    __slots__ = ("column_id", "flags", "hold", "hold_rule", "lane", "lane_id", "role", "swimlane_id")

    def __init__(self, conn: Connection, names: Names, item: NewTask, hold: str | None, hold_rule: str | None) -> None:
        layout = names.layout(conn, item.project_id)
        self.role = ColumnRole.BACKLOG if item.backlog else ColumnRole.READY
        self.column_id = layout.column_for(self.role)
        self.swimlane_id = layout.swimlane_id
        self.lane = Lane(
            project_id=item.project_id,
            tier=item.tier,
            priority=item.priority,
            needs=tuple(sorted(item.needs)),
            trust=item.required_trust,
        )
        self.lane_id = names.lane_id(conn, self.lane)
        self.hold, self.hold_rule = hold, hold_rule
        self.flags = Flag.BLOCKED if hold else Flag.NONE
        if item.human_verify or layout.human_verify:
            self.flags |= Flag.NEEDS_HUMAN_VERIFY


def _face(conn: Connection, names: Names, item: NewTask, waiting: list[tuple[int, str]]) -> _Face:
    broken = [b for b, state in waiting if state == "broken"]
    if broken:
        return _Face(conn, names, item, f"#{broken[0]}, which blocks it, can no longer release it", "blocker")
    return _Face(conn, names, item, item.hold, "score" if item.hold else None)


def _later(not_before: datetime | None, now: datetime | None) -> bool:
    return not_before is not None and now is not None and not_before > now


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
    if not item.after:
        return []
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


_LINK: Final = """
INSERT INTO task_has_links (link_id, task_id, opposite_task_id, state)
VALUES (%(there)s, %(task)s, %(other)s, %(state)s), (%(back)s, %(other)s, %(task)s, NULL)
"""


def _attach_rest(
    conn: Connection, item: NewTask, task_id: int, waiting: list[tuple[int, str]], face: _Face, stamp: Stamp
) -> None:
    """Links, tags, the key and the reason of a hold: the parts that few tasks have."""
    if item.parent is not None:
        conn.execute(_LINK, {"there": 6, "back": 7, "task": task_id, "other": item.parent, "state": None})
    for blocker, state in waiting:
        conn.execute(_LINK, {"there": 3, "back": 2, "task": task_id, "other": blocker, "state": state})
        conn.execute("UPDATE tasks SET dependents = dependents + 1 WHERE id = %s", (blocker,))
    if item.tags:
        add_tags(conn, item.project_id, task_id, item.tags)
    if item.key is not None:
        conn.execute(
            "UPDATE submissions SET task_id = %s WHERE submitter_id = %s AND key = %s",
            (task_id, stamp.principal_id, item.key),
        )
    if face.hold:
        conn.execute(
            "INSERT INTO comments (task_id, user_id, kind, text) VALUES (%s, 0, 'held', %s)", (task_id, face.hold)
        )


def add_tags(conn: Connection, project_id: int, task_id: int, tags: Sequence[str]) -> None:
    """The task has these tags; missing ones are made in its project. Tag names are found without regard to case."""
    conn.execute(
        "INSERT INTO tags (project_id, name) SELECT %(project)s, n FROM unnest(%(names)s::text[]) AS n"
        " WHERE NOT EXISTS (SELECT FROM tags g WHERE g.project_id IN (0, %(project)s) AND lower(g.name) = lower(n))"
        " ON CONFLICT DO NOTHING",
        {"project": project_id, "names": list(tags)},
    )
    conn.execute(
        "INSERT INTO task_has_tags (task_id, tag_id) SELECT DISTINCT ON (lower(g.name)) %(task)s::bigint, g.id"
        " FROM tags g WHERE g.project_id IN (0, %(project)s) AND lower(g.name) IN"
        " (SELECT lower(n) FROM unnest(%(names)s::text[]) AS n) ORDER BY lower(g.name), g.id ON CONFLICT DO NOTHING",
        {"task": task_id, "project": project_id, "names": list(tags)},
    )


def _made(
    conn: Connection,
    names: Names,
    item: NewTask,
    task_id: int,
    face: _Face,
    waiting: list[tuple[int, str]],
    root: int | None,
    depth: int,
    stamp: Stamp,
    at: datetime,
) -> Task:
    """The new task as its row stands, without reading it back."""
    layout = names.layout(conn, item.project_id)
    still = tuple(b for b, state in waiting if state != "satisfied")
    return Task(
        id=task_id,
        queue=layout.name,
        project_id=item.project_id,
        title=item.title,
        status=status_of(face.role, True, face.flags),
        description=item.description,
        column=layout.columns[face.column_id],
        swimlane=layout.swimlanes.get(face.swimlane_id, ""),
        flags=face.flags,
        tags=tuple(sorted(item.tags)),
        priority=item.priority,
        score=item.score,
        tier=item.tier,
        needs=face.lane.needs,
        refs=item.refs,
        required_trust=item.required_trust,
        trust=item.trust,
        label=item.label,
        submitter=stamp.name,
        submitter_id=stamp.principal_id,
        on_behalf=names.user(conn, item.on_behalf_id),
        max_attempts=item.max_attempts,
        hold=face.hold,
        parent=item.parent,
        root=root,
        depth=depth,
        blockers=still,
        open_blockers=len(still),
        key=item.key,
        reference=item.reference,
        due=item.due,
        not_before=item.not_before,
        created=at,
        updated_at=at,
    )
