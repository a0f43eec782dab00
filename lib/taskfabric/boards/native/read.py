"""Reading the board through somebody's eyes: what a viewer may not see is not in the result, nor in a count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final

from taskfabric.boards.native.names import Connection, Names
from taskfabric.boards.native.rows import FACE, task_of
from taskfabric.domain.comments import Line, LineKind, render
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Kind, Viewer
from taskfabric.domain.status import Status
from taskfabric.domain.task import Attachment, Entry, Kin, LateResult, Task, Thread
from taskfabric.ports.board import Filter

# Members of the queue, the submitter, the holder, the one asked. In pools and in agents' queues a human sees only what
# he submitted, or what an agent of his began on his behalf; what came of his tasks he sees from above. A token's scope
# narrows all of it.
VISIBLE: Final = """
((%(me)s IN (t.creator_id, t.owner_id, t.asked_id) OR t.interlocutor_id = %(me)s AND t.parent_id IS NULL
  OR EXISTS (SELECT FROM project_roles m WHERE m.project_id = t.project_id AND m.user_id = %(me)s
             AND (NOT %(human)s OR NOT EXISTS (SELECT FROM queues q WHERE q.project_id = t.project_id
                                                  AND q.kind IN ('pool', 'agent')))))
 AND (%(scope)s::int[] IS NULL OR t.project_id = ANY(%(scope)s::int[])))
"""


def eyes(viewer: Viewer) -> dict[str, Any]:
    """The parameters of ``VISIBLE``."""
    return {
        "me": viewer.principal_id,
        "human": viewer.kind is Kind.HUMAN,
        "scope": None if viewer.queues is None else list(viewer.queues),
    }


def get(conn: Connection, names: Names, task_id: int, viewer: Viewer | None) -> Task:
    """Raises NotFound for missing and for invisible alike. An ancestor's submitter sees state and result note only."""
    if viewer is None:
        row = conn.execute(f"SELECT {FACE} FROM tasks t WHERE t.id = %s", (task_id,)).fetchone()
        if row is None:
            raise not_found("task")
        return task_of(conn, names, row)
    row = conn.execute(
        f"SELECT {VISIBLE}, {FACE} FROM tasks t WHERE t.id = %(task)s", {"task": task_id, **eyes(viewer)}
    ).fetchone()
    if row is None:
        raise not_found("task")
    if row[0]:
        return task_of(conn, names, row[1:])
    if not _submitted_above(conn, task_id, viewer):
        raise not_found("task")
    return restricted(task_of(conn, names, row[1:]))


_ABOVE: Final = """
WITH RECURSIVE up AS (
    SELECT parent_id FROM tasks WHERE id = %(task)s
    UNION SELECT t.parent_id FROM tasks t JOIN up ON t.id = up.parent_id)
SELECT EXISTS (SELECT FROM up JOIN tasks t ON t.id = up.parent_id WHERE t.creator_id = %(me)s
                  AND (%(scope)s::int[] IS NULL OR t.project_id = ANY(%(scope)s::int[])))
"""


def _submitted_above(conn: Connection, task_id: int, viewer: Viewer) -> bool:
    row = conn.execute(_ABOVE, {"task": task_id, **eyes(viewer)}).fetchone()
    return row is not None and bool(row[0])


def restricted(task: Task) -> Task:
    """The task as an ancestor's submitter may see it: its state and its result note."""
    return Task(
        id=task.id,
        queue="",
        project_id=0,
        title="(not yours to see)",
        status=task.status,
        is_open=task.is_open,
        flags=task.flags,
        parent=task.parent,
        root=task.root,
        depth=task.depth,
        created=task.created,
        completed=task.completed,
        updated_at=task.updated_at,
        verdict=task.verdict,
        note=task.note,
        restricted=True,
    )


def find(conn: Connection, names: Names, wanted: Filter, viewer: Viewer) -> list[Task]:
    """The visible tasks that meet every condition, by id."""
    conditions = [VISIBLE, "t.status <> 'record'", "t.id > %(after)s"]
    values: dict[str, Any] = {**eyes(viewer), "after": wanted.after_id, "limit": wanted.limit}
    if wanted.queues is not None:
        conditions.append("t.project_id = ANY(%(queues)s::int[])")
        values["queues"] = list(wanted.queues)
    if wanted.statuses is not None:
        conditions.append("t.status = ANY(%(statuses)s::text[])")
        values["statuses"] = [s.value for s in wanted.statuses]
        if not {Status.VERIFIED, Status.CANCELLED, Status.REJECTED, Status.DEAD, Status.RECORD} & set(wanted.statuses):
            conditions.append("t.is_active")
    for column, value in (
        ("creator_id", wanted.submitter_id),
        ("owner_id", wanted.holder_id),
        ("asked_id", wanted.asked_id),
        ("parent_id", wanted.parent),
    ):
        if value is not None:
            conditions.append(f"t.{column} = %({column})s")
            values[column] = value
    if wanted.involves_id is not None:
        conditions.append("%(involves)s IN (t.creator_id, t.owner_id, t.asked_id, t.interlocutor_id)")
        values["involves"] = wanted.involves_id
    if wanted.overdue:
        conditions.append("t.is_active AND t.date_due < (SELECT fabric_now()) AND t.status <> 'done'")
    if wanted.text:
        conditions.append(
            "(t.title ILIKE %(like)s OR t.id::text = %(text)s OR t.reference ILIKE %(like)s OR t.has_text AND EXISTS"
            " (SELECT FROM task_texts x WHERE x.task_id = t.id AND x.description ILIKE %(like)s))"
        )
        values["text"] = wanted.text.lstrip("#")
        values["like"] = "%" + wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    where = " AND ".join(conditions)
    rows = conn.execute(f"SELECT {FACE} FROM tasks t WHERE {where} ORDER BY t.id LIMIT %(limit)s", values).fetchall()
    return [task_of(conn, names, row) for row in rows]


def count(conn: Connection, viewer: Viewer) -> dict[int, dict[Status, int]]:
    """Visible rows by project and status."""
    found: dict[int, dict[Status, int]] = {}
    sql = f"SELECT t.project_id, t.status, count(*) FROM tasks t WHERE t.status <> 'record' AND {VISIBLE} GROUP BY 1, 2"
    for project_id, status, number in conn.execute(sql, eyes(viewer)):
        found.setdefault(project_id, {})[Status(status)] = number
    return found


def thread(conn: Connection, names: Names, task_id: int, viewer: Viewer) -> Thread:
    """The task with its comments, files and late results. Whoever sees only state and note sees no thread."""
    task = get(conn, names, task_id, viewer)
    if task.restricted:
        return Thread(task=task)
    files = conn.execute(
        "SELECT id, name, size, sha256, user_id, date FROM task_has_files WHERE task_id = %s ORDER BY id", (task_id,)
    ).fetchall()
    late = conn.execute(
        "SELECT epoch, user_id, at, outcome, text FROM late_results WHERE task_id = %s ORDER BY epoch", (task_id,)
    ).fetchall()
    return Thread(
        task=task,
        entries=entries(conn, names, task, viewer),
        attachments=tuple(
            Attachment(
                id=f[0],
                task_id=task_id,
                name=f[1],
                size=f[2],
                sha256=f[3],
                author=names.user(conn, f[4]) or "",
                at=f[5],
            )
            for f in files
        ),
        late_results=tuple(
            LateResult(
                task_id=task_id,
                epoch=r[0],
                author=names.user(conn, r[1]) or "",
                at=r[2],
                outcome=r[3],
                text=r[4],
            )
            for r in late
        ),
    )


# A comment may be for an application role and those above it; whoever wrote it reads it anyway.
READABLE: Final = (
    "(m.visibility = 'app-user' OR %(me)s::int IS NULL OR m.user_id = %(me)s::int OR EXISTS (SELECT FROM users ru"
    " WHERE ru.id = %(me)s::int AND ru.role IN (m.visibility, 'app-admin')))"
)


def entries(conn: Connection, names: Names, task: Task, viewer: Viewer | None, *, after: int = 0) -> tuple[Entry, ...]:
    """The lines of its thread that the viewer may read, rendered, those up to ``after`` left out."""
    rows = conn.execute(
        "SELECT m.id, m.user_id, m.date_creation, m.text, m.kind, m.epoch, m.until, m.number, m.number_of, m.instance,"
        f" m.date_modification FROM comments m WHERE m.task_id = %(task)s AND m.id > %(after)s AND {READABLE}"
        " ORDER BY m.id",
        {"task": task.id, "after": after, "me": None if viewer is None else viewer.principal_id},
    ).fetchall()
    return tuple(_entry(conn, names, task, row) for row in rows)


def _entry(conn: Connection, names: Names, task: Task, row: Any) -> Entry:
    id_, user_id, at, text, kind, epoch, until, number, of, instance, modified = row
    author = names.user(conn, user_id) or ""
    shown = text
    if kind:
        if kind == LineKind.CLAIMED and epoch == task.epoch and task.lease_until is not None:
            until = task.lease_until  # a live lease's end is rendered from the row
        shown = render(line_of(LineKind(kind), author, at, text, epoch, until, number, of, instance))
    return Entry(
        id=id_,
        task_id=task.id,
        author=author,
        author_id=user_id,
        at=at,
        text=shown,
        kind=kind,
        epoch=epoch,
        modified=modified,
    )


def line_of(
    kind: LineKind, author: str, at: Any, text: str, epoch: Any, until: Any, number: Any, of: Any, instance: Any
) -> Line:
    """The line of the grammar that a stored row stands for; each kind says only what its form has room for."""
    match kind:
        case LineKind.CLAIMED:
            return Line(
                kind=kind, agent=author, instance=instance or "", at=at.astimezone(UTC), epoch=epoch, until=until
            )
        case LineKind.RENEWED:
            return Line(kind=kind, agent=author, at=at.astimezone(UTC))
        case LineKind.PARKED:
            return Line(kind=kind, until=until, text=text)
        case LineKind.WAITING:
            return Line(kind=kind, number=number)
        case LineKind.FAILED:
            return Line(kind=kind, number=number or 0, of=of or 0, text=text)
        case LineKind.EXPIRED:
            return Line(kind=kind, agent=text, epoch=epoch)
        case LineKind.LATE:
            return Line(kind=kind, agent=author, epoch=epoch, text=text)
        case LineKind.QUESTION | LineKind.SAID | LineKind.NOTE | LineKind.DEAD | LineKind.HELD | LineKind.RESUMED:
            return Line(kind=kind, text=text)
        case _:
            return Line(kind=kind, agent=author, text=text)


_TREE: Final = f"""
WITH RECURSIVE down AS (
    SELECT id FROM tasks WHERE id = %(task)s
    UNION ALL SELECT t.id FROM tasks t JOIN down ON t.parent_id = down.id)
SELECT {VISIBLE}, {FACE} FROM down JOIN tasks t ON t.id = down.id WHERE t.status <> 'record' ORDER BY t.id
"""


def tree(conn: Connection, names: Names, task_id: int, viewer: Viewer) -> Kin:
    """The task with its descendants; those that the viewer sees only from above are restricted."""
    root = get(conn, names, task_id, viewer)
    rows = conn.execute(_TREE, {"task": task_id, **eyes(viewer)}).fetchall()
    from_above = root.submitter_id == viewer.principal_id or root.restricted
    shown: dict[int, Task] = {}
    for row in rows:
        task = task_of(conn, names, row[1:])
        if row[0]:
            shown[task.id] = task
        elif from_above or _submitted_above(conn, task.id, viewer):
            shown[task.id] = restricted(task)
    shown[task_id] = root
    below: dict[int, list[int]] = {}
    for task in shown.values():
        if task.parent is not None and task.id != task_id:
            below.setdefault(task.parent, []).append(task.id)

    def grow(id_: int) -> Kin:
        return Kin(task=shown[id_], children=tuple(grow(child) for child in sorted(below.get(id_, ()))))

    return grow(task_id)


_KIN: Final = """
WITH RECURSIVE up AS (
    SELECT parent_id AS id FROM tasks WHERE id = %(task)s
    UNION SELECT t.parent_id FROM tasks t JOIN up ON t.id = up.id),
down AS (
    SELECT id FROM tasks WHERE parent_id = %(task)s
    UNION SELECT t.id FROM tasks t JOIN down ON t.parent_id = down.id),
kin AS (SELECT id FROM up WHERE id IS NOT NULL UNION SELECT id FROM down UNION SELECT %(task)s::bigint)
SELECT u.id FROM users u WHERE u.kind = 'agent' AND u.id IN (
    SELECT unnest(ARRAY[t.creator_id, t.owner_id, t.producer_id]) FROM kin JOIN tasks t ON t.id = kin.id
    UNION SELECT j.actor_id FROM kin JOIN journal j ON j.task_id = kin.id AND j.kind = 'claimed')
"""


def kinship(conn: Connection, task_id: int) -> frozenset[int]:
    """Agents that submitted, held or produced the task, its ancestors or its descendants, in whatever epoch."""
    return frozenset(row[0] for row in conn.execute(_KIN, {"task": task_id}))


_ANCESTORS: Final = """
WITH RECURSIVE up AS (
    SELECT parent_id AS id, 1 AS level FROM tasks WHERE id = %s
    UNION ALL SELECT t.parent_id, up.level + 1 FROM tasks t JOIN up ON t.id = up.id)
SELECT id FROM up WHERE id IS NOT NULL ORDER BY level
"""


def ancestors(conn: Connection, task_id: int) -> tuple[int, ...]:
    """The numbers of the task's parent, that one's parent, and so on to the root."""
    return tuple(row[0] for row in conn.execute(_ANCESTORS, (task_id,)))


def places(conn: Connection, task_ids: Sequence[int]) -> dict[int, int]:
    """The project of each of these tasks that exists."""
    return dict(conn.execute("SELECT id, project_id FROM tasks WHERE id = ANY(%s)", (list(task_ids),)).fetchall())


def attachment(conn: Connection, names: Names, attachment_id: int, viewer: Viewer) -> Attachment:
    """Raises NotFound for a file that is missing or on a task that the viewer may not see."""
    row = conn.execute(
        "SELECT id, task_id, name, size, sha256, user_id, date FROM task_has_files WHERE id = %s", (attachment_id,)
    ).fetchone()
    if row is None:
        raise not_found("attachment")
    visible = conn.execute(
        f"SELECT {VISIBLE} FROM tasks t WHERE t.id = %(task)s", {"task": row[1], **eyes(viewer)}
    ).fetchone()
    if visible is None or not visible[0]:
        raise not_found("attachment")
    return Attachment(
        id=row[0],
        task_id=row[1],
        name=row[2],
        size=row[3],
        sha256=row[4],
        author=names.user(conn, row[5]) or "",
        at=row[6],
    )
