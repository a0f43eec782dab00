"""Comments on tasks; the fabric's own lines are read like any other and changed by nobody."""

from __future__ import annotations

from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.arguments import BigId
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import member, of, viewer


class Comments:
    """The group Comment."""

    def __init__(self, hallway: Hallway) -> None:
        self._annex = hallway.annex

    def table(self) -> list[Procedure]:
        task = of("task", "task_id")
        return [
            procedure("getComment", self.one, viewer(of("comment", "comment_id")), no=None),
            procedure("getAllComments", self.all, viewer(task), no=[]),
            procedure("removeComment", self.remove, member(of("comment", "comment_id"))),
            procedure("createComment", self.create, member(task)),
            procedure("updateComment", self.update, member(of("comment", "id"))),
        ]

    def one(self, call: Call, comment_id: BigId) -> object:
        return self._annex.comment(call.caller, comment_id)

    def all(self, call: Call, task_id: BigId) -> object:
        return self._annex.comments(call.caller, task_id)

    def remove(self, call: Call, comment_id: BigId) -> bool:
        return self._annex.remove_comment(call.caller, comment_id)

    def create(
        self,
        call: Call,
        task_id: BigId,
        user_id: int,
        content: str,
        reference: str = "",
        visibility: str = "app-user",
    ) -> int:
        return self._annex.create_comment(call.caller, task_id, user_id, content, reference, visibility)

    def update(self, call: Call, id: BigId, content: str) -> bool:
        return self._annex.update_comment(call.caller, id, content)
