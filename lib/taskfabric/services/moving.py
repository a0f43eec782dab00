"""Moving house: an export is everything that a board shows, an import adds what is not here yet.

Both are for an administrator who proves that a person asks: an export holds what everybody wrote, and an import can
make people and say who wrote what.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import asdict
from typing import Any, Final

from taskfabric.domain.errors import BadInput, NotFound, not_found
from taskfabric.domain.principal import Caller, Kind, Principal, ProjectRole
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.target import checked_name
from taskfabric.ports.moving import Moving
from taskfabric.ports.projects import Project
from taskfabric.services import moving_verbs, policy
from taskfabric.services.desk import Desk

FORMAT: Final = 1
_FILES: Final = frozenset({"task_has_files", "project_has_files"})


class Removal:
    """The verbs by which a board moves."""

    def __init__(self, desk: Desk, moving: Moving) -> None:
        self._desk = desk
        self._moving = moving

    def bring(self, caller: Caller, verb: moving_verbs.Import) -> dict[str, Any]:
        """What was made, what was here already, what did not come along and why, by table; dry: what would be."""
        self._need_mover(caller, verb.pin, "importing a board")
        rows = [self._stored(row, at, keep=not verb.dry) for at, row in enumerate(verb.records)]
        left = [row["left"] for row in rows if "left" in row]
        come = [row for row in rows if "left" not in row]
        if verb.dry:
            brought = self._moving.look(verb.source, come, caller.stamp())
        else:
            brought = self._moving.bring(verb.source, come, caller.stamp(), highest=verb.highest)
        answer: dict[str, Any] = {
            "made": dict(brought.made),
            "known": dict(brought.known),
            "renumbered": dict(+brought.renumbered),
            "left_out": [*left, *(asdict(item) for item in brought.left_out)],
            "changed": [asdict(item) for item in brought.changed],
            "notes": dict(brought.notes),
        }
        if verb.last and not verb.dry:
            finished = self._moving.finish(verb.source)
            answer["tasks"] = finished.tasks
            answer["left_out"] += [item for name in finished.people if (item := self._housed(caller, name)) is not None]
        return answer

    def take_out(self, caller: Caller, verb: moving_verbs.Export) -> dict[str, Any]:
        """A page of rows and the place after it; the bytes of files come along."""
        self._need_mover(caller, verb.pin, "exporting the board")
        page = self._moving.page(verb.cursor)
        for row in page.rows:
            if row["table"] in _FILES:
                row["data"] = self._bytes(row["sha256"])
        header: dict[str, Any] = {"format": FORMAT, "fabric": self._desk.version, "source": self._moving.identity()}
        if verb.cursor is None:
            header["highest"] = self._moving.highest()
        return {"header": header, "records": page.rows, "next": page.next}

    def adopt(self, caller: Caller, verb: moving_verbs.Adopt) -> Queue:
        """The queue that the project now is; whoever manages the project may do it."""
        policy.need_human(caller, "adopting a project", "arrange")
        policy.need_unlimited(caller, "adopting a project")
        project = self._project(caller, verb.project)
        owner = self._owner(verb)
        if not policy.manages(self._desk, caller, project.id):
            raise not_found("project")
        whose, answers_to = (None, None) if owner is None else (owner.id, owner.owner_id)
        if not policy.may_make_queue(caller, verb.kind, whose, answers_to):
            policy.need_admin(caller, "making a queue for others")
        policy.need_pin(self._desk, caller, verb.pin, "adopting a project")
        name = verb.name or (owner.name if owner is not None else _slug(project.name))
        if owner is None or owner.name != name:
            try:
                checked_name(name, "queue")
            except BadInput as error:
                if verb.name is not None:
                    raise
                raise BadInput(
                    f"the project's name {project.name[:60]!r} makes no name for a queue: {error.message}",
                    next="choose one with --name QUEUE",
                    field="name",
                ) from None
        return self._desk.projects.adopt(project.id, name, verb.kind, verb.columns, caller.stamp(), owner_id=whose)

    def _need_mover(self, caller: Caller, pin: str | None, what: str) -> None:
        policy.need_admin(caller, what)
        policy.need_unlimited(caller, what)
        policy.need_decision(self._desk, caller, pin, what)

    def _housed(self, caller: Caller, name: str) -> dict[str, str] | None:
        """The person has an inbox and works in the pool; or why not."""
        person, desk = self._desk.person(name), self._desk
        if person is None:
            return None
        try:
            desk.projects.make_queue(
                checked_name(name, "user"),
                QueueKind.INBOX,
                caller.stamp(),
                owner_id=person.id,
                role=ProjectRole.MANAGER,
            )
        except BadInput as error:
            return {"what": f"inbox of {name}", "why": error.message}
        desk.projects.set_member(desk.pool().project_id, person.id, ProjectRole.MEMBER, caller.stamp())
        return None

    def _stored(self, record: dict[str, Any], at: int, *, keep: bool) -> dict[str, Any]:
        """The row without its bytes, which are in the file store if they are to be kept; or ``left``, saying why it
        stays behind."""
        row = dict(record)
        if row.get("table") not in _FILES:
            return row
        data = row.pop("data", None)
        what = f"file {str(row.get('name'))[:80]}"
        if not isinstance(data, str):
            return {"left": {"what": what, "why": "its bytes are missing"}}
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise BadInput(f"row {at}: the bytes of a file are base64", field=f"records[{at}].data") from None
        if len(content) > self._desk.rules.attachment:
            return {"left": {"what": what, "why": f"it is larger than {self._desk.rules.attachment} bytes"}}
        return {**row, "size": len(content), "sha256": self._desk.files.put(content) if keep else ""}

    def _bytes(self, sha256: str) -> str | None:
        try:
            return base64.b64encode(self._desk.files.get(sha256)).decode()
        except NotFound:
            return None

    def _project(self, caller: Caller, wanted: int | str) -> Project:
        found = [p for p in self._desk.projects.all() if wanted in (p.id, str(p.id), p.name)]
        exact = [p for p in found if p.id == wanted or str(p.id) == wanted] or found
        if not exact or not policy.manages(self._desk, caller, exact[0].id):
            raise not_found("project")
        if len(exact) > 1:
            ids = ", ".join(str(p.id) for p in exact)
            raise BadInput(f"{len(exact)} projects are called {str(wanted)[:60]!r}", next=f"say which: {ids}")
        return exact[0]

    def _owner(self, verb: moving_verbs.Adopt) -> Principal | None:
        if verb.kind is QueueKind.POOL:
            if verb.owner is not None:
                raise BadInput("a pool has no owner", field="owner")
            return None
        wanted = Kind.HUMAN if verb.kind is QueueKind.INBOX else Kind.AGENT
        owner = self._desk.person(verb.owner)
        if owner is None or owner.kind is not wanted:
            raise BadInput(
                f"there is no {wanted.value} called {str(verb.owner)[:40]!r} to own it",
                next="`fabric user list` shows who is",
                field="owner",
            )
        return owner


def _slug(title: str) -> str:
    """A name for a queue, from the title of a project."""
    return re.sub(r"[^\w.-]+", "-", title.casefold()).strip("-.")[:63]
