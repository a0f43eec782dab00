"""A project and a queue under Kanboard's API, spoken shortly."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any, Final

from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.queue import QueueKind
from taskfabric.remote import RemoteFabric
from taskfabric.services.following import Followings
from taskfabric.services.verbs import Claim, Submit
from taskfabric.wiring import SYSTEM
from tests.integration.board_api import BoardApi

_PATIENCE: Final = 20.0  # seconds
_NUMBER: Final = itertools.count(1)
TITLES: Final = ("Backlog", "Ready", "Work in progress", "Done")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """One project of the API; ``by`` is who calls unless somebody else is named."""

    api: BoardApi
    id: int
    columns: dict[str, int]
    swimlane: int
    by: str = "alice"
    queue: str = ""

    def call(self, method: str, *args: Any, by: str | None = None, **named: Any) -> Any:
        return self.api.call(method, *args, by=by or self.by, **named)

    def create(self, title: str = "a card", *, by: str | None = None, **fields: Any) -> int:
        made = self.call("createTask", by=by, title=title, project_id=self.id, **fields)
        assert made, "the card was not made"
        return int(made)

    def task(self, task_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.call("getTask", task_id=task_id)
        return found

    def move(self, task_id: int, column: str, position: int = 1, *, by: str | None = None, swimlane: int = 0) -> Any:
        return self.call("moveTaskPosition", self.id, task_id, self.columns[column], position, swimlane, by=by)

    def order(self, column: str) -> list[int]:
        """The open cards of a column from top to bottom."""
        rows = [r for r in self.call("getAllTasks", project_id=self.id) if r["column_id"] == self.columns[column]]
        return [row["id"] for row in sorted(rows, key=lambda row: row["position"])]

    def found(self, query: str, *, by: str | None = None) -> list[int]:
        return [row["id"] for row in self.call("searchTasks", project_id=self.id, query=query, by=by)]

    def fabric(self, name: str) -> RemoteFabric:
        return self.api.served.fabric(name)

    def submitted(self, title: str = "some work", *, by: str = "alice", **fields: Any) -> int:
        """A task of the queue, through the fabric's own verb."""
        return self.fabric(by).call(Submit(title=title, to=self.queue, **fields)).task.id

    def claimed(self, title: str = "some work", *, by: str = "kimi", **fields: Any) -> int:
        """A task of the queue that this agent holds."""
        task_id = self.submitted(title, **fields)
        got = self.fabric(by).call(Claim(queue=self.queue, limit=1))
        assert [one.task.id for one in got] == [task_id]
        return task_id


_BEHIND: Final = """
SELECT EXISTS (SELECT FROM journal j, journal_followers f WHERE (j.xid, j.id) > (f.xid, f.id) AND j.id <= %s)
"""


def follow(api: BoardApi) -> list[Followings]:
    """Everything that happened until now has had its effects. (Somebody else's transaction, in whatever database of
    the server, makes the follower wait for its end: what it writes would stand before.)"""
    house = api.served.house
    rounds = []
    with house.database.connection() as conn:
        last = conn.execute("SELECT coalesce(max(id), 0) FROM journal").fetchone()
        deadline = time.monotonic() + _PATIENCE
        while True:
            rounds.append(house.hallway.following.round())
            behind = conn.execute(_BEHIND, last).fetchone()
            assert behind is not None
            if not behind[0]:
                return rounds
            assert time.monotonic() < deadline, "somebody's transaction does not end"


def project(api: BoardApi, *, by: str = "alice") -> Ground:
    """A project that is no queue."""
    made = api.call("createProject", f"project {next(_NUMBER)}", by=by)
    assert made
    return _ground(api, made, by, "")


def queue(api: BoardApi) -> Ground:
    """A pool of its own, in which alice and bob manage and kimi and qwen work."""
    name = f"pool-{next(_NUMBER)}"
    projects = api.served.house.projects
    made, _ = projects.make_queue(name, QueueKind.POOL, SYSTEM)
    for who, role in (
        *(("alice", ProjectRole.MANAGER), ("bob", ProjectRole.MEMBER)),
        *(("kimi", ProjectRole.MEMBER), ("qwen", ProjectRole.MEMBER)),
    ):
        projects.set_member(made.project_id, api.user_id(who), role, SYSTEM)
    return _ground(api, made.project_id, "alice", name)


def _ground(api: BoardApi, project_id: int, by: str, name: str) -> Ground:
    house = api.served.house
    return Ground(
        api=api,
        id=project_id,
        columns={column.title: column.id for column in house.projects.columns(project_id)},
        swimlane=house.projects.swimlanes(project_id)[0].id,
        by=by,
        queue=name,
    )
