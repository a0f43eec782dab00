"""Projects in PostgreSQL as Kanboard's clients know them: particulars, metadata, files, and what happened."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from psycopg.errors import UniqueViolation

from taskfabric.boards.native.layout import Conn, journal, make_project, put_member
from taskfabric.boards.native.read import VISIBLE
from taskfabric.db.pool import Database
from taskfabric.domain.errors import BadInput, IllegalMove, not_found
from taskfabric.domain.principal import ProjectRole, Stamp
from taskfabric.ports.dossier import Happening, Particulars, ProjectChange, ProjectFile

_PARTICULARS: Final = """
SELECT p.id, p.name, p.description, p.identifier, p.is_active, p.is_public, p.is_private, p.token, p.email,
       p.start_date, p.end_date, p.owner_id, p.priority_default, p.priority_start, p.priority_end, p.last_modified
  FROM projects p
"""
_FILE: Final = """
SELECT f.id, f.project_id, f.name, f.sha256, f.size, f.user_id, coalesce(u.username, ''), coalesce(u.name, ''), f.date
  FROM project_has_files f LEFT JOIN users u ON u.id = f.user_id
 WHERE f.project_id = %s ORDER BY f.name, f.id
"""
# Of the newest events of the house only: an index by project would cost every claim and every finish.
_HAPPENINGS: Final = f"""
SELECT j.id, j.at, j.kind, j.project_id, p.name, j.task_id, coalesce(t.title, ''), j.actor_id, u.username, u.name,
       u.email, j.data
  FROM (SELECT * FROM journal ORDER BY xid DESC, id DESC LIMIT 20000) j
  JOIN projects p ON p.id = j.project_id LEFT JOIN tasks t ON t.id = j.task_id
  LEFT JOIN users u ON u.id = j.actor_id
 WHERE j.project_id = ANY (%(projects)s) AND j.kind = ANY (%(kinds)s)
   AND (j.task_id IS NULL OR t.id IS NOT NULL AND t.status <> 'record' AND (%(me)s::int IS NULL OR {VISIBLE}))
 ORDER BY j.id DESC LIMIT %(limit)s
"""
_BY: Final = frozenset({"name", "identifier", "email"})
# Tasks elsewhere that would lose what they descend from, or what they are blocked by.
_NEEDED: Final = """
SELECT 1 FROM tasks o WHERE o.project_id <> %(project)s
   AND o.parent_id IN (SELECT t.id FROM tasks t WHERE t.project_id = %(project)s)
UNION ALL
SELECT 1 FROM task_has_links l JOIN tasks t ON t.id = l.opposite_task_id JOIN tasks o ON o.id = l.task_id
 WHERE t.project_id = %(project)s AND l.link_id = 3 AND o.project_id <> %(project)s AND o.is_active
 LIMIT 1
"""
_GONE: Final = (
    "DELETE FROM comments c USING tasks t WHERE t.id = c.task_id AND t.project_id = %s",
    "DELETE FROM task_texts x USING tasks t WHERE t.id = x.task_id AND t.project_id = %s",
    "DELETE FROM chunks c USING tasks t WHERE t.id = c.task_id AND t.project_id = %s",
    "DELETE FROM tasks WHERE project_id = %s",
    "DELETE FROM tags WHERE project_id = %s",
    "DELETE FROM projects WHERE id = %s",
)


class NativeDossiers:
    """``ports.dossier.Dossiers`` over our own tables. ``changed`` is told whose layout or members have changed."""

    def __init__(self, database: Database, *, changed: Callable[[int | None], None] = lambda _: None) -> None:
        self._database = database
        self._changed = changed

    def all(self, ids: Sequence[int] | None = None) -> list[Particulars]:
        """These projects, or every one, by name."""
        where = "" if ids is None else "WHERE p.id = ANY (%s)"
        values = () if ids is None else (list(ids),)
        return self._particulars(f"{where} ORDER BY p.name, p.id", values)

    def by(self, field: str, value: str) -> Particulars | None:
        """The first project whose name, identifier or email this is."""
        assert field in _BY
        found = self._particulars(f"WHERE p.{field} = %s ORDER BY p.id LIMIT 1", (value,))
        return found[0] if found else None

    def _particulars(self, where: str, values: Sequence[object]) -> list[Particulars]:
        with self._database.connection() as conn:
            rows: list[tuple[Any, ...]] = conn.execute((_PARTICULARS + where).encode(), values).fetchall()
        return [_particulars(row) for row in rows]

    # -- making, changing, removing ------------------------------------------------------------------

    def create(
        self, change: ProjectChange, stamp: Stamp, *, private: bool, owner_id: int | None, manager_id: int | None
    ) -> int:
        """The number of a new project with four columns and a swimlane."""
        with self._unique() as conn:
            project_id = make_project(conn, change.name or "", change.description or "", stamp)
            _write(conn, project_id, {**_set(change), "owner_id": owner_id, "is_private": private})
            if manager_id is not None:
                put_member(conn, project_id, manager_id, ProjectRole.MANAGER)
            journal(conn, "project-created", project_id, stamp, {"name": change.name})
        self._changed(project_id)
        return project_id

    def change(self, project_id: int, change: ProjectChange, stamp: Stamp) -> None:
        values = _set(change)
        with self._unique() as conn:
            _lock(conn, project_id)
            _write(conn, project_id, values)
            journal(conn, "project-changed", project_id, stamp, values)
        self._changed(project_id)

    def set_public(self, project_id: int, token: str, stamp: Stamp) -> None:
        """The public page has this token; "" = there is none."""
        with self._database.transaction() as conn:
            _lock(conn, project_id)
            _write(conn, project_id, {"is_public": bool(token), "token": token})
            journal(conn, "project-changed", project_id, stamp, {"is_public": bool(token)})

    def remove(self, project_id: int, stamp: Stamp) -> None:
        """The project and its tasks are gone. Raises IllegalMove for a queue, and while somebody needs a task of it."""
        with self._database.transaction() as conn:
            name = _lock(conn, project_id)
            if conn.execute("SELECT 1 FROM queues WHERE project_id = %s", (project_id,)).fetchone() is not None:
                raise IllegalMove("work is addressed to this queue", next="disable it instead")
            conn.execute("SELECT id FROM tasks WHERE project_id = %s ORDER BY id FOR UPDATE", (project_id,))
            held = "SELECT 1 FROM tasks WHERE project_id = %s AND token IS NOT NULL LIMIT 1"
            if conn.execute(held, (project_id,)).fetchone() is not None:
                raise IllegalMove("somebody works on a task of it", next="wait, or cancel the task")
            if conn.execute(_NEEDED, {"project": project_id}).fetchone() is not None:
                raise IllegalMove("tasks elsewhere hang on tasks of it", next="disable it instead")
            for statement in _GONE:
                conn.execute(statement.encode(), (project_id,))
            journal(conn, "project-removed", project_id, stamp, {"name": name})
        self._changed(project_id)

    @contextlib.contextmanager
    def _unique(self) -> Iterator[Conn]:
        try:
            with self._database.transaction() as conn:
                yield conn
        except UniqueViolation:
            raise BadInput("another project has that identifier or email", field="identifier") from None

    # -- metadata ------------------------------------------------------------------------------------

    def metadata(self, project_id: int) -> dict[str, str]:
        with self._database.connection() as conn:
            rows = conn.execute(
                "SELECT name, value FROM project_has_metadata WHERE project_id = %s ORDER BY name", (project_id,)
            ).fetchall()
        return {str(name): str(value) for name, value in rows}

    def put_metadata(self, project_id: int, values: Mapping[str, str], stamp: Stamp) -> None:
        with self._database.transaction() as conn:
            _lock(conn, project_id)
            for name, value in values.items():
                conn.execute(
                    "INSERT INTO project_has_metadata VALUES (%s, %s, %s)"
                    " ON CONFLICT (project_id, name) DO UPDATE SET value = excluded.value",
                    (project_id, name, value),
                )
            journal(conn, "project-metadata", project_id, stamp, {"names": sorted(values)})

    def drop_metadata(self, project_id: int, name: str, stamp: Stamp) -> bool:
        with self._database.transaction() as conn:
            gone = conn.execute(
                "DELETE FROM project_has_metadata WHERE project_id = %s AND name = %s", (project_id, name)
            )
            if gone.rowcount:
                journal(conn, "project-metadata", project_id, stamp, {"names": [name], "removed": True})
        return bool(gone.rowcount)

    # -- files ---------------------------------------------------------------------------------------

    def files(self, project_id: int) -> list[ProjectFile]:
        """By name."""
        with self._database.connection() as conn:
            rows: list[tuple[Any, ...]] = conn.execute(_FILE, (project_id,)).fetchall()
        return [
            ProjectFile(
                id=row[0],
                project_id=row[1],
                name=row[2],
                sha256=row[3],
                size=row[4],
                user_id=row[5],
                username=row[6],
                user_name=row[7],
                date=row[8],
            )
            for row in rows
        ]

    def add_file(self, project_id: int, name: str, size: int, sha256: str, stamp: Stamp) -> int:
        with self._database.transaction() as conn:
            _lock(conn, project_id)
            row = conn.execute(
                "INSERT INTO project_has_files (project_id, name, size, sha256, user_id)"
                " VALUES (%s, %s, %s, %s, %s) RETURNING id",
                (project_id, name, size, sha256, stamp.principal_id),
            ).fetchone()
            assert row is not None
            journal(conn, "project-file-added", project_id, stamp, {"name": name, "size": size})
        return int(row[0])

    def remove_files(self, project_id: int, file_id: int | None, stamp: Stamp) -> int:
        """This one or all; how many there were."""
        with self._database.transaction() as conn:
            gone = conn.execute(
                "DELETE FROM project_has_files WHERE project_id = %s AND (%s::int IS NULL OR id = %s)",
                (project_id, file_id, file_id),
            )
            if gone.rowcount:
                journal(conn, "project-file-removed", project_id, stamp, {"files": gone.rowcount})
        return gone.rowcount

    # -- what happened -------------------------------------------------------------------------------

    def happenings(
        self, project_ids: Sequence[int], kinds: Sequence[str], limit: int, viewer_id: int | None, human: bool
    ) -> list[Happening]:
        """The newest events of these kinds, newest first, without those of tasks that the viewer may not see."""
        values = {
            "projects": list(project_ids),
            "kinds": list(kinds),
            "limit": limit,
            "me": viewer_id,
            "human": human,
            "scope": None,
        }
        with self._database.connection() as conn:
            rows: list[tuple[Any, ...]] = conn.execute(_HAPPENINGS.encode(), values).fetchall()
        return [
            Happening(
                id=row[0],
                at=row[1],
                kind=row[2],
                project_id=row[3],
                project_name=row[4],
                task_id=row[5],
                task_title=row[6],
                actor_id=row[7],
                actor_username=row[8] or "",
                actor_name=row[9] or "",
                actor_email=row[10] or "",
                data=row[11] or {},
            )
            for row in rows
        ]


def _lock(conn: Conn, project_id: int) -> str:
    row = conn.execute("SELECT name FROM projects WHERE id = %s FOR UPDATE", (project_id,)).fetchone()
    if row is None:
        raise not_found("project")
    return str(row[0])


def _set(change: ProjectChange) -> dict[str, object]:
    return {name: value for name, value in asdict(change).items() if value is not None}


def _write(conn: Conn, project_id: int, values: Mapping[str, object]) -> None:
    """``values`` by the names of columns, which are ours."""
    sets = "".join(f"{name} = %({name})s, " for name in values)
    statement = f"UPDATE projects SET {sets}last_modified = fabric_now() WHERE id = %(id)s"
    conn.execute(statement.encode(), {**values, "id": project_id})


def _particulars(row: tuple[Any, ...]) -> Particulars:
    return Particulars(
        id=row[0],
        name=row[1],
        description=row[2],
        identifier=row[3],
        is_active=row[4],
        is_public=row[5],
        is_private=row[6],
        token=row[7],
        email=row[8],
        start_date=row[9],
        end_date=row[10],
        owner_id=row[11],
        priority_default=row[12],
        priority_start=row[13],
        priority_end=row[14],
        last_modified=row[15],
    )
