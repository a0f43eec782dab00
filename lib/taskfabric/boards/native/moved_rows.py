"""What is special about the rows of some tables when they move: people, projects, columns, tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from psycopg.types.json import Jsonb

from taskfabric.boards.native.layout import Conn
from taskfabric.boards.native.moved_tables import PARAMS, MovedTable
from taskfabric.boards.native.names import Lane, Names
from taskfabric.domain.card_actions import ACTIONS
from taskfabric.domain.principal import AppRole, Kind, Stamp, Trust
from taskfabric.ports.moving import Brought, Finished, LeftOut

# Tables whose ids are 64 bits wide.
LONG_IDS: Final = frozenset(
    {"tasks", "comments", "task_has_links", "task_has_files", "subtasks", "subtask_time_tracking"}
    | {"task_has_external_links"}
)
_LIFT: Final = 1_000_000  # epochs, as after a restore: a worker of the other fabric may hold a lease of that task
_EVERYTHING: Final = frozenset({"capabilities"})  # NULL says something here, and is not the default
_UNKNOWN: Final = "(unknown)"  # no name that a person can be given
_PLACES: Final = {
    "column": "SELECT project_id, id, title FROM columns WHERE project_id = ANY (%s) ORDER BY position, id",
    "swimlane": "SELECT project_id, id, name FROM swimlanes WHERE project_id = ANY (%s)"
    " ORDER BY NOT is_active, position, id",
}
# Columns of a task's row as it travels that stand elsewhere here.
_TASK_REST: Final = frozenset({"tier", "priority", "needs", "required_trust", "description", "refs", "key", "leased"})


def prepare(conn: Conn, table: MovedTable, row: dict[str, Any], brought: Brought) -> None:
    """``is``: the row that this one is, where that is not told by its natural key; ``left``: it does not come along."""
    row.pop("table", None)
    if table.name == "users":
        _person(conn, row, brought)
    elif table.name == "projects":
        _project(conn, row, brought)


def _person(conn: Conn, row: dict[str, Any], brought: Brought) -> None:
    known = conn.execute("SELECT id, kind FROM users WHERE username = %s", (row.get("username"),)).fetchone()
    if known is not None and (known[1] != row.get("kind") or known[0] == 0):
        row["left"] = True
        what = f"{row.get('kind')} {row.get('username')}"
        why = f"here that name is of kind {known[1]!r}" if known[0] else "that name is the fabric's own"
        brought.left_out.append(LeftOut(what=what, why=f"{why}; what came of that name is of nobody known"))
    elif known is None and row.get("kind") == Kind.SERVICE.value:
        trust = min(int(row.get("trust") or 0), int(Trust.TRUSTED))
        row |= {"is_active": False, "trust": trust, "role": AppRole.USER.value}
        brought.notes["services of elsewhere are here by name, and can do nothing"] += 1
    elif known is None and row.get("kind") == Kind.AGENT.value and int(row.get("trust", 0)) > Trust.SANDBOXED:
        row["trust"] = int(Trust.SANDBOXED)
        brought.notes["agents that were trusted are sandboxed until their cards say more"] += 1


def _project(conn: Conn, row: dict[str, Any], brought: Brought) -> None:
    queue = row.pop("queue", None)
    if isinstance(queue, dict):
        found = conn.execute(
            "SELECT project_id FROM queues WHERE name = %s AND kind = %s", (queue.get("name"), queue.get("kind"))
        ).fetchone()
        if found is not None:
            row["is"] = found[0]
            return
    for column in ("identifier", "email"):
        if row.get(column):
            taken = conn.execute(f"SELECT 1 FROM projects WHERE {column} = %s".encode(), (row[column],)).fetchone()
            if taken:
                row[column] = ""
                brought.notes[f"projects lost their {column}: another project here has it"] += 1


def complete(
    conn: Conn,
    names: Names,
    source: str,
    table: MovedTable,
    rows: list[dict[str, Any]],
    stamp: Stamp,
    brought: Brought,
) -> list[dict[str, Any]]:
    """The rows as they will stand, ids and references being ours."""
    match table.name:
        case "columns":
            for row in rows:
                _role_once(conn, row)
        case "tasks":
            rows = _placed(conn, rows, brought)
            _on_behalf(conn, rows, stamp)
            for row in rows:
                _task(conn, names, row, brought)
        case "task_faces":
            _own_category(conn, rows, brought)
        case "actions":
            return [row for row in rows if _offered(row, brought)]
        case "queues":
            return [row for row in rows if _queue(conn, row, brought)]
        case "action_has_params":
            lame = {row["action_id"] for row in rows if not _param(conn, source, row, brought)}
            return [row for row in rows if row["action_id"] not in lame]
    return rows


def _role_once(conn: Conn, row: dict[str, Any]) -> None:
    """A project has one column for each role: an older one keeps it."""
    taken = conn.execute(
        "SELECT 1 FROM columns WHERE project_id = %s AND role = %s", (row["project_id"], row.get("role"))
    ).fetchone()
    if taken is not None:
        row["role"] = None


def _placed(conn: Conn, rows: list[dict[str, Any]], brought: Brought) -> list[dict[str, Any]]:
    """A task stands in a column and a swimlane of its own project; a Kanboard lets it stand in another's."""
    there: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)  # by what it is and the project, in order
    for what, find in _PLACES.items():
        for project, id_, name in conn.execute(find.encode(), ([row["project_id"] for row in rows],)).fetchall():
            there[what, project][id_] = name
    return [row for row in rows if all(_stands(row, what, there[what, row["project_id"]], brought) for what in _PLACES)]


def _stands(row: dict[str, Any], what: str, places: dict[int, str], brought: Brought) -> bool:
    """The task is in one of these places; False if there is none."""
    if row.get(f"{what}_id") in places:
        return True
    name = f"task {row['id']} ({str(row.get('title'))[:60]})"
    first = next(iter(places), None)
    if first is None:
        brought.left_out.append(LeftOut(what=name, why=f"its project has no {what}"))
        return False
    row[f"{what}_id"] = first
    why = f"its {what} is not of its project; it is in {places[first]!r} now"
    brought.changed.append(LeftOut(what=name, why=why))
    return True


def _on_behalf(conn: Conn, rows: list[dict[str, Any]], stamp: Stamp) -> None:
    """What nobody who is here submitted is shown to the person who brings it."""
    makers = [row["creator_id"] for row in rows]
    found = conn.execute(
        "SELECT id FROM users WHERE id = ANY (%s) AND id <> 0 AND kind = 'service' AND NOT is_active", (makers,)
    ).fetchall()
    for row in rows:
        if (row["creator_id"],) in found and row.get("interlocutor_id") is None and stamp.is_human:
            row["interlocutor_id"] = stamp.principal_id


def _own_category(conn: Conn, rows: list[dict[str, Any]], brought: Brought) -> None:
    found = conn.execute(
        "SELECT t.id, c.id FROM tasks t JOIN project_has_categories c ON c.project_id = t.project_id"
        " WHERE t.id = ANY (%s)",
        ([row["task_id"] for row in rows],),
    ).fetchall()
    own = set(found)
    for row in rows:
        if row.get("category_id") and (row["task_id"], row["category_id"]) not in own:
            row["category_id"] = 0
            why = "its category is not of its project; it has none now"
            brought.changed.append(LeftOut(what=f"task {row['task_id']} here", why=why))


def _offered(row: dict[str, Any], brought: Brought) -> bool:
    """Whether actions of this kind are carried out here."""
    if row.get("action_name") in ACTIONS:
        return True
    what = f"actions {row['id']} ({str(row.get('action_name')).rpartition(chr(92))[2][:60]})"
    brought.left_out.append(LeftOut(what=what, why="no such automatic action is offered here"))
    return False


def unknown(conn: Conn) -> int:
    """The person whom everything is of whose author did not come along: he can do nothing."""
    conn.execute(
        "INSERT INTO users (username, name, kind, trust, is_active) VALUES (%s, 'Not known here', 'service', 0, false)"
        " ON CONFLICT DO NOTHING",
        (_UNKNOWN,),
    )
    row = conn.execute("SELECT id FROM users WHERE username = %s", (_UNKNOWN,)).fetchone()
    assert row is not None
    return int(row[0])


def _task(conn: Conn, names: Names, row: dict[str, Any], brought: Brought) -> None:
    lane = Lane(
        project_id=row["project_id"],
        tier=row.get("tier") or "",
        priority=min(3, max(0, row.get("priority") or 0)),
        needs=tuple(sorted(row.get("needs") or ())),
        trust=Trust(min(int(Trust.HUMAN), max(0, row.get("required_trust") or 0))),
    )
    row["lane_id"] = names.lane_id(conn, lane)
    if row.get("leased"):
        ready = conn.execute(
            "SELECT id FROM columns WHERE project_id = %s AND role = 'ready'", (row["project_id"],)
        ).fetchone()
        row["column_id"] = row["column_id"] if ready is None else ready[0]
        row |= {"owner_id": None, "attempts": max(0, (row.get("attempts") or 0) - 1), "ready_since": None}
        row["epoch"] = (row.get("epoch") or 0) + _LIFT
        brought.notes["tasks were being worked on: they are ready again, and the attempt is not counted"] += 1


def _queue(conn: Conn, row: dict[str, Any], brought: Brought) -> bool:
    clash = conn.execute(
        "SELECT project_id, name FROM queues WHERE project_id = %(project_id)s OR name = %(name)s"
        " OR owner_id = %(owner_id)s",
        {column: row.get(column) for column in ("project_id", "name", "owner_id")},
    ).fetchone()
    if clash is None:
        return True
    if clash[0] != row["project_id"]:
        why = f"there is a queue {clash[1]!r} already, of that name or that owner; its cards are in a plain project"
        brought.left_out.append(LeftOut(what=f"queue {row.get('name')}", why=why))
    else:
        brought.known["queues"] += 1
    return False


def _param(conn: Conn, source: str, row: dict[str, Any], brought: Brought) -> bool:
    """An id in a parameter of an action is the id of our row."""
    other = PARAMS.get(str(row.get("name")))
    value = str(row.get("value"))
    if other is None or not value.isdecimal() or value == "0":
        return True
    found = conn.execute(
        "SELECT ours FROM moved WHERE tbl = %s AND theirs = %s AND source = %s", (other, int(value), source)
    ).fetchone()
    if found is None:
        what = f"action here {row['action_id']}"
        why = f"what its {row['name']} names ({value}) did not come along: without it the action would not run"
        brought.left_out.append(LeftOut(what=what, why=why))
        conn.execute(
            "DELETE FROM moved WHERE source = %s AND tbl = 'actions' AND ours = %s", (source, row["action_id"])
        )
        brought.made["actions"] -= conn.execute("DELETE FROM actions WHERE id = %s", (row["action_id"],)).rowcount
        return False
    row["value"] = str(found[0])
    return True


# -- writing ---------------------------------------------------------------------------------------------------

_TASKS_MADE: Final = """
INSERT INTO tasks (id, lane_id, role, status, has_text, {columns})
SELECT x.id, x.lane_id, c.role, fabric_status(c.role, x.is_active, x.flags),
       coalesce(x.description, '') <> '' OR coalesce(x.refs, '{{}}') <> '{{}}' OR x.key IS NOT NULL, {values}
  FROM jsonb_to_recordset(%(rows)s) AS x(id bigint, lane_id integer, {typed})
  JOIN columns c ON c.id = x.column_id AND c.project_id = x.project_id
  JOIN swimlanes s ON s.id = x.swimlane_id AND s.project_id = x.project_id
"""
_TEXTS: Final = """
INSERT INTO task_texts (task_id, description, refs, key)
SELECT x.id, coalesce(x.description, ''), coalesce(x.refs, '{}'), x.key
  FROM jsonb_to_recordset(%(rows)s) AS x(id bigint, description text, refs text[], key text)
  JOIN tasks t ON t.id = x.id WHERE t.has_text
"""
_MADE: Final = """
INSERT INTO journal (task_id, seq, project_id, actor_id, kind, via, epoch, data)
SELECT t.id, t.seq, t.project_id, %(me)s, 'imported', %(via)s, t.epoch, jsonb_build_object('status', t.status)
  FROM tasks t WHERE t.id = ANY (%(ids)s)
"""
# A delayed task is one that is ready at another time; a task that became ready by this has been so since now.
_TIDY: Final = """
UPDATE tasks SET delayed = coalesce(status = 'ready' AND date_started > fabric_now(), false),
       ready_since = CASE WHEN status = 'ready' THEN coalesce(ready_since, fabric_now()) END,
       has_tags = false
 WHERE id = ANY (%(ids)s)
"""


def write(conn: Conn, table: MovedTable, rows: Sequence[dict[str, Any]], stamp: Stamp) -> int:
    """The rows are written, and what they mean to others; the number of those that are new."""
    values = {"rows": Jsonb([{k: v for k, v in row.items() if k != "theirs"} for row in rows])}
    if table.name == "tasks":
        return _write_tasks(conn, table, rows, values, stamp)
    given = sorted({k for row in rows for k in row if k in table.columns and (row[k] is not None or k in _EVERYTHING)})
    columns = [*(["id"] if table.has_id else []), *given]
    typed = ", ".join([*(["id bigint"] if table.has_id else []), *(f"{c} {table.columns[c]}" for c in given)])
    # A column that no row names keeps the table's default.
    query = (
        f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {', '.join(f'x.{c}' for c in columns)}"
        f" FROM jsonb_to_recordset(%(rows)s) AS x({typed})" + ("" if table.has_id else " ON CONFLICT DO NOTHING")
    )
    made = conn.execute(query.encode(), values).rowcount
    match table.name:
        case "links":
            conn.execute(
                "UPDATE links a SET opposite_id = b.id FROM links b"
                " WHERE b.opposite_id = a.id AND a.opposite_id <> b.id AND b.id = ANY (%s)",
                ([row["id"] for row in rows],),
            )
        case "task_has_tags":
            conn.execute(
                "UPDATE tasks SET has_tags = true WHERE id = ANY (%s) AND NOT has_tags",
                ([row["task_id"] for row in rows],),
            )
        case "queues":
            conn.execute(
                "INSERT INTO project_has_metadata SELECT project_id, 'fabric.queue', kind FROM queues"
                " WHERE project_id = ANY (%s) ON CONFLICT DO NOTHING",
                ([row["project_id"] for row in rows],),
            )
    return made


def _write_tasks(
    conn: Conn, table: MovedTable, rows: Sequence[dict[str, Any]], values: dict[str, Any], stamp: Stamp
) -> int:
    stored = [c for c in table.columns if c not in _TASK_REST]
    defaults = {"flags": "0", "is_active": "true", "rank": "nextval('task_rank') * 1048576", "trust": "3"}
    defaults |= dict.fromkeys(("epoch", "open_blockers", "dependents", "children", "open_children"), "0")
    defaults |= dict.fromkeys(("depth", "attempts", "parks", "waits", "releases"), "0") | {"max_attempts": "3"}
    defaults |= dict.fromkeys(("delayed", "by_agent"), "false") | {"label": "'household'", "reference": "''"}
    defaults |= dict.fromkeys(("date_creation", "date_modification"), "fabric_now()")
    query = _TASKS_MADE.format(
        columns=", ".join(stored),
        values=", ".join(f"coalesce(x.{c}, {defaults[c]})" if c in defaults else f"x.{c}" for c in stored),
        typed=", ".join(f"{c} {sql_type}" for c, sql_type in table.columns.items()),
    )
    for row in rows:
        row.setdefault("flags", 0)
        row.setdefault("is_active", True)
    values = {"rows": Jsonb([{k: v for k, v in row.items() if k != "theirs"} for row in rows])}
    made = conn.execute(query.encode(), values).rowcount
    conn.execute(_TEXTS, values)
    ids = {"ids": [row["id"] for row in rows], "me": stamp.principal_id, "via": stamp.via.value}
    conn.execute(_TIDY, ids)
    conn.execute(_MADE, ids)
    return made


_COUNTS: Final = """
UPDATE tasks t SET
       open_blockers = (SELECT count(*) FROM task_has_links l
                         WHERE l.task_id = t.id AND l.link_id = 3 AND l.state <> 'satisfied'),
       dependents = (SELECT count(*) FROM task_has_links l WHERE l.opposite_task_id = t.id AND l.link_id = 3),
       children = (SELECT count(*) FROM tasks c WHERE c.parent_id = t.id),
       open_children = (SELECT count(*) FROM tasks c WHERE c.parent_id = t.id AND NOT fabric_finished(c.status))
  FROM moved m WHERE m.source = %(source)s AND m.tbl = 'tasks' AND t.id = m.ours
"""
_FLOORS: Final = """
UPDATE lane_floors f SET floor = least(f.floor, x.lowest)
  FROM (SELECT t.lane_id, min(t.rank) AS lowest FROM moved m JOIN tasks t ON t.id = m.ours
         WHERE m.source = %(source)s AND m.tbl = 'tasks' AND t.status = 'ready' GROUP BY t.lane_id) x
 WHERE f.lane_id = x.lane_id
"""


def finish(conn: Conn, source: str) -> Finished:
    """The counters of this source's tasks agree with the rows; claims begin to look below them."""
    values = {"source": source}
    lanes = conn.execute(
        "SELECT DISTINCT t.lane_id FROM moved m JOIN tasks t ON t.id = m.ours"
        " WHERE m.source = %(source)s AND m.tbl = 'tasks' ORDER BY 1",
        values,
    ).fetchall()
    for (lane,) in lanes:  # so that nobody raises a floor past them meanwhile
        conn.execute("SELECT pg_advisory_xact_lock_shared(7301, %s)", (lane,))
    count = conn.execute(_COUNTS, values).rowcount
    conn.execute(_FLOORS, values)
    people = conn.execute(
        "SELECT u.username FROM moved m JOIN users u ON u.id = m.ours WHERE m.source = %(source)s AND m.tbl = 'users'"
        " AND u.kind = 'human' AND u.is_active AND NOT EXISTS (SELECT FROM queues q WHERE q.owner_id = u.id)"
        " ORDER BY 1",
        values,
    ).fetchall()
    return Finished(tasks=count, people=[row[0] for row in people])


# -- the way out -----------------------------------------------------------------------------------------------

_TASKS_OUT: Final = """
SELECT t.*, l.tier, l.priority, l.needs, l.trust AS required_trust, x.description, x.refs, x.key,
       t.token IS NOT NULL AS leased
  FROM tasks t JOIN lanes l ON l.id = t.lane_id LEFT JOIN task_texts x ON x.task_id = t.id
"""
_PROJECTS_OUT: Final = """
SELECT p.*, CASE WHEN q.name IS NOT NULL THEN jsonb_build_object('name', q.name, 'kind', q.kind) END AS queue
  FROM projects p LEFT JOIN queues q ON q.project_id = p.id
"""


def page(conn: Conn, table: MovedTable, after: int) -> list[dict[str, Any]]:
    """The next rows of the table, each with its place (``page``); values that say nothing are not there."""
    shown = "to_jsonb(y)" if table.name == "users" else "jsonb_strip_nulls(to_jsonb(y))"
    source = {"tasks": _TASKS_OUT, "projects": _PROJECTS_OUT}.get(table.name, f"SELECT * FROM {table.name}")
    columns = [*(["id"] if table.has_id else []), *table.columns, *(["queue"] if table.name == "projects" else [])]
    query = (
        f"SELECT {shown} FROM (SELECT {', '.join(f't.{c}' for c in columns)},"
        f" t.{table.page} AS page FROM ({source}) t WHERE t.{table.page} > %s AND {table.where}"
        f" ORDER BY t.{table.page} FETCH FIRST {table.size} ROWS WITH TIES) y"
    )
    rows = conn.execute(query.encode(), (after,)).fetchall()
    return [{"table": table.name, **row[0]} for row in rows]
