"""Tasks as callers over A2A see them: read with what was told of them, or made from what is known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from taskfabric.boards.native.names import Connection
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Stamp
from taskfabric.domain.status import A2AState
from taskfabric.domain.task import Task
from taskfabric.ports.a2a import Asked, Opening, Seen, Told

_SEEN: Final = """v.id, v.task_id, v.owner_id, v.agent_id, v.context, v.state, v.seq, v.changed, v.current, v.follows,
 t.status, t.verdict"""
_FIND: Final = f"""
SELECT {_SEEN} FROM a2a_tasks v JOIN tasks t ON t.id = v.task_id
 WHERE v.id = %s AND v.owner_id = %s AND v.agent_id = %s
"""
_TOLD: Final = "SELECT n, kind, body::text FROM a2a_events WHERE a2a_id = %s AND n > %s ORDER BY n"
_WHERE: Final = """
 v.owner_id = %(owner)s AND v.agent_id = %(agent)s AND v.state <> 'RECORD'
   AND (%(context)s::text IS NULL OR v.context = %(context)s) AND (%(state)s::text IS NULL OR v.state = %(state)s)
   AND (%(since)s::timestamptz IS NULL OR v.changed >= %(since)s)
"""
_LIST: Final = f"""
SELECT {_SEEN} FROM a2a_tasks v JOIN tasks t ON t.id = v.task_id WHERE {_WHERE}
   AND (%(at)s::timestamptz IS NULL OR (v.changed, v.id) < (%(at)s, %(id)s))
 ORDER BY v.changed DESC, v.id DESC LIMIT %(limit)s
"""
_COUNT: Final = f"SELECT count(*) FROM a2a_tasks v JOIN tasks t ON t.id = v.task_id WHERE {_WHERE}"
_OF_TASK: Final = f"""
SELECT {_SEEN} FROM a2a_tasks v JOIN tasks t ON t.id = v.task_id
 WHERE v.task_id = %s AND v.owner_id = %s AND v.follows IS NULL
"""
_WAITING: Final = f"""
SELECT {_SEEN} FROM (
    SELECT x.*, row_number() OVER (PARTITION BY x.project_id ORDER BY l.priority DESC, x.rank, x.id) AS place
      FROM tasks x JOIN lanes l ON l.id = x.lane_id WHERE x.a2a AND x.status = 'ready' AND x.open_blockers = 0
       AND (NOT x.delayed OR x.date_started <= fabric_now())) t
  JOIN a2a_tasks v ON v.task_id = t.id AND v.current
 WHERE t.place <= 20 ORDER BY t.project_id, t.place
"""
_SAID: Final = 8192  # characters of a note in a status, as the trigger cuts it
_STATES: Final = {state.value: state for state in A2AState}


def find(conn: Connection, a2a_id: str, owner_id: int, agent_id: int) -> Seen:
    """Raises NotFound for a missing and for a foreign one alike."""
    return _read(conn, _FIND, (a2a_id, owner_id, agent_id))


def of_task(conn: Connection, task_id: int, owner_id: int) -> Seen:
    """The first public id of this row: what its key stands for. Raises NotFound."""
    return _read(conn, _OF_TASK, (task_id, owner_id))


def _read(conn: Connection, statement: str, values: tuple[object, ...]) -> Seen:
    row = conn.execute(statement, values).fetchone()
    if row is None:
        raise not_found("task")
    return _seen(row, told(conn, row[0], 0))


def told(conn: Connection, a2a_id: str, after: int) -> tuple[Told, ...]:
    """What was told of it after this number."""
    rows = conn.execute(_TOLD, (a2a_id, after)).fetchall()
    return tuple(Told(n=n, kind=kind, body=orjson.loads(body)) for n, kind, body in rows)


def page(conn: Connection, asked: Asked) -> tuple[list[Seen], int]:
    """A page, and how many there are in all."""
    values = {
        "owner": asked.owner_id,
        "agent": asked.agent_id,
        "context": asked.context or None,
        "state": None if asked.state is None else asked.state.value,
        "since": asked.since,
        "at": None if asked.before is None else asked.before[0],
        "id": "" if asked.before is None else asked.before[1],
        "limit": asked.limit,
    }
    rows = conn.execute(_LIST, values).fetchall()
    events: dict[str, list[Told]] = {row[0]: [] for row in rows}
    for a2a_id, n, kind, body in conn.execute(
        "SELECT a2a_id, n, kind, body::text FROM a2a_events WHERE a2a_id = ANY (%s) ORDER BY a2a_id, n",
        (list(events),),
    ):
        events[a2a_id].append(Told(n=n, kind=kind, body=orjson.loads(body)))
    total = conn.execute(_COUNT, values).fetchone()
    assert total is not None
    return [_seen(row, tuple(events[row[0]])) for row in rows], int(total[0])


def waiting(conn: Connection) -> list[Seen]:
    """What is ready and may be begun now, the first of each queue; without what was told of them."""
    return [_seen(row, ()) for row in conn.execute(_WAITING).fetchall()]


def ends(conn: Connection, a2a_ids: Sequence[str]) -> dict[str, tuple[int, A2AState | None, bool]]:
    """Of each: the number of its last event, its state, whether it still follows its row."""
    rows = conn.execute(
        "SELECT id, seq, state, current FROM a2a_tasks WHERE id = ANY (%s)", (list(a2a_ids),)
    ).fetchall()
    return {id_: (seq, _STATES.get(state), current) for id_, seq, state, current in rows}


# ---------------------------------------------------------------- made from what is known


def fresh(opening: Opening, task_id: int, stamp: Stamp, state: A2AState, at: Any, status: str) -> Seen:
    """A task at its first moment."""
    update = {
        "taskId": opening.id,
        "contextId": opening.context,
        "status": {"state": state.value, "timestamp": stamped(at)},
    }
    return Seen(
        id=opening.id,
        task_id=task_id,
        owner_id=stamp.principal_id,
        agent_id=opening.agent_id,
        context=opening.context,
        state=state,
        seq=2,
        changed=at,
        current=True,
        follows=None,
        status=status,
        told=(
            Told(n=1, kind="message", body={"message": opening.message}),
            Told(n=2, kind="status", body={"statusUpdate": update}),
        ),
    )


def finished(seen: Seen, task: Task) -> Seen:
    """What the trigger has just written, which need not be read back: a test holds the two together."""
    at = task.updated_at.replace(microsecond=task.updated_at.microsecond // 1000 * 1000)
    ids = {"taskId": seen.id, "contextId": seen.context}
    note = task.note or ""
    artifact = {"artifactId": "result", "name": "result", "parts": [{"text": note}]}
    last = seen.seq + 2
    message = {
        "messageId": f"{seen.id}-{last}",
        "role": "ROLE_AGENT",
        **ids,
        "parts": [{"text": note[:_SAID]}],
    }
    status = {"state": A2AState.COMPLETED.value, "timestamp": stamped(at), "message": message}
    told = (
        *seen.told,
        Told(
            n=last - 1,
            kind="artifact",
            body={"artifactUpdate": {**ids, "lastChunk": True, "artifact": artifact}},
        ),
        Told(n=last, kind="status", body={"statusUpdate": {**ids, "status": status}}),
    )
    return Seen(
        id=seen.id,
        task_id=seen.task_id,
        owner_id=seen.owner_id,
        agent_id=seen.agent_id,
        context=seen.context,
        state=A2AState.COMPLETED,
        seq=last,
        changed=at,
        current=True,
        follows=seen.follows,
        status=task.status.value,
        verdict=task.verdict,
        told=told,
    )


def stamped(at: Any) -> str:
    """An instant as the events have it: UTC, in milliseconds."""
    text: str = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text


def _seen(row: Sequence[Any], told: tuple[Told, ...]) -> Seen:
    return Seen(
        id=row[0],
        task_id=row[1],
        owner_id=row[2],
        agent_id=row[3],
        context=row[4],
        state=_STATES.get(row[5]),
        seq=row[6],
        changed=row[7],
        current=row[8],
        follows=row[9],
        status=row[10],
        verdict=row[11],
        told=told,
    )
