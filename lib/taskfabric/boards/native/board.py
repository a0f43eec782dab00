"""The native board: each verb one transaction, and after the commit a hint to whoever waits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from psycopg import errors as pg
from psycopg.types.json import Jsonb

from taskfabric.boards.native import arrange, claim, judge, limits, questions, read, settle, sweep
from taskfabric.boards.native import done as finish
from taskfabric.boards.native import submit as submitting
from taskfabric.boards.native.names import Connection, Names
from taskfabric.db.pool import Database
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.lease import Fence, Renewal
from taskfabric.domain.outcome import Backoff, Bounds, Done, Outcome
from taskfabric.domain.principal import Kind, Stamp, Trust, Via, Viewer
from taskfabric.domain.status import Status
from taskfabric.domain.task import Attachment, Claimed, Entry, Kin, NewTask, Submitted, Task, Thread
from taskfabric.ports.board import Edit, Filter, Hello, NewFile, PassedOn, Place, Swept, Want
from taskfabric.ports.signal import Change, Signal

T = TypeVar("T")

# The fabric's own stamp: what it does by itself when a claim finds something due.
FABRIC: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MANY_CLAIMS: Final = 500  # after so many it pays to begin further up in the lanes
_FOR_EVER: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRules:
    """The settings that the board itself applies."""

    backoff: Backoff = field(default_factory=Backoff)
    bounds: Bounds = field(default_factory=Bounds)
    sweep_per_claim: int = 10
    late_result: int = 1 << 20  # bytes kept of a late result


class NativeBoard:
    """Implements ``ports.board.Board`` on PostgreSQL."""

    def __init__(self, database: Database, signal: Signal, rules: BoardRules | None = None) -> None:
        self._db = database
        self._signal = signal
        self._rules = rules or BoardRules()
        self._ends = settle.EndRules(backoff=self._rules.backoff, bounds=self._rules.bounds)
        self.names = Names()
        self._granted = finish.Granted()
        self._claims = 0  # since the floors of lanes were raised
        self._copy: int | None = None  # how often the database had been restored when the caches were filled
        database.greet(self._recognise)
        self._in_order_until = _LONG_AGO  # by the board's clock

    def _recognise(self, conn: Connection) -> None:
        """A restored database gives the same ids to other lanes: what was remembered of the one before is forgotten."""
        row = conn.execute("SELECT count(*) FROM restores").fetchone()
        assert row is not None
        if row[0] != self._copy:
            self._copy = row[0]
            self.names.forget()
            self._granted.forget()
            self._in_order_until = _LONG_AGO

    # -- what it is ----------------------------------------------------------------------------------

    def hello(self) -> Hello:
        with self._db.connection() as conn:
            row = conn.execute(
                "SELECT fabric_now(), current_setting('server_version'), pg_size_pretty(pg_database_size("
                "current_database())), (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
                " (SELECT count(*) FROM restores), (SELECT max(number) FROM schema_migration)"
            ).fetchone()
        assert row is not None
        return Hello(
            kind="native",
            now=row[0],
            facts={
                "postgresql": row[1],
                "size": row[2],
                "pgvector": row[3],
                "restores": row[4],
                "schema": row[5],
            },
        )

    def now(self) -> datetime:
        with self._db.connection() as conn:
            row = conn.execute("SELECT fabric_now()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment

    # -- making work ---------------------------------------------------------------------------------

    def submit(self, new: Sequence[NewTask], stamp: Stamp, limits: Limits) -> list[Submitted]:
        queues = {item.project_id for item in new if not item.backlog}
        notify = [q for q in queues if self._signal.may_notify(q)]
        answers = self._db.retrying(lambda conn: submitting.submit(conn, self.names, new, stamp, limits, notify))
        for item in new:
            self.expect(item.not_before)
        if self.names.missed_a_lane():
            self._in_order_until = _LONG_AGO
        self._tell(queues)
        return answers

    # -- the holder's verbs --------------------------------------------------------------------------

    def claim(self, want: Want, limit: int, stamp: Stamp) -> list[Claimed]:
        if not want.queues:
            return []
        until = self._in_order_until
        got = self._claim(want, limit, stamp, until)
        if got:
            return got
        looked_at, changed = self._put_in_order(want)
        if looked_at < until and not changed:
            return []  # the claim did look, and found nothing
        return self._claim(want, limit, stamp, _FOR_EVER)

    def _claim(self, want: Want, limit: int, stamp: Stamp, until: datetime) -> list[Claimed]:
        limited = self._limited(want)
        if want.concurrency is None and not limited:
            counted = self._single(lambda conn: claim.claim(conn, self.names, want, limit, stamp, in_order_until=until))
        else:

            def within_limit(conn: Connection) -> list[tuple[Claimed, int]]:
                open_to, most = limits.with_room(conn, want) if limited else (want, None)
                free = min(limit, limit if most is None else most)
                if want.concurrency is not None:
                    free = min(free, claim.room(conn, want, stamp))
                if not free or not open_to.queues:
                    return []
                return claim.claim(conn, self.names, open_to, free, stamp, in_order_until=until)

            counted = self._db.retrying(within_limit)
        self._claims += len(counted)
        for got, seq in counted:
            self.expect(got.task.lease_until)
            self._granted.remember(got.task, seq)
        return [got for got, _ in counted]

    def _limited(self, want: Want) -> bool:
        """Whether a queue of the want limits its work in progress, as far as is known: a few seconds old at most."""
        layouts = [self.names.fresh(queue) for queue in want.queues]
        if None in layouts:
            with self._db.connection() as conn:
                layouts = [self.names.layout(conn, queue) for queue in want.queues]
        return limits.limited([layout for layout in layouts if layout is not None])

    def _put_in_order(self, want: Want) -> tuple[datetime, bool]:
        """Expired leases are taken back and delayed tasks become claimable, as far as they are due.

        Returns the board's time of the look and whether there was anything, be it only a lane that was not known."""
        with self._db.connection() as conn:
            due = claim.next_due(conn)
            changed = due.at <= due.now
            if due.last_lane > self.names.last_lane:
                self.names.learn_lanes(conn)
                changed = True
            if due.at <= due.now:
                sweep.mature(conn)
            if self._claims >= _MANY_CLAIMS:
                claim.raise_floors(conn, self.names, want)
                self._claims = 0
        if due.at <= due.now:
            self.sweep(self._rules.sweep_per_claim, FABRIC)
        self._in_order_until = due.at  # if that was due, the next claim looks again: there may be more
        return due.now, changed

    def expect(self, moment: datetime | None) -> None:
        """Something will be due at this instant, perhaps before the next look."""
        if moment is not None and moment < self._in_order_until:
            self._in_order_until = moment

    def granted(self, task: Task, seq: int) -> None:
        """The task was leased out in another way than by a claim; ``seq`` counts its events with that."""
        self._granted.remember(task, seq)

    def begin_again(self) -> None:
        """The next claim looks what is in order before it takes anything: there may be lanes that are not known yet."""
        self._in_order_until = _LONG_AGO

    def has_work(self, want: Want, stamp: Stamp) -> bool:
        self._put_in_order(want)
        with self._db.connection() as conn:
            if not want.queues or (want.concurrency is not None and claim.held(conn, stamp) >= want.concurrency):
                return False
        limited = self._limited(want)
        with self._db.connection() as conn:
            if limited:
                want, _ = limits.with_room(conn, want, lock=False)
            return bool(want.queues) and claim.has_work(conn, self.names, want)

    def is_full(self, project_id: int) -> bool:
        with self._db.connection() as conn:
            want, _ = limits.with_room(conn, Want(queues=(project_id,)), lock=False)
        return not want.queues

    def take(self, task_id: int, want: Want, stamp: Stamp) -> Claimed:
        self._put_in_order(want)
        limited = self._limited(want)

        def taking(conn: Connection) -> Claimed:
            if want.concurrency is not None and not claim.room(conn, want, stamp):
                raise claim.no_room(want, stamp)
            if limited:
                limits.refuse_full_queue(conn, task_id)
            return claim.take(conn, self.names, task_id, want, stamp)

        got = self._db.retrying(taking)
        self._signal.publish(Change(task_id=task_id))
        return got

    def renew(self, fences: Sequence[Fence], lease: timedelta | None, stamp: Stamp) -> list[Renewal]:
        granted = self._single(lambda conn: settle.renew(conn, fences, lease, stamp))
        return [granted.get(f) or self._lost_renewal(f, stamp) for f in fences]

    def _lost_renewal(self, fence: Fence, stamp: Stamp) -> Renewal:
        holder = self._lost(fence, "renew", stamp, None).facts.get("holder")
        return Renewal(task_id=fence.task_id, epoch=fence.epoch, until=None, holder=str(holder) if holder else None)

    def settle(self, fence: Fence, outcome: Outcome, stamp: Stamp, files: Sequence[NewFile] = ()) -> Task:
        if files:
            task = self._db.retrying(lambda conn: self._settle_with(conn, fence, outcome, stamp, files))
        elif isinstance(outcome, Done):
            granted = self._granted.recall(fence)
            task = self._single(lambda conn: finish.done(conn, self.names, granted, fence, outcome, stamp))
        else:
            task = self._db.retrying(lambda conn: settle.settle(conn, self.names, fence, outcome, stamp, self._ends))
        if task is None:
            raise self._lost(fence, type(outcome).__name__.lower(), stamp, outcome)
        self._told(task)
        return task

    def _settle_with(
        self, conn: Connection, fence: Fence, outcome: Outcome, stamp: Stamp, files: Sequence[NewFile]
    ) -> Task | None:
        """In one transaction: the files under the fence, then the end, which lets go of it."""
        for file in files:
            if arrange.attach(conn, fence.task_id, file.name, file.size, file.sha256, stamp, fence) is None:
                return None
        if isinstance(outcome, Done):
            return finish.done(conn, self.names, None, fence, outcome, stamp)
        return settle.settle(conn, self.names, fence, outcome, stamp, self._ends)

    def settle_many(self, ends: Sequence[tuple[Fence, Done]], stamp: Stamp) -> list[Task | FabricError]:
        done = self._single(lambda conn: finish.done_many(conn, self.names, self._granted, ends, stamp))
        answers: list[Task | FabricError] = []
        for fence, outcome in ends:
            task = done.pop(fence, None)
            answers.append(task or self._lost(fence, "done", stamp, outcome))
        for answer in answers:
            if isinstance(answer, Task):
                self._signal.publish(Change(task_id=answer.id))
        return answers

    def _lost(self, fence: Fence, verb: str, stamp: Stamp, outcome: Outcome | None) -> FabricError:
        return self._db.retrying(
            lambda conn: settle.lost(conn, self.names, fence, verb, stamp, outcome, self._rules.late_result)
        )

    def settle_by_hand(self, task_id: int, outcome: Outcome, stamp: Stamp, files: Sequence[NewFile] = ()) -> Task:
        def ending(conn: Connection) -> Task:
            task = judge.by_hand(conn, self.names, task_id, outcome, stamp, self._ends)
            for file in files:
                arrange.attach(conn, task_id, file.name, file.size, file.sha256, stamp, None)
            return task

        return self._change(ending)

    # -- people's verbs ------------------------------------------------------------------------------

    def answer(self, task_id: int, text: str, stamp: Stamp) -> Task:
        return self._change(lambda conn: judge.answer(conn, self.names, task_id, text, stamp))

    def pass_on(self, task_id: int, to_id: int, text: str, stamp: Stamp, until: datetime) -> Task:
        return self._change(lambda conn: questions.pass_on(conn, self.names, task_id, to_id, text, stamp, until))

    def passed_on(self, *, task_id: int | None = None, to_id: int | None = None) -> list[PassedOn]:
        with self._db.connection() as conn:
            return questions.passed_on(conn, task_id, to_id)

    def passed_over(self, limit: int) -> list[PassedOn]:
        with self._db.connection() as conn:
            return questions.over(conn, limit)

    def take_back(self, task_id: int, text: str, stamp: Stamp) -> Task | None:
        task = self._db.retrying(lambda conn: questions.take_back(conn, self.names, task_id, text, stamp))
        if task is not None:
            self._signal.publish(Change(task_id=task.id))
        return task

    def verify(self, task_id: int, note: str, stamp: Stamp) -> Task:
        return self._change(lambda conn: judge.verify(conn, self.names, task_id, note, stamp))

    def reject(self, task_id: int, note: str, stamp: Stamp) -> Task:
        return self._change(lambda conn: judge.reject(conn, self.names, task_id, note, stamp))

    def cancel(self, task_id: int, note: str, stamp: Stamp) -> Task:
        return self._change(lambda conn: judge.cancel(conn, self.names, task_id, note, stamp))

    def redrive(self, task_id: int, note: str, stamp: Stamp) -> Task:
        return self._change(lambda conn: judge.redrive(conn, self.names, task_id, note, stamp))

    def edit(self, task_id: int, change: Edit, stamp: Stamp) -> Task:
        return self._change(lambda conn: arrange.edit(conn, self.names, task_id, change, stamp))

    def move(self, task_id: int, place: Place, stamp: Stamp) -> Task:
        return self._change(lambda conn: arrange.move(conn, self.names, task_id, place, stamp))

    def transfer(self, task_id: int, project_id: int, stamp: Stamp) -> Task:
        return self._change(lambda conn: arrange.transfer(conn, self.names, task_id, project_id, stamp))

    def comment(self, task_id: int, text: str, stamp: Stamp) -> Entry:
        entry = self._db.retrying(lambda conn: arrange.comment(conn, self.names, task_id, text, stamp))
        self._signal.publish(Change(task_id=task_id))
        return entry

    def attach(self, task_id: int, name: str, size: int, sha256: str, stamp: Stamp, fence: Fence | None) -> Attachment:
        listed = self._db.retrying(lambda conn: arrange.attach(conn, task_id, name, size, sha256, stamp, fence))
        if listed is None:
            assert fence is not None
            raise self._lost(fence, "attach", stamp, None)
        self._signal.publish(Change(task_id=task_id))
        return listed

    # -- housekeeping --------------------------------------------------------------------------------

    def sweep(self, limit: int, stamp: Stamp, queues: Sequence[int] | None = None) -> Swept:
        swept = self._db.retrying(lambda conn: sweep.sweep(conn, limit, stamp, queues))
        if swept.ready:
            self._signal.publish(Change())
        return swept

    def refusal(self, kind: str, task_id: int | None, stamp: Stamp, facts: dict[str, object]) -> None:
        with self._db.connection() as conn:
            conn.execute(
                "INSERT INTO journal (task_id, project_id, actor_id, kind, via, run_task, run_epoch, data)"
                " SELECT t.id, t.project_id, %(me)s, 'refused', %(via)s, %(run)s, %(epoch)s, %(data)s"
                "   FROM (SELECT 1) one LEFT JOIN tasks t ON t.id = %(task)s",
                {
                    "task": task_id,
                    "me": stamp.principal_id,
                    "via": stamp.via.value,
                    "run": None if stamp.run is None else stamp.run.task_id,
                    "epoch": None if stamp.run is None else stamp.run.epoch,
                    "data": Jsonb({"verb": kind, **facts}),
                },
            )

    # -- reading -------------------------------------------------------------------------------------

    def get(self, task_id: int, viewer: Viewer | None) -> Task:
        with self._db.connection() as conn:
            return read.get(conn, self.names, task_id, viewer)

    def find(self, filter: Filter, viewer: Viewer) -> list[Task]:
        with self._db.connection() as conn:
            return read.find(conn, self.names, filter, viewer)

    def count(self, viewer: Viewer) -> dict[int, dict[Status, int]]:
        with self._db.connection() as conn:
            return read.count(conn, viewer)

    def thread(self, task_id: int, viewer: Viewer) -> Thread:
        with self._db.connection() as conn:
            return read.thread(conn, self.names, task_id, viewer)

    def tree(self, task_id: int, viewer: Viewer) -> Kin:
        with self._db.connection() as conn:
            return read.tree(conn, self.names, task_id, viewer)

    def kinship(self, task_id: int) -> frozenset[int]:
        with self._db.connection() as conn:
            return read.kinship(conn, task_id)

    def ancestors(self, task_id: int) -> tuple[int, ...]:
        with self._db.connection() as conn:
            return read.ancestors(conn, task_id)

    def places(self, task_ids: Sequence[int]) -> dict[int, int]:
        with self._db.connection() as conn:
            return read.places(conn, task_ids)

    def attachment(self, attachment_id: int, viewer: Viewer) -> Attachment:
        with self._db.connection() as conn:
            return read.attachment(conn, self.names, attachment_id, viewer)

    # -- the hint after the commit -------------------------------------------------------------------

    def _change(self, work: Callable[[Connection], Task]) -> Task:
        task = self._db.retrying(work)
        self._told(task)
        return task

    def _told(self, task: Task) -> None:
        self.expect(task.not_before)
        self._signal.publish(Change(task_id=task.id, project_id=task.project_id))
        if task.status is Status.READY and self._signal.may_notify(task.project_id):
            self._notify([task.project_id])

    def _tell(self, queues: Iterable[int]) -> None:
        for project_id in queues:
            self._signal.publish(Change(project_id=project_id))

    def _notify(self, queues: Sequence[int]) -> None:
        # The verb has committed: a hint that is lost costs a poll, and must not make it look failed.
        with contextlib.suppress(Unavailable), self._db.connection() as conn:
            conn.execute("SELECT pg_notify('fabric', 'q:' || q) FROM unnest(%s::int[]) AS q", (list(queues),))

    def _single(self, work: Callable[[Connection], T]) -> T:
        """The value of ``work``, which is one statement. Without a transaction around it, unless the statement met
        others that want the same parents and dependents in another order: then it was undone and is repeated."""
        try:
            with self._db.connection() as conn:
                return work(conn)
        except (pg.DeadlockDetected, pg.SerializationFailure):
            return self._db.retrying(work)
