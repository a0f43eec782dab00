"""The lease protocol on tags: ``createTag`` is a stock Kanboard's one compare-and-set.

In a project of its own ("locks") the tag ``L/<task>/<epoch>`` says that this epoch is taken and ``E/<task>/<epoch>``
that it is over; the colour of a tag is free text and holds ``<16 hex token>|<epoch seconds>`` or ``<word>|<token>``.
Whoever made a tag has won, and knows his own by its token when an answer was lost. A task's highest pair is never
removed, so no epoch is ever granted twice, be it by another fabric or by one whose database was lost.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from taskfabric.boards.kanboard.client import Doubtful, Kanboard, say
from taskfabric.domain.errors import Unavailable

log = logging.getLogger(__name__)

_IDENTIFIER: Final = "FABRICLOCKS"
_TITLE: Final = "Fabric: locks (leave alone)"
_NAME: Final = re.compile(r"([LE])/([0-9]{1,18})/([0-9]{1,18})")
_TRIES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The highest epoch of a task as the tags say."""

    epoch: int
    token: str  # 16 hexadecimal digits; "" where somebody wrote something else
    deadline: datetime | None
    tag_id: int
    over: str | None = None  # what its E tag says; None = it is not over


@dataclass(frozen=True, slots=True, kw_only=True)
class Won:
    """The tag is ours."""

    tag_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The tag is somebody else's, who wrote this."""

    says: str


class Locks:
    """The locks project of one Kanboard."""

    def __init__(self, kanboard: Kanboard) -> None:
        self._kanboard = kanboard
        self._project: int | None = None
        self._guard = threading.Lock()

    def project_id(self) -> int:
        """The locks project, which exists afterwards."""
        with self._guard:
            if self._project is None:
                self._project = self._found() or self._made()
            return self._project

    def forget(self) -> None:
        """The project is looked for again."""
        self._project = None

    def _found(self) -> int | None:
        found = self._kanboard.call("getProjectByIdentifier", identifier=_IDENTIFIER)
        return int(found["id"]) if found else None

    def _made(self) -> int:
        made = None
        try:
            made = self._kanboard.call("createProject", name=_TITLE, identifier=_IDENTIFIER)
        except Doubtful:
            log.info("the locks project may have been made by somebody else")
        found = int(made) if made else self._found()  # two make it at once: the identifier is unique
        if found is None:
            raise Unavailable("Kanboard does not let us make the locks project", sent=True)
        return found

    # -- the compare-and-set ---------------------------------------------------------------------------------

    def take(self, task_id: int, epoch: int, token: str, deadline: datetime) -> Won | Lost:
        """This epoch of the task is ours, or somebody else's."""
        return self._create(f"L/{task_id}/{epoch}", f"{token}|{_seconds(deadline)}", token)

    def end(self, task_id: int, epoch: int, token: str, word: str) -> Won | Lost:
        """This epoch is over, by our word or by somebody else's: only who ended it acts on the task."""
        return self._create(f"E/{task_id}/{epoch}", f"{word}|{token}", token)

    def key(self, digest: str, token: str) -> Won | Lost:
        """The submission with this key is ours to make."""
        return self._create(f"K/{digest}", token, token)

    def _create(self, name: str, value: str, token: str) -> Won | Lost:
        for _ in range(_TRIES):
            try:
                made = self._kanboard.call("createTag", project_id=self.project_id(), tag=name, color_id=value)
            except Doubtful:
                made = False  # it may be there all the same: the look below tells
            if made:
                return Won(tag_id=int(made))
            there = self._look(name)
            if there is not None:
                says = str(there.get("color_id") or "")
                return Won(tag_id=int(there["id"])) if token in says else Lost(says=says)
            self.forget()  # neither made nor there: is the project still that one?
        raise Unavailable(f"Kanboard neither makes nor has the tag {name}", sent=True)

    def _look(self, name: str) -> Mapping[str, Any] | None:
        return next((tag for tag in self.tags() if tag["name"] == name), None)

    def renew(self, held: Sequence[tuple[int, int, int, str, datetime]]) -> None:
        """The tags of these leases (task, epoch, tag, token, deadline) say the new deadline. Silent on the board."""
        self._kanboard.many(
            [
                say("updateTag", tag_id=tag_id, tag=f"L/{task_id}/{epoch}", color_id=f"{token}|{_seconds(deadline)}")
                for task_id, epoch, tag_id, token, deadline in held
            ]
        )

    # -- reading ---------------------------------------------------------------------------------------------

    def tags(self) -> list[Mapping[str, Any]]:
        """All tags of the locks project."""
        return list(self._kanboard.call("getTagsByProject", project_id=self.project_id()) or [])

    def highest(self) -> dict[int, Lock]:
        """For each task its highest epoch, by one call."""
        return highest(self.tags())

    def prune(self, tasks: Sequence[int], limit: int) -> int:
        """Of these tasks, which are closed for good, the lower pairs are removed, up to ``limit`` tags."""
        tags = self.tags()
        top = highest(tags)
        wanted = frozenset(tasks)
        old = [
            int(tag["id"])
            for tag in tags
            if (found := _NAME.fullmatch(tag["name"]))
            and (task := int(found[2])) in wanted
            and int(found[3]) < top[task].epoch
        ]
        self._kanboard.many([say("removeTag", tag_id=tag_id) for tag_id in old[:limit]])
        return len(old[:limit])


def highest(tags: Sequence[Mapping[str, Any]]) -> dict[int, Lock]:
    """For each task the highest epoch that any tag names, its token and deadline, and whether it is over."""
    taken: dict[int, dict[int, Mapping[str, Any]]] = {}
    over: dict[tuple[int, int], str] = {}
    for tag in tags:
        found = _NAME.fullmatch(tag["name"])
        if found is None:
            continue
        task, epoch = int(found[2]), int(found[3])
        mine = taken.setdefault(task, {})
        if found[1] == "L":
            mine[epoch] = tag
        else:
            over[task, epoch] = str(tag.get("color_id") or "")
            mine.setdefault(epoch, {"id": 0, "color_id": ""})
    locks: dict[int, Lock] = {}
    for task, epochs in taken.items():
        epoch = max(epochs)
        token, deadline = _read(str(epochs[epoch].get("color_id") or ""))
        locks[task] = Lock(
            epoch=epoch,
            token=token,
            deadline=deadline,
            tag_id=int(epochs[epoch]["id"]),
            over=over.get((task, epoch)),
        )
    return locks


def _read(value: str) -> tuple[str, datetime | None]:
    token, _, seconds = value.partition("|")
    if not re.fullmatch(r"[0-9a-f]{16}", token) or not re.fullmatch(r"[0-9]{1,11}", seconds):
        return "", None
    return token, datetime.fromtimestamp(int(seconds), UTC)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
