"""From a row of ``tasks`` to a ``Task``, and the two small writes that go with every transition.

``FACE`` is the select list of a task's face over a row called ``t``; it serves in SELECT and in RETURNING alike. What
lies outside the row (texts, tags, blockers, the last note) is looked up only when the row says that there is some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.boards.native.names import Connection, Names
from taskfabric.domain.comments import LineKind
from taskfabric.domain.principal import Stamp, Trust
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task, new_task

_ROW: Final = """
t.id, t.project_id, t.column_id, t.swimlane_id, t.lane_id, t.title, t.status, t.is_active, t.flags, t.score,
t.trust, t.label, t.creator_id, t.interlocutor_id, t.owner_id, t.holder_instance, t.epoch, t.lease_until,
t.lease_seconds, t.attempts, t.max_attempts, t.parks, t.waits, t.releases, t.asked_id, t.parent_id, t.root_id,
t.depth, t.children, t.open_children, t.open_blockers, t.reference, t.date_due, t.date_started, t.date_creation,
t.date_completed, t.date_modification, t.producer_id, t.verdict,
CASE WHEN t.has_text THEN fabric_texts(t.id) END,
t.has_tags,
"""
_REST: Final = """
CASE WHEN t.has_tags THEN (SELECT array_agg(g.name ORDER BY g.name) FROM task_has_tags h
                             JOIN tags g ON g.id = h.tag_id WHERE h.task_id = t.id) END,
CASE WHEN t.open_blockers > 0 THEN (SELECT array_agg(l.opposite_task_id ORDER BY l.opposite_task_id)
    FROM task_has_links l WHERE l.task_id = t.id AND l.link_id = 3 AND l.state <> 'satisfied') END,
CASE WHEN t.producer_id IS NOT NULL THEN (SELECT m.text FROM comments m WHERE m.task_id = t.id AND m.kind = 'note'
    ORDER BY m.id DESC LIMIT 1) END,
CASE WHEN t.attempts > 1 OR t.status IN ('ready', 'dead') AND t.epoch > 0 THEN (SELECT m.text FROM comments m
    WHERE m.task_id = t.id AND m.kind IN ('failed', 'dead') ORDER BY m.id DESC LIMIT 1) END,
CASE WHEN t.status = 'held' THEN (SELECT m.text FROM comments m WHERE m.task_id = t.id AND m.kind = 'held'
    ORDER BY m.id DESC LIMIT 1) END
"""
FACE: Final = _ROW + _REST
# For the statements that claim and finish: what they could look up they know, or it says nothing yet.
LEAN_FACE: Final = _ROW + "NULL, NULL, NULL, NULL, NULL\n"

TRUSTS: Final = tuple(Trust)
_STATUS: Final = {s.value: s for s in Status}
_FLAGS: Final = {0: Flag.NONE}


def task_of(conn: Connection, names: Names, row: Sequence[Any], *, note: str | None = None) -> Task:
    """The task whose ``FACE`` this row is. ``note``: the result note if this very statement wrote it."""
    (
        id_,
        project_id,
        column_id,
        swimlane_id,
        lane_id,
        title,
        status,
        is_active,
        flags,
        score,
        trust,
        label,
        creator_id,
        interlocutor_id,
        owner_id,
        holder_instance,
        epoch,
        lease_until,
        lease_seconds,
        attempts,
        max_attempts,
        parks,
        waits,
        releases,
        asked_id,
        parent_id,
        root_id,
        depth,
        children,
        open_children,
        open_blockers,
        reference,
        date_due,
        date_started,
        date_creation,
        date_completed,
        date_modification,
        producer_id,
        verdict,
        texts,
        has_tags,
        tags,
        blockers,
        last_note,
        error,
        hold,
    ) = row
    lane = names.lane(conn, lane_id)
    layout = names.layout(conn, project_id)
    begun = status in {"working", "done", "verified"} or is_active is False
    texts = texts or {}
    if has_tags and tags is None:
        tags = _tags(conn, id_)
    if attempts > 1 and error is None:
        error = _error(conn, id_)
    return new_task(
        id=id_,
        queue=layout.name,
        project_id=project_id,
        title=title,
        status=_STATUS[status],
        description=texts.get("description", ""),
        column=layout.columns.get(column_id, ""),
        swimlane=layout.swimlanes.get(swimlane_id, ""),
        is_open=is_active,
        flags=_FLAGS.get(flags) or Flag(flags),
        tags=tuple(tags or ()),
        priority=lane.priority,
        score=score,
        tier=lane.tier,
        needs=lane.needs,
        refs=tuple(texts.get("refs", ())),
        required_trust=lane.trust,
        trust=TRUSTS[trust],
        label=label,
        submitter=names.user(conn, creator_id) or "",
        submitter_id=creator_id,
        on_behalf=names.user(conn, interlocutor_id),
        holder=names.user(conn, owner_id),
        holder_id=owner_id,
        holder_instance=holder_instance or "",
        epoch=epoch,
        lease_until=lease_until,
        lease_length=None if lease_seconds is None else timedelta(seconds=lease_seconds),
        attempts=attempts,
        max_attempts=max_attempts,
        parks=parks,
        waits=waits,
        releases=releases,
        asked=names.user(conn, asked_id),
        hold=hold,
        parent=parent_id,
        root=root_id,
        depth=depth,
        children=children,
        open_children=open_children,
        blockers=tuple(blockers or ()),
        open_blockers=open_blockers,
        key=texts.get("key"),
        reference=reference,
        due=date_due,
        not_before=None if begun else date_started,
        created=date_creation,
        started=date_started if begun else None,
        completed=date_completed,
        updated_at=date_modification,
        producer=names.user(conn, producer_id),
        producer_id=producer_id,
        verdict=verdict,
        note=note if note is not None else last_note,
        error=error,
    )


def _tags(conn: Connection, task_id: int) -> list[str]:
    return [row[0] for row in conn.execute(_TAGS, (task_id,))]


def _error(conn: Connection, task_id: int) -> str | None:
    row = conn.execute(_ERROR, (task_id,)).fetchone()
    return None if row is None else row[0]


_ERROR: Final = "SELECT text FROM comments WHERE task_id = %s AND kind IN ('failed', 'dead') ORDER BY id DESC LIMIT 1"
_TAGS: Final = "SELECT g.name FROM task_has_tags h JOIN tags g ON g.id = h.tag_id WHERE h.task_id = %s ORDER BY g.name"


def reread(conn: Connection, names: Names, task_id: int) -> Task:
    """The task as this transaction has left it, its new comments included."""
    row = conn.execute(f"SELECT {FACE} FROM tasks t WHERE t.id = %s", (task_id,)).fetchone()
    assert row is not None, "the row is locked by this transaction"
    return task_of(conn, names, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A line for the thread; the comment grammar renders it when it is read."""

    kind: LineKind
    text: str = ""
    epoch: int | None = None
    until: datetime | None = None
    number: int | None = None
    of: int | None = None
    by_fabric: bool = False  # the fabric's own act, whoever caused it


# The comment and the journal event of one transition, in one statement; the seq is the one that the row got.
_RECORD: Final = """
WITH m AS (
    INSERT INTO comments (task_id, user_id, kind, epoch, until, number, number_of, instance, text)
    SELECT t.id, %(commenter)s, %(line)s, %(line_epoch)s, %(until)s, %(number)s, %(of)s, %(instance)s, %(text)s
      FROM tasks t WHERE t.id = %(task)s AND %(line)s::text IS NOT NULL
    RETURNING id)
INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch, run_task, run_epoch, data)
SELECT t.told, t.id, t.seq, t.project_id, %(actor)s, %(event)s, %(via)s, t.epoch, %(run_task)s, %(run_epoch)s, %(data)s
  FROM tasks t WHERE t.id = %(task)s
RETURNING (SELECT id FROM m)
"""
# What it means to others, and what a dependency that broke meanwhile means to the task itself.
_CARRY: Final = """
SELECT CASE WHEN parent_id IS NOT NULL OR dependents > 0 THEN fabric_carry_end(id, %s) END,
       CASE WHEN status = 'ready' AND open_blockers > 0 THEN fabric_hold_if_broken(id) END
  FROM tasks WHERE id = %s AND (parent_id IS NOT NULL OR dependents > 0 OR open_blockers > 0)
"""


def record(
    conn: Connection,
    task_id: int,
    event: str,
    stamp: Stamp,
    remark: Remark | None,
    data: Mapping[str, Any] | None = None,
    *,
    was: Status | None = None,
) -> int | None:
    """The transition that this transaction wrote on the task is in its thread and in the journal; returns the id of
    the comment. The row's seq was raised by the write itself. ``was``: the status before, if the write changed it;
    then those that wait for the task know, and a task that is ready again with a broken dependency is held."""
    row = conn.execute(
        _RECORD,
        {
            "task": task_id,
            "commenter": 0 if remark is not None and remark.by_fabric else stamp.principal_id,
            "line": None if remark is None else remark.kind.value,
            "line_epoch": None if remark is None else remark.epoch,
            "until": None if remark is None else remark.until,
            "number": None if remark is None else remark.number,
            "of": None if remark is None else remark.of,
            "instance": stamp.instance or None,
            "text": "" if remark is None else remark.text,
            "actor": stamp.principal_id,
            "event": event,
            "via": stamp.via.value,
            "run_task": None if stamp.run is None else stamp.run.task_id,
            "run_epoch": None if stamp.run is None else stamp.run.epoch,
            "data": None if not data else Jsonb(dict(data)),
        },
    ).fetchone()
    if was is not None:
        conn.execute(_CARRY, (was.value, task_id))
    conn.execute("SELECT fabric_open_lane(%s)", (task_id,))
    return None if row is None else row[0]


def as_signed(token: int) -> int:
    """The token's 64 bits as PostgreSQL's signed bigint."""
    return token - 2**64 if token >= 2**63 else token


def as_unsigned(stored: int) -> int:
    """The 64 bits of a stored token."""
    return stored + 2**64 if stored < 0 else stored
