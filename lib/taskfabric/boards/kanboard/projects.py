"""Projects on a stock Kanboard: made there first, and reflected under the same numbers with what we know besides.

A queue is marked by the project's metadata (``fabric.queue``, ``fabric.name``, ``fabric.owner`` and its rules), so a
fabric with a new database finds its queues again. Projects without that mark are never touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from taskfabric.boards.kanboard.client import Doubtful, Kanboard
from taskfabric.boards.kanboard.people import People
from taskfabric.boards.native import layout
from taskfabric.boards.native.layout import Conn, first, journal
from taskfabric.boards.native.projects import NativeProjects
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, IllegalMove, Unavailable, not_found
from taskfabric.domain.principal import ProjectRole, Stamp
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import COLUMN_TITLES
from taskfabric.ports.projects import Column, Project, Swimlane

log = logging.getLogger(__name__)

_MARKS: Final = ("fabric.queue", "fabric.name", "fabric.owner")
_ROLE_OF_TITLE: Final = {title.casefold(): role for role, title in COLUMN_TITLES.items()}
_OWNER_ROLE: Final = {QueueKind.INBOX: ProjectRole.MANAGER, QueueKind.AGENT: ProjectRole.MEMBER}
_MAKING: Final = 0x6B65  # the advisory lock of whoever makes a queue


class KanboardProjects(NativeProjects):
    """``ports.projects.Projects`` over a Kanboard and its reflection in our tables."""

    def __init__(
        self,
        database: Database,
        kanboard: Kanboard,
        people: People,
        *,
        changed: Callable[[int | None], None] = lambda _: None,
    ) -> None:
        super().__init__(database, changed=changed)
        self._kanboard = kanboard
        self._people = people

    # -- queues ----------------------------------------------------------------------------------------------

    def make_queue(
        self, name: str, kind: QueueKind, stamp: Stamp, *, owner_id: int | None = None, role: ProjectRole | None = None
    ) -> tuple[Queue, bool]:
        """As on our own board. A marked project of that name which is there already is taken up again."""
        if (kind is QueueKind.POOL) != (owner_id is None):
            raise BadInput("a pool has no owner, every other queue has one", field="owner")
        with self._database.transaction(limit=180.0) as conn:
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            found = layout.queues(conn, "WHERE q.name = %s OR q.owner_id = %s", (name, owner_id))
            if found:
                return layout.the_same(found, name, kind, owner_id), False
            owner = _name(conn, owner_id)
            marks = {"fabric.queue": kind.value, "fabric.name": name, "fabric.owner": owner or ""}
            project = self._marked(name) or self._made(name, "", marks)
            project_id = int(project["id"])
            self._reflect(conn, project)
            conn.execute(
                "INSERT INTO queues (project_id, name, kind, owner_id, backlog_column, ready_column, working_column,"
                " done_column, swimlane_id) SELECT %(project)s, %(name)s, %(kind)s, %(owner)s,"
                " max(id) FILTER (WHERE role = 'backlog'), max(id) FILTER (WHERE role = 'ready'),"
                " max(id) FILTER (WHERE role = 'working'), max(id) FILTER (WHERE role = 'done'),"
                " (SELECT min(id) FROM swimlanes WHERE project_id = %(project)s AND is_active)"
                " FROM columns WHERE project_id = %(project)s",
                {"project": project_id, "name": name, "kind": kind.value, "owner": owner_id},
            )
            members = {} if owner_id is None else {owner_id: role or _OWNER_ROLE[kind]}
            if stamp.is_human and kind is not QueueKind.INBOX and stamp.principal_id not in members:
                members[stamp.principal_id] = ProjectRole.MANAGER
            for principal_id, its_role in members.items():
                layout.put_member(conn, project_id, principal_id, its_role)
                self._tell_member(conn, project_id, principal_id, its_role)
            journal(conn, "queue-created", project_id, stamp, {"name": name, "kind": kind.value})
            made = first(layout.queues(conn, "WHERE q.project_id = %s", (project_id,)), "queue")
        self._tell(project_id)
        return made, True

    def _marked(self, name: str) -> Mapping[str, Any] | None:
        """The project that bears this queue's mark already."""
        for project in self._kanboard.call("getAllProjects") or []:
            if project["name"] != name:
                continue
            marks = self._kanboard.call("getProjectMetadata", project_id=int(project["id"])) or {}
            if marks.get("fabric.name") == name and all(mark in marks for mark in _MARKS[:2]):
                return dict(project)
        return None

    def _made(self, name: str, description: str, marks: Mapping[str, str]) -> Mapping[str, Any]:
        made = self._kanboard.call("createProject", name=name, description=description)
        if not made:
            raise Unavailable(f"Kanboard does not let us make the project {name!r}", sent=True)
        if marks:
            self._kanboard.call("saveProjectMetadata", project_id=int(made), values=dict(marks))
        return {"id": int(made), "name": name, "description": description, "is_active": 1}

    # -- the reflection --------------------------------------------------------------------------------------

    def _reflect(self, conn: Conn, project: Mapping[str, Any]) -> None:
        """Our rows say what the Kanboard has of this project; columns get their roles by their titles, once."""
        project_id = int(project["id"])
        conn.execute(
            "INSERT INTO projects (id, name, description, is_active) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, is_active = EXCLUDED.is_active",
            (project_id, project["name"], project.get("description") or "", bool(int(project["is_active"]))),
        )
        known = {column.id: column for column in layout.columns(conn, "WHERE project_id = %s", (project_id,))}
        taken = {column.role for column in known.values()}
        theirs = self._kanboard.call("getColumns", project_id=project_id) or []
        gone = set(known) - {int(column["id"]) for column in theirs}
        for column_id in gone:
            if known[column_id].role is None:
                conn.execute("DELETE FROM columns WHERE id = %s", (column_id,))
        for column in theirs:
            column_id = int(column["id"])
            role = _ROLE_OF_TITLE.get(str(column["title"]).casefold())
            if column_id in known or role in taken:
                role = known[column_id].role if column_id in known else None
            conn.execute(
                "INSERT INTO columns (id, project_id, title, position, task_limit, role)"
                " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET title = EXCLUDED.title,"
                " position = EXCLUDED.position, task_limit = EXCLUDED.task_limit",
                (
                    column_id,
                    project_id,
                    column["title"],
                    int(column["position"]),
                    int(column.get("task_limit") or 0),
                    None if role is None else role.value,
                ),
            )
            taken.add(role)
        for lane in self._kanboard.call("getAllSwimlanes", project_id=project_id) or []:
            conn.execute(
                "INSERT INTO swimlanes (id, project_id, name, position, is_active) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, position = EXCLUDED.position,"
                " is_active = EXCLUDED.is_active",
                (int(lane["id"]), project_id, lane["name"], int(lane["position"]), bool(int(lane["is_active"]))),
            )

    def refresh(self, project_id: int) -> None:
        """Our rows say what the Kanboard has of this project now. NotFound: it is there no more."""
        project = self._kanboard.call("getProjectById", project_id=project_id)
        if not project:
            raise not_found("project")
        with self._database.transaction(limit=60.0) as conn:
            self._reflect(conn, project)
        self._tell(project_id)

    # -- projects --------------------------------------------------------------------------------------------

    def create(self, name: str, stamp: Stamp, *, description: str = "") -> Project:
        project = self._made(name, description, {})
        with self._database.transaction(limit=60.0) as conn:
            self._reflect(conn, project)
            if stamp.is_human:
                layout.put_member(conn, int(project["id"]), stamp.principal_id, ProjectRole.MANAGER)
                self._tell_member(conn, int(project["id"]), stamp.principal_id, ProjectRole.MANAGER)
            journal(conn, "project-created", int(project["id"]), stamp, {"name": name})
        self._tell(int(project["id"]))
        return self.get(int(project["id"]))

    def rename(self, project_id: int, name: str, stamp: Stamp) -> Project:
        self.get(project_id)
        self._must("updateProject", project_id=project_id, name=name)
        return super().rename(project_id, name, stamp)

    def set_active(self, project_id: int, active: bool, stamp: Stamp) -> Project:
        self.get(project_id)
        self._must("enableProject" if active else "disableProject", project_id=project_id)
        return super().set_active(project_id, active, stamp)

    # -- columns and swimlanes -------------------------------------------------------------------------------

    def add_column(self, project_id: int, title: str, stamp: Stamp, *, task_limit: int = 0) -> Column:
        self.get(project_id)
        made = self._kanboard.call("addColumn", project_id=project_id, title=title, task_limit=task_limit)
        if not made:
            raise BadInput(f"this project has a {title!r} already", field="name")
        with self._changing(project_id) as conn:
            self._reflect(conn, self._project(project_id))
            column = first(layout.columns(conn, "WHERE id = %s", (int(made),)), "column")
            if column.role is not None:
                statement = f"UPDATE queues SET {column.role.value}_column = %s WHERE project_id = %s"
                conn.execute(statement.encode(), (column.id, project_id))
            journal(
                conn, "column-added", project_id, stamp, {"title": title, "role": column.role and column.role.value}
            )
        self._tell(project_id)
        return column

    def update_column(self, column_id: int, stamp: Stamp, *, title: str, task_limit: int) -> Column:
        before = self._column(column_id)
        others = {column.title for column in self.columns(before.project_id) if column.id != column_id}
        if title in others:
            raise BadInput(f"this project has a {title!r} already", field="name")
        self._must("updateColumn", column_id=column_id, title=title, task_limit=task_limit)
        return super().update_column(column_id, stamp, title=title, task_limit=task_limit)

    def move_column(self, column_id: int, position: int, stamp: Stamp) -> None:
        project_id = self._column(column_id).project_id
        super().move_column(column_id, position, stamp)
        self._kanboard.call("changeColumnPosition", project_id=project_id, column_id=column_id, position=position)

    def remove_column(self, column_id: int, stamp: Stamp) -> None:
        column = self._column(column_id)
        super().remove_column(column_id, stamp)
        if not self._kanboard.call("removeColumn", column_id=column_id):
            self.refresh(column.project_id)
            raise IllegalMove(f"there are cards in {column.title!r}", next="move them first, the closed ones too")

    def add_swimlane(self, project_id: int, name: str, stamp: Stamp) -> Swimlane:
        self.get(project_id)
        made = self._kanboard.call("addSwimlane", project_id=project_id, name=name)
        if not made:
            raise BadInput(f"this project has a {name!r} already", field="name")
        with self._changing(project_id) as conn:
            self._reflect(conn, self._project(project_id))
            journal(conn, "swimlane-added", project_id, stamp, {"name": name})
            lane = first([s for s in layout.swimlanes(conn, project_id) if s.id == int(made)], "swimlane")
        self._tell(project_id)
        return lane

    # -- members ---------------------------------------------------------------------------------------------

    def set_member(self, project_id: int, principal_id: int, role: ProjectRole, stamp: Stamp) -> None:
        super().set_member(project_id, principal_id, role, stamp)
        with self._database.connection() as conn:
            self._tell_member(conn, project_id, principal_id, role)

    def remove_member(self, project_id: int, principal_id: int, stamp: Stamp) -> None:
        super().remove_member(project_id, principal_id, stamp)
        with self._database.connection() as conn:
            name = _name(conn, principal_id)
        self._people.remove_member(project_id, self._people.id_of(name or "", make=False))

    def _tell_member(self, conn: Conn, project_id: int, principal_id: int, role: ProjectRole) -> None:
        """A membership there is for people to see and to be given cards; ours decides, so that failing is no error."""
        try:
            self._people.set_member(project_id, self._people.id_of(_name(conn, principal_id) or ""), role.value)
        except Doubtful as doubt:
            log.warning("member not told project=%d reason=%r", project_id, str(doubt))

    def _project(self, project_id: int) -> Mapping[str, Any]:
        project = self._kanboard.call("getProjectById", project_id=project_id)
        if not project:
            raise not_found("project")
        return dict(project)

    def _must(self, method: str, **params: Any) -> None:
        if not self._kanboard.call(method, **params):
            raise Unavailable(f"Kanboard refused {method}", next="look at the project there", sent=True)


def _name(conn: Conn, principal_id: int | None) -> str | None:
    if principal_id is None:
        return None
    row = conn.execute("SELECT username FROM users WHERE id = %s", (principal_id,)).fetchone()
    return None if row is None else str(row[0])
