"""The calls that make a card show what its task is."""

from __future__ import annotations

from typing import Any

from taskfabric.boards.kanboard.client import Call, say
from taskfabric.boards.kanboard.face import Face, written
from taskfabric.domain.task import Task


def calls(task: Task, now: Face, want: Face, position: int) -> list[Call]:
    """What makes the card look so; closing it comes last and is not among them."""
    different = now.differs(want)
    found: list[Call] = []
    if want.active and not now.active:
        found.append(say("openTask", task_id=task.id))
    if "project_id" in different:
        spot = {"column_id": want.column_id, "swimlane_id": want.swimlane_id}
        found.append(say("moveTaskToProject", task_id=task.id, project_id=want.project_id, **spot))
    fields: dict[str, Any] = {}
    if "title" in different:
        fields["title"] = task.title
    if "text" in different:
        fields["description"] = task.description
    if "priority" in different:
        fields["priority"] = want.priority
    if "score" in different:
        fields["score"] = want.score
    if "due" in different:
        fields["date_due"] = written(want.due)
    if "owner_id" in different:
        fields["owner_id"] = want.owner_id
    if "tags" in different:
        fields["tags"] = list(want.tags)
    if fields:
        found.append(say("updateTask", id=task.id, **fields))
    if {"column_id", "swimlane_id"} & different and "project_id" not in different:
        found.append(place(task.id, want, position))
    return found


def place(task_id: int, want: Face, position: int) -> Call:
    return say(
        "moveTaskPosition",
        project_id=want.project_id,
        task_id=task_id,
        column_id=want.column_id,
        position=position,
        swimlane_id=want.swimlane_id,
    )


def metadata(task: Task) -> dict[str, str]:
    """The counters and the provenance, for people to read. Nothing is ever read back from there."""
    shown: dict[str, object] = {
        "fabric.status": task.status.value,
        "fabric.epoch": task.epoch,
        "fabric.attempts": f"{task.attempts}/{task.max_attempts}",
        "fabric.submitter": task.submitter,
        "fabric.trust": task.trust.word,
    }
    if task.parent is not None:
        shown["fabric.parent"] = task.parent
    if task.not_before is not None:
        shown["fabric.not_before"] = task.not_before.isoformat()
    return {name: str(value)[:255] for name, value in shown.items()}
