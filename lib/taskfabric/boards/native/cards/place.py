"""Where a card stands: column, swimlane and position, written as one row however long the column is.

Moves of one project come one after the other, so that a position is still free when it is written. Ranks are those of
``tasks.rank``; two cards may share one, then the older stands above.
"""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native.arrange import GAP, MOVE, SHIFT, make_room, shed
from taskfabric.boards.native.cards.faces import SEEN_HERE, reads_all, through
from taskfabric.boards.native.judge import waive_broken
from taskfabric.boards.native.names import Connection, Layout, Names
from taskfabric.boards.native.rows import Remark, record
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import IllegalMove, not_found
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.domain.status import ColumnRole, Status
from taskfabric.ports.faces import Spot

_LOCK: Final = "SELECT pg_advisory_xact_lock(7302, %s)"
_CARD: Final = """
SELECT t.project_id, t.column_id, t.swimlane_id, t.rank, t.is_active, t.status, t.open_blockers, t.lease_until,
       t.owner_id FROM tasks t WHERE t.id = %s FOR UPDATE
"""
_MOVED: Final = """
INSERT INTO task_faces (task_id, date_moved) VALUES (%s, fabric_now())
ON CONFLICT (task_id) DO UPDATE SET date_moved = EXCLUDED.date_moved
"""
# In a project that is no queue nobody claims and nothing is finished: the card keeps its assignee and its words.
_CARRY: Final = """
UPDATE tasks t SET column_id = %(column)s, role = %(role)s, swimlane_id = %(swimlane)s, rank = %(rank)s,
       status = fabric_status(%(role)s, is_active, flags), seq = seq + 1, told = greatest(told, pg_current_xact_id()),
       date_modification = fabric_now(),
       ready_since = CASE WHEN %(role)s::text = 'ready' THEN fabric_now() ELSE ready_since END
 WHERE t.id = %(task)s
"""


def lock_cells(conn: Connection, project_id: int) -> None:
    """Nobody else moves a card of this project until the end of the transaction."""
    conn.execute(_LOCK, (project_id,))


def place(conn: Connection, names: Names, task_id: int, spot: Spot, viewer: Viewer | None, stamp: Stamp) -> bool:
    """The card stands there; False: it did already. Raises NotFound for a column or swimlane of another project."""
    where = conn.execute("SELECT project_id FROM tasks WHERE id = %s", (task_id,)).fetchone()
    if where is None:
        raise not_found("task")
    lock_cells(conn, where[0])
    row = conn.execute(_CARD, (task_id,)).fetchone()
    if row is None or row[0] != where[0]:  # gone, or in another project by now
        raise not_found("task")
    project_id, column_id, swimlane_id, rank, is_active, status, open_blockers, lease_until, owner_id = row
    layout = names.layout(conn, project_id)
    if layout.kind is not None and not is_active:
        raise IllegalMove(f"#{task_id} is closed, and a closed card of a queue does not move", next="reopen it first")
    lane = spot.swimlane_id or swimlane_id
    if spot.column_id not in layout.columns:
        raise not_found("column")
    if lane not in layout.swimlanes:
        raise not_found("swimlane")
    cell = _Cell(conn, task_id, project_id, spot.column_id, lane, viewer)
    stays = (column_id, swimlane_id) == (spot.column_id, lane)
    if stays and is_active and cell.position(rank) == spot.position:
        return False
    role = layout.role_of[spot.column_id]
    values: dict[str, Any] = {
        "task": task_id,
        "column": spot.column_id,
        "role": None if role is None else role.value,
        "swimlane": lane,
        "rank": cell.rank_for(spot.position),
        "keep": ~int(shed(role)),
        "owner": _owner(role, stamp, None if lease_until is not None else owner_id),
        "producer": stamp.principal_id if role is ColumnRole.DONE else None,
    }
    if column_id == spot.column_id:
        conn.execute(SHIFT, values)
        data = {"swimlane": layout.swimlanes[lane], "position": spot.position, "changed": lane != swimlane_id}
        record(conn, task_id, "shifted", stamp, None, data)
    elif layout.kind is None:
        conn.execute(_CARRY, values)
        # A closed card that leaves the column for what is done was never verified, and the other way round.
        record(conn, task_id, "moved", stamp, None, _moved(layout, column_id, spot, None), was=Status(status))
    else:
        freed = waive_broken(conn, task_id) if role is ColumnRole.READY and open_blockers else 0
        conn.execute(MOVE, {**values, "freed": freed})
        remark = Remark(
            kind=LineKind.MOVED, text=f"from {layout.columns[column_id]} to {layout.columns[spot.column_id]}"
        )
        data = _moved(layout, column_id, spot, lease_until)
        record(conn, task_id, "moved", stamp, remark, data, was=Status(status))
    if not stays:
        conn.execute(_MOVED, (task_id,))
    return True


def _owner(role: ColumnRole | None, stamp: Stamp, assigned: int | None) -> int | None:
    """Whose the card of a queue is there: work is its mover's, an assignment made before it was taken stays."""
    if role is ColumnRole.WORKING:
        return stamp.principal_id if assigned is None else assigned
    return None if role is ColumnRole.DONE else assigned


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
_COUNT: Final = f"SELECT count(*) FROM tasks t WHERE {_HERE} AND (t.rank, t.id) < (%(rank)s, %(task)s)"
_NTH: Final = f"SELECT t.rank, t.id FROM tasks t WHERE {_HERE} {{seen}} ORDER BY t.rank, t.id OFFSET %(skip)s LIMIT 1"
_ABOVE: Final = (
    f"SELECT t.rank FROM tasks t WHERE {_HERE} AND (t.rank, t.id) < (%(rank)s, %(at)s)"
    " ORDER BY t.rank DESC, t.id DESC LIMIT 1"
)


class _Cell:
    """The open cards of one column and swimlane, without the one that is moved."""

    def __init__(
        self, conn: Connection, task_id: int, project_id: int, column_id: int, swimlane_id: int, viewer: Viewer | None
    ) -> None:
        self._conn = conn
        self._values: dict[str, Any] = {
            "task": task_id,
            "project": project_id,
            "column": column_id,
            "swimlane": swimlane_id,
            **through(viewer),
        }
        # Whoever sees only some of the cards counts only those.
        self._seen = "" if reads_all(conn, project_id, viewer) else f"AND {SEEN_HERE}"

    def position(self, rank: int) -> int:
        """Where a card with this rank, the one that is moved, stands."""
        row = self._conn.execute(f"{_COUNT} {self._seen}", {**self._values, "rank": rank}).fetchone()
        assert row is not None
        return int(row[0]) + 1

    def rank_for(self, position: int) -> int:
        """A rank that puts the card there, or at the end if there are not so many."""
        found = self._between(position)
        if found is None:  # no room between these two
            found = self._between(position)
        assert found is not None, "a gap has just been made"
        return found

    def _between(self, position: int) -> int | None:
        """A rank in front of the card that stands there, or None: there was none, and now there is room for one."""
        values = {**self._values, "skip": position - 1}
        below = self._conn.execute(_NTH.format(seen=self._seen), values).fetchone()
        if below is None:
            return self._at_the_end()
        above = self._conn.execute(_ABOVE, {**self._values, "rank": below[0], "at": below[1]}).fetchone()
        if above is None:
            return int(below[0]) - GAP
        if below[0] - above[0] > 1:
            return (int(above[0]) + int(below[0])) // 2
        make_room(self._conn, {**self._values, "rank": above[0]})
        return None

    def _at_the_end(self) -> int:
        row = self._conn.execute(f"SELECT nextval('task_rank') * {GAP}").fetchone()
        assert row is not None
        return int(row[0])
