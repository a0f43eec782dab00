"""What a person did to a card on the Kanboard, as our verbs for it.

It is a fact, as far as no lease says otherwise. The app token does not tell who it was, so the record says "by hand":
nothing that asks for a certain person's decision (an answer, an approval, a verification by a human) follows from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from taskfabric.boards.kanboard.face import Face, moment
from taskfabric.boards.native import arrange, judge
from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import record
from taskfabric.domain.principal import Kind, Stamp, Trust, Via
from taskfabric.domain.reserved_tags import words
from taskfabric.domain.status import ColumnRole, Flag
from taskfabric.domain.task import Task
from taskfabric.ports.board import Edit, Place

HAND: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)
_WORDS: Final = frozenset({"title", "text", "priority", "score", "due", "tags"})
_REOPEN: Final = """
UPDATE tasks t SET is_active = true, flags = flags & ~(32|64|128),
       status = fabric_status(role, true, flags & ~(32|64|128)),
       date_completed = NULL, ready_since = CASE WHEN role = 'ready' THEN fabric_now() END,
       seq = seq + 1, told = greatest(told, pg_current_xact_id()), date_modification = fabric_now()
 WHERE t.id = %s
"""


def bring_in(
    conn: Connection,
    names: Names,
    task: Task,
    now: Face,
    changed: Collection[str],
    card: Mapping[str, Any],
    tags: Sequence[str],
    holder: str | None,
) -> bool:
    """The row says what a person changed on the card; whether there was anything. The transaction is the caller's."""
    acted = False
    if _WORDS & set(changed):
        arrange.edit(conn, names, task.id, _edit(task, changed, card, tags), HAND)
        acted = True
    if not {"active", "column_id", "swimlane_id", "project_id"} & set(changed):
        return acted
    if task.lease_until is not None or "project_id" in changed:
        text = (
            f"{task.holder} has it: the card was put back to where it was" if task.holder else "the card was put back"
        )
        arrange.comment(conn, names, task.id, text, HAND)
        return True
    if "active" in changed and now.active:
        conn.execute(_REOPEN, (task.id,))
        record(conn, task.id, "reopened", HAND, None, {"by_hand": True}, was=task.status)
        acted = True
    if {"column_id", "swimlane_id"} & set(changed) and (now.active or "active" not in changed):
        acted = _move(conn, names, task, now, holder) or acted
    if "active" in changed and not now.active:
        acted = _close(conn, names, task, now) or acted
    return acted


def _edit(task: Task, changed: Collection[str], card: Mapping[str, Any], tags: Sequence[str]) -> Edit:
    """The new words. Reserved tags are not people's to change: they come back by themselves."""
    said = words(tags)
    old = {tag.lower() for tag in task.tags}
    new = {tag.lower() for tag in said.plain}
    due = moment(int(card.get("date_due") or 0))
    return Edit(
        title=str(card["title"]) if "title" in changed and str(card["title"]).strip() else None,
        description=str(card.get("description") or "") if "text" in changed else None,
        priority=min(3, max(0, int(card.get("priority") or 0))) if "priority" in changed else None,
        score=int(card.get("score") or 0) if "score" in changed else None,
        due=due if "due" in changed else None,
        clear_due="due" in changed and due is None,
        add_tags=tuple(t for t in said.plain if t.lower() not in old) if "tags" in changed else (),
        remove_tags=tuple(t for t in task.tags if t.lower() not in new) if "tags" in changed else (),
    )


def _move(conn: Connection, names: Names, task: Task, now: Face, holder: str | None) -> bool:
    layout = names.layout(conn, task.project_id)
    if not task.is_open or now.column_id not in layout.columns:
        return False
    place = Place(column=layout.columns[now.column_id], swimlane=layout.swimlanes.get(now.swimlane_id))
    stamp = HAND
    if layout.role_of[now.column_id] is ColumnRole.WORKING and holder is not None:
        stamp = _as(conn, holder)
    arrange.move(conn, names, task.id, place, stamp)
    return True


def _as(conn: Connection, name: str) -> Stamp:
    """Who the card was given to holds it; the record says so."""
    found = conn.execute(
        "SELECT id, username, kind, trust FROM users WHERE lower(username) = lower(%s)", (name,)
    ).fetchone()
    if found is None:
        return HAND
    return Stamp(principal_id=found[0], name=found[1], kind=Kind(found[2]), trust=Trust(found[3]), via=Via.SYSTEM)


def _close(conn: Connection, names: Names, task: Task, now: Face) -> bool:
    layout = names.layout(conn, task.project_id)
    if layout.role_of.get(now.column_id) is not ColumnRole.DONE:
        judge.cancel(conn, names, task.id, "closed by hand on the Kanboard", HAND)
        return True
    if Flag.NEEDS_HUMAN_VERIFY in task.flags or Flag.DEAD_LETTER in task.flags:
        text = "whether this is right a human says in the fabric: the card was opened again"
        arrange.comment(conn, names, task.id, text, HAND)
        return True
    if task.column.casefold() != layout.columns[now.column_id].casefold():
        arrange.move(conn, names, task.id, Place(column=layout.columns[now.column_id]), HAND)
    judge.verify(conn, names, task.id, "closed by hand on the Kanboard", HAND)
    return True
