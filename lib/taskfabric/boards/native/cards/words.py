"""What a card says: title, dates, colour, category, assignee, tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from taskfabric.boards.native.insert import add_tags
from taskfabric.boards.native.judge import locked
from taskfabric.boards.native.names import Connection, Lane, Names
from taskfabric.boards.native.rows import Remark, record
from taskfabric.domain.comments import LineKind
from taskfabric.domain.principal import Stamp
from taskfabric.domain.task import Task
from taskfabric.ports.faces import Words

_PRIORITIES: Final = range(4)

# A date for the start counts as "not before" until the work has begun; afterwards it is the true one.
_WORDS: Final = """
UPDATE tasks t SET lane_id = %(lane)s, title = coalesce(%(title)s, title),
       reference = coalesce(%(reference)s, reference),
       score = CASE WHEN %(score)s::int IS NULL THEN score ELSE nullif(%(score)s::int, 0) END,
       date_due = CASE WHEN %(clear_due)s THEN NULL ELSE coalesce(%(due)s, date_due) END,
       date_started = CASE WHEN %(clear_started)s THEN NULL ELSE coalesce(%(started)s, date_started) END,
       delayed = CASE WHEN %(clear_started)s THEN false
                      WHEN %(started)s::timestamptz IS NOT NULL AND is_active AND role IS DISTINCT FROM 'working'
                       AND role IS DISTINCT FROM 'done' THEN %(started)s::timestamptz > fabric_now()
                      ELSE delayed END,
       flags = CASE WHEN %(rated)s AND hold_rule = 'score' THEN flags & ~1 ELSE flags END,
       status = CASE WHEN %(rated)s AND hold_rule = 'score'
                     THEN fabric_status(role, is_active, flags & ~1) ELSE status END,
       hold_rule = CASE WHEN %(rated)s AND hold_rule = 'score' THEN NULL ELSE hold_rule END,
       ready_since = CASE WHEN %(rated)s AND hold_rule = 'score' THEN fabric_now() ELSE ready_since END,
       has_text = has_text OR coalesce(%(description)s, '') <> '', has_tags = has_tags OR %(tagged)s,
       seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()
 WHERE t.id = %(task)s
"""
# A lease ends when somebody else gets the card; its attempt is given back.
_ASSIGN: Final = """
UPDATE tasks t SET owner_id = %(owner)s,
       attempts = CASE WHEN token IS NULL THEN attempts ELSE greatest(0, attempts - 1) END,
       token = NULL, lease_until = NULL, lease_seconds = NULL, holder_instance = NULL
 WHERE t.id = %(task)s
"""
_TEXT: Final = """
INSERT INTO task_texts (task_id, description) SELECT %(task)s, %(text)s
 WHERE %(text)s <> '' OR EXISTS (SELECT FROM task_texts WHERE task_id = %(task)s)
ON CONFLICT (task_id) DO UPDATE SET description = EXCLUDED.description
"""
_FACE_FIELDS: Final = (
    *("color_id", "category_id", "priority", "time_spent", "time_estimated"),
    *("recurrence_status", "recurrence_trigger", "recurrence_factor", "recurrence_timeframe", "recurrence_basedate"),
)


def change(conn: Connection, names: Names, task_id: int, words: Words, stamp: Stamp) -> None:
    """The card says so. Rating a task that was held for want of a score releases it."""
    task, _ = locked(conn, names, task_id)
    lane = Lane(
        project_id=task.project_id,
        tier=task.tier if words.tier is None else words.tier,
        priority=task.priority if words.priority is None else min(max(words.priority, 0), 3),
        needs=task.needs,
        trust=task.required_trust,
    )
    conn.execute(
        _WORDS,
        {
            "task": task_id,
            "lane": names.lane_id(conn, lane),
            "title": words.title,
            "reference": words.reference,
            "score": words.score,
            "due": words.due,
            "clear_due": words.clear_due,
            "started": words.started,
            "clear_started": words.clear_started,
            "rated": bool(words.score),
            "description": words.description,
            "tagged": bool(words.tags),
        },
    )
    if words.description is not None:
        conn.execute(_TEXT, {"task": task_id, "text": words.description})
    put_face(conn, task_id, _face(words))
    if words.tags is not None:
        replace_tags(conn, task, words.tags)
    owner = words.owner_id
    assigned = owner is not None and (owner or None) != task.holder_id
    if assigned:
        conn.execute(_ASSIGN, {"task": task_id, "owner": owner or None})
    changes = _changes(words)
    if assigned:
        changes["assigned"] = owner
        changes["lease_ended"] = task.lease_until is not None
    remark = None
    if assigned and task.lease_until is not None:
        who = names.user(conn, owner) if owner else "nobody"
        remark = Remark(kind=LineKind.MOVED, text=f"from {task.holder} to {who}")
    record(conn, task_id, "edited", stamp, remark, changes)


def put_face(conn: Connection, task_id: int, fields: dict[str, Any]) -> None:
    """What only the card shows is so; None means nothing to change."""
    given = {name: value for name, value in fields.items() if value is not None or name == "priority"}
    if not given:
        return
    assert set(given) <= set(_FACE_FIELDS)
    columns = ", ".join(given)
    conn.execute(
        f"INSERT INTO task_faces (task_id, {columns}) VALUES (%(task)s, {', '.join(f'%({n})s' for n in given)})"
        f" ON CONFLICT (task_id) DO UPDATE SET {', '.join(f'{n} = EXCLUDED.{n}' for n in given)}",
        {"task": task_id, **given},
    )


def _face(words: Words) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "color_id": words.color_id,
        "category_id": words.category_id,
        "time_spent": words.time_spent,
        "time_estimated": words.time_estimated,
    }
    if words.priority is not None:
        fields["priority"] = None if words.priority in _PRIORITIES else words.priority
    fields |= {f"recurrence_{name}": value for name, value in words.recurrence.items()}
    return fields


def _changes(words: Words) -> dict[str, Any]:
    """Which words changed, and the new value of the short ones."""
    data: dict[str, Any] = {
        name: value
        for name in ("title", "reference", "score", "priority", "tier", "color_id", "category_id")
        if (value := getattr(words, name)) is not None
    }
    if words.description is not None:
        data["description"] = len(words.description)
    if words.due is not None or words.clear_due:
        data["due"] = None if words.due is None else words.due.isoformat()
    if words.started is not None or words.clear_started:
        data["started"] = None if words.started is None else words.started.isoformat()
    if words.tags is not None:
        data["tags"] = list(words.tags)
    return data


_DROP_TAGS: Final = """
DELETE FROM task_has_tags h USING tags g WHERE h.task_id = %(task)s AND g.id = h.tag_id
   AND lower(g.name) NOT IN (SELECT lower(n) FROM unnest(%(names)s::text[]) AS n)
"""


def replace_tags(conn: Connection, task: Task, tags: Sequence[str]) -> None:
    """The task has exactly these tags of people; names are compared without regard to case. The row is locked."""
    conn.execute(_DROP_TAGS, {"task": task.id, "names": list(tags)})
    if tags:
        add_tags(conn, task.project_id, task.id, tags)


def set_tags(conn: Connection, names: Names, task_id: int, tags: Sequence[str], stamp: Stamp) -> None:
    """As ``replace_tags``, as a change of its own. The modification date stays, as in Kanboard."""
    task, _ = locked(conn, names, task_id)
    conn.execute(
        "UPDATE tasks SET has_tags = has_tags OR %s, seq = seq + 1, told = greatest(told, pg_current_xact_id())"
        " WHERE id = %s",
        (bool(tags), task_id),
    )
    replace_tags(conn, task, tags)
    record(conn, task_id, "edited", stamp, None, {"tags": list(tags)})
