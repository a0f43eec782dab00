"""A2A's side of the native board: rows that start under a lease, and what is told of them.

A status is told by the trigger of ``0005_a2a.sql`` in whatever transaction changed it. Here is what only a call over
A2A brings: its message, the artifacts of a run, the public id.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import orjson

from taskfabric.boards.native import a2a_seen, arrange, claim, judge
from taskfabric.boards.native import submit as submitting
from taskfabric.boards.native.board import NativeBoard
from taskfabric.boards.native.insert import Face, attach_rest, face_of
from taskfabric.boards.native.names import Connection, Layout
from taskfabric.boards.native.rows import as_signed
from taskfabric.boards.native.settle import LET_GO
from taskfabric.db.hot import Hot
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import KeyConflict, Refused
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Kind, Stamp
from taskfabric.domain.status import A2AState, ColumnRole, Status
from taskfabric.domain.task import Claimed, NewTask, Task, new_task
from taskfabric.ports.a2a import Answer, Asked, Opening, Places, Seen, Started, Told
from taskfabric.ports.board import NewFile, Want
from taskfabric.ports.signal import Change, Signal

_START: Final = Hot(
    "SELECT * FROM fabric_a2a_start(%(row)s::jsonb, %(me)s, %(holder)s, %(places)s, %(token)s, %(seconds)s, %(a2a)s)"
)
_OPEN: Final = """
WITH t AS (UPDATE tasks SET a2a = true WHERE id = %(task)s RETURNING date_trunc('milliseconds', date_creation) AS at),
a AS (
    INSERT INTO a2a_tasks (id, task_id, owner_id, agent_id, context, state, seq, changed)
    SELECT %(a2a)s, %(task)s, %(me)s, %(agent)s, %(context)s, 'TASK_STATE_SUBMITTED', 2, at FROM t)
INSERT INTO a2a_events (a2a_id, n, at, kind, body)
SELECT %(a2a)s, 1, at, 'message', %(message)s::jsonb FROM t
UNION ALL SELECT %(a2a)s, 2, at, 'status', jsonb_build_object('statusUpdate', jsonb_build_object('taskId',
    %(a2a)s::text, 'contextId', %(context)s::text, 'status',
    jsonb_build_object('state', 'TASK_STATE_SUBMITTED', 'timestamp', fabric_a2a_time(at)))) FROM t
"""
_RELATE: Final = """
INSERT INTO task_has_links (link_id, task_id, opposite_task_id)
SELECT 1, l.here, l.there
  FROM tasks o, LATERAL (VALUES (%(task)s::bigint, o.id), (o.id, %(task)s::bigint)) AS l(here, there)
 WHERE o.id = ANY (%(others)s)
"""
_HELD: Final = "SELECT FROM tasks WHERE id = %(task)s AND epoch = %(epoch)s AND token = %(token)s"
_TELL: Final = f"""
WITH v AS (UPDATE a2a_tasks SET seq = seq + %(count)s WHERE id = %(a2a)s AND current AND EXISTS ({_HELD})
            RETURNING seq),
e AS (INSERT INTO a2a_events (a2a_id, n, kind, body)
      SELECT %(a2a)s, v.seq - %(count)s + b.ord, 'artifact', b.body
        FROM v, jsonb_array_elements(%(bodies)s::jsonb) WITH ORDINALITY AS b(body, ord))
SELECT seq FROM v
"""
_REPLY: Final = f"""
WITH c AS (UPDATE tasks t SET is_active = false, status = 'record', flags = 256, date_completed = fabric_now(),
                  producer_id = owner_id, {LET_GO}
            WHERE t.id = %(task)s AND t.epoch = %(epoch)s AND t.token = %(token)s RETURNING t.*),
m AS (INSERT INTO comments (task_id, user_id, kind, epoch, text) SELECT id, %(me)s, 'note', epoch, %(note)s FROM c),
j AS (INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch)
      SELECT told, id, seq, project_id, %(me)s, 'replied', %(via)s, epoch FROM c),
v AS (UPDATE a2a_tasks SET seq = seq + 1 WHERE id = %(a2a)s AND EXISTS (SELECT FROM c) RETURNING seq)
INSERT INTO a2a_events (a2a_id, n, kind, body) SELECT %(a2a)s, seq, 'message', %(message)s::jsonb FROM v
"""
_WITHDRAW: Final = """
WITH c AS (UPDATE tasks SET is_active = false, status = 'rejected', flags = (flags & ~15) | 128, delayed = false,
                  date_completed = fabric_now(), seq = seq + 1, told = greatest(told, pg_current_xact_id()),
                  date_modification = fabric_now()
            WHERE id = %(task)s AND status = 'ready' AND epoch = 0 RETURNING *),
m AS (INSERT INTO comments (task_id, user_id, kind, text) SELECT id, 0, 'declined', %(reason)s FROM c),
j AS (INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, epoch, data)
      SELECT told, id, seq, project_id, %(me)s, 'rejected', %(via)s, epoch, 
             jsonb_build_object('reason', %(reason)s::text) FROM c)
SELECT CASE WHEN parent_id IS NOT NULL OR dependents > 0 THEN fabric_carry_end(id, 'ready') END FROM c
"""
# Nothing came of it, so whoever sends it again means it: the key stands for nothing.
_FREE_KEYS: Final = "DELETE FROM submissions WHERE submitter_id = %(me)s AND task_id = %(task)s"
_FACES: Final = 100  # of a project that are remembered


class NativeA2A:
    """``ports.a2a.A2ABoard`` beside a native board."""

    def __init__(self, database: Database, board: NativeBoard, signal: Signal) -> None:
        self._db = database
        self._board = board
        self._names = board.names
        self._signal = signal
        self._faces: dict[int, tuple[Layout, dict[tuple[object, ...], Face]]] = {}

    # -- beginnings ----------------------------------------------------------------------------------

    def start(self, new: NewTask, stamp: Stamp, limits: Limits, opening: Opening, holder: Stamp, want: Want) -> Started:
        token = secrets.randbits(64)

        def starting(conn: Connection) -> Started:
            return self._start(conn, new, stamp, limits, opening, holder, want, token)

        rest = opening.related or opening.files or new.key is not None or new.parent is not None
        started = self._begun(starting, one_statement=not rest and stamp.kind is not Kind.AGENT)
        if self._names.missed_a_lane():
            self._board.begin_again()
            with self._db.connection() as conn:
                self._names.learn_lanes(conn)
        if started.claimed is not None:
            self._board.expect(started.claimed.task.lease_until)
            self._board.granted(started.claimed.task, 2 + len(opening.files))
        return started

    def _begun(self, starting: Callable[[Connection], Started], *, one_statement: bool) -> Started:
        """What was started; one statement is a transaction by itself."""
        if not one_statement:
            return self._db.retrying(starting)
        with self._db.connection() as conn:
            return starting(conn)

    def _start(
        self,
        conn: Connection,
        new: NewTask,
        stamp: Stamp,
        limits: Limits,
        opening: Opening,
        holder: Stamp,
        want: Want,
        token: int,
    ) -> Started:
        known = submitting.by_key(conn, self._names, new, stamp)
        if known is not None:
            return Started(seen=a2a_seen.of_task(conn, known.id, stamp.principal_id), claimed=None, created=False)
        if stamp.kind is Kind.AGENT:
            submitting.within_quota(conn, [new], stamp, limits)
        parents = submitting.lock_parents(conn, [new], limits) if new.parent is not None else {}
        root, depth = parents[new.parent] if new.parent is not None else (None, 0)
        layout = self._names.layout(conn, new.project_id)
        faces = self._faces_of(new.project_id, layout)
        face = face_of(conn, self._names, new, [], faces)
        if face.lane_id > self._names.last_lane:
            faces.clear()  # a new lane: this transaction may yet be rolled back
        column = layout.column_for(ColumnRole.WORKING)
        seconds = want.lease.total_seconds()
        row = {
            "project": new.project_id,
            "column": column,
            "swimlane": face.swimlane_id,
            "lane": face.lane_id,
            "flags": int(face.flags),
            "title": new.title,
            "max_attempts": new.max_attempts,
            "trust": int(new.trust),
            "label": new.label,
            "behalf": new.on_behalf_id,
            "parent": new.parent,
            "root": root,
            "depth": depth,
            "description": new.description,
            "key": new.key,
            "by_agent": stamp.kind is Kind.AGENT,
            "run_task": None if stamp.run is None else stamp.run.task_id,
            "run_epoch": None if stamp.run is None else stamp.run.epoch,
            "via": stamp.via.value,
            "holder_via": holder.via.value,
            "instance": holder.instance or None,
            "context": opening.context,
            "message": opening.message,
        }
        values = {
            "row": _json(row),
            "me": stamp.principal_id,
            "holder": holder.principal_id,
            "places": want.concurrency,
            "token": as_signed(token),
            "seconds": seconds,
            "a2a": opening.id,
        }
        got = _START.row(conn, values)
        if got is None:
            raise claim.no_room(want, holder)
        task_id, at, now, until = got
        if new.parent is not None or new.key is not None:
            attach_rest(conn, new, task_id, [], face, stamp)
        _connect(conn, task_id, opening, stamp)
        task = new_task(
            id=task_id,
            queue=face.queue,
            project_id=new.project_id,
            title=new.title,
            status=Status.WORKING,
            description=new.description,
            column=layout.columns[column],
            swimlane=face.swimlane,
            flags=face.flags,
            priority=new.priority,
            tier=new.tier,
            needs=face.lane.needs,
            refs=new.refs,
            required_trust=new.required_trust,
            trust=new.trust,
            label=new.label,
            submitter=stamp.name,
            submitter_id=stamp.principal_id,
            on_behalf=self._names.user(conn, new.on_behalf_id),
            holder=holder.name,
            holder_id=holder.principal_id,
            holder_instance=holder.instance,
            epoch=1,
            attempts=1,
            max_attempts=new.max_attempts,
            lease_until=until,
            lease_length=timedelta(seconds=seconds),
            parent=new.parent,
            root=root,
            depth=depth,
            key=new.key,
            created=now,
            started=now,
            updated_at=now,
        )
        return Started(
            seen=a2a_seen.fresh(opening, task_id, stamp, A2AState.WORKING, at, "working"),
            claimed=Claimed(task=task, fence=Fence(task_id=task_id, epoch=1, token=token)),
            created=True,
        )

    def _faces_of(self, project_id: int, layout: Layout) -> dict[tuple[object, ...], Face]:
        """The faces that tasks of this project had, for as long as its layout is the same."""
        kept = self._faces.get(project_id)
        if kept is None or kept[0] is not layout or len(kept[1]) > _FACES:
            kept = self._faces[project_id] = (layout, {})
        return kept[1]

    def queue(self, new: NewTask, stamp: Stamp, limits: Limits, opening: Opening, places: Places | None) -> Started:
        notify = [new.project_id] if not new.backlog and self._signal.may_notify(new.project_id) else []

        started = self._db.retrying(lambda conn: self._queue(conn, new, stamp, limits, opening, places, notify))
        self._board.begin_again()
        self._signal.publish(Change(project_id=new.project_id, task_id=started.seen.task_id))
        return started

    def _queue(
        self,
        conn: Connection,
        new: NewTask,
        stamp: Stamp,
        limits: Limits,
        opening: Opening,
        places: Places | None,
        notify: Sequence[int],
    ) -> Started:
        made = submitting.submit(conn, self._names, [new], stamp, limits, notify)[0]
        if not made.created:
            return Started(seen=a2a_seen.of_task(conn, made.task.id, stamp.principal_id), claimed=None, created=False)
        if places is not None and claim.held(conn, places.holder) >= places.most:
            raise Refused("all its places are taken", rule="concurrency")
        values = {"task": made.task.id, "agent": opening.agent_id, **_who(stamp, opening)}
        conn.execute(_OPEN, values)
        _connect(conn, made.task.id, opening, stamp)
        row = conn.execute("SELECT changed FROM a2a_tasks WHERE id = %s", (opening.id,)).fetchone()
        assert row is not None
        fresh = a2a_seen.fresh(opening, made.task.id, stamp, A2AState.SUBMITTED, row[0], made.task.status.value)
        return Started(seen=fresh, claimed=None, created=True)

    def proceed(
        self, seen: Seen, answer: Answer, stamp: Stamp, holder: Stamp | None, want: Want | None
    ) -> Claimed | None:
        def proceeding(conn: Connection) -> Claimed | None:
            if answer.key is not None and not submitting.take_key(
                conn, answer.key, answer.body_hash, seen.task_id, stamp
            ):
                _same(conn, seen, answer, stamp)
                return None
            conn.execute("SELECT set_config('fabric.a2a', 'on', true)")
            judge.answer(conn, self._names, seen.task_id, answer.text, stamp)
            _attach(conn, seen.task_id, answer.files, stamp)
            row = conn.execute(
                "UPDATE a2a_tasks SET seq = seq + 1 WHERE id = %s AND current RETURNING seq", (seen.id,)
            ).fetchone()
            assert row is not None, "it has an open question, so it follows its row"
            conn.execute(
                "INSERT INTO a2a_events (a2a_id, n, kind, body) VALUES (%s, %s, 'message', %s::jsonb)",
                (seen.id, row[0], _json({"message": answer.message})),
            )
            if holder is None or want is None or (want.concurrency is not None and not claim.room(conn, want, holder)):
                return None
            return claim.take(conn, self._names, seen.task_id, want, holder)

        claimed = self._db.retrying(proceeding)
        self._board.expect(None if claimed is None else claimed.task.lease_until)
        self._signal.publish(Change(project_id=None if claimed else self._project(seen.task_id), task_id=seen.task_id))
        return claimed

    def answered(self, seen: Seen, answer: Answer, stamp: Stamp) -> bool:
        with self._db.connection() as conn:
            return _same(conn, seen, answer, stamp)

    def _project(self, task_id: int) -> int | None:
        return self._board.places([task_id]).get(task_id)

    # -- what a run tells ----------------------------------------------------------------------------

    def tell(self, fence: Fence, a2a_id: str, updates: Sequence[Mapping[str, Any]]) -> int:
        values = {**_fence(fence), "a2a": a2a_id, "count": len(updates), "bodies": _json(list(updates))}
        with self._db.connection() as conn:
            row = conn.execute(_TELL, values).fetchone()
        if row is not None:
            self._signal.publish(Change(task_id=fence.task_id))
        return 0 if row is None else int(row[0])

    def reply(self, fence: Fence, stamp: Stamp, a2a_id: str, message: Mapping[str, Any], note: str) -> bool:
        values = {
            **_fence(fence),
            "a2a": a2a_id,
            "me": stamp.principal_id,
            "via": stamp.via.value,
            "message": _json({"message": message}),
            "note": note,
        }
        with self._db.transaction() as conn:
            done = conn.execute(_REPLY, values).rowcount == 1
        self._signal.publish(Change(task_id=fence.task_id))
        return done

    def finished(self, seen: Seen, task: Task) -> Seen:
        return a2a_seen.finished(seen, task)

    def withdraw(self, task_id: int, stamp: Stamp, reason: str) -> bool:
        values = {"task": task_id, "me": stamp.principal_id, "via": stamp.via.value, "reason": reason}
        with self._db.transaction() as conn:
            done = conn.execute(_WITHDRAW, values).fetchone() is not None
            if done:
                conn.execute(_FREE_KEYS, values)
        self._signal.publish(Change(task_id=task_id))
        return done

    # -- reading -------------------------------------------------------------------------------------

    def find(self, a2a_id: str, owner_id: int, agent_id: int) -> Seen:
        with self._db.connection() as conn:
            return a2a_seen.find(conn, a2a_id, owner_id, agent_id)

    def told(self, a2a_id: str, after: int) -> list[Told]:
        with self._db.connection() as conn:
            return list(a2a_seen.told(conn, a2a_id, after))

    def waiting(self) -> list[Seen]:
        with self._db.connection() as conn:
            return a2a_seen.waiting(conn)

    def list(self, asked: Asked) -> tuple[list[Seen], int]:
        with self._db.connection() as conn:
            return a2a_seen.page(conn, asked)

    def ends(self, a2a_ids: Sequence[str]) -> dict[str, tuple[int, A2AState | None, bool]]:
        with self._db.connection() as conn:
            return a2a_seen.ends(conn, a2a_ids)


def _same(conn: Connection, seen: Seen, answer: Answer, stamp: Stamp) -> bool:
    """Whether the key stands for just this answer; False: for nothing yet. Raises KeyConflict."""
    row = conn.execute(
        "SELECT task_id, body_hash FROM submissions WHERE submitter_id = %s AND key = %s",
        (stamp.principal_id, answer.key),
    ).fetchone()
    if row is None:
        return False
    if row != (seen.task_id, answer.body_hash):
        raise KeyConflict(f"the key {answer.key!r} was used before for something else", key=answer.key)
    return True


def _connect(conn: Connection, task_id: int, opening: Opening, stamp: Stamp) -> None:
    """The card is linked with those that its message refers to, and has its files."""
    if opening.related:
        conn.execute(_RELATE, {"task": task_id, "others": list(opening.related)})
    _attach(conn, task_id, opening.files, stamp)


def _attach(conn: Connection, task_id: int, files: Sequence[NewFile], stamp: Stamp) -> None:
    for file in files:
        arrange.attach(conn, task_id, file.name, file.size, file.sha256, stamp, None)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _who(stamp: Stamp, opening: Opening) -> dict[str, Any]:
    return {
        "me": stamp.principal_id,
        "a2a": opening.id,
        "context": opening.context,
        "message": _json({"message": opening.message}),
    }


def _fence(fence: Fence) -> dict[str, Any]:
    return {"task": fence.task_id, "epoch": fence.epoch, "token": as_signed(fence.token)}
