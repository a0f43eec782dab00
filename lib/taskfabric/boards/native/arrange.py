"""What people arrange: words, priority, place, queue; comments and attachments."""

from __future__ import annotations

from typing import Any, Final, assert_never

from taskfabric.boards.native import rule_tags
from taskfabric.boards.native.insert import add_tags
from taskfabric.boards.native.judge import illegal, locked, waive_broken
from taskfabric.boards.native.limits import refuse_full_column
from taskfabric.boards.native.names import Connection, Lane, Names
from taskfabric.boards.native.rows import Remark, as_signed, record, reread
from taskfabric.boards.native.settle import LET_GO
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import BadInput, not_found
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import ColumnRole, Flag, Status
from taskfabric.domain.task import Attachment, Entry, Task
from taskfabric.ports.board import Edit, Place

GAP: Final = 1 << 20  # between two appended cards, as the column default of tasks.rank has it
RANK: Final = f"coalesce(%(rank)s::bigint, nextval('task_rank') * {GAP})"  # None = behind all others


def edit(conn: Connection, names: Names, task_id: int, change: Edit, stamp: Stamp) -> Task:
    """The task has the new words. Rating a task that was held for want of a score releases it."""
    task, _ = locked(conn, names, task_id)
    lane = Lane(
        project_id=task.project_id,
        tier=task.tier if change.tier is None else change.tier,
        priority=task.priority if change.priority is None else change.priority,
        needs=task.needs,
        trust=task.required_trust,
    )
    rated = bool(change.score or change.tier)
    conn.execute(
        """UPDATE tasks t SET lane_id = %(lane)s, title = coalesce(%(title)s, title),
               score = CASE WHEN %(rescored)s THEN %(score)s ELSE score END,
               date_due = CASE WHEN %(clear_due)s THEN NULL ELSE coalesce(%(due)s, date_due) END,
               flags = CASE WHEN %(rated)s AND hold_rule = 'score' THEN flags & ~1 ELSE flags END,
               status = CASE WHEN %(rated)s AND hold_rule = 'score'
                             THEN fabric_status(role, is_active, flags & ~1) ELSE status END,
               hold_rule = CASE WHEN %(rated)s AND hold_rule = 'score' THEN NULL ELSE hold_rule END,
               ready_since = CASE WHEN %(rated)s AND hold_rule = 'score' THEN fabric_now() ELSE ready_since END,
               has_text = has_text OR coalesce(%(description)s, '') <> '',
               has_tags = has_tags OR %(tagged)s,
               seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()
         WHERE t.id = %(task)s""",
        {
            "task": task_id,
            "lane": names.lane_id(conn, lane),
            "title": change.title,
            "rescored": change.score is not None,
            "score": change.score,
            "clear_due": change.clear_due,
            "due": change.due,
            "rated": rated,
            "description": change.description,
            "tagged": bool(change.add_tags),
        },
    )
    if change.description is not None:
        conn.execute(
            "INSERT INTO task_texts (task_id, description) SELECT %(task)s, %(text)s"
            " WHERE %(text)s <> '' OR EXISTS (SELECT FROM task_texts WHERE task_id = %(task)s)"
            " ON CONFLICT (task_id) DO UPDATE SET description = EXCLUDED.description",
            {"task": task_id, "text": change.description},
        )
    if change.remove_tags:
        conn.execute(
            "DELETE FROM task_has_tags h USING tags g WHERE h.task_id = %s AND g.id = h.tag_id"
            " AND lower(g.name) IN (SELECT lower(n) FROM unnest(%s::text[]) AS n)",
            (task_id, list(change.remove_tags)),
        )
    if change.add_tags:
        add_tags(conn, task.project_id, task_id, change.add_tags)
    record(conn, task_id, "edited", stamp, None, _changes(change))
    return reread(conn, names, task_id)


def _changes(change: Edit) -> dict[str, Any]:
    """Which words changed, and the new value of the short ones."""
    data: dict[str, Any] = {}
    for name in ("title", "priority", "score", "tier"):
        value = getattr(change, name)
        if value is not None:
            data[name] = value
    if change.description is not None:
        data["description"] = len(change.description)
    if change.due is not None:
        data["due"] = change.due.isoformat()
    if change.clear_due:
        data["due"] = None
    if change.add_tags:
        data["add_tags"] = list(change.add_tags)
    if change.remove_tags:
        data["remove_tags"] = list(change.remove_tags)
    return data


# What standing in a column means for the row. A move between columns is a fact: it ends a lease and gives its attempt
# back, and a human's Ready is ready, whatever held the task before: a broken dependency is waived, an open one is not.
MOVE: Final = f"""
UPDATE tasks t SET column_id = %(column)s, role = %(role)s, swimlane_id = %(swimlane)s, rank = {RANK},
       attempts = CASE WHEN %(role)s::text = 'ready' AND t.role = 'done' THEN 0
                       WHEN t.token IS NOT NULL THEN greatest(0, t.attempts - 1) ELSE t.attempts END,
       flags = flags & %(keep)s, status = fabric_status(%(role)s, true, flags & %(keep)s),
       hold_rule = NULL, asked_id = NULL, delayed = false, verdict = NULL, open_blockers = open_blockers - %(freed)s,
       date_started = CASE WHEN %(role)s::text = 'working' THEN fabric_now() END,
       date_completed = CASE WHEN %(role)s::text = 'done' THEN fabric_now() END,
       ready_since = CASE WHEN %(role)s::text = 'ready' THEN fabric_now() END,
       {LET_GO.replace("owner_id = NULL", "owner_id = %(owner)s")}, producer_id = coalesce(%(producer)s, producer_id)
 WHERE t.id = %(task)s
"""
_WAITS: Final = Flag.BLOCKED | Flag.NEEDS_INPUT | Flag.NEEDS_AUTH | Flag.PARKED
SHIFT: Final = f"""
UPDATE tasks t SET swimlane_id = %(swimlane)s, rank = {RANK}, seq = seq + 1,
       told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()
 WHERE t.id = %(task)s
"""


def shed(role: ColumnRole | None) -> Flag:
    """The flags that a card loses by standing in a column with this role."""
    match role:
        case ColumnRole.READY:
            return _WAITS | Flag.VETO | Flag.DEAD_LETTER
        case ColumnRole.DONE:
            return _WAITS
        case ColumnRole.BACKLOG | ColumnRole.WORKING | None:
            return _WAITS | Flag.DEAD_LETTER
        case _:
            assert_never(role)


def move(conn: Connection, names: Names, task_id: int, place: Place, stamp: Stamp) -> Task:
    """The card stands there. Within its column only the order changes; to another column it is a human's fact."""
    task, _ = locked(conn, names, task_id)
    if not task.is_open:
        raise illegal("move", task, "a closed card does not move; reopen it by `fabric redrive` or `fabric reject`")
    layout = names.layout(conn, task.project_id)
    column_id = _by_title(layout.columns, place.column or task.column, "column")
    swimlane_id = _by_title(layout.swimlanes, place.swimlane or task.swimlane, "swimlane")
    role = layout.role_of[column_id]
    values: dict[str, Any] = {
        "task": task_id,
        "column": column_id,
        "role": None if role is None else role.value,
        "swimlane": swimlane_id,
        "rank": _rank(conn, task, column_id, swimlane_id, place),
        "owner": stamp.principal_id if role is ColumnRole.WORKING else None,
        "producer": stamp.principal_id if role is ColumnRole.DONE else None,
        "keep": ~int(shed(role)),
    }
    if layout.columns[column_id] == task.column:
        conn.execute(SHIFT, values)
        record(conn, task_id, "shifted", stamp, None, {"swimlane": layout.swimlanes[swimlane_id]})
    else:
        refuse_full_column(conn, layout, column_id, task_id)
        freed = waive_broken(conn, task_id) if role is ColumnRole.READY and task.open_blockers else 0
        conn.execute(MOVE, {**values, "freed": freed})
        text = f"from {task.column} to {layout.columns[column_id]}"
        data = {"from": task.column, "to": layout.columns[column_id], "lease_ended": task.lease_until is not None}
        record(conn, task_id, "moved", stamp, Remark(kind=LineKind.MOVED, text=text), data, was=task.status)
    return reread(conn, names, task_id)


def _by_title(titles: Any, wanted: str, what: str) -> int:
    for id_, title in titles.items():
        if title == wanted:
            return int(id_)
    for id_, title in titles.items():
        if title.lower() == wanted.lower():
            return int(id_)
    raise BadInput(
        f"this board has no {what} {wanted[:60]!r}", next=f"one of: {', '.join(titles.values())}", field=what
    )


_CELL: Final = (
    "is_active AND project_id = %(project)s AND column_id = %(column)s AND swimlane_id = %(swimlane)s"
    " AND id <> %(task)s"
)
_TOP: Final = f"SELECT rank FROM tasks WHERE {_CELL} ORDER BY rank LIMIT 1"
_NTH: Final = f"SELECT rank FROM tasks WHERE {_CELL} ORDER BY rank OFFSET %(skip)s LIMIT 1"
_NEXT: Final = f"SELECT rank FROM tasks WHERE {_CELL} AND rank > %(rank)s ORDER BY rank LIMIT 1"
_BEFORE: Final = f"SELECT rank FROM tasks WHERE {_CELL} AND rank < %(rank)s ORDER BY rank DESC LIMIT 1"


def _rank(conn: Connection, task: Task, column_id: int, swimlane_id: int, place: Place) -> int | None:
    """A rank that puts the card in its place, None at the end; one row is written, however long the column."""
    values: dict[str, Any] = {
        "task": task.id,
        "project": task.project_id,
        "column": column_id,
        "swimlane": swimlane_id,
    }
    for attempt in range(2):
        below: int | None  # the card above the new place
        above: int | None  # the card below it
        if place.top or place.position == 1:
            below, above = None, _one(conn, _TOP, values)
        elif place.after is not None:
            row = conn.execute(
                f"SELECT rank FROM tasks WHERE id = %(after)s AND {_CELL}", {**values, "after": place.after}
            ).fetchone()
            if row is None:
                raise BadInput(f"#{place.after} does not stand in that column", field="after")
            below = int(row[0])
            above = _one(conn, _NEXT, {**values, "rank": below})
        elif place.position is not None:
            above = _one(conn, _NTH, {**values, "skip": place.position - 1})
            below = None if above is None else _one(conn, _BEFORE, {**values, "rank": above})
        else:
            below, above = None, None
        if above is None:
            return None
        if below is None:
            return above - GAP
        if above - below > 1:
            return (above + below) // 2
        if attempt == 0:
            make_room(conn, {**values, "rank": below})
    raise BadInput("there is no room between these two cards", next="move it to the top or the bottom", field="after")


def _one(conn: Connection, sql: str, values: dict[str, Any]) -> int | None:
    row = conn.execute(sql, values).fetchone()
    return None if row is None else int(row[0])


# Twenty halvings at one spot use a gap up. Then the cards above it move up by a gap each: few have ever been moved
# there, and the order does not change.
_ROOM: Final = f"""
UPDATE tasks SET rank = rank - {GAP}
 WHERE is_active AND project_id = %(project)s AND column_id = %(column)s AND rank <= %(rank)s
"""


# Ranks went down in all lanes of the project: their floors are unknown again.
_NO_FLOORS: Final = """
WITH mine AS (SELECT id, pg_advisory_xact_lock_shared(7301, id) FROM lanes WHERE project_id = %(project)s)
DELETE FROM lane_floors WHERE lane_id IN (SELECT id FROM mine)
"""


def make_room(conn: Connection, values: dict[str, Any]) -> None:
    """The cards of this project and column up to this rank stand a gap further up."""
    conn.execute(_ROOM, values)
    conn.execute(_NO_FLOORS, values)


def transfer(conn: Connection, names: Names, task_id: int, project_id: int, stamp: Stamp) -> Task:
    """The task is in another queue, in the column of the same meaning."""
    task, _ = locked(conn, names, task_id)
    if task.status not in (Status.BACKLOG, Status.READY, Status.HELD):
        raise illegal("move", task, "only a task that nobody works on can change its queue")
    here, there = names.layout(conn, task.project_id), names.layout(conn, project_id)
    role = ColumnRole.BACKLOG if task.status is Status.BACKLOG else ColumnRole.READY
    lane = Lane(
        project_id=project_id,
        tier=task.tier,
        priority=task.priority,
        needs=task.needs,
        trust=task.required_trust,
    )
    conn.execute(
        """UPDATE tasks t SET project_id = %(project)s, column_id = %(column)s, role = %(role)s, lane_id = %(lane)s,
               status = fabric_status(%(role)s, true, flags),
               swimlane_id = %(swimlane)s, rank = nextval('task_rank') * 1048576, seq = seq + 1,
               told = greatest(told, pg_current_xact_id()),
               date_modification = fabric_now() WHERE t.id = %(task)s""",
        {
            "task": task_id,
            "project": project_id,
            "column": there.column_for(role),
            "role": role.value,
            "lane": names.lane_id(conn, lane),
            "swimlane": there.swimlane_id,
        },
    )
    if task.tags:
        conn.execute("DELETE FROM task_has_tags WHERE task_id = %s", (task_id,))
        add_tags(conn, project_id, task_id, task.tags)
        rule_tags.take(conn, project_id, task_id)
    text = f"from {here.name} to {there.name}"
    record(conn, task_id, "transferred", stamp, Remark(kind=LineKind.MOVED, text=text), {"from": here.name})
    return reread(conn, names, task_id)


def comment(conn: Connection, names: Names, task_id: int, text: str, stamp: Stamp) -> Entry:
    """A person's, or an agent's, words on the task."""
    task, _ = locked(conn, names, task_id)
    conn.execute(
        "UPDATE tasks SET seq = seq + 1, told = greatest(told, pg_current_xact_id()) WHERE id = %s", (task_id,)
    )
    row = conn.execute(
        "INSERT INTO comments (task_id, user_id, text) VALUES (%s, %s, %s) RETURNING id, date_creation",
        (task_id, stamp.principal_id, text),
    ).fetchone()
    assert row is not None
    record(conn, task_id, "commented", stamp, None, {"comment": row[0]})
    return Entry(id=row[0], task_id=task.id, author=stamp.name, author_id=stamp.principal_id, at=row[1], text=text)


_ATTACH: Final = """
INSERT INTO task_has_files (task_id, name, sha256, size, user_id)
VALUES (%(task)s, %(name)s, %(sha)s, %(size)s, %(me)s) RETURNING id, date
"""
_HOLDS: Final = """
UPDATE tasks t SET seq = seq + 1, told = greatest(told, pg_current_xact_id())
 WHERE t.id = %(task)s AND (%(epoch)s::bigint IS NULL
    OR t.epoch = %(epoch)s AND t.token = %(token)s AND t.owner_id = %(me)s) RETURNING t.id
"""


def attach(
    conn: Connection, task_id: int, name: str, size: int, sha256: str, stamp: Stamp, fence: Fence | None
) -> Attachment | None:
    """The file is listed on the task, or None: the fence is not the current one."""
    values = {
        "task": task_id,
        "epoch": None if fence is None else fence.epoch,
        "token": None if fence is None else as_signed(fence.token),
        "me": stamp.principal_id,
        "name": name,
        "sha": sha256,
        "size": size,
    }
    if conn.execute(_HOLDS, values).fetchone() is None:
        if fence is None:
            raise not_found("task")
        return None
    row = conn.execute(_ATTACH, values).fetchone()
    assert row is not None
    record(conn, task_id, "attached", stamp, None, {"file": row[0], "name": name, "size": size})
    return Attachment(id=row[0], task_id=task_id, name=name, size=size, sha256=sha256, author=stamp.name, at=row[1])
