"""Projects in PostgreSQL: their columns, swimlanes and members, and which of them are queues."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from psycopg.errors import UniqueViolation

from taskfabric.boards.native import adopting, layout
from taskfabric.boards.native.layout import Conn, first, journal
from taskfabric.boards.native.membership import Membership
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, IllegalMove, not_found
from taskfabric.domain.principal import ProjectRole, Stamp
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import COLUMN_TITLES, ColumnRole
from taskfabric.ports.projects import Column, Member, Project, Swimlane

_ROLE_OF_TITLE: Final = {title.casefold(): role for role, title in COLUMN_TITLES.items()}
_OWNER_ROLE: Final = {QueueKind.INBOX: ProjectRole.MANAGER, QueueKind.AGENT: ProjectRole.MEMBER}


class NativeProjects:
    """``ports.projects.Projects`` over our own tables.

    ``changed`` is told the project (None = any) whose layout or rules this process has just changed.
    """

    def __init__(self, database: Database, *, changed: Callable[[int | None], None] = lambda _: None) -> None:
        self._database = database
        self._changed = changed
        self._membership = Membership(database)

    # -- queues --------------------------------------------------------------------------------------

    def queue(self, name_or_id: str | int) -> Queue | None:
        return self._membership.queue(name_or_id)

    def queues(self) -> list[Queue]:
        return self._membership.queues()

    def queues_of(self, principal_id: int) -> list[Queue]:
        """Those it owns, then those it is a member of, each by id."""
        return self._membership.queues_of(principal_id)

    def role_of(self, project_id: int, principal_id: int) -> ProjectRole | None:
        return self._membership.role_of(project_id, principal_id)

    def make_queue(
        self, name: str, kind: QueueKind, stamp: Stamp, *, owner_id: int | None = None, role: ProjectRole | None = None
    ) -> tuple[Queue, bool]:
        """The queue of this name, and whether it was made now. Its owner is a member (``role``: a manager of an
        inbox, a member of an agent's queue); a human who makes a pool or an agent's queue manages it, but an inbox is
        its owner's alone.

        Raises BadInput if the name belongs to a queue of another kind or owner, or the owner has another queue."""
        if (kind is QueueKind.POOL) != (owner_id is None):
            raise BadInput("a pool has no owner, every other queue has one", field="owner")
        with self._database.transaction() as conn:
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (layout.QUEUE_LOCK,))
            found = layout.queues(conn, "WHERE q.name = %s OR q.owner_id = %s", (name, owner_id))
            if found:
                return layout.the_same(found, name, kind, owner_id), False
            made = layout.make_queue(conn, name, kind, stamp, owner_id)
            members = {} if owner_id is None else {owner_id: role or _OWNER_ROLE[kind]}
            if stamp.is_human and kind is not QueueKind.INBOX and stamp.principal_id not in members:
                members[stamp.principal_id] = ProjectRole.MANAGER
            for principal_id, its_role in members.items():
                layout.put_member(conn, made.project_id, principal_id, its_role)
            journal(conn, "queue-created", made.project_id, stamp, {"name": name, "kind": kind.value})
        self._tell(made.project_id)
        return made, True

    def adopt(
        self,
        project_id: int,
        name: str,
        kind: QueueKind,
        columns: Mapping[ColumnRole, str],
        stamp: Stamp,
        *,
        owner_id: int | None,
    ) -> Queue:
        with self._database.transaction() as conn:
            queue = adopting.adopt(conn, project_id, name, kind, columns, stamp, owner_id=owner_id)
        self._tell(project_id)
        return queue

    def set_rules(
        self,
        project_id: int,
        stamp: Stamp,
        *,
        score_check: bool | None,
        needs_verified: bool | None,
        human_verify: bool | None,
    ) -> Queue:
        with self._database.transaction() as conn:
            conn.execute("SELECT 1 FROM queues WHERE project_id = %s FOR UPDATE", (project_id,))
            before = first(layout.queues(conn, "WHERE q.project_id = %s", (project_id,)), "queue")
            conn.execute(
                "UPDATE queues SET score_check = coalesce(%s, score_check),"
                " needs_verified = coalesce(%s, needs_verified), human_verify = coalesce(%s, human_verify)"
                " WHERE project_id = %s",
                (score_check, needs_verified, human_verify, project_id),
            )
            after = first(layout.queues(conn, "WHERE q.project_id = %s", (project_id,)), "queue")
            journal(conn, "queue-rules", project_id, stamp, {"was": layout.rules(before), "is": layout.rules(after)})
        self._tell(project_id)
        return after

    # -- projects ------------------------------------------------------------------------------------

    def create(self, name: str, stamp: Stamp, *, description: str = "") -> Project:
        """A project with Kanboard's four columns and its default swimlane; a human who makes it manages it."""
        with self._database.transaction() as conn:
            project_id = layout.make_project(conn, name, description, stamp)
            if stamp.is_human:
                layout.put_member(conn, project_id, stamp.principal_id, ProjectRole.MANAGER)
            journal(conn, "project-created", project_id, stamp, {"name": name})
        self._tell(project_id)
        return self.get(project_id)

    def get(self, project_id: int) -> Project:
        with self._database.connection() as conn:
            return first(layout.projects(conn, "WHERE p.id = %s", (project_id,)), "project")

    def all(self) -> list[Project]:
        with self._database.connection() as conn:
            return layout.projects(conn, "ORDER BY p.id", ())

    def rename(self, project_id: int, name: str, stamp: Stamp) -> Project:
        """The project has this title. A queue keeps the name by which work is addressed to it."""
        return self._update(project_id, "name", name, stamp)

    def set_active(self, project_id: int, active: bool, stamp: Stamp) -> Project:
        return self._update(project_id, "is_active", active, stamp)

    def _update(self, project_id: int, column: str, value: object, stamp: Stamp) -> Project:
        with self._database.transaction() as conn:
            row = conn.execute(
                f"SELECT {column} FROM projects WHERE id = %s FOR UPDATE".encode(), (project_id,)
            ).fetchone()
            if row is None:
                raise not_found("project")
            conn.execute(
                f"UPDATE projects SET {column} = %s, last_modified = fabric_now() WHERE id = %s".encode(),
                (value, project_id),
            )
            journal(conn, "project-changed", project_id, stamp, {column: {"was": row[0], "is": value}})
        self._tell(project_id)
        return self.get(project_id)

    # -- columns -------------------------------------------------------------------------------------

    def columns(self, project_id: int) -> list[Column]:
        with self._database.connection() as conn:
            return layout.columns(conn, "WHERE project_id = %s ORDER BY position, id", (project_id,))

    def limits(self) -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = {}
        with self._database.connection() as conn:
            rows = conn.execute(
                "SELECT project_id, title, task_limit FROM columns WHERE task_limit > 0 ORDER BY project_id, position"
            ).fetchall()
        for project_id, title, limit in rows:
            found.setdefault(project_id, {})[title] = limit
        return found

    def add_column(self, project_id: int, title: str, stamp: Stamp, *, task_limit: int = 0) -> Column:
        """Raises BadInput if the title is taken. A column titled like one of the four takes its role if it is free."""
        with self._changing(project_id, title) as conn:
            free = _ROLE_OF_TITLE.get(title.casefold())
            taken = {column.role for column in layout.columns(conn, "WHERE project_id = %s", (project_id,))}
            role = None if free in taken else free
            row = conn.execute(
                "INSERT INTO columns (project_id, title, position, task_limit, role) VALUES (%s, %s,"
                " (SELECT coalesce(max(position), 0) + 1 FROM columns WHERE project_id = %s), %s, %s) RETURNING id",
                (project_id, title, project_id, task_limit, None if role is None else role.value),
            ).fetchone()
            assert row is not None
            if role is not None:
                statement = f"UPDATE queues SET {role.value}_column = %s WHERE project_id = %s"
                conn.execute(statement.encode(), (row[0], project_id))
            journal(conn, "column-added", project_id, stamp, {"title": title, "role": role and role.value})
            made = first(layout.columns(conn, "WHERE id = %s", (row[0],)), "column")
        self._tell(project_id)
        return made

    def update_column(self, column_id: int, stamp: Stamp, *, title: str, task_limit: int) -> Column:
        """A new title changes neither role nor tasks. Raises BadInput if it is taken."""
        before = self._column(column_id)
        with self._changing(before.project_id, title) as conn:
            conn.execute("UPDATE columns SET title = %s, task_limit = %s WHERE id = %s", (title, task_limit, column_id))
            facts = {"was": before.title, "is": title, "task_limit": task_limit}
            journal(conn, "column-changed", before.project_id, stamp, facts)
            after = first(layout.columns(conn, "WHERE id = %s", (column_id,)), "column")
        self._tell(before.project_id)
        return after

    def move_column(self, column_id: int, position: int, stamp: Stamp) -> None:
        """The column stands there, 1 being the first. Raises BadInput for a position that the project has not."""
        project_id = self._column(column_id).project_id
        with self._changing(project_id) as conn:
            order = [c.id for c in layout.columns(conn, "WHERE project_id = %s ORDER BY position, id", (project_id,))]
            if not 1 <= position <= len(order):
                raise BadInput(f"this project has the positions 1 to {len(order)}", field="position")
            order.remove(column_id)
            order.insert(position - 1, column_id)
            conn.execute(
                "UPDATE columns c SET position = u.place FROM unnest(%s::int[]) WITH ORDINALITY AS u(id, place)"
                " WHERE c.id = u.id",
                (order,),
            )
            journal(conn, "column-moved", project_id, stamp, {"column": column_id, "position": position})
        self._tell(project_id)

    def remove_column(self, column_id: int, stamp: Stamp) -> None:
        """Raises IllegalMove while a task, open or closed, stands in it, or while it has a role in a queue."""
        column = self._column(column_id)
        with self._changing(column.project_id) as conn:
            if column.role is not None and layout.queues(conn, "WHERE q.project_id = %s", (column.project_id,)):
                raise IllegalMove(f"{column.title!r} is the column for {column.role.value!r} and cannot be removed")
            conn.execute("SELECT 1 FROM columns WHERE id = %s FOR UPDATE", (column_id,))
            if conn.execute("SELECT 1 FROM tasks WHERE column_id = %s LIMIT 1", (column_id,)).fetchone() is not None:
                raise IllegalMove(f"there are tasks in {column.title!r}", next="move them first, the closed ones too")
            conn.execute("DELETE FROM columns WHERE id = %s", (column_id,))
            journal(conn, "column-removed", column.project_id, stamp, {"title": column.title})
        self._tell(column.project_id)

    def _column(self, column_id: int) -> Column:
        with self._database.connection() as conn:
            return first(layout.columns(conn, "WHERE id = %s", (column_id,)), "column")

    # -- swimlanes -----------------------------------------------------------------------------------

    def swimlanes(self, project_id: int) -> list[Swimlane]:
        with self._database.connection() as conn:
            return layout.swimlanes(conn, project_id)

    def add_swimlane(self, project_id: int, name: str, stamp: Stamp) -> Swimlane:
        """Raises BadInput if the name is taken."""
        with self._changing(project_id, name) as conn:
            conn.execute(
                "INSERT INTO swimlanes (project_id, name, position) VALUES (%s, %s,"
                " (SELECT coalesce(max(position), 0) + 1 FROM swimlanes WHERE project_id = %s))",
                (project_id, name, project_id),
            )
            journal(conn, "swimlane-added", project_id, stamp, {"name": name})
            made = first([lane for lane in layout.swimlanes(conn, project_id) if lane.name == name], "swimlane")
        self._tell(project_id)
        return made

    # -- members -------------------------------------------------------------------------------------

    def members(self, project_id: int) -> list[Member]:
        with self._database.connection() as conn:
            rows: list[tuple[Any, ...]] = conn.execute(
                "SELECT u.id, u.username, m.role FROM project_has_users m JOIN users u ON u.id = m.user_id"
                " WHERE m.project_id = %s ORDER BY u.id",
                (project_id,),
            ).fetchall()
        return [Member(principal_id=i, name=name, role=ProjectRole(role)) for i, name, role in rows]

    def set_member(self, project_id: int, principal_id: int, role: ProjectRole, stamp: Stamp) -> None:
        self.get(project_id)
        with self._database.transaction() as conn:
            was = layout.put_member(conn, project_id, principal_id, role)
            facts = {"principal": principal_id, "was": was, "is": role.value}
            journal(conn, "member-set", project_id, stamp, facts)
        self._tell(project_id)

    def remove_member(self, project_id: int, principal_id: int, stamp: Stamp) -> None:
        """Nothing happens if it was none. Raises BadInput for the owner of the queue."""
        with self._database.transaction() as conn:
            owner = layout.queues(conn, "WHERE q.project_id = %s AND q.owner_id = %s", (project_id, principal_id))
            if owner:
                raise BadInput(f"the queue {owner[0].name!r} is its own; its owner stays a member", field="name")
            gone = conn.execute(
                "DELETE FROM project_has_users WHERE project_id = %s AND user_id = %s RETURNING role",
                (project_id, principal_id),
            ).fetchone()
            if gone is not None:
                facts = {"principal": principal_id, "was": gone[0], "is": None}
                journal(conn, "member-set", project_id, stamp, facts)
        self._tell(project_id)

    @contextlib.contextmanager
    def _changing(self, project_id: int, name: str = "") -> Iterator[Conn]:
        """A transaction on one project, which is there and which nobody else rearranges meanwhile.

        Raises BadInput if ``name`` is taken in it."""
        try:
            with self._database.transaction() as conn:
                if conn.execute("SELECT 1 FROM projects WHERE id = %s FOR UPDATE", (project_id,)).fetchone() is None:
                    raise not_found("project")
                yield conn
        except UniqueViolation:
            raise BadInput(f"this project has a {name!r} already", field="name") from None

    def forget(self) -> None:
        """Whatever was remembered is read anew: rows came in by another way."""
        self._tell(None)

    def _tell(self, project_id: int | None) -> None:
        self._membership.forget()
        self._changed(project_id)
