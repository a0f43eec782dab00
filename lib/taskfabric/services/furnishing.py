"""Projects as Kanboard's clients arrange them: particulars, swimlanes, categories, metadata, files.

Whether the caller's role reaches into the project was judged before (``services/kanboard_rights.py``); here is what the
house itself asks for besides.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from taskfabric.domain.errors import BadInput, NotFound, Refused, not_found
from taskfabric.domain.principal import Caller, Kind
from taskfabric.ports.dossier import Happening, Particulars, ProjectChange, ProjectFile
from taskfabric.ports.furniture import Category, ColumnRow, SwimlaneRow
from taskfabric.services import policy, text
from taskfabric.services.desk import Desk
from taskfabric.services.projects import Arranging

OURS: Final = "fabric."  # in a queue, metadata so called are the fabric's own: shown, never set
_NAME: Final = 255  # characters of a name
_CATEGORY: Final = 191
_FACT: Final = 255  # characters of a metadata's name
_VALUE: Final = 65536  # and of its value
_IDENTIFIER: Final = re.compile(r"[A-Z0-9]{1,50}")
_EMAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,190}")
_DAY: Final = 10  # characters
_PRIORITY: Final = 2**15


def line(words: str, field: str = "name", most: int = _NAME) -> str:
    """A name as it was given: one line with something in it. Raises BadInput."""
    text.plain(words, field)
    if not words.strip() or len(words) > most or len(words.splitlines()) > 1:
        raise BadInput(f"a {field} is one line of 1 to {most} characters", field=field)
    return words


def email(words: str) -> str:
    """An address, or "" for none. Raises BadInput."""
    if words and not _EMAIL.fullmatch(words):
        raise BadInput("that is no email address", field="email")
    return words


class Furnishing:
    """What a project's manager arranges, and what its members see of it."""

    def __init__(self, desk: Desk, arranging: Arranging) -> None:
        self._desk = desk
        self._arranging = arranging
        self._ports = desk.kanboard

    # -- projects ------------------------------------------------------------------------------------

    def project(self, project_id: int) -> Particulars:
        found = self._ports.dossiers.all([project_id])
        if not found:
            raise not_found("project")
        return found[0]

    def projects(self, ids: Sequence[int] | None = None) -> list[Particulars]:
        """These, or every one, by name."""
        return self._ports.dossiers.all(ids)

    def project_by(self, field: str, value: str) -> Particulars | None:
        """The first project whose name, identifier or email this is."""
        return self._ports.dossiers.by(field, value) if value else None

    def own_projects(self, caller: Caller) -> list[Particulars]:
        """The active projects that the caller belongs to, by name."""
        me = caller.principal.id
        ids = [
            project.id
            for project in self._desk.projects.all()
            if project.active
            and policy.in_scope(caller, project.id)
            and self._desk.projects.role_of(project.id, me) is not None
        ]
        return self._ports.dossiers.all(ids)

    def create(self, caller: Caller, change: ProjectChange, *, private: bool = False) -> int:
        """Its owner manages it; without one it is the caller's, and the app token's projects have no members."""
        policy.need_arranger(caller, "making a project")
        policy.need_unlimited(caller, "making a project")
        me = None if policy.is_app(caller) else caller.principal.id
        owner_id = change.owner_id or me
        if owner_id is not None and self._desk.person(owner_id) is None:
            raise not_found("user")
        ready = _checked(replace(change, owner_id=None, name=line(change.name or "")))
        manager_id = None if me is None else owner_id
        return self._ports.dossiers.create(
            ready, caller.stamp(), private=private, owner_id=owner_id, manager_id=manager_id
        )

    def change(self, caller: Caller, project_id: int, change: ProjectChange) -> None:
        policy.need_arranger(caller, "changing a project")
        if change.owner_id and self._desk.person(change.owner_id) is None:
            raise not_found("user")
        ready = _checked(replace(change, owner_id=change.owner_id or None))
        self._ports.dossiers.change(project_id, ready, caller.stamp())

    def remove(self, caller: Caller, project_id: int) -> None:
        policy.need_arranger(caller, "removing a project")
        self._ports.dossiers.remove(project_id, caller.stamp())

    def set_active(self, caller: Caller, project_id: int, active: bool) -> None:
        policy.need_arranger(caller, "closing or opening a project")
        if not active:
            policy.refuse_closing(self._desk, project_id)
        self._desk.projects.set_active(project_id, active, caller.stamp())

    def set_public(self, caller: Caller, project_id: int, public: bool) -> None:
        """The mark and its token are kept for clients that ask; no page of ours is public."""
        policy.need_arranger(caller, "publishing a project")
        token = secrets.token_hex(30) if public else ""
        self._ports.dossiers.set_public(project_id, token, caller.stamp())

    def happenings(
        self, caller: Caller, project_ids: Sequence[int], kinds: Sequence[str], limit: int
    ) -> list[Happening]:
        """The newest events that the caller may see, newest first."""
        eyes = policy.eyes(caller)
        return self._ports.dossiers.happenings(
            project_ids, kinds, limit, None if eyes is None else eyes.principal_id, caller.principal.kind is Kind.HUMAN
        )

    # -- columns and swimlanes -----------------------------------------------------------------------

    def columns(self, project_id: int) -> list[ColumnRow]:
        return self._ports.furniture.columns(project_id)

    def column(self, column_id: int) -> ColumnRow:
        return self._ports.furniture.column(column_id)

    def add_column(self, caller: Caller, project_id: int, title: str, task_limit: int, description: str) -> int:
        policy.need_arranger(caller, "adding a column")
        made = self._desk.projects.add_column(
            project_id, line(title, "title"), caller.stamp(), task_limit=max(0, task_limit)
        )
        if description:
            self._ports.furniture.describe_column(made.id, text.description(description, self._desk.rules))
        return made.id

    def update_column(self, caller: Caller, column_id: int, title: str, task_limit: int, description: str) -> None:
        policy.need_arranger(caller, "changing a column")
        words = text.description(description, self._desk.rules)
        self._desk.projects.update_column(
            column_id, caller.stamp(), title=line(title, "title"), task_limit=max(0, task_limit)
        )
        self._ports.furniture.describe_column(column_id, words)

    def move_column(self, caller: Caller, column_id: int, position: int) -> None:
        policy.need_arranger(caller, "moving a column")
        self._desk.projects.move_column(column_id, position, caller.stamp())

    def remove_column(self, caller: Caller, column_id: int) -> None:
        policy.need_arranger(caller, "removing a column")
        self._desk.projects.remove_column(column_id, caller.stamp())

    def swimlanes(self, project_id: int) -> list[SwimlaneRow]:
        return self._ports.furniture.swimlanes(project_id)

    def swimlane(self, swimlane_id: int) -> SwimlaneRow:
        return self._ports.furniture.swimlane(swimlane_id)

    def add_swimlane(self, caller: Caller, project_id: int, name: str, description: str) -> int:
        policy.need_arranger(caller, "adding a swimlane")
        words = text.description(description, self._desk.rules)
        return self._ports.furniture.add_swimlane(project_id, line(name), words, caller.stamp())

    def update_swimlane(self, caller: Caller, swimlane_id: int, name: str, description: str | None) -> None:
        policy.need_arranger(caller, "changing a swimlane")
        words = None if description is None else text.description(description, self._desk.rules)
        self._ports.furniture.update_swimlane(swimlane_id, line(name), words, caller.stamp())

    def set_swimlane_active(self, caller: Caller, swimlane_id: int, active: bool) -> None:
        policy.need_arranger(caller, "changing a swimlane")
        self._ports.furniture.set_swimlane_active(swimlane_id, active, caller.stamp())

    def move_swimlane(self, caller: Caller, swimlane_id: int, position: int) -> None:
        policy.need_arranger(caller, "moving a swimlane")
        self._ports.furniture.move_swimlane(swimlane_id, position, caller.stamp())

    def remove_swimlane(self, caller: Caller, swimlane_id: int) -> None:
        policy.need_arranger(caller, "removing a swimlane")
        self._ports.furniture.remove_swimlane(swimlane_id, caller.stamp())

    # -- categories ----------------------------------------------------------------------------------

    def categories(self, project_id: int) -> list[Category]:
        return self._ports.furniture.categories(project_id)

    def category(self, category_id: int) -> Category:
        return self._ports.furniture.category(category_id)

    def add_category(self, caller: Caller, project_id: int, name: str, color_id: str | None) -> int:
        policy.need_arranger(caller, "adding a category")
        return self._ports.furniture.add_category(
            project_id, line(name, most=_CATEGORY), _color(color_id), caller.stamp()
        )

    def update_category(self, caller: Caller, category_id: int, name: str, color_id: str | None) -> None:
        policy.need_arranger(caller, "changing a category")
        self._ports.furniture.update_category(category_id, line(name, most=_CATEGORY), _color(color_id), caller.stamp())

    def remove_category(self, caller: Caller, category_id: int) -> None:
        policy.need_arranger(caller, "removing a category")
        self._ports.furniture.remove_category(category_id, caller.stamp())

    # -- metadata ------------------------------------------------------------------------------------

    def metadata(self, project_id: int) -> dict[str, str]:
        return self._ports.dossiers.metadata(project_id)

    def put_metadata(self, caller: Caller, project_id: int, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self._fact(project_id, name)
            if len(value) > _VALUE:
                raise BadInput(f"a metadata's value has at most {_VALUE} characters", field=name[:40])
        self._ports.dossiers.put_metadata(project_id, values, caller.stamp())

    def drop_metadata(self, caller: Caller, project_id: int, name: str) -> bool:
        """Whether there was one."""
        self._fact(project_id, name)
        return self._ports.dossiers.drop_metadata(project_id, name, caller.stamp())

    def _fact(self, project_id: int, name: str) -> None:
        text.plain(name, "name")
        if not name or len(name) > _FACT:
            raise BadInput(f"a metadata's name has 1 to {_FACT} characters", field="name")
        if name.startswith(OURS) and self._desk.projects.queue(project_id) is not None:
            raise Refused(f"metadata called {OURS}… are the fabric's own", next="choose another name", rule="reserved")

    # -- files ---------------------------------------------------------------------------------------

    def files(self, project_id: int) -> list[ProjectFile]:
        """By name."""
        return self._ports.dossiers.files(project_id)

    def file(self, project_id: int, file_id: int) -> ProjectFile | None:
        return next((file for file in self.files(project_id) if file.id == file_id), None)

    def file_data(self, project_id: int, file_id: int) -> bytes:
        """Raises NotFound."""
        file = self.file(project_id, file_id)
        if file is None:
            raise NotFound("there is no such file")
        return self._desk.files.get(file.sha256)

    def add_file(self, caller: Caller, project_id: int, name: str, blob: str) -> int:
        """``blob`` is base64. Raises BadInput for what is none, for an empty file and for one that is too large."""
        text.plain(name, "filename")
        data = decoded(blob, self._desk.rules.attachment)
        sha256 = self._desk.files.put(data)
        return self._ports.dossiers.add_file(project_id, name[:_NAME], len(data), sha256, caller.stamp())

    def remove_files(self, caller: Caller, project_id: int, file_id: int | None) -> bool:
        """This one or all; whether it was there. The bytes stay in the store: others may have the same."""
        gone = self._ports.dossiers.remove_files(project_id, file_id, caller.stamp())
        return file_id is None or gone > 0


def decoded(blob: str, most: int) -> bytes:
    """The bytes of a base64 text, whose padding may be missing. Raises BadInput."""
    if len(blob) > most * 4 // 3 + 1024:
        raise BadInput(f"a file has at most {most} bytes", field="blob", limit=most)
    try:
        digits = "".join(blob.split()).rstrip("=")
        data = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("the file's content is not base64", field="blob") from None
    if not data or len(data) > most:
        raise BadInput(f"a file has 1 to {most} bytes", field="blob", limit=most)
    return data


def _checked(change: ProjectChange) -> ProjectChange:
    """With the identifier in capitals. Raises BadInput."""
    if change.name is not None:
        line(change.name)
    if change.description is not None:
        text.plain(change.description, "description")
    identifier = change.identifier
    if identifier:
        identifier = identifier.upper()
        if not _IDENTIFIER.fullmatch(identifier):
            raise BadInput("an identifier is 1 to 50 letters and digits", field="identifier")
    if change.email is not None:
        email(change.email)
    for day in (change.start_date, change.end_date):
        if day is not None and len(day) > _DAY:
            raise BadInput("a day is written as YYYY-MM-DD", field="start_date")
    for priority in (change.priority_default, change.priority_start, change.priority_end):
        if priority is not None and not -_PRIORITY <= priority < _PRIORITY:
            raise BadInput("that is no priority", field="priority_default")
    return replace(change, identifier=identifier)


def _color(color_id: str | None) -> str | None:
    if color_id is not None and len(color_id) > 50:
        raise BadInput("that is no colour", field="color_id")
    return color_id
