"""Where a card stands: column, swimlane and position, written as one row however long the column is.

Moves of one project come one after the other, so that a position is still free when it is written. Ranks are those of
``tasks.rank``; two cards may share one, then the older stands above.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.boards.native.arrange import GAP, MOVE, RANK, SHIFT, make_room, shed
from taskfabric.boards.native.cards.faces import MEMBER, SEEN_HERE, through
from taskfabric.boards.native.cards.one_row import EVENT, RETURNING, by
from taskfabric.boards.native.cards.recurring import come_again
from taskfabric.boards.native.judge import waive_broken
from taskfabric.boards.native.names import Connection, Layout, Names
from taskfabric.boards.native.rows import Remark, record
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import IllegalMove, not_found
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.domain.recurrence import Trigger, passed
from taskfabric.domain.status import ColumnRole, Status
from taskfabric.ports.faces import Spot

# Moves of one project come one after the other. The row is read as it stands once it is locked; what else is read has
# a statement, and so a snapshot, of its own.
_CARD: Final = f"""
SELECT t.column_id, t.swimlane_id, t.rank, t.is_active, t.status, t.open_blockers, t.lease_until, t.owner_id,
       t.parent_id IS NOT NULL OR t.dependents > 0 OR t.open_blockers > 0, {MEMBER}
  FROM (SELECT pg_advisory_xact_lock(7302, %(project)s)) AS turn, tasks t
 WHERE t.id = %(task)s AND t.project_id = %(project)s FOR UPDATE OF t
"""
_MOVED: Final = """
INSERT INTO task_faces (task_id, date_moved) VALUES (%s, fabric_now())
ON CONFLICT (task_id) DO UPDATE SET date_moved = EXCLUDED.date_moved
"""
# In a project that is no queue nobody claims and nothing is finished: the card keeps its assignee and its words, and
# only the few that others are linked to need to be looked at further.
_CARRY: Final = f"""
WITH u AS (
    UPDATE tasks t SET column_id = %(column)s, role = %(role)s, swimlane_id = %(swimlane)s, rank = {RANK},
           status = fabric_status(%(role)s, is_active, flags), seq = seq + 1,
           told = greatest(told, pg_current_xact_id()),
           date_modification = CASE WHEN %(moved)s THEN fabric_now() ELSE date_modification END,
           ready_since = CASE WHEN %(moved)s AND %(role)s::text = 'ready' THEN fabric_now() ELSE ready_since END
     WHERE t.id = %(task)s {RETURNING}
), f AS (
    INSERT INTO task_faces (task_id, date_moved) SELECT u.id, fabric_now() FROM u WHERE %(moved)s
    ON CONFLICT (task_id) DO UPDATE SET date_moved = EXCLUDED.date_moved
)
{EVENT} %(data)s FROM u
"""
_CARRY_END: Final = "SELECT fabric_carry_end(%s, %s)"


def place(
    conn: Connection,
    names: Names,
    task_id: int,
    project_id: int,
    spot: Spot,
    viewer: Viewer | None,
    stamp: Stamp,
    limits: Limits,
) -> bool:
    """The card stands there; False: it did already. Raises NotFound for a column or swimlane of another project."""
    row = conn.execute(_CARD, {"task": task_id, "project": project_id, **through(viewer)}).fetchone()
    if row is None:  # gone, or in another project by now
        raise not_found("task")
    column_id, swimlane_id, rank, is_active, status, open_blockers, lease_until, owner_id, has_kin, sees_all = row
    layout = names.layout(conn, project_id)
    if layout.kind is not None and not is_active:
        raise IllegalMove(f"#{task_id} is closed, and a closed card of a queue does not move", next="reopen it first")
    lane = spot.swimlane_id or swimlane_id
    if spot.column_id not in layout.columns:
        raise not_found("column")
    if lane not in layout.swimlanes:
        raise not_found("swimlane")
    cell = _Cell(conn, task_id, project_id, spot.column_id, lane, viewer, sees_all=sees_all)
    stays = (column_id, swimlane_id) == (spot.column_id, lane)
    cell.look(spot.position)
    if stays and is_active and cell.has_it(rank, spot.position):
        return False
    role = layout.role_of[spot.column_id]
    values: dict[str, Any] = {
        "task": task_id,
        "column": spot.column_id,
        "role": None if role is None else role.value,
        "swimlane": lane,
        "rank": cell.rank_for(spot.position),
    }
    data: dict[str, Any] = {"swimlane": layout.swimlanes[lane], "position": spot.position, "changed": not stays}
    if column_id != spot.column_id:
        data = _moved(layout, column_id, spot, lease_until)
    event = "shifted" if column_id == spot.column_id else "moved"
    if layout.kind is None:
        conn.execute(_CARRY, {**values, **by(stamp, event), "moved": not stays, "data": Jsonb(data)})
        if has_kin and event == "moved":
            conn.execute(_CARRY_END, (task_id, status))
        if event == "moved" and stamp.run is None:
            come_again(conn, names, task_id, _passed(layout, column_id, spot.column_id), stamp, limits)
        return True
    if event == "shifted":
        conn.execute(SHIFT, values)
        record(conn, task_id, event, stamp, None, data)
    else:
        freed = waive_broken(conn, task_id) if role is ColumnRole.READY and open_blockers else 0
        more = {
            "keep": ~int(shed(role)),
            "owner": _owner(role, stamp, None if lease_until is not None else owner_id),
            "producer": stamp.principal_id if role is ColumnRole.DONE else None,
            "freed": freed,
        }
        conn.execute(MOVE, {**values, **more})
        text = f"from {layout.columns[column_id]} to {layout.columns[spot.column_id]}"
        record(conn, task_id, event, stamp, Remark(kind=LineKind.MOVED, text=text), data, was=Status(status))
    if not stays:
        conn.execute(_MOVED, (task_id,))
    return True


def _owner(role: ColumnRole | None, stamp: Stamp, assigned: int | None) -> int | None:
    """Whose the card of a queue is there: work is its mover's, an assignment made before it was taken stays."""
    if role is ColumnRole.WORKING:
        return stamp.principal_id if assigned is None else assigned
    return None if role is ColumnRole.DONE else assigned


def _passed(layout: Layout, left: int, entered: int) -> Collection[Trigger]:
    columns = tuple(layout.columns)
    return passed(left, entered, columns[0], columns[-1])


def _moved(layout: Layout, column_id: int, spot: Spot, lease: object) -> dict[str, Any]:
    return {
        "from": layout.columns.get(column_id, ""),
        "to": layout.columns[spot.column_id],
        "lease_ended": lease is not None,
        "from_column": column_id,
        "to_column": spot.column_id,
    }


_HERE: Final = (
    "t.is_active AND t.project_id = %(project)s AND t.column_id = %(column)s AND t.swimlane_id = %(swimlane)s"
    " AND t.id <> %(task)s"
)
_COUNT: Final = f"SELECT count(*) FROM tasks t WHERE {_HERE}"
_AFTER: Final = f"SELECT 1 FROM tasks t WHERE {_HERE} AND (t.rank, t.id) > (%(rank)s, %(task)s) LIMIT 1"
# The card that stands in the place, and the one right above it, whether or not the viewer sees that.
_NEIGHBOURS: Final = f"""
SELECT n.rank, n.id, a.rank, a.id
  FROM (SELECT t.rank, t.id FROM tasks t WHERE {_HERE} {{seen}} ORDER BY t.rank, t.id OFFSET %(skip)s LIMIT 1) AS n
  LEFT JOIN LATERAL (SELECT t.rank, t.id FROM tasks t WHERE {_HERE} AND (t.rank, t.id) < (n.rank, n.id)
                      ORDER BY t.rank DESC, t.id DESC LIMIT 1) AS a ON true
"""


class _Cell:
    """The open cards of one column and swimlane, without the one that is moved."""

    def __init__(
        self,
        conn: Connection,
        task_id: int,
        project_id: int,
        column_id: int,
        swimlane_id: int,
        viewer: Viewer | None,
        *,
        sees_all: bool,
    ) -> None:
        self._conn = conn
        self._values: dict[str, Any] = {
            "task": task_id,
            "project": project_id,
            "column": column_id,
            "swimlane": swimlane_id,
            **through(viewer),
        }
        self._around: tuple[Any, ...] | None = None
        # Whoever sees only some of the cards counts only those.
        self._seen = "" if sees_all else f"AND {SEEN_HERE}"

    def look(self, position: int) -> None:
        """What stands around this place is known afterwards; the cost is that of walking there."""
        values = {**self._values, "skip": position - 1}
        self._around = self._conn.execute(_NEIGHBOURS.format(seen=self._seen), values).fetchone()

    def has_it(self, rank: int, position: int) -> bool:
        """Whether the card itself, with this rank, stands in the place that was looked at."""
        me = (rank, self._values["task"])
        if self._around is not None:
            below, above = self._around[:2], self._around[2:]
            return me < below and (above[0] is None or above < me)
        if self._conn.execute(f"{_AFTER} {self._seen}", {**self._values, "rank": rank}).fetchone() is not None:
            return False
        row = self._conn.execute(f"{_COUNT} {self._seen}", self._values).fetchone()
        assert row is not None
        return int(row[0]) + 1 == position  # the last, and not merely asked for something beyond it

    def rank_for(self, position: int) -> int | None:
        """A rank that puts the card there; None: behind all others, where there are not so many."""
        if self._around is None:
            return None
        found = self._between(*self._around)
        if found is None:  # there was no room between these two, and now there is
            self.look(position)
            assert self._around is not None, "moves of a project come one after the other"
            found = self._between(*self._around)
        assert found is not None, "a gap has just been made"
        return found

    def _between(self, below: int, _id: int, above: int | None, _above_id: int | None) -> int | None:
        """A rank in front of the card that stands there, or None: room for one has been made first."""
        if above is None:
            return below - GAP
        if below - above > 1:
            return (above + below) // 2
        make_room(self._conn, {**self._values, "rank": above})
        return None
