"""A real Kanboard with a little of everything comes over whole, in two goes, and the dry run said so before.

``KANBOARD_URL`` and ``KANBOARD_TOKEN`` name it, as for the differential test. What is not of the test's own projects
comes along and is not looked at.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from taskfabric.boards.kanboard.client import Kanboard, say
from taskfabric.boards.kanboard.reader import read
from taskfabric.services import verbs
from taskfabric.testing import TestServer
from tests.integration.test_moving import Place, opened

_URL: Final = os.environ.get("KANBOARD_URL", "")
pytestmark = pytest.mark.skipif(not _URL, reason="KANBOARD_URL names no Kanboard")

_TASKS: Final = 60  # of each project
_BATCH: Final = 100  # rows of one call


@dataclass
class Rich:
    """What was made there: how much of each table."""

    board: Kanboard
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    projects: dict[int, str] = field(default_factory=dict)
    users: list[int] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)

    def make(self, table: str, method: str, **params: Any) -> int:
        answer = self.board.call(method, **params)
        assert answer, (method, params)
        self.made[table] += 1
        return int(answer)

    def project(self, number: int) -> None:
        name = f"rich {self.mark} {number}"
        project = self.make("projects", "createProject", name=name, description="*all* of it 🪴")
        self.projects[project] = name
        self.made["columns"] += 4
        self.made["swimlanes"] += 1
        at = {"project_id": project}
        lane = self.make("swimlanes", "addSwimlane", name="back", **at)
        column = self.make("columns", "addColumn", title="Review", task_limit=3, **at)
        categories = [self.make("project_has_categories", "createCategory", name=n, **at) for n in ("hedge", "pond")]
        for user, role in zip(self.users, ("project-manager", "project-member", "project-viewer"), strict=True):
            self.make("project_has_users", "addProjectUser", user_id=user, role=role, **at)
        self.make("project_has_metadata", "saveProjectMetadata", values={"town": "Bønn"}, **at)
        self.make("project_has_files", "createProjectFile", filename="plan.txt", blob=_bytes(b"a plan"), **at)
        first = [
            self.task(
                at,
                n,
                category_id=categories[n % 2],
                **({"swimlane_id": lane, "column_id": column} if n % 5 == 0 else {}),
            )
            for n in range(_TASKS)
        ]
        self.made["tags"] += 3
        for one, other in zip(first[::7], first[1::7], strict=False):
            self.make("task_has_links", "createTaskLink", task_id=one, opposite_task_id=other, link_id=3)
            self.made["task_has_links"] += 1  # and its mirror
        for closed in first[::4]:
            assert self.board.call("closeTask", task_id=closed) is True

    def task(self, at: dict[str, int], n: int, **more: Any) -> int:
        tags = ["a", "b", "c"][: n % 4]
        task = self.make(
            "tasks",
            "createTask",
            title=f"task {n} of {self.mark}",
            description="words " * (n % 9),
            owner_id=self.users[n % 2],
            creator_id=self.users[(n + 1) % 2],
            priority=n % 4,
            score=n % 8,
            date_due="2031-12-24 10:30",
            reference=f"R-{n}",
            tags=tags,
            **at,
            **more,
        )
        self.made["task_has_tags"] += len(tags)
        self.make("comments", "createComment", task_id=task, user_id=self.users[0], content=f"said {n}")
        if n % 3 == 0:
            self.make("subtasks", "createSubtask", task_id=task, title="a part", status=n % 2, time_estimated=2)
            self.make("task_has_metadata", "saveTaskMetadata", task_id=task, values={"depth": n})
            address = {"url": "https://example.org/a", "dependency": "related", "type": "weblink", "title": "a page"}
            self.make("task_has_external_links", "createExternalTaskLink", task_id=task, **address)
            self.make("task_has_files", "createTaskFile", task_id=task, filename="f.bin", blob=_bytes(b"\0\1"), **at)
        return task


@pytest.fixture
def rich() -> Iterator[Rich]:
    made = Rich(board=Kanboard(_URL, os.environ.get("KANBOARD_TOKEN", "")))
    for number in range(3):
        made.users.append(
            int(made.board.call("createUser", username=f"r{made.mark}{number}", password="not so secret"))
        )
    made.made["users"] += 3
    made.project(1)
    made.project(2)
    yield made
    made.board.many([say("removeProject", project_id=project) for project in made.projects])
    made.board.many([say("removeUser", user_id=user) for user in made.users])


def _bytes(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _read(board: Kanboard) -> tuple[dict[str, int], list[dict[str, Any]], list[str]]:
    left: list[str] = []
    highest, rows = read(board, say_what=lambda _: None, left=lambda what, why: left.append(f"{what}: {why}"))
    return highest, list(rows), left


def _counted(place: Place, rich: Rich) -> Counter[str]:
    """How much there is here of what was made there."""
    rows = place.export()
    projects = {row["id"] for row in rows if row["table"] == "projects" and row["name"] in rich.projects.values()}
    tasks = {row["id"] for row in rows if row["table"] == "tasks" and row["project_id"] in projects}
    users = {row["id"] for row in rows if row["table"] == "users" and rich.mark in row["username"]}
    found: Counter[str] = Counter(projects=len(projects), users=len(users))
    for row in rows:
        of_task = row["table"] not in ("projects", "users", "task_faces") and row.get("task_id") in tasks
        if row["table"] not in ("projects", "users") and (of_task or row.get("project_id") in projects):
            found[row["table"]] += 1
    return found


def _import(place: Place, rows: list[dict[str, Any]], highest: dict[str, int], *, dry: bool = False) -> Counter[str]:
    """What was made, by table, in calls like those of the command line."""
    made: Counter[str] = Counter()
    for begin in range(0, len(rows), _BATCH):
        batch = rows[begin : begin + _BATCH]
        made.update(place.alice.call(verbs.Import(source=_URL, records=batch, highest=highest, dry=dry))["made"])
    if not dry:
        place.alice.call(verbs.Import(source=_URL, last=True))
    return +made


def test_a_rich_kanboard_comes_over_whole_in_two_goes(rich: Rich, server: TestServer, tmp_path: Path) -> None:
    highest, rows, left = _read(rich.board)
    assert [what for what in left if rich.mark in what] == []
    with opened(server, tmp_path / "ours") as other:
        foreseen = _import(other, rows, highest, dry=True)
        first = _import(other, rows[: len(rows) // 2], highest)
        second = _import(other, rows, highest)
        assert first + second == foreseen
        assert _counted(other, rich) == rich.made
        assert _import(other, rows, highest, dry=True) == Counter()
        assert _import(other, rows, highest) == Counter()
