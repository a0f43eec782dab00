"""A card that comes again: made once, in the transaction that marks the one before as processed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from taskfabric.boards.native import read
from taskfabric.boards.native.cards.carry import assignable
from taskfabric.boards.native.cards.make import EXTERNAL_LINKS, SUBTASKS, create
from taskfabric.boards.native.names import Connection, Names
from taskfabric.domain.ancestry import Limits, inherited
from taskfabric.domain.principal import Stamp
from taskfabric.domain.recurrence import PENDING, PROCESSED, Recurrence, Trigger
from taskfabric.domain.task import NewTask, Task
from taskfabric.ports.faces import NewCard

_DUE_AGAIN: Final = f"""
UPDATE task_faces SET recurrence_status = {PROCESSED}
 WHERE task_id = %s AND recurrence_status = {PENDING} AND recurrence_trigger = ANY (%s)
RETURNING color_id, category_id, priority, time_estimated,
          recurrence_trigger, recurrence_factor, recurrence_timeframe, recurrence_basedate
"""
_KIN: Final = """
WITH parent AS (UPDATE task_faces SET recurrence_child = %(child)s WHERE task_id = %(parent)s)
UPDATE task_faces SET recurrence_parent = %(parent)s WHERE task_id = %(child)s
"""
_ON_BEHALF: Final = "SELECT CASE WHEN kind = 'human' THEN id ELSE owner_id END, fabric_now() FROM users WHERE id = %s"


def come_again(
    conn: Connection,
    names: Names,
    task_id: int,
    triggers: Collection[Trigger],
    stamp: Stamp,
    limits: Limits,
) -> int | None:
    """The number of the next one, which ``stamp`` submits into the first column; None: nothing comes again by this.

    Raises Refused for an agent beyond its quota."""
    if not triggers:
        return None
    row = conn.execute(_DUE_AGAIN, (task_id, [int(trigger) for trigger in triggers])).fetchone()
    if row is None:
        return None
    task = read.get(conn, names, task_id, None)
    made = create(conn, names, _next(conn, names, task, row, stamp), stamp, limits, [])
    for sql in (SUBTASKS, EXTERNAL_LINKS):
        conn.execute(sql, {"copy": made, "task": task_id})
    conn.execute(_KIN, {"parent": task_id, "child": made})
    return made


def _next(conn: Connection, names: Names, task: Task, face: tuple[Any, ...], stamp: Stamp) -> NewCard:
    layout = names.layout(conn, task.project_id)
    color, category, priority, estimated, *settings = face
    again = Recurrence(
        status=PENDING, **dict(zip(("trigger", "factor", "timeframe", "basedate"), settings, strict=True))
    )
    found = conn.execute(_ON_BEHALF, (stamp.principal_id,)).fetchone()
    assert found is not None, "whoever acts is a principal"
    item = NewTask(
        project_id=task.project_id,
        title=task.title,
        description=task.description,
        priority=task.priority,
        score=task.score,
        tier=task.tier,
        needs=task.needs,
        required_trust=task.required_trust,
        tags=task.tags,
        refs=task.refs,
        reference=task.reference,
        due=again.next_due(task.due, found[1]),
        column_id=next(iter(layout.columns)),
        swimlane_id=next((id_ for id_, name in layout.swimlanes.items() if name == task.swimlane), None),
        human_verify=layout.human_verify,
        max_attempts=task.max_attempts,
        trust=inherited([task.trust, stamp.trust]),
        label=task.label,
        on_behalf_id=found[0],
    )
    # In a queue whoever holds a card has it; elsewhere its assignee keeps it.
    keeps = layout.kind is None and task.holder_id in assignable(conn, task.project_id)
    return NewCard(
        task=item,
        owner_id=task.holder_id if keeps else None,
        color_id=color,
        category_id=category,
        priority=priority,
        time_spent=0.0,
        time_estimated=estimated,
        recurrence=again,
    )
