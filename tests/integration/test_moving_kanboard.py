"""A Kanboard is brought over by its API; here it is our own, which answers as one."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.reader import read
from taskfabric.domain.status import Status
from taskfabric.services import verbs
from taskfabric.testing import TestServer
from tests.integration.board_api import APP_TOKEN, BoardApi, board_api
from tests.integration.test_moving import opened


def furnished(api: BoardApi) -> None:
    """A project with a little of everything."""
    project = api.call("createProject", name="Garden", description="all *green*", identifier="GARDEN")
    api.call("addProjectUser", project_id=project, user_id=api.user_id("bob"), role="project-viewer")
    api.call("addSwimlane", project_id=project, name="back")
    category = api.call("createCategory", project_id=project, name="hedges", color_id="blue")
    api.call("saveProjectMetadata", project_id=project, values={"town": "Bønn"})
    dig = api.call(
        "createTask",
        title="Dig 🪴",
        project_id=project,
        description="deep",
        tags=["wet", "cold"],
        color_id="red",
        category_id=category,
        priority=2,
        score=5,
        reference="D-1",
        date_due="2030-01-02 03:04",
    )
    plant = api.call("createTask", title="Plant", project_id=project, owner_id=api.user_id("alice"))
    api.call("createTaskLink", task_id=plant, opposite_task_id=dig, link_id=3)
    api.call("createComment", task_id=dig, user_id=api.user_id("alice"), content="mind the pipe")
    api.call("createSubtask", task_id=dig, title="find a spade", status=1)
    api.call(
        "createTaskFile",
        project_id=project,
        task_id=dig,
        filename="plan.txt",
        blob=base64.b64encode(b"a plan").decode(),
    )
    api.call("saveTaskMetadata", task_id=dig, values={"depth": "2"})
    api.call("createExternalTaskLink", task_id=dig, url="https://example.org/", dependency="related", title="more")
    gone = api.call("createTask", title="Gone", project_id=project, recurrence_status=1, recurrence_trigger=2)
    api.call("closeTask", task_id=gone)


def test_a_kanboard_comes_over_whole_and_a_second_run_brings_nothing_twice(server: TestServer, tmp_path: Path) -> None:
    with server.database() as theirs, board_api(theirs.dsn, tmp_path / "theirs") as api:
        furnished(api)
        left: list[str] = []
        board = Kanboard(api.served.url, APP_TOKEN)
        _, told = read(board, say_what=lambda _: None, left=lambda what, why: left.append(f"{what}: {why}"))
        rows = list(told)
        assert left == []
        with opened(server, tmp_path / "ours") as other:
            assert other.bring(rows, source=board.url)["left_out"] == []
            once = other.export()
            other.bring(rows, source=board.url)
            assert other.export() == once
            made = Counter(row["table"] for row in once)
            assert made["task_has_files"] == made["subtasks"] == made["task_has_external_links"] == 1
            queue = other.alice.call(verbs.Adopt(project="Garden"))
            found = {t.title: t for t in other.alice.call(verbs.List(queue=queue.name, limit=20))}
            dig = found["Dig 🪴"]
            assert (dig.description, dig.tags, dig.priority, dig.score, dig.reference) == (
                "deep",
                ("cold", "wet"),
                2,
                5,
                "D-1",
            )
            assert dig.due is not None
            assert dig.due.isoformat() == "2030-01-02T03:04:00+00:00"
            assert found["Plant"].blockers == (dig.id,)
            thread = other.alice.call(verbs.Show(task=dig.id))
            assert ("alice", "mind the pipe") in {(entry.author, entry.text) for entry in thread.entries}
            (file,) = thread.attachments
            assert other.house.files.get(file.sha256) == b"a plan"
            every = other.alice.call(verbs.List(queue=queue.name, statuses=tuple(Status), limit=20))
            assert sorted(t.title for t in every) == ["Dig 🪴", "Gone", "Gone", "Plant"]
            kin = {row["task_id"]: row for row in once if row["table"] == "task_faces" and row["recurrence_status"]}
            (before,) = (row for row in kin.values() if row["recurrence_status"] == 2)
            assert kin[before["recurrence_child"]]["recurrence_parent"] == before["task_id"]


def test_a_dry_run_says_what_an_import_then_does_and_keeps_nothing(server: TestServer, tmp_path: Path) -> None:
    with server.database() as theirs, board_api(theirs.dsn, tmp_path / "theirs") as api:
        furnished(api)
        board = Kanboard(api.served.url, APP_TOKEN)
        highest, found = read(board, say_what=lambda _: None, left=lambda what, why: None)
        rows = list(found)
        with opened(server, tmp_path / "ours") as other:
            other.alice.call(verbs.Submit(title="its number is taken"))
            before = other.export()
            foreseen = other.look(rows, source=board.url)
            assert other.export() == before
            came = other.counted(rows, source=board.url, highest=highest)
            assert foreseen == came
            assert foreseen["renumbered"]["tasks"] == 1
            again = other.look(rows, source=board.url)
            assert again == other.counted(rows, source=board.url)
            assert (again["made"], again["renumbered"]) == ({}, {})
