"""The rows of new tasks: one statement for a whole call, whether it makes one task or a thousand."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskfabric.boards.native.names import Connection, Lane, Layout, Names
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Kind, Stamp
from taskfabric.domain.status import ColumnRole, Flag, Status, status_of
from taskfabric.domain.task import NewTask, Task, new_task

# The columns that differ from task to task, with the type of each. Most calls make tasks that are alike: what is the
# same for all of them is sent once, and only the rest as arrays.
_COLUMNS: Final[Mapping[str, str]] = {
    "project_id": "int",
    "column_id": "int",
    "swimlane_id": "int",
    "lane_id": "int",
    "role": "text",
    "status": "text",
    "flags": "int",
    "title": "text",
    "score": "int",
    "reference": "text",
    "date_due": "timestamptz",
    "date_started": "timestamptz",
    "delayed": "bool",
    "max_attempts": "smallint",
    "trust": "smallint",
    "label": "text",
    "interlocutor_id": "int",
    "hold_rule": "text",
    "open_blockers": "int",
    "parent_id": "bigint",
    "root_id": "bigint",
    "depth": "smallint",
    "has_tags": "bool",
    "has_text": "bool",
    "description": "text",
    "refs": "text",
    "key": "text",
}
_TEXTS: Final = frozenset({"description", "refs", "key"})  # in task_texts, not in tasks


@functools.lru_cache(maxsize=256)
def _sql(varying: tuple[str, ...], *, texts: bool) -> str:
    """The statement for a call in which these columns vary. Ids are drawn in it, so that texts and events can name
    them; ``refs`` are joined by newlines, which a ref cannot contain. The lanes' floors stay where they are until this
    transaction has committed (see ``lane_floors``)."""
    arrays = ", ".join(f"%({c})s::{_COLUMNS[c]}[]" for c in varying)
    same = "".join(f", %({c})s::{t} AS {c}" for c, t in _COLUMNS.items() if c not in varying)
    own = ", ".join(c for c in _COLUMNS if c not in _TEXTS)
    into_texts = """, x AS (
    INSERT INTO task_texts (task_id, description, refs, key)
    SELECT id, description, CASE WHEN refs = '' THEN '{}' ELSE string_to_array(refs, E'\\n') END, key FROM new
     WHERE has_text)"""
    return f"""
WITH new AS MATERIALIZED (
    SELECT nextval('tasks_id_seq') AS id, u.*{same}
      FROM (SELECT count(pg_advisory_xact_lock_shared(7301, l)) FROM unnest(%(lanes)s::int[]) AS l) AS floors_stay,
           unnest({arrays}) WITH ORDINALITY AS u({", ".join((*varying, "ord"))})
), t AS (
    INSERT INTO tasks (id, {own}, creator_id, by_agent, run_task, run_epoch, ready_since)
    SELECT id, {own}, %(creator)s, %(by_agent)s, %(run_task)s, %(run_epoch)s, fabric_now() FROM new
){into_texts if texts else ""}, j AS (
    INSERT INTO journal (task_id, seq, project_id, actor_id, kind, via, epoch, run_task, run_epoch)
    SELECT id, 1, project_id, %(creator)s, 'submitted', %(via)s, 0, %(run_task)s, %(run_epoch)s FROM new
)
SELECT array_agg(id ORDER BY ord), fabric_now(),
       (SELECT count(pg_notify('fabric', 'q:' || q)) FROM unnest(%(notify)s::int[]) AS q)
  FROM new
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """Where new tasks of one kind stand, and why they may be held."""

    role: ColumnRole | None
    column_id: int
    column: str
    swimlane_id: int
    swimlane: str
    queue: str
    lane: Lane
    lane_id: int
    flags: Flag
    status: Status
    hold: str | None
    hold_rule: str | None


def insert(
    conn: Connection,
    names: Names,
    fresh: Sequence[NewTask],
    parents: Mapping[int, tuple[int, int]],
    blockers: Sequence[list[tuple[int, str]]],
    stamp: Stamp,
    notify: Sequence[int],
) -> list[Task]:
    """All of ``fresh`` are rows, in this order. ``parents``: root and depth for the children of each parent;
    ``blockers``: for each task what blocks it, and the state of that link."""
    now = conn.execute("SELECT fabric_now()").fetchone() if any(i.not_before for i in fresh) else None
    known: dict[tuple[object, ...], Face] = {}
    faces = [face_of(conn, names, item, waiting, known) for item, waiting in zip(fresh, blockers, strict=True)]
    family = [parents[item.parent] if item.parent is not None else (None, 0) for item in fresh]
    columns: dict[str, list[Any]] = {
        "project_id": [i.project_id for i in fresh],
        "column_id": [f.column_id for f in faces],
        "swimlane_id": [f.swimlane_id for f in faces],
        "lane_id": [f.lane_id for f in faces],
        "role": [None if f.role is None else f.role.value for f in faces],
        "status": [f.status.value for f in faces],
        "flags": [int(f.flags) for f in faces],
        "title": [i.title for i in fresh],
        "score": [i.score for i in fresh],
        "reference": [i.reference for i in fresh],
        "date_due": [i.due for i in fresh],
        "date_started": [i.not_before for i in fresh],
        "delayed": [i.not_before is not None and now is not None and i.not_before > now[0] for i in fresh],
        "max_attempts": [i.max_attempts for i in fresh],
        "trust": [int(i.trust) for i in fresh],
        "label": [i.label for i in fresh],
        "interlocutor_id": [i.on_behalf_id for i in fresh],
        "hold_rule": [f.hold_rule for f in faces],
        "open_blockers": [sum(state != "satisfied" for _, state in waiting) for waiting in blockers],
        "parent_id": [i.parent for i in fresh],
        "root_id": [root for root, _ in family],
        "depth": [depth for _, depth in family],
        "has_tags": [bool(i.tags) for i in fresh],
        "has_text": [bool(i.description or i.refs or i.key is not None) for i in fresh],
        "description": [i.description for i in fresh],
        "refs": ["\n".join(i.refs) for i in fresh],
        "key": [i.key for i in fresh],
    }
    varying = tuple(c for c, values in columns.items() if c == "title" or values.count(values[0]) != len(values))
    values: dict[str, Any] = {c: _literal(v) if c in varying else v[0] for c, v in columns.items()}
    values |= {
        "creator": stamp.principal_id,
        "by_agent": stamp.kind is Kind.AGENT,
        "run_task": None if stamp.run is None else stamp.run.task_id,
        "run_epoch": None if stamp.run is None else stamp.run.epoch,
        "via": stamp.via.value,
        "notify": list(notify),
        "lanes": sorted(set(columns["lane_id"])),
    }
    row = conn.execute(_sql(varying, texts=any(columns["has_text"])), values).fetchone()
    assert row is not None
    ids, made_at = row[0], row[1]
    for item, task_id, waiting, face in zip(fresh, ids, blockers, faces, strict=True):
        if item.parent is not None or waiting or item.tags or item.key is not None or face.hold:
            attach_rest(conn, item, task_id, waiting, face, stamp)
    behalf = {i: names.user(conn, i) for i in set(columns["interlocutor_id"])}
    return [
        _made(item, task_id, face, waiting, place, stamp, behalf[item.on_behalf_id], made_at)
        for item, task_id, face, waiting, place in zip(fresh, ids, faces, blockers, family, strict=True)
    ]


def _literal(values: Sequence[Any]) -> str:
    """An array as PostgreSQL writes it. psycopg looks at each element twice; a batch has thousands of them."""
    return "{" + ",".join(_element(v) for v in values) + "}"


def _element(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case datetime():
            return '"' + value.isoformat() + '"'
        case _:
            return str(value)


def face_of(
    conn: Connection,
    names: Names,
    item: NewTask,
    waiting: list[tuple[int, str]],
    known: dict[tuple[object, ...], Face],
) -> Face:
    """The item's face; those of one call are shared as far as they are alike."""
    broken = next((b for b, state in waiting if state == "broken"), None)
    hold, hold_rule = item.hold, "score" if item.hold else None
    if broken is not None:
        hold, hold_rule = f"#{broken}, which blocks it, can no longer release it", "blocker"
    key = (
        *(item.project_id, item.tier, item.priority, item.needs, item.required_trust),
        *(item.backlog, item.column_id, item.swimlane_id, item.human_verify, hold, hold_rule),
    )
    face = known.get(key)
    if face is None:
        lane = Lane(
            project_id=item.project_id,
            tier=item.tier,
            priority=item.priority,
            needs=tuple(sorted(item.needs)),
            trust=item.required_trust,
        )
        layout = names.layout(conn, item.project_id)
        role, column_id = _column(layout, item)
        swimlane_id = item.swimlane_id or layout.swimlane_id
        flags = Flag.BLOCKED if hold else Flag.NONE
        if item.human_verify or layout.human_verify:
            flags |= Flag.NEEDS_HUMAN_VERIFY
        face = known[key] = Face(
            role=role,
            column_id=column_id,
            column=layout.columns[column_id],
            swimlane_id=swimlane_id,
            swimlane=layout.swimlanes.get(swimlane_id, ""),
            queue=layout.name,
            lane=lane,
            lane_id=names.lane_id(conn, lane),
            flags=flags,
            status=status_of(role, True, flags),
            hold=hold,
            hold_rule=hold_rule,
        )
    return face


def _column(layout: Layout, item: NewTask) -> tuple[ColumnRole | None, int]:
    """The column where a new task stands, and its role. Raises NotFound for one of another project."""
    if item.column_id is None:
        role = ColumnRole.BACKLOG if item.backlog else ColumnRole.READY
        return role, layout.column_for(role)
    if item.column_id not in layout.columns:
        raise not_found("column")
    return layout.role_of[item.column_id], item.column_id


_LINK: Final = """
INSERT INTO task_has_links (link_id, task_id, opposite_task_id, state)
VALUES (%(there)s, %(task)s, %(other)s, %(state)s), (%(back)s, %(other)s, %(task)s, NULL)
"""


def attach_rest(
    conn: Connection, item: NewTask, task_id: int, waiting: list[tuple[int, str]], face: Face, stamp: Stamp
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
    item: NewTask,
    task_id: int,
    face: Face,
    waiting: list[tuple[int, str]],
    place: tuple[int | None, int],
    stamp: Stamp,
    on_behalf: str | None,
    at: datetime,
) -> Task:
    """The new task as its row stands, without reading it back."""
    still = tuple(b for b, state in waiting if state != "satisfied") if waiting else ()
    return new_task(
        id=task_id,
        queue=face.queue,
        project_id=item.project_id,
        title=item.title,
        status=face.status,
        description=item.description,
        column=face.column,
        swimlane=face.swimlane,
        flags=face.flags,
        tags=tuple(sorted(item.tags)) if item.tags else (),
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
        on_behalf=on_behalf,
        max_attempts=item.max_attempts,
        hold=face.hold,
        parent=item.parent,
        root=place[0],
        depth=place[1],
        blockers=still,
        open_blockers=len(still),
        key=item.key,
        reference=item.reference,
        due=item.due,
        not_before=item.not_before,
        created=at,
        updated_at=at,
    )
