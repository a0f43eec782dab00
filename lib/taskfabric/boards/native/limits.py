"""Limits of work in progress: a queue that is full takes no more claims, a full column no more cards moved by hand.

They are asked nowhere else: a finish, a sweep and a dead letter always succeed. In Work in progress what waits for
somebody does not count, nor does an expired lease. In Done what waits for review counts, and a full Done stops the
claims of its queue; a card that is moved there by hand is finished, and that always succeeds too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from taskfabric.boards.native.names import Connection, Layout
from taskfabric.domain.errors import IllegalMove
from taskfabric.domain.status import ColumnRole
from taskfabric.ports.board import Want

_GATES: Final = (ColumnRole.WORKING, ColumnRole.DONE)
# Two statements: what others did while the first one waited for its locks is seen by the second.
_LOCK: Final = """
SELECT 1 FROM columns WHERE project_id = ANY (%(projects)s) AND task_limit > 0 AND role IN ('working', 'done')
 ORDER BY id FOR NO KEY UPDATE
"""
_COUNT: Final = """
SELECT c.project_id, c.role, c.task_limit,
       (SELECT count(*) FROM tasks t WHERE t.project_id = c.project_id AND t.column_id = c.id AND t.is_active
           AND t.status = c.role AND (t.lease_until IS NULL OR t.lease_until >= fabric_now()))
  FROM columns c WHERE c.project_id = ANY (%(projects)s) AND c.task_limit > 0 AND c.role IN ('working', 'done')
"""


def limited(layouts: Sequence[Layout]) -> bool:
    """Whether any of these queues has a limit that a claim must ask about."""
    return any(layout.role_of[id_] in _GATES for layout in layouts for id_ in layout.limits)


def with_room(conn: Connection, want: Want, *, lock: bool = True) -> tuple[Want, int | None]:
    """The want without the queues that are full, and how many tasks may be claimed at most; None = no limit.

    With ``lock`` the limits are held until the transaction ends, so that two claims do not both see the last place."""
    projects = {"projects": list(want.queues)}
    if lock:
        conn.execute(_LOCK, projects)
    full: set[int] = set()
    most: int | None = None
    for project_id, role, limit, count in conn.execute(_COUNT, projects).fetchall():
        if count >= limit:
            full.add(project_id)
        elif role == ColumnRole.WORKING:
            most = limit - count if most is None else min(most, limit - count)
    if full:
        want = replace(want, queues=tuple(queue for queue in want.queues if queue not in full), own=want.own - full)
    return want, most


def refuse_full_queue(conn: Connection, task_id: int) -> None:
    """Raises IllegalMove if the queue of this task takes no more claims. A missing task is somebody else's to say."""
    row = conn.execute(
        "SELECT t.project_id, coalesce(q.name, p.name) FROM tasks t JOIN projects p ON p.id = t.project_id"
        " LEFT JOIN queues q ON q.project_id = p.id WHERE t.id = %s",
        (task_id,),
    ).fetchone()
    if row is None:
        return
    want, _ = with_room(conn, Want(queues=(row[0],)))
    if not want.queues:
        raise IllegalMove(
            f"{row[1]!r} is full: its limit of work in progress, or of what waits for review, is reached",
            next="finish or verify something there first, or raise the limit",
            task=task_id,
        )


def refuse_full_column(conn: Connection, layout: Layout, column_id: int, task_id: int) -> None:
    """Raises IllegalMove if this column has as many cards as it may have, the one that is moved not counted."""
    role = layout.role_of[column_id]
    if column_id not in layout.limits or role is ColumnRole.DONE:
        return
    conn.execute("SELECT 1 FROM columns WHERE id = %s FOR NO KEY UPDATE", (column_id,))
    row = conn.execute(
        "SELECT c.task_limit, (SELECT count(*) FROM tasks t WHERE t.project_id = c.project_id AND t.column_id = c.id"
        " AND t.is_active AND t.id <> %s AND t.status <> 'waiting') FROM columns c WHERE c.id = %s",
        (task_id, column_id),
    ).fetchone()
    if row is not None and 0 < row[0] <= row[1]:
        raise IllegalMove(
            # How many stand there is not said: the mover may not see them all.
            f"{layout.columns[column_id]!r} is full: its limit is {row[0]}",
            next="finish or move something there first, or raise the limit",
            task=task_id,
            limit=row[0],
        )
