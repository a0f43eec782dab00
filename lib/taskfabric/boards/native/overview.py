"""The board seen whole, in a few statements that use the index of a column's cards; no card beyond the cap is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from taskfabric.boards.native.journal import event_of
from taskfabric.boards.native.names import Names
from taskfabric.boards.native.read import VISIBLE, eyes
from taskfabric.boards.native.rows import FACE, task_of
from taskfabric.db.pool import Connection, Database
from taskfabric.domain.errors import not_found
from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.principal import Viewer
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.task import Task
from taskfabric.ports.overview import BoardView, CardFilter, ColumnView, DepthPoint, EventFilter, Happened, Later

_STANDING: Final = "t.project_id = %(project)s AND t.is_active AND t.status <> 'record'"

_STILL: Final = f"""
SELECT t.id, t.lease_until FROM tasks t WHERE t.id = ANY (%(tasks)s::bigint[]) AND {_STANDING} AND {VISIBLE}
"""

_LATER: Final = f"t.delayed AND t.status = 'ready' AND t.date_started > fabric_now() AND {VISIBLE}"

# Both ends of each hour lie in the past: what is open at an instant was made before it and had not ended by then.
_DEPTH: Final = f"""
SELECT p.id, h.at, count(t.id)
  FROM unnest(%(projects)s::int[]) AS p(id)
 CROSS JOIN generate_series(fabric_now() - %(hours)s * interval '1 hour', fabric_now(), interval '1 hour') AS h(at)
  LEFT JOIN tasks t ON t.project_id = p.id AND t.status <> 'record' AND t.date_creation <= h.at
        AND (t.date_completed IS NULL AND t.is_active OR t.date_completed > h.at
             OR NOT t.is_active AND t.date_completed IS NULL AND t.date_modification > h.at)
        AND {VISIBLE}
 GROUP BY 1, 2 ORDER BY 1, 2
"""

_ROUND: Final = 5_000  # events looked at in one statement
_ROUNDS: Final = 10  # a reader of few among many looks back so far, not for ever

# Whose events are whose is the journal's own rule: those of a task follow the task, those of a project are for its
# members, those of an account for who did them. What may still be committed in front of others is not shown yet.
_RECENT: Final = f"""
WITH seen AS MATERIALIZED (
    SELECT j.* FROM journal j
     WHERE (j.xid, j.id) < (%(xid)s::xid8, %(id)s) AND j.xid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY j.xid DESC, j.id DESC LIMIT {_ROUND}),
mine AS (
    SELECT s.*, t.title FROM seen s LEFT JOIN tasks t ON t.id = s.task_id
     WHERE CASE
           WHEN s.task_id IS NOT NULL THEN t.id IS NOT NULL AND {VISIBLE}
           WHEN s.project_id IS NOT NULL THEN EXISTS (
                SELECT FROM project_has_users m WHERE m.project_id = s.project_id AND m.user_id = %(me)s)
                AND (%(scope)s::int[] IS NULL OR s.project_id = ANY (%(scope)s::int[]))
           ELSE s.actor_id = %(me)s END
       AND (%(kind)s = '' OR s.kind = %(kind)s)
       AND (%(project)s::int IS NULL OR s.project_id = %(project)s)
       AND (%(task)s::bigint IS NULL OR s.task_id = %(task)s)
       AND (%(actor)s = '' OR s.actor_id = (SELECT id FROM users WHERE username = %(actor)s)))
SELECT (SELECT count(*) FROM seen), (SELECT array[xid::text, id::text] FROM seen ORDER BY xid, id LIMIT 1),
       m.xid::text, m.id, m.kind, m.at, m.task_id, m.seq, m.project_id, u.username, m.via, m.epoch, m.data, m.title
  FROM (SELECT 1) one LEFT JOIN (SELECT * FROM mine ORDER BY xid DESC, id DESC LIMIT %(limit)s) m ON true
  LEFT JOIN users u ON u.id = m.actor_id
 ORDER BY m.xid DESC, m.id DESC
"""
_END: Final = (2**63 - 1, 2**63 - 1)


class NativeOverview:
    """Implements ``ports.overview.Overview`` on PostgreSQL."""

    def __init__(self, database: Database, names: Names) -> None:
        self._db = database
        self._names = names

    def board(self, project_id: int, wanted: CardFilter, per_column: int, viewer: Viewer) -> BoardView:
        """The columns in their order, each with its first cards and the number of all."""
        where, values = _conditions(wanted)
        values |= {**eyes(viewer), "project": project_id, "cap": per_column}
        where = f"{_STANDING} AND {VISIBLE}{where}"
        with self._db.connection() as conn:
            columns = conn.execute(
                "SELECT id, title, role, task_limit FROM columns WHERE project_id = %s ORDER BY position, id",
                (project_id,),
            ).fetchall()
            if not columns:
                raise not_found("project")
            lanes = conn.execute(
                "SELECT name FROM swimlanes WHERE project_id = %s AND is_active ORDER BY position, id", (project_id,)
            ).fetchall()
            totals: dict[int, int] = dict(
                conn.execute(f"SELECT t.column_id, count(*) FROM tasks t WHERE {where} GROUP BY 1".encode(), values)
            )
            now = conn.execute("SELECT fabric_now()").fetchone()
            assert now is not None
            shown = tuple(
                ColumnView(
                    id=id_,
                    title=title,
                    role=None if role is None else ColumnRole(role),
                    limit=limit,
                    total=totals.get(id_, 0),
                    cards=tuple(card for card, _ in found),
                    ranks=tuple(rank for _, rank in found),
                )
                for id_, title, role, limit in columns
                for found in [self._cards(conn, where, {**values, "column": id_}) if id_ in totals else []]
            )
        return BoardView(project_id=project_id, now=now[0], columns=shown, swimlanes=tuple(name for (name,) in lanes))

    def _cards(self, conn: Connection, where: str, values: dict[str, Any]) -> list[tuple[Task, int]]:
        sql = (
            f"SELECT t.rank, {FACE} FROM tasks t WHERE {where} AND t.column_id = %(column)s"
            " ORDER BY t.rank, t.id LIMIT %(cap)s"
        )
        rows = conn.execute(sql.encode(), values).fetchall()
        return [(task_of(conn, self._names, row[1:]), row[0]) for row in rows]

    def standing(self, project_id: int, tasks: Sequence[int], viewer: Viewer) -> dict[int, datetime | None]:
        """Those of the tasks that stand open on this board, with the end of their lease."""
        values = {**eyes(viewer), "project": project_id, "tasks": list(tasks)}
        with self._db.connection() as conn:
            return dict(conn.execute(_STILL.encode(), values).fetchall())

    def depth(self, project_ids: Sequence[int], hours: int, viewer: Viewer) -> dict[int, tuple[DepthPoint, ...]]:
        """How many of each project's tasks were unfinished at the end of each hour."""
        found: dict[int, list[DepthPoint]] = {id_: [] for id_ in project_ids}
        with self._db.connection() as conn:
            rows = conn.execute(
                _DEPTH.encode(), {**eyes(viewer), "projects": list(project_ids), "hours": hours}
            ).fetchall()
        for project_id, at, number in rows:
            found[project_id].append(DepthPoint(at=at, open=number))
        return {id_: tuple(points) for id_, points in found.items()}

    def later(self, limit: int, viewer: Viewer) -> Later:
        """The tasks that wait for an instant, the soonest first."""
        values = {**eyes(viewer), "limit": limit}
        with self._db.connection() as conn:
            total = conn.execute(f"SELECT count(*) FROM tasks t WHERE {_LATER}".encode(), values).fetchone()
            assert total is not None
            sql = f"SELECT {FACE} FROM tasks t WHERE {_LATER} ORDER BY t.date_started, t.id LIMIT %(limit)s"
            rows = conn.execute(sql.encode(), values).fetchall()
            return Later(tasks=tuple(task_of(conn, self._names, row) for row in rows), total=total[0])

    def recent(self, wanted: EventFilter, before: Cursor | None, limit: int, viewer: Viewer) -> Happened:
        """The newest events before the cursor, newest first, and the cursor for what is older."""
        values = {
            **eyes(viewer),
            "actor": wanted.actor,
            "kind": wanted.kind,
            "project": wanted.project_id,
            "task": wanted.task,
        }
        xid, id_ = _END if before is None else (before.xid, before.id)
        found: list[Event] = []
        titles: dict[int, str] = {}
        older: Cursor | None = None
        for _ in range(_ROUNDS):
            place = {"xid": str(xid), "id": id_, "limit": limit - len(found)}
            with self._db.connection() as conn:
                rows: list[tuple[Any, ...]] = conn.execute(_RECENT.encode(), {**values, **place}).fetchall()
            found += [event_of(row[2:]) for row in rows if row[3] is not None]
            titles |= {row[6]: row[13] for row in rows if row[13] is not None}
            looked_at, last = rows[0][:2]
            if len(found) >= limit:
                older = found[-1].cursor
                break
            if looked_at < _ROUND:
                older = None
                break
            older = Cursor(xid=int(last[0]), id=int(last[1]))
            xid, id_ = older.xid, older.id
        return Happened(events=tuple(found), titles=titles, older=older)


def _conditions(wanted: CardFilter) -> tuple[str, dict[str, Any]]:
    """The filter as SQL that is put behind other conditions, and its values."""
    parts: list[str] = []
    values: dict[str, Any] = {}
    if wanted.tasks is not None:
        parts.append("t.id = ANY(%(tasks)s::bigint[])")
        values["tasks"] = list(wanted.tasks)
    if wanted.priority is not None:
        parts.append("t.lane_id IN (SELECT id FROM lanes WHERE priority = %(priority)s)")
        values["priority"] = wanted.priority
    if wanted.holder:
        parts.append("t.owner_id = (SELECT id FROM users WHERE username = %(holder)s)")
        values["holder"] = wanted.holder
    if wanted.tag:
        parts.append(
            "t.has_tags AND EXISTS (SELECT FROM task_has_tags h JOIN tags g ON g.id = h.tag_id"
            " WHERE h.task_id = t.id AND lower(g.name) = lower(%(tag)s))"
        )
        values["tag"] = wanted.tag
    if wanted.text:
        parts.append(
            "(t.title ILIKE %(like)s OR t.id::text = %(text)s OR t.has_text AND EXISTS"
            " (SELECT FROM task_texts x WHERE x.task_id = t.id AND x.description ILIKE %(like)s))"
        )
        values["text"] = wanted.text.lstrip("#")
        values["like"] = "%" + wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    return "".join(f" AND {part}" for part in parts), values
