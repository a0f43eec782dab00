"""Links between tasks. Both directions are rows; of all labels only "is blocked by" gates."""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native.cards.faces import SEEN_ANYWHERE, rows, seconds, through
from taskfabric.boards.native.cards.part import Part, tell
from taskfabric.boards.native.names import Connection
from taskfabric.boards.native.submit import link_state
from taskfabric.domain.ancestry import closes_a_cycle
from taskfabric.domain.errors import BadInput, IllegalMove, Refused, not_found
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.domain.status import Flag, Status
from taskfabric.ports.faces import Row

_BLOCKS: Final = 2
_BLOCKED_BY: Final = 3
_LINK: Final = """
SELECT x.id, x.opposite_task_id, x.task_id, x.link_id, y.label, y.opposite_id AS opposite_link_id
  FROM task_has_links x JOIN links y ON y.id = x.link_id WHERE x.id = %(id)s
"""
_OF_TASK: Final = f"""
SELECT x.id, x.opposite_task_id AS task_id, y.label, t.title, t.is_active::int AS is_active, t.project_id, t.column_id,
       coalesce(f.color_id, 'yellow') AS color_id, {seconds("t.date_completed")} AS date_completed,
       coalesce({seconds("t.date_started")}, 0) AS date_started, coalesce({seconds("t.date_due")}, 0) AS date_due,
       f.time_spent AS task_time_spent, f.time_estimated AS task_time_estimated,
       coalesce(t.owner_id, 0) AS task_assignee_id, u.username AS task_assignee_username, u.name AS task_assignee_name,
       c.title AS column_title, p.name AS project_name
  FROM task_has_links x JOIN links y ON y.id = x.link_id JOIN tasks t ON t.id = x.opposite_task_id
  LEFT JOIN task_faces f ON f.task_id = t.id LEFT JOIN users u ON u.id = t.owner_id
  JOIN columns c ON c.id = t.column_id JOIN projects p ON p.id = t.project_id
 WHERE x.task_id = %(task)s AND {SEEN_ANYWHERE}
 ORDER BY y.id, c.position DESC, t.is_active DESC, t.rank, t.id
"""
_LOCKED: Final = """
SELECT t.id, t.status, t.flags, coalesce(q.needs_verified, false)
  FROM tasks t LEFT JOIN queues q ON q.project_id = t.project_id
 WHERE t.id = ANY (%s) ORDER BY t.id FOR NO KEY UPDATE OF t
"""
_WAITS_FOR: Final = """
WITH RECURSIVE up AS (
    SELECT opposite_task_id AS id FROM task_has_links WHERE task_id = %(task)s AND link_id = 3
    UNION SELECT l.opposite_task_id FROM task_has_links l JOIN up ON l.task_id = up.id WHERE l.link_id = 3)
SELECT id FROM up
"""
_ANCESTORS: Final = """
WITH RECURSIVE up AS (
    SELECT parent_id AS id FROM tasks WHERE id = %(task)s
    UNION SELECT t.parent_id FROM tasks t JOIN up ON t.id = up.id)
SELECT id FROM up WHERE id IS NOT NULL
"""
_INSERT: Final = """
INSERT INTO task_has_links (link_id, task_id, opposite_task_id, state)
VALUES (%(label)s, %(task)s, %(other)s, %(state)s) ON CONFLICT DO NOTHING RETURNING id
"""
# What a new blocker means: one more that is open, or, if it can never release it, a task that a human looks at.
_BLOCKED: Final = """
UPDATE tasks SET open_blockers = open_blockers + CASE WHEN %(state)s = 'satisfied' THEN 0 ELSE 1 END,
       flags = CASE WHEN %(state)s = 'broken' AND status IN ('ready', 'backlog', 'held') THEN flags | 1 ELSE flags END,
       hold_rule = CASE WHEN %(state)s = 'broken' AND status IN ('ready', 'backlog') THEN 'blocker' ELSE hold_rule END,
       status = CASE WHEN %(state)s = 'broken' AND status IN ('ready', 'backlog') THEN 'held' ELSE status END
 WHERE id = %(task)s
"""
_FREED: Final = """
UPDATE tasks SET open_blockers = open_blockers - 1,
       ready_since = CASE WHEN open_blockers = 1 AND status = 'ready' THEN fabric_now() ELSE ready_since END
 WHERE id = %s AND open_blockers > 0
"""


class Links(Part):
    def link(self, link_id: int) -> Row | None:
        with self._db.connection() as conn:
            found = rows(conn, _LINK, {"id": link_id})
        return found[0] if found else None

    def links(self, task_id: int, viewer: Viewer | None) -> list[Row]:
        with self._db.connection() as conn:
            return rows(conn, _OF_TASK, {"task": task_id, **through(viewer)})

    def create_link(self, task_id: int, opposite_task_id: int, label_id: int, stamp: Stamp) -> int | None:
        return self._write(lambda conn: _create(conn, task_id, opposite_task_id, label_id, stamp), task_id)

    def update_link(self, link_id: int, task_id: int, opposite_task_id: int, label_id: int, stamp: Stamp) -> bool:
        def change(conn: Connection) -> bool:
            if not _remove(conn, link_id, stamp):
                raise not_found("link")
            if _create(conn, task_id, opposite_task_id, label_id, stamp) is None:
                raise IllegalMove("these two tasks are linked so already")
            return True

        return self._write(change, task_id)

    def remove_link(self, link_id: int, stamp: Stamp) -> bool:
        return self._write(lambda conn: _remove(conn, link_id, stamp))


def _create(conn: Connection, task_id: int, other_id: int, label: int, stamp: Stamp) -> int | None:
    row = conn.execute("SELECT opposite_id FROM links WHERE id = %s", (label,)).fetchone()
    if row is None:
        raise not_found("link")
    if task_id == other_id:
        raise BadInput("a task is not linked to itself", field="opposite_task_id")
    back = row[0] or label
    standing = {r[0]: r[1:] for r in conn.execute(_LOCKED, ([task_id, other_id],)).fetchall()}
    if len(standing) != 2:
        raise not_found("task")
    state, dependent = None, None
    if label in (_BLOCKS, _BLOCKED_BY):
        blocker, dependent = (task_id, other_id) if label == _BLOCKS else (other_id, task_id)
        _no_ring(conn, blocker, dependent)
        status, flags, needs_verified = standing[blocker]
        state = link_state(Status(status), Flag(flags), needs_verified=needs_verified)
    there = {"label": label, "task": task_id, "other": other_id, "state": state if label == _BLOCKED_BY else None}
    made = conn.execute(_INSERT, there).fetchone()
    if made is None:
        return None
    conn.execute(
        _INSERT,
        {"label": back, "task": other_id, "other": task_id, "state": state if back == _BLOCKED_BY else None},
    )
    if dependent is not None:
        conn.execute(_BLOCKED, {"task": dependent, "state": state})
        conn.execute(
            "UPDATE tasks SET dependents = dependents + 1 WHERE id = %s",
            (other_id if dependent == task_id else task_id,),
        )
    for one, far, its in ((task_id, other_id, label), (other_id, task_id, back)):
        tell(conn, one, "linked", stamp, {"to": far, "label": its, "state": state if one == dependent else None})
    return int(made[0])


def _no_ring(conn: Connection, blocker: int, dependent: int) -> None:
    """Raises Refused if the dependent could then never be released."""
    waits_for = {row[0] for row in conn.execute(_WAITS_FOR, {"task": blocker}).fetchall()}
    above = {row[0] for row in conn.execute(_ANCESTORS, {"task": dependent}).fetchall()}
    if closes_a_cycle(blocker, dependent, waits_for) or blocker in above:
        raise Refused(
            f"#{dependent} would wait for itself", next="link them the other way round", rule="cycle", task=dependent
        )


def _remove(conn: Connection, link_id: int, stamp: Stamp) -> bool:
    row = conn.execute(
        "SELECT x.task_id, x.opposite_task_id, x.link_id, y.opposite_id FROM task_has_links x"
        " JOIN links y ON y.id = x.link_id WHERE x.id = %s",
        (link_id,),
    ).fetchone()
    if row is None:
        return False
    task_id, other_id, label, opposite = row
    back = opposite or label
    conn.execute(_LOCKED, ([task_id, other_id],))
    gone: list[tuple[Any, ...]] = conn.execute(
        "DELETE FROM task_has_links WHERE id = %(id)s OR task_id = %(other)s AND opposite_task_id = %(task)s"
        " AND link_id = %(back)s RETURNING id, task_id, link_id, state",
        {"id": link_id, "task": task_id, "other": other_id, "back": back},
    ).fetchall()
    if link_id not in {found[0] for found in gone}:
        return False
    for _, dependent, its, state in gone:
        if its == _BLOCKED_BY:
            if state != "satisfied":
                conn.execute(_FREED, (dependent,))
            blocker = other_id if dependent == task_id else task_id
            conn.execute("UPDATE tasks SET dependents = dependents - 1 WHERE id = %s AND dependents > 0", (blocker,))
    for one, far in ((task_id, other_id), (other_id, task_id)):
        tell(conn, one, "unlinked", stamp, {"from": far, "label": label if one == task_id else back})
    return True
