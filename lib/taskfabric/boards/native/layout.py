"""The rows of projects, columns, swimlanes and queues: how they are read, and how a new project is laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from psycopg import Connection
from psycopg.types.json import Jsonb

from taskfabric.boards.native.membership import QUEUE, queue_of
from taskfabric.domain.errors import BadInput, not_found
from taskfabric.domain.principal import ProjectRole, Stamp
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import COLUMN_TITLES, ColumnRole
from taskfabric.ports.projects import Column, Project, Swimlane

Conn = Connection[Any]
T = TypeVar("T")

QUEUE_LOCK: Final = 0x7461736B  # one advisory lock for the rare making of queues
_MARK: Final = "fabric.queue"  # the project's metadata that marks it as a queue


def first(found: Sequence[T], what: str) -> T:
    """The one that was found. Raises NotFound."""
    if not found:
        raise not_found(what)
    return found[0]


def queues(conn: Conn, where: str, values: Sequence[object]) -> list[Queue]:
    return [queue_of(row) for row in conn.execute(f"{QUEUE} {where}".encode(), values).fetchall()]


def projects(conn: Conn, where: str, values: Sequence[object]) -> list[Project]:
    select = f"SELECT p.id, p.name, p.description, p.is_active, p.owner_id FROM projects p {where}"
    rows = conn.execute(select.encode(), values).fetchall()
    marked = {q.project_id: q for q in queues(conn, "WHERE q.project_id = ANY (%s)", ([row[0] for row in rows],))}
    return [
        Project(id=row[0], name=row[1], description=row[2], active=row[3], owner_id=row[4], queue=marked.get(row[0]))
        for row in rows
    ]


def columns(conn: Conn, where: str, values: Sequence[object]) -> list[Column]:
    select = f"SELECT id, project_id, title, position, role, task_limit FROM columns {where}"
    return [
        Column(
            id=row[0],
            project_id=row[1],
            title=row[2],
            position=row[3],
            role=None if row[4] is None else ColumnRole(row[4]),
            task_limit=row[5],
        )
        for row in conn.execute(select.encode(), values).fetchall()
    ]


def swimlanes(conn: Conn, project_id: int) -> list[Swimlane]:
    rows = conn.execute(
        "SELECT id, project_id, name, position, is_active FROM swimlanes WHERE project_id = %s ORDER BY position, id",
        (project_id,),
    ).fetchall()
    return [Swimlane(id=row[0], project_id=row[1], name=row[2], position=row[3], active=row[4]) for row in rows]


def make_project(conn: Conn, name: str, description: str, stamp: Stamp) -> int:
    """The id of a new project with Kanboard's four columns and its default swimlane."""
    row = conn.execute(
        "INSERT INTO projects (name, description, owner_id) VALUES (%s, %s, %s) RETURNING id",
        (name, description, stamp.principal_id if stamp.is_human else None),
    ).fetchone()
    assert row is not None
    project_id = int(row[0])
    conn.execute(
        "INSERT INTO columns (project_id, title, position, role)"
        " SELECT %s, title, place, role FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS u(title, role, place)",
        (project_id, list(COLUMN_TITLES.values()), [role.value for role in COLUMN_TITLES]),
    )
    conn.execute("INSERT INTO swimlanes (project_id, name, position) VALUES (%s, 'Default swimlane', 1)", (project_id,))
    return project_id


def make_queue(conn: Conn, name: str, kind: QueueKind, stamp: Stamp, owner_id: int | None) -> Queue:
    """A new project, marked as a queue and mapped to its four columns."""
    project_id = make_project(conn, name, "", stamp)
    conn.execute(
        "INSERT INTO queues (project_id, name, kind, owner_id, backlog_column, ready_column, working_column,"
        " done_column, swimlane_id) SELECT %(project)s, %(name)s, %(kind)s, %(owner)s,"
        " max(id) FILTER (WHERE role = 'backlog'), max(id) FILTER (WHERE role = 'ready'),"
        " max(id) FILTER (WHERE role = 'working'), max(id) FILTER (WHERE role = 'done'),"
        " (SELECT min(id) FROM swimlanes WHERE project_id = %(project)s)"
        " FROM columns WHERE project_id = %(project)s",
        {"project": project_id, "name": name, "kind": kind.value, "owner": owner_id},
    )
    conn.execute("INSERT INTO project_has_metadata VALUES (%s, %s, %s)", (project_id, _MARK, kind.value))
    return first(queues(conn, "WHERE q.project_id = %s", (project_id,)), "queue")


def the_same(found: Sequence[Queue], name: str, kind: QueueKind, owner_id: int | None) -> Queue:
    """The one queue found, if it is what was asked for. Raises BadInput if it is another's or of another kind."""
    for queue in found:
        if (queue.name, queue.kind, queue.owner_id) == (name, kind, owner_id):
            return queue
    clash = found[0]
    if clash.name == name:
        raise BadInput(
            f"the queue {name!r} is there already, as {clash.kind.value} of {clash.owner or 'everybody'}",
            next="choose another name",
            field="name",
        )
    raise BadInput(f"{clash.owner} has the queue {clash.name!r}; one is all it can have", field="owner")


def put_member(conn: Conn, project_id: int, principal_id: int, role: ProjectRole) -> str | None:
    """The principal has this role there; returns the role it had."""
    was = conn.execute(
        "SELECT role FROM project_has_users WHERE project_id = %s AND user_id = %s FOR UPDATE",
        (project_id, principal_id),
    ).fetchone()
    conn.execute(
        "INSERT INTO project_has_users VALUES (%s, %s, %s) ON CONFLICT (project_id, user_id)"
        " DO UPDATE SET role = excluded.role",
        (project_id, principal_id, role.value),
    )
    return None if was is None else str(was[0])


def rules(queue: Queue) -> dict[str, bool]:
    return {
        "score_check": queue.score_check,
        "needs_verified": queue.needs_verified,
        "human_verify": queue.human_verify,
    }


def journal(conn: Conn, kind: str, project_id: int | None, stamp: Stamp, data: Mapping[str, Any]) -> None:
    """One event of the project itself, or (None) of the house."""
    run = stamp.run
    conn.execute(
        "INSERT INTO journal (project_id, actor_id, run_task, run_epoch, kind, via, data)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (
            project_id,
            stamp.principal_id,
            None if run is None else run.task_id,
            None if run is None else run.epoch,
            kind,
            stamp.via.value,
            Jsonb(dict(data)),
        ),
    )
