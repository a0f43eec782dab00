"""Tags of people that a rule uses become what they say, when a project becomes a queue or a card comes into one."""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native.layout import Conn
from taskfabric.domain.principal import Trust
from taskfabric.domain.reserved_tags import Words, words
from taskfabric.domain.status import ColumnRole, Flag

_WORN: Final = """
SELECT t.id, t.flags, t.is_active, c.role, l.tier, l.priority, l.needs, l.trust, array_agg(g.name ORDER BY g.id) AS tags
  FROM tasks t JOIN columns c ON c.id = t.column_id JOIN lanes l ON l.id = t.lane_id
  JOIN task_has_tags h ON h.task_id = t.id JOIN tags g ON g.id = h.tag_id
 WHERE t.project_id = %(project)s AND (%(task)s::bigint IS NULL OR t.id = %(task)s)
 GROUP BY t.id, c.role, l.id ORDER BY t.id
"""
_RULED: Final = """
UPDATE tasks SET flags = %(flags)s, status = fabric_status(role, is_active, %(flags)s),
       lane_id = fabric_lane(%(project)s, %(tier)s, %(priority)s::smallint, %(needs)s::text[], %(trust)s::smallint)
 WHERE id = %(task)s
"""
_BARE: Final = """
DELETE FROM task_has_tags h USING tags g, tasks t
 WHERE t.project_id = %(project)s AND t.id = h.task_id AND g.id = h.tag_id AND g.name = ANY (%(names)s)
"""
_GONE: Final = "DELETE FROM tags WHERE project_id = %(project)s AND name = ANY (%(names)s)"
_TIDY: Final = """
UPDATE tasks t SET has_tags = EXISTS (SELECT FROM task_has_tags h WHERE h.task_id = t.id)
 WHERE t.project_id = %(project)s AND t.has_tags
"""
# Outside of Done these say that the card is no work, but the status does not follow from them: it waits for a human.
_OVER: Final = Flag.DEAD_LETTER | Flag.CANCELLED | Flag.REJECTED


def take(conn: Conn, project_id: int, task_id: int | None = None) -> dict[str, list[str]]:
    """Each card of the queue, or this one, has the flags and the lane that its tags say, and no such tag of people is
    left. Returns the tags by the card's number. The columns' roles may change after that: then so do the statuses.

    ``a2a-message`` is no tag that a person's card can have: it would hide the card, and is only taken off."""
    taken: dict[str, list[str]] = {}
    for row in conn.execute(_WORN, {"project": project_id, "task": task_id}).fetchall():
        said = words(row[8])
        worn = [tag for tag in row[8] if tag not in said.plain]
        if worn:
            taken[str(row[0])] = worn
            conn.execute(_RULED, {"project": project_id, "task": row[0], **_ruled(said, row)})
    if task_id is not None and not taken:
        return taken
    names = [name for (name,) in conn.execute("SELECT name FROM tags WHERE project_id = %s", (project_id,)).fetchall()]
    ruling = {name for name in names if not words([name]).plain}.union(*taken.values())
    values = {"project": project_id, "names": sorted(ruling)}
    for statement in (_BARE, _GONE, _TIDY):
        conn.execute(statement, values)
    return taken


def _ruled(said: Words, row: Any) -> dict[str, Any]:
    _, flags, is_open, role, tier, priority, needs, trust, _ = row
    flags = Flag(flags) | said.flags & ~Flag.A2A_MESSAGE
    if is_open and role != ColumnRole.DONE.value and flags & _OVER:
        flags |= Flag.BLOCKED
    return {
        **{"flags": int(flags), "tier": said.tier or tier, "priority": priority},
        **{"needs": sorted({*needs, *said.needs} - {""}), "trust": int(max(Trust(trust), _trust(said.trust)))},
    }


def _trust(word: str) -> Trust:
    """The class that may claim; a word that names none lets nobody but a human."""
    try:
        return Trust.of(word) if word else Trust.UNTRUSTED
    except KeyError:
        return Trust.HUMAN
