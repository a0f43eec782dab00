"""What a process may remember of the board: names, lanes and the layout of projects.

User names and lanes never change, so they are kept for good. A layout (titles of columns and swimlanes, a queue's
rules) may be changed by another process; it is at most ``_FRESH`` seconds old, and rules that gate a write are
checked by the write itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from taskfabric.db.pool import Connection
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Trust
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.status import ColumnRole
from taskfabric.domain.take_order import PRIORITIES, serves
from taskfabric.ports.board import Want

_FRESH: Final = 5.0
_MANY_WANTS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What the tasks of one lane have in common."""

    project_id: int
    tier: str
    priority: int
    needs: tuple[str, ...]
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A project as its cards show it."""

    project_id: int
    name: str  # the queue's name, or the project's
    kind: QueueKind | None
    owner_id: int | None
    score_check: bool
    human_verify: bool
    columns: Mapping[int, str]  # id to title, in order
    by_role: Mapping[ColumnRole, int]
    role_of: Mapping[int, ColumnRole | None]
    swimlanes: Mapping[int, str]
    swimlane_id: int  # the default one
    limits: Mapping[int, int]  # work in progress, by column; those without are left out

    def column_for(self, role: ColumnRole) -> int:
        """The column with this role. Raises NotFound for a queue that is not mapped."""
        try:
            return self.by_role[role]
        except KeyError:
            raise not_found(f"column for {role.value!r} in {self.name!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The lanes of one claimer as a claim passes them: array literals."""

    lanes: str
    groups: str  # the place of each lane's (queue, priority) in the take order
    only: int | None  # the lane, if there is just one


def array(numbers: Iterable[int | None]) -> str:
    """These numbers as an array literal: a list would be converted one by one, at each call."""
    return "{" + ",".join("NULL" if n is None else str(n) for n in numbers) + "}"


def _fits(want: Want, lane: Lane) -> bool:
    return lane.project_id in want.queues and serves(
        tier=lane.tier,
        needs=lane.needs,
        required=lane.trust,
        own_queue=lane.project_id in want.own,
        tiers=want.tiers,
        capabilities=want.capabilities,
        trust=want.trust,
    )


def _group(want: Want, lane: Lane) -> int:
    return want.queues.index(lane.project_id) * len(PRIORITIES) + want.order.index(lane.priority)


class Names:
    """The caches of one process; safe to use from any thread."""

    def __init__(self) -> None:
        self._users: dict[int, str] = {}
        self._lanes: dict[int, Lane] = {}
        self._lane_ids: dict[Lane, int] = {}
        self._known_lane = 0  # every committed lane up to this id is known
        self._news = 0  # how often the lanes were looked at
        self.copies = 1  # of the database that there were: another after each restore
        self._served: dict[Want, Served] = {}
        self._missed = False
        self._layouts: dict[int, tuple[float, Layout]] = {}
        self._lock = threading.Lock()

    def user(self, conn: Connection, user_id: int | None) -> str | None:
        """The name of a user; None for None."""
        if user_id is None:
            return None
        name = self._users.get(user_id)
        if name is None:
            rows = conn.execute("SELECT id, username FROM users").fetchall()
            self._users.update(rows)
            name = self._users.get(user_id, f"user-{user_id}")
        return name

    def lane(self, conn: Connection, lane_id: int) -> Lane:
        """The lane with this id."""
        lane = self._lanes.get(lane_id)
        if lane is None:
            row = conn.execute(
                "SELECT project_id, tier, priority, needs, trust FROM lanes WHERE id = %s", (lane_id,)
            ).fetchone()
            assert row is not None, "a task points to its lane, and lanes are never removed"
            lane = Lane(project_id=row[0], tier=row[1], priority=row[2], needs=tuple(row[3]), trust=Trust(row[4]))
            self._remember(lane_id, lane)
        return lane

    def lane_id(self, conn: Connection, lane: Lane) -> int:
        """The id of this lane, which exists afterwards."""
        lane_id = self._lane_ids.get(lane)
        if lane_id is None:
            row = conn.execute(
                "SELECT fabric_lane(%s, %s, %s::smallint, %s::text[], %s::smallint)",
                (lane.project_id, lane.tier, lane.priority, sorted(lane.needs), int(lane.trust)),
            ).fetchone()
            assert row is not None
            lane_id = int(row[0])
            self._missed = True
            # Not remembered: this transaction may yet be rolled back. The next look at the lanes finds it.
        return lane_id

    def learn_lanes(self, conn: Connection) -> None:
        """Every lane that is committed now is known afterwards."""
        rows = conn.execute(
            "SELECT id, project_id, tier, priority, needs, trust FROM lanes WHERE id > %s ORDER BY id",
            (self._known_lane,),
        ).fetchall()
        for lane_id, project_id, tier, priority, needs, trust in rows:
            self._remember(
                lane_id,
                Lane(project_id=project_id, tier=tier, priority=priority, needs=tuple(needs), trust=Trust(trust)),
            )
        with self._lock:
            if rows:
                self._known_lane = max(self._known_lane, rows[-1][0])
            self._news += 1
            self._served.clear()

    def missed_a_lane(self) -> bool:
        """Whether, since the last time this was asked, a lane was named that the cache did not have."""
        missed, self._missed = self._missed, False
        return missed

    @property
    def last_lane(self) -> int:
        """Every committed lane up to this id is known."""
        return self._known_lane

    def served(self, want: Want) -> Served:
        """The known lanes that this claimer may serve, grouped by the take order."""
        found = self._served.get(want)
        if found is None:
            with self._lock:
                news, known, lanes = self._news, self._known_lane, sorted(self._lanes.items())
            fitting = [(i, _group(want, lane)) for i, lane in lanes if i <= known and _fits(want, lane)]
            found = Served(
                lanes=array(i for i, _ in fitting),
                groups=array(g for _, g in fitting),
                only=fitting[0][0] if len(fitting) == 1 else None,
            )
            with self._lock:
                if len(self._served) > _MANY_WANTS:
                    self._served.clear()
                # Kept, an answer from before the last news would hide its lanes until there are others.
                if news == self._news:
                    self._served[want] = found
        return found

    def _remember(self, lane_id: int, lane: Lane) -> None:
        with self._lock:
            self._lanes[lane_id] = lane
            self._lane_ids[lane] = lane_id

    def fresh(self, project_id: int) -> Layout | None:
        """The project's layout if it is known and not too old."""
        cached = self._layouts.get(project_id)
        return cached[1] if cached is not None and time.monotonic() - cached[0] < _FRESH else None

    def layout(self, conn: Connection, project_id: int) -> Layout:
        """The project's layout, a few seconds old at most. Raises NotFound."""
        cached = self.fresh(project_id)
        if cached is not None:
            return cached
        layout = _read_layout(conn, project_id)
        self._layouts[project_id] = (time.monotonic(), layout)
        return layout

    def forget(self) -> None:
        """Nothing is remembered: the database is another one."""
        with self._lock:
            self.copies += 1
            self._users.clear()
            self._lanes.clear()
            self._lane_ids.clear()
            self._layouts.clear()
            self._served.clear()
            self._news += 1
            self._known_lane = 0

    def forget_layout(self, project_id: int | None = None) -> None:
        """The next look reads the project's layout (or all of them) anew."""
        if project_id is None:
            self._layouts.clear()
        else:
            self._layouts.pop(project_id, None)


# One row: the project with its queue's rules; columns and swimlanes as arrays in their order.
_LAYOUT: Final = """
SELECT coalesce(q.name, p.name), q.kind, q.owner_id, coalesce(q.score_check, false), coalesce(q.human_verify, false),
       (SELECT array_agg(c.id ORDER BY c.position) FROM columns c WHERE c.project_id = p.id),
       (SELECT array_agg(c.title ORDER BY c.position) FROM columns c WHERE c.project_id = p.id),
       (SELECT array_agg(c.role ORDER BY c.position) FROM columns c WHERE c.project_id = p.id),
       (SELECT array_agg(s.id ORDER BY s.position) FROM swimlanes s WHERE s.project_id = p.id),
       (SELECT array_agg(s.name ORDER BY s.position) FROM swimlanes s WHERE s.project_id = p.id),
       coalesce(q.swimlane_id, (SELECT s.id FROM swimlanes s WHERE s.project_id = p.id ORDER BY s.position LIMIT 1)),
       (SELECT array_agg(c.task_limit ORDER BY c.position) FROM columns c WHERE c.project_id = p.id)
  FROM projects p LEFT JOIN queues q ON q.project_id = p.id
 WHERE p.id = %s
"""


def _read_layout(conn: Connection, project_id: int) -> Layout:
    row = conn.execute(_LAYOUT, (project_id,)).fetchone()
    if row is None:
        raise not_found("project")
    ids, titles, roles = row[5] or [], row[6] or [], row[7] or []
    role_of = {i: ColumnRole(r) if r else None for i, r in zip(ids, roles, strict=True)}
    return Layout(
        project_id=project_id,
        name=row[0],
        kind=QueueKind(row[1]) if row[1] else None,
        owner_id=row[2],
        score_check=row[3],
        human_verify=row[4],
        columns=dict(zip(ids, titles, strict=True)),
        by_role={role: i for i, role in role_of.items() if role is not None},
        role_of=role_of,
        swimlanes=dict(zip(row[8] or [], row[9] or [], strict=True)),
        swimlane_id=row[10],
        limits={i: limit for i, limit in zip(ids, row[11] or [], strict=True) if limit},
    )


__all__ = ["Connection", "Lane", "Layout", "Names", "array"]
