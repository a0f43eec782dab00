"""What hangs on cards, through Kanboard's API: tags, comments, subtasks, links, metadata, files.

The caller's role in the project was asked before."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from taskfabric.domain.errors import BadInput, NeedsHuman, Refused, not_found
from taskfabric.domain.principal import AppRole, Caller, ProjectRole
from taskfabric.domain.reserved_tags import reserved_tag_id
from taskfabric.domain.task import Task
from taskfabric.ports.annex import Annex
from taskfabric.ports.faces import Faces, Row
from taskfabric.services import card_rules, policy, text
from taskfabric.services.desk import Desk
from taskfabric.services.furnishing import decoded

FABRIC: Final = "fabric."  # metadata that begin so are shown by the fabric, and never written
_NAME: Final = 255  # characters
_VALUE: Final = 2**16
_REACH: Final = {AppRole.USER: 0, AppRole.MANAGER: 1, AppRole.ADMIN: 2}
_GATES: Final = (2, 3)  # blocks, is blocked by
LINK_TYPES: Final = {"auto": "Auto", "attachment": "Attachment", "file": "Local File", "weblink": "Web Link"}
_WEB: Final = re.compile(
    r"https?://(?:[^\s/?#@]*@)?(?P<host>[^\s/?#]+?)(?::[0-9]*)?(?P<path>/[^\s?#]*)?(?:[?#]\S*)?", re.IGNORECASE
)
_ATTACHED: Final = (".pdf", ".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".odp", ".txt", ".zip")


class CardAnnex:
    """Each write in a queue asks whose task it is; a line of the fabric's own is nobody's to change."""

    def __init__(self, desk: Desk, decides: Callable[[Caller, int, str], bool]) -> None:
        self._desk = desk
        self._decides = decides  # whether a comment is a decision, which it then is
        self._annex: Annex = desk.kanboard.annex
        self._faces: Faces = desk.kanboard.faces

    # -- tags ----------------------------------------------------------------------------------------

    def all_tags(self, caller: Caller) -> list[Row]:
        """The global ones and those of the projects that the caller belongs to."""
        if policy.is_app(caller):
            return self._annex.tags(None, None)
        mine = self._desk.projects
        return [
            row
            for row in self._annex.tags(None, policy.eyes(caller))
            if row["project_id"] == 0
            or (isinstance(row["project_id"], int) and mine.role_of(row["project_id"], caller.principal.id) is not None)
        ]

    def project_tags(self, caller: Caller, project_id: int) -> list[Row]:
        return self._annex.tags(project_id, policy.eyes(caller))

    def create_tag(self, caller: Caller, project_id: int, name: str, color_id: str | None) -> int | None:
        self._tag_name(name, project_id)
        return self._annex.create_tag(project_id, name, _color(color_id), caller.stamp())

    def update_tag(self, caller: Caller, project_id: int, tag_id: int, name: str, color_id: str | None) -> bool:
        self._tag_name(name, project_id)
        self._may_change_tag(caller, project_id, tag_id)
        return self._annex.update_tag(tag_id, name, _color(color_id), caller.stamp())

    def remove_tag(self, caller: Caller, project_id: int, tag_id: int) -> bool:
        self._may_change_tag(caller, project_id, tag_id)
        return self._annex.remove_tag(tag_id, caller.stamp())

    def _may_change_tag(self, caller: Caller, project_id: int, tag_id: int) -> None:
        """A tag names no card and changes each that has it. Raises Refused, in a queue and for a global one, unless
        the caller may change them all, or manages the queue."""
        projects = self._desk.projects
        if project_id and projects.queue(project_id) is None:
            return
        role = projects.role_of(project_id, caller.principal.id)
        if role is ProjectRole.MANAGER and card_rules.acts_himself(caller):
            return
        for task_id in self._annex.tagged(tag_id):
            self._editable(caller, task_id)

    def _tag_name(self, name: str, project_id: int) -> None:
        _line(name, "tag")
        card_rules.refuse_reserved(name, self._desk.projects.queue(project_id))

    def task_tags(self, caller: Caller, task_id: int) -> list[tuple[int, str]]:
        """People's tags, then those that a rule uses."""
        task = self._desk.see(caller, task_id)
        reserved = task.all_tags[len(task.tags) :]
        return [*self._annex.tags_of_task(task_id), *((reserved_tag_id(tag), tag) for tag in reserved)]

    def set_task_tags(self, caller: Caller, task_id: int, tags: Sequence[object]) -> bool:
        """The task has these tags of people; those that a rule uses stay as they are."""
        task = self._editable(caller, task_id)
        queue = self._desk.queue_of(task)
        wanted = card_rules.people_tags(tags, task.all_tags, queue, self._desk.rules)
        self._annex.set_tags(task_id, wanted, caller.stamp())
        return True

    def _editable(self, caller: Caller, task_id: int) -> Task:
        """The task, whose words this caller may change. Raises Refused."""
        task = self._desk.see(caller, task_id)
        if self._desk.queue_of(task) is not None:
            policy.need_editor(self._desk, caller, task, rates=False)
        return task

    # -- comments ------------------------------------------------------------------------------------

    def comment(self, caller: Caller, comment_id: int) -> Row | None:
        found = self._annex.comment(comment_id)
        return found if found is not None and self._reads(caller, found) else None

    def comments(self, caller: Caller, task_id: int) -> list[Row]:
        return [row for row in self._annex.comments(task_id) if self._reads(caller, row)]

    def _reads(self, caller: Caller, comment: Row) -> bool:
        return policy.is_app(caller) or self._reaches(caller, str(comment["visibility"]))

    def _reaches(self, caller: Caller, visibility: str) -> bool:
        return any(_REACH[caller.principal.role] >= reach for role, reach in _REACH.items() if role.value == visibility)

    def create_comment(
        self, caller: Caller, task_id: int, user_id: int, words: str, reference: str, visibility: str
    ) -> int:
        """By the caller, whoever the app token says it is; ``/approve`` and ``/deny`` decide as in any comment. Raises
        BadInput; NeedsHuman where a decision is no matter of a comment."""
        if not policy.is_app(caller) and (user_id != caller.principal.id or not self._reaches(caller, visibility)):
            raise BadInput("a comment is written in one's own name, for those up to one's own role", field="user_id")
        if visibility not in {role.value for role in AppRole}:
            raise BadInput("that is no role", field="visibility")
        if not words.strip():
            raise BadInput("a comment says something", field="content")
        said = text.note(words, self._desk.rules, "comment")
        try:
            self._decides(caller, task_id, said)
        except (BadInput, Refused) as error:  # a plain "no" would not say where he can decide
            raise NeedsHuman(error.message, next=error.next) from error
        return self._annex.create_comment(task_id, said, _short(reference), visibility, caller.stamp())

    def update_comment(self, caller: Caller, comment_id: int, words: str) -> bool:
        self._own_comment(caller, comment_id)
        if not words.strip():
            return False
        said = text.note(words, self._desk.rules, "comment")
        return self._annex.update_comment(comment_id, said, caller.stamp())

    def remove_comment(self, caller: Caller, comment_id: int) -> bool:
        self._own_comment(caller, comment_id)
        return self._annex.remove_comment(comment_id, caller.stamp())

    def _own_comment(self, caller: Caller, comment_id: int) -> None:
        """Raises Refused for a comment of somebody else's. The fabric's own are kept from its author by the board."""
        found = self._annex.comment(comment_id)
        if found is None:
            raise not_found("comment")
        if found["user_id"] != caller.principal.id:
            task = found["task_id"]
            raise Refused(
                "a comment is changed by whoever wrote it, and a line of the fabric by nobody",
                next="write another comment",
                rule="comment",
                task=task if isinstance(task, int) else None,
            )

    # -- subtasks ------------------------------------------------------------------------------------

    def subtask(self, subtask_id: int) -> Row | None:
        return self._annex.subtask(subtask_id)

    def subtasks(self, caller: Caller, task_id: int) -> list[Row]:
        return self._annex.subtasks(task_id, 0 if policy.is_app(caller) else caller.principal.id)

    def create_subtask(self, caller: Caller, project_id: int, task_id: int, fields: Mapping[str, object]) -> int:
        self._subtask_fields(project_id, fields)
        return self._annex.create_subtask(task_id, fields, caller.stamp())

    def update_subtask(
        self, caller: Caller, project_id: int, subtask_id: int, task_id: int, fields: Mapping[str, object]
    ) -> bool:
        self._subtask_fields(project_id, fields)
        return self._annex.update_subtask(subtask_id, task_id, fields, caller.stamp())

    def remove_subtask(self, caller: Caller, subtask_id: int) -> bool:
        return self._annex.remove_subtask(subtask_id, caller.stamp())

    def _subtask_fields(self, project_id: int, fields: Mapping[str, object]) -> None:
        title, status, user_id = fields.get("title"), fields.get("status"), fields.get("user_id")
        if title is not None:
            if not str(title).strip():
                raise BadInput("a subtask has a title", field="title")
            text.plain(str(title), "title")
            text.note(str(title), self._desk.rules, "title")
        if status not in (None, 0, 1, 2):
            raise BadInput("a subtask is 0 to do, 1 in progress or 2 done", field="status")
        if user_id and user_id not in self._faces.assignable(project_id):
            raise BadInput("that user is no member of the project", field="user_id")
        for name in ("time_estimated", "time_spent"):
            hours = fields.get(name)
            if isinstance(hours, int | float) and hours < 0:
                raise BadInput("hours are a number from 0 on", field=name)

    def has_timer(self, subtask_id: int, user_id: int) -> bool:
        return self._annex.has_timer(subtask_id, user_id)

    def start_timer(self, caller: Caller, project_id: int, subtask_id: int, user_id: int) -> bool:
        self._timer_of(caller, project_id, user_id)
        return self._annex.start_timer(subtask_id, user_id, caller.stamp())

    def stop_timer(self, caller: Caller, project_id: int, subtask_id: int, user_id: int) -> bool:
        self._timer_of(caller, project_id, user_id)
        return self._annex.stop_timer(subtask_id, user_id, caller.stamp())

    def _timer_of(self, caller: Caller, project_id: int, user_id: int) -> None:
        """Raises BadInput unless the timer is the caller's own, or that of a member for whom the app token acts."""
        own = user_id == caller.principal.id
        if not own and not (policy.is_app(caller) and user_id in self._faces.assignable(project_id)):
            raise BadInput("a timer is one's own", field="user_id")

    def timed(self, subtask_id: int, user_id: int) -> float:
        return self._annex.timed(subtask_id, user_id)

    # -- links ---------------------------------------------------------------------------------------

    def link(self, caller: Caller, link_id: int) -> Row | None:
        """None too if the caller may not see the other task."""
        found = self._annex.link(link_id)
        if found is None or not isinstance(found["opposite_task_id"], int):
            return None
        return found if self._faces.card(found["opposite_task_id"], policy.eyes(caller)) is not None else None

    def links(self, caller: Caller, task_id: int) -> list[Row]:
        return self._annex.links(task_id, policy.eyes(caller))

    def create_link(self, caller: Caller, task_id: int, opposite_task_id: int, label_id: int) -> int | None:
        self._may_link(caller, task_id, opposite_task_id, label_id)
        return self._annex.create_link(task_id, opposite_task_id, label_id, caller.stamp())

    def update_link(self, caller: Caller, link_id: int, task_id: int, opposite_task_id: int, label_id: int) -> bool:
        """The link is that one now. False if there is such a one already."""
        found = self._annex.link(link_id)
        if found is None or found["task_id"] != task_id:
            return False
        self._may_unlink(caller, found)
        self._may_link(caller, task_id, opposite_task_id, label_id)
        return self._annex.update_link(link_id, task_id, opposite_task_id, label_id, caller.stamp())

    def remove_link(self, caller: Caller, link_id: int) -> bool:
        found = self._annex.link(link_id)
        if found is None:
            return False
        self._may_unlink(caller, found)
        return self._annex.remove_link(link_id, caller.stamp())

    def _may_link(self, caller: Caller, task_id: int, other_id: int, label_id: int) -> None:
        task, other = self._desk.see(caller, task_id), self._desk.see(caller, other_id)
        if label_id in _GATES:
            dependent = other if label_id == _GATES[0] else task
            if self._desk.queue_of(dependent) is not None:
                policy.need_editor(self._desk, caller, dependent, rates=False)

    def _may_unlink(self, caller: Caller, link: Row) -> None:
        """Raises Refused for a dependency of a queue's task, unless a human lets go of it: nothing else releases it."""
        if link["link_id"] not in _GATES:
            return
        dependent_id = link["opposite_task_id"] if link["link_id"] == _GATES[0] else link["task_id"]
        assert isinstance(dependent_id, int)
        dependent = self._desk.board.get(dependent_id, None)
        if self._desk.queue_of(dependent) is not None:
            card_rules.need_hand(self._desk, caller, dependent, "removing a dependency")

    def external_links(self, task_id: int) -> list[Row]:
        found = self._annex.external_links(task_id)
        for row in found:
            row["dependency_label"] = "Related" if row["dependency"] == "related" else row["dependency"]
            row["type"] = LINK_TYPES.get(str(row["link_type"]), "Unknown")
        return found

    def external_link(self, task_id: int, link_id: int) -> Row | None:
        found = self._annex.external_link(link_id)
        return found if found is not None and found["task_id"] == task_id else None

    def create_external_link(
        self, caller: Caller, task_id: int, url: str, dependency: str, kind: str, title: str
    ) -> int:
        """Raises BadInput for what no kind of link is made of."""
        kind, url = _external(url.strip(), kind)
        fields = {
            "link_type": kind,
            "url": url,
            "dependency": _line(dependency, "dependency"),
            "title": _line(title or _link_title(kind, url), "title"),
        }
        return self._annex.create_external_link(task_id, fields, caller.stamp())

    def update_external_link(
        self, caller: Caller, task_id: int, link_id: int, fields: Mapping[str, str | None]
    ) -> bool:
        found = self.external_link(task_id, link_id)
        if found is None:
            return False
        given = {name: _line(value, name) for name, value in fields.items() if value is not None}
        if "url" in given:
            _, given["url"] = _external(given["url"], str(found["link_type"]))
        return self._annex.update_external_link(link_id, given, caller.stamp())

    def remove_external_link(self, caller: Caller, task_id: int, link_id: int) -> bool:
        if self.external_link(task_id, link_id) is None:
            return False
        return self._annex.remove_external_link(link_id, caller.stamp())

    # -- metadata ------------------------------------------------------------------------------------

    def metadata(self, caller: Caller, task_id: int) -> dict[str, str]:
        """What clients saved, and in a queue what the fabric shows of lease, counters and provenance."""
        task = self._desk.see(caller, task_id)
        saved = self._annex.metadata(task_id)
        if self._desk.queue_of(task) is None:
            return saved
        return {name: value for name, value in saved.items() if not _fabrics(name)} | _facts(task)

    def save_metadata(self, caller: Caller, task_id: int, values: Mapping[str, object]) -> bool:
        told = {name: _value(name, value) for name, value in values.items()}
        self._not_fabrics(caller, told, task_id)
        self._annex.save_metadata(task_id, told, caller.stamp())
        return True

    def remove_metadata(self, caller: Caller, task_id: int, name: str) -> bool:
        self._not_fabrics(caller, [name], task_id)
        return self._annex.remove_metadata(task_id, name, caller.stamp())

    def _not_fabrics(self, caller: Caller, names: Iterable[str], task_id: int) -> None:
        """Only a queue has words of the fabric; elsewhere they are a client's, be it another fabric on this board."""
        if any(map(_fabrics, names)) and self._desk.queue_of(self._desk.see(caller, task_id)) is not None:
            raise Refused(
                f"{FABRIC}* is what the fabric shows of a task, and is not written",
                next="choose another name",
                rule="reserved-metadata",
                task=task_id,
            )

    # -- files ---------------------------------------------------------------------------------------

    def files(self, task_id: int) -> list[Row]:
        return self._annex.files(task_id)

    def file(self, file_id: int) -> Row | None:
        return self._annex.file(file_id)

    def download(self, file_id: int) -> str:
        """The content as base64. Raises NotFound."""
        found = self._annex.file(file_id)
        if found is None:
            raise not_found("file")
        sha256 = str(found["path"]).rpartition("/")[2]
        return base64.b64encode(self._desk.files.get(sha256)).decode("ascii")

    def create_file(self, caller: Caller, task_id: int, name: str, blob: str) -> int:
        """Raises BadInput for an empty or a too large file, and for what is no base64."""
        task = self._desk.see(caller, task_id)
        if not policy.is_app(caller):
            policy.need_part(self._desk, caller, task, "attaching a file")
        data = decoded(blob, self._desk.rules.attachment)
        sha256 = self._desk.files.put(data)
        plain = _line(name, "filename").replace("/", "_").replace("\\", "_")
        return self._desk.board.attach(task_id, plain, len(data), sha256, caller.stamp(), None).id

    def remove_file(self, caller: Caller, file_id: int) -> bool:
        found = self._annex.file(file_id)
        if found is None or not isinstance(found["task_id"], int):
            return False
        task = self._desk.see(caller, found["task_id"])
        if self._desk.queue_of(task) is not None and found["user_id"] != caller.principal.id:
            card_rules.need_hand(self._desk, caller, task, "removing somebody's file")
        return self._annex.remove_file(file_id, caller.stamp())

    def remove_files(self, caller: Caller, task_id: int) -> bool:
        return all([self.remove_file(caller, i) for row in self.files(task_id) if isinstance(i := row["id"], int)])


def _fabrics(name: str) -> bool:
    return name.strip().lower().startswith(FABRIC)


def _facts(task: Task) -> dict[str, str]:
    """Lease, counters and provenance, as people read them on the card."""
    told: dict[str, object] = {
        "status": task.status.value,
        "holder": task.holder if task.lease_until is not None else None,
        "instance": task.holder_instance,
        "epoch": task.epoch,
        "lease_until": task.lease_until and task.lease_until.isoformat().replace("+00:00", "Z"),
        "attempts": f"{task.attempts}/{task.max_attempts}",
        "submitter": task.submitter,
        "on_behalf": task.on_behalf,
        "trust": task.trust.word,
        "label": task.label,
        "parent": task.parent,
        "root": task.root,
        "open_blockers": task.open_blockers or None,
        "asked": task.asked,
        "hold": task.hold,
        "producer": task.producer,
        "verdict": task.verdict,
    }
    return {f"{FABRIC}{name}": str(value) for name, value in told.items() if value not in (None, "")}


def _line(words: str, name: str) -> str:
    """One line with something in it. Raises BadInput."""
    said = words.strip()
    text.plain(said, name)
    if not said or len(said) > _NAME * 8 or len(said.splitlines()) > 1:
        raise BadInput(f"the {name} is one line", field=name)
    return said


def _short(words: str) -> str:
    text.plain(words, "reference")
    if len(words) > _NAME:
        raise BadInput(f"at most {_NAME} characters", field="reference", limit=_NAME)
    return words


def _color(color_id: str | None) -> str | None:
    return None if color_id is None else _short(color_id)


def _value(name: str, value: object) -> str:
    """A value as text. Raises BadInput for a list or an object, and for a name or a value that is too long."""
    if not name.strip() or len(name) > _NAME:
        raise BadInput(f"a name has 1 to {_NAME} characters", field="values", limit=_NAME)
    match value:
        case None | False:
            said = ""
        case True:
            said = "1"
        case str() | int() | float():
            said = str(value)
        case _:
            raise BadInput(f"the value of {name[:40]!r} is a text or a number", field="values")
    if len(said) > _VALUE:
        raise BadInput(f"a value has at most {_VALUE} characters", field="values", limit=_VALUE)
    return said


def _link_title(kind: str, url: str) -> str:
    """What a link is called that nobody has given a name: the page itself is not asked."""
    web = _WEB.fullmatch(url)
    if kind == "weblink" and web is not None:
        return f"{web['host']}{web['path']}" if web["path"] else url
    path = url if web is None else web["path"] or ""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or url


def _external(url: str, kind: str) -> tuple[str, str]:
    """The kind of link that this is, and its address. Raises BadInput."""
    _line(url, "url")
    web = _WEB.fullmatch(url)
    if kind == "auto":
        ends = web is not None and (web["path"] or "").lower().endswith(_ATTACHED)
        kind = "file" if url.startswith(("file://", "\\\\")) else "attachment" if ends else "weblink"
    if (kind in ("weblink", "attachment") and web is not None) or (kind == "file" and "://" in url):
        return kind, url
    raise BadInput("that is no address of a page or a file", field="url")
