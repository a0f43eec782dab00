"""What happened in projects, as Kanboard's activity stream tells it, read from the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskfabric.ports.dossier import Happening
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call
from taskfabric.surfaces.kanboard_api.shapes import epoch

_MOST: Final = 50  # events of one answer
# The journal's kind, Kanboard's name for it, and what a person reads.
_TOLD: Final[dict[str, tuple[str, str]]] = {
    "submitted": ("task.create", "created the task"),
    "claimed": ("task.move.column", "took the task"),
    "moved": ("task.move.column", "moved the task"),
    "edited": ("task.update", "updated the task"),
    "commented": ("comment.create", "commented the task"),
    "done": ("task.move.column", "finished the task"),
    "verified": ("task.close", "closed the task"),
    "closed": ("task.close", "closed the task"),
    "cancelled": ("task.close", "cancelled the task"),
    "rejected": ("task.open", "gave back the task"),
    "reopened": ("task.open", "opened the task"),
    "redriven": ("task.open", "opened the task again"),
    "attached": ("task.file.create", "attached a file to the task"),
    "comment-changed": ("comment.update", "updated a comment of the task"),
    "subtask-created": ("subtask.create", "added a subtask to the task"),
    "subtask-changed": ("subtask.update", "updated a subtask of the task"),
    "linked": ("task_internal_link.create_update", "linked the task"),
}


class Activity:
    """Streams of events."""

    def __init__(self, hallway: Hallway) -> None:
        self._furnishing = hallway.furnishing

    def of(self, call: Call, project_ids: Sequence[int], most: int = _MOST) -> list[dict[str, object]]:
        """The newest events of these projects that the caller may see, newest first."""
        if not project_ids:
            return []
        found = self._furnishing.happenings(call.caller, project_ids, list(_TOLD), most)
        return [self._shape(call, one) for one in found if one.task_id is not None]

    def _shape(self, call: Call, one: Happening) -> dict[str, object]:
        event, did = _TOLD[one.kind]
        author = one.actor_name or one.actor_username
        return {
            "id": one.id,
            "date_creation": epoch(one.at),
            "event_name": event,
            "creator_id": one.actor_id,
            "project_id": one.project_id,
            "task_id": one.task_id,
            "author_username": one.actor_username,
            "author_name": one.actor_name or None,
            "email": one.actor_email or None,
            "avatar_path": None,
            "task": {
                "id": one.task_id,
                "title": one.task_title,
                "project_id": one.project_id,
                "project_name": one.project_name,
            },
            "author": author,
            "event_title": f"{author} {did} #{one.task_id}",
            "event_content": "",
        }
