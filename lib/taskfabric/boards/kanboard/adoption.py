"""Cards that people (or other programs) made or removed on the Kanboard itself.

A new card in a queue becomes a task: its submitter is the one who made the card, as far as we know him, and its trust
is his. Whose maker the Kanboard does not name is untrusted. Its epochs go on above those that the locks project knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.boards.kanboard.client import Kanboard, say
from taskfabric.boards.kanboard.face import moment, of_card, written
from taskfabric.boards.kanboard.hands import HAND
from taskfabric.boards.kanboard.leases import Lock
from taskfabric.boards.kanboard.people import People
from taskfabric.boards.native import arrange, judge, submit
from taskfabric.boards.native.names import Connection, Names
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.principal import Kind, Stamp, Trust, Via
from taskfabric.domain.reserved_tags import words
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.task import NewTask
from taskfabric.domain.tier import tier_of
from taskfabric.ports.board import Place

MARK: Final = "fabric:"  # begins the reference of a card whose submission is not complete
IDS: Final = 0x6B63  # the advisory lock of whoever gives a row a certain number
_NO_LIMITS: Final = Limits(per_hour=1 << 30, open_per_agent=1 << 30)
_STRANGER: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.UNTRUSTED, via=Via.SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A card that has no row yet."""

    card: Mapping[str, Any]
    tags: Sequence[str]
    maker: str | None  # the name of who made it
    lock: Lock | None  # what the locks project knows of its number


def adopt(conn: Connection, names: Names, found: Found, thresholds: tuple[int, int], now: datetime) -> int:
    """The card is a task. Its project is a queue and locked by the caller. ``now``: the Kanboard's time."""
    card, face, said = found.card, of_card(found.card, found.tags), words(found.tags)
    task_id = int(card["id"])
    layout = names.layout(conn, face.project_id)
    role = layout.role_of.get(face.column_id)
    stamp = maker(conn, found.maker)
    trusts = {trust.word: trust for trust in Trust}
    new = NewTask(
        project_id=face.project_id,
        title=face.title.strip() or f"(card {task_id})",
        description=str(card.get("description") or ""),
        priority=min(3, max(0, face.priority)),
        score=face.score or None,
        tier=tier_of(face.score or None, said.tier, thresholds),
        needs=said.needs,
        required_trust=trusts.get(said.trust, Trust.UNTRUSTED),
        tags=said.plain,
        reference=str(card.get("reference") or ""),
        due=moment(int(card.get("date_due") or 0)),
        backlog=role is not ColumnRole.READY,
        trust=stamp.trust,
    )
    numbered(conn, task_id)
    submit.submit(conn, names, [new], stamp, _NO_LIMITS, [])
    if role not in (ColumnRole.BACKLOG, ColumnRole.READY):
        arrange.move(conn, names, task_id, Place(column=layout.columns.get(face.column_id)), HAND)
    _go_on(conn, task_id, found, now)
    seen = {"face": face.to_json(), "meta": {}, "rank": None}
    conn.execute(
        "INSERT INTO stock_cards (task_id, seen, seq) VALUES (%s, %s, 0)"
        " ON CONFLICT (task_id) DO UPDATE SET seen = EXCLUDED.seen, seq = 0, gone = false, comment_id = 0",
        (task_id, Jsonb(seen)),
    )
    return task_id


def _go_on(conn: Connection, task_id: int, found: Found, now: datetime) -> None:
    """Flags and epoch that the card and its tags have from a life before."""
    flags = words(found.tags).flags
    if flags:
        conn.execute(
            "UPDATE tasks SET flags = flags | %(flags)s, status = fabric_status(role, is_active, flags | %(flags)s)"
            " WHERE id = %(task)s",
            {"flags": int(flags), "task": task_id},
        )
    if found.lock is None:
        return
    rest = timedelta(0)
    if found.lock.over is None and found.lock.deadline is not None:
        rest = max(rest, found.lock.deadline - now)
    raise_epoch(conn, task_id, found.lock.epoch, rest)


def raise_epoch(conn: Connection, task_id: int, epoch: int, rest: timedelta) -> None:
    """The next lease of this task has a higher epoch; whoever may hold it now by the tags is given his time."""
    conn.execute(
        "UPDATE tasks SET epoch = greatest(epoch, %(epoch)s),"
        " delayed = delayed OR %(rest)s > interval '0', date_started = CASE WHEN %(rest)s > interval '0'"
        " THEN greatest(date_started, fabric_now() + %(rest)s) ELSE date_started END"
        " WHERE id = %(task)s AND token IS NULL AND status IN ('ready', 'held', 'backlog')",
        {"task": task_id, "epoch": epoch, "rest": rest},
    )


def numbered(conn: Connection, task_id: int) -> None:
    """The next row of ``tasks`` gets this number, which no row has; nobody else makes one until the transaction
    ends."""
    conn.execute("SELECT pg_advisory_xact_lock(%s)", (IDS,))
    conn.execute("SELECT setval('tasks_id_seq', %s, false)", (task_id,))


def is_known(conn: Connection, task_id: int) -> bool:
    """Whether a task has, or has had, this number."""
    return conn.execute("SELECT FROM tasks WHERE id = %s", (task_id,)).fetchone() is not None


def copied(found: Found, people: People) -> dict[str, Any]:
    """The arguments of ``createTask`` for a card like this one."""
    card, face = found.card, of_card(found.card, found.tags)
    maker = int(card.get("creator_id") or 0)
    return {
        **{name: getattr(face, name) for name in ("title", "project_id", "column_id", "swimlane_id")},
        **{"priority": face.priority, "score": face.score, "tags": list(face.tags), "date_due": written(face.due)},
        "description": str(card.get("description") or ""),
        "reference": str(card.get("reference") or ""),
        **({"creator_id": maker} if people.works_in(face.project_id, maker) else {}),
    }


def give_up(kanboard: Kanboard, task_id: int, instead: int | None = None) -> None:
    """The card is closed and says why; ``instead`` goes on in its place."""
    text = f"#{task_id} was another task's number before." + (f" This one goes on as #{instead}." if instead else "")
    kanboard.many(
        [
            say("updateTask", id=task_id, reference=""),
            say("createComment", task_id=task_id, user_id=0, content=text),
            say("closeTask", task_id=task_id),
        ]
    )


def maker(conn: Connection, name: str | None) -> Stamp:
    """Who made a card, as far as the Kanboard says and we know him."""
    if name is None:
        return _STRANGER
    row = conn.execute(
        "SELECT id, username, kind, trust FROM users WHERE lower(username) = lower(%s) AND is_active", (name,)
    ).fetchone()
    if row is None:
        return _STRANGER
    return Stamp(principal_id=row[0], name=row[1], kind=Kind(row[2]), trust=Trust(row[3]), via=Via.SYSTEM)


def lay_away(conn: Connection, names: Names, task_id: int) -> None:
    """The card is no more: the task is cancelled, unless it had come to its end before."""
    task, _ = judge.locked(conn, names, task_id)
    if task.is_open:
        judge.cancel(conn, names, task_id, "its card was removed on the Kanboard", HAND)


def board_time(skew: timedelta) -> datetime:
    """The Kanboard's clock."""
    return datetime.now(UTC) + skew
