"""Who belongs to which queue, as one process knows it: a picture of both, at most a few seconds old.

Every claim and every submit asks this, so it must cost no round trip; there are few queues and few members.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskfabric.db.pool import Database
from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import ColumnRole

_FRESH: Final = 3.0  # seconds
_LOOK_AGAIN: Final = 0.2  # a name that is not known may have been made elsewhere just now

QUEUE: Final = """
SELECT q.project_id, q.name, q.kind, q.owner_id, u.username, q.score_check, q.needs_verified, q.human_verify,
       q.backlog_column IS NULL, q.ready_column IS NULL, q.working_column IS NULL, q.done_column IS NULL
  FROM queues q LEFT JOIN users u ON u.id = q.owner_id
"""
_ACTIVE: Final = QUEUE + "JOIN projects p ON p.id = q.project_id WHERE p.is_active ORDER BY q.project_id"
# The last one counts: a role of one's own, else the highest that a group gives (the names sort the other way round).
_MEMBERS: Final = """
SELECT m.user_id, m.project_id, m.role FROM project_roles m ORDER BY m.user_id, m.project_id, m.own, m.role DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """All queues of active projects, and the members of all projects, as they were read."""

    at: float
    by_id: Mapping[int, Queue]
    by_name: Mapping[str, Queue]
    roles: Mapping[int, Mapping[int, ProjectRole]]  # principal, project
    of: dict[int, list[Queue]]  # principal; filled when asked for


class Membership:
    """Answers from the present picture, and takes a new one when it is old or was made stale by us."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._picture: _Picture | None = None
        self._generation = 0

    def forget(self) -> None:
        """The next question is answered from a new picture."""
        with self._lock:
            self._generation += 1
            self._picture = None

    def queue(self, name_or_id: str | int) -> Queue | None:
        picture = self._now()
        found = _look(picture, name_or_id)
        if found is None and self._clock() - picture.at > _LOOK_AGAIN:
            found = _look(self._take(), name_or_id)
        return found

    def queues(self) -> list[Queue]:
        return list(self._now().by_id.values())

    def queues_of(self, principal_id: int) -> list[Queue]:
        """Those it owns, then those it is a member of, each by id."""
        picture = self._now()
        found = picture.of.get(principal_id)
        if found is None:
            mine = picture.roles.get(principal_id, {})
            belong = [q for q in picture.by_id.values() if q.owner_id == principal_id or q.project_id in mine]
            found = picture.of[principal_id] = sorted(belong, key=lambda q: (q.owner_id != principal_id, q.project_id))
        return list(found)

    def role_of(self, project_id: int, principal_id: int) -> ProjectRole | None:
        return self._now().roles.get(principal_id, {}).get(project_id)

    def _now(self) -> _Picture:
        picture = self._picture
        if picture is not None and self._clock() - picture.at < _FRESH:
            return picture
        return self._take()

    def _take(self) -> _Picture:
        generation = self._generation
        at = self._clock()
        with self._database.connection() as conn:
            queues = [queue_of(row) for row in conn.execute(_ACTIVE).fetchall()]
            members: list[tuple[Any, ...]] = conn.execute(_MEMBERS).fetchall()
        roles: dict[int, dict[int, ProjectRole]] = {}
        for principal_id, project_id, role in members:
            roles.setdefault(principal_id, {})[project_id] = ProjectRole(role)
        picture = _Picture(
            at=at,
            by_id={q.project_id: q for q in queues},
            by_name={q.name: q for q in queues},
            roles=roles,
            of={},
        )
        with self._lock:
            if generation == self._generation:
                self._picture = picture
        return picture


def _look(picture: _Picture, name_or_id: str | int) -> Queue | None:
    return picture.by_id.get(name_or_id) if isinstance(name_or_id, int) else picture.by_name.get(name_or_id)


def queue_of(row: tuple[Any, ...]) -> Queue:
    """The queue that a row of ``QUEUE`` describes."""
    roles = (ColumnRole.BACKLOG, ColumnRole.READY, ColumnRole.WORKING, ColumnRole.DONE)
    return Queue(
        project_id=row[0],
        name=row[1],
        kind=QueueKind(row[2]),
        owner_id=row[3],
        owner=row[4],
        score_check=row[5],
        needs_verified=row[6],
        human_verify=row[7],
        unmapped=tuple(role.value for role, missing in zip(roles, row[8:12], strict=True) if missing),
    )
