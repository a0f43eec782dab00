"""The board on a stock Kanboard: the verbs of our own board, arbitrated by the Kanboard's tags and shown on its cards.

The task is the card; our row is its reflection with what a card has no place for. Each verb first takes in what people
changed on the card, then runs as on our own board in a transaction whose leases must win their tags (``ground``), and
afterwards the card is brought in line (``alignment``). Only the server drives it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from taskfabric.boards.kanboard import adoption
from taskfabric.boards.kanboard.alignment import Alignment
from taskfabric.boards.kanboard.client import Kanboard
from taskfabric.boards.kanboard.ground import Contested, Overtaken, StockDatabase, hexed
from taskfabric.boards.kanboard.incoming import Incoming
from taskfabric.boards.kanboard.people import People
from taskfabric.boards.kanboard.submission import Submission
from taskfabric.boards.native.board import FABRIC, BoardRules, NativeBoard
from taskfabric.boards.native.names import Connection
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.lease import Fence, Renewal
from taskfabric.domain.outcome import Done, Outcome, Released
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.domain.task import Claimed, NewTask, Submitted, Task, Thread
from taskfabric.ports.board import Edit, Filter, Hello, NewFile, Place, Swept, Want
from taskfabric.ports.signal import Signal

log = logging.getLogger(__name__)

T = TypeVar("T")
_CONTESTS: Final = 8  # epochs lost one after another before a claim is given up
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class KanboardBoard(NativeBoard):
    """Implements ``ports.board.Board`` on a Kanboard, with our database beside it."""

    def __init__(
        self,
        database: StockDatabase,
        signal: Signal,
        rules: BoardRules | None = None,
        *,
        thresholds: tuple[int, int] = (2, 5),
        look_every: float = 2.0,
    ) -> None:
        super().__init__(database, signal, rules)
        self._stock = database
        self.kanboard: Kanboard = database.kanboard
        self.locks = database.locks
        self.people = People(self.kanboard)
        self.alignment = Alignment(database, self.names, self.kanboard, self.people)
        self.incoming = Incoming(
            database,
            self.names,
            self.kanboard,
            self.people,
            self.locks,
            self.alignment,
            thresholds=thresholds,
            every=look_every,
        )
        self.submission = Submission(database, self.names, self.kanboard, self.people, self.locks)
        database.settled = self._settled

    def hello(self) -> Hello:
        version = self.kanboard.call("getVersion")
        ours = super().hello()
        facts: dict[str, str | int | bool | None] = {
            "kanboard": str(version),
            "left_behind": len(self.alignment.left_behind()),
            "clock_off": round(self.kanboard.skew.total_seconds()),
            **ours.facts,
        }
        return Hello(kind="kanboard", now=ours.now, facts=facts)

    # -- making work -----------------------------------------------------------------------------------------

    def submit(self, new: Sequence[NewTask], stamp: Stamp, limits: Limits) -> list[Submitted]:
        answers = self.submission.submit(new, stamp, limits)
        for item in new:
            self.expect(item.not_before)
        if self.names.missed_a_lane():
            self._in_order_until = _LONG_AGO
        queues = {item.project_id for item in new if not item.backlog}
        self._tell(queues)
        self._notify([queue for queue in queues if self._signal.may_notify(queue)])
        return answers

    # -- the holder's verbs ----------------------------------------------------------------------------------

    def claim(self, want: Want, limit: int, stamp: Stamp) -> list[Claimed]:
        self.incoming.look(want.queues)
        return self.contest(lambda: super(KanboardBoard, self).claim(want, limit, stamp))

    def take(self, task_id: int, want: Want, stamp: Stamp) -> Claimed:
        self._take_in(task_id)
        return self.contest(lambda: super(KanboardBoard, self).take(task_id, want, stamp))

    def has_work(self, want: Want, stamp: Stamp) -> bool:
        self.incoming.look(want.queues)
        return super().has_work(want, stamp)

    def contest(self, work: Callable[[], T]) -> T:
        """The value of ``work``, repeated above each epoch that turns out to be taken on the board."""
        for _ in range(_CONTESTS):
            try:
                return work()
            except Contested as lost:
                self._go_above(lost.task_id)
        raise Unavailable("other fabrics on this Kanboard take the same tasks", next="one Kanboard, one fabric")

    def _go_above(self, task_id: int) -> None:
        lock = self.locks.highest().get(task_id)
        if lock is None:
            return
        rest = timedelta(0)
        now = adoption.board_time(self.kanboard.skew)
        if lock.over is None and lock.deadline is not None and lock.deadline > now:
            rest = lock.deadline - now
        elif lock.over is None:
            self.locks.end(task_id, lock.epoch, lock.token or "0" * 16, "expired")
        log.warning("epoch was taken before task=%d epoch=%d rest=%s", task_id, lock.epoch, rest)
        with self._stock.plain() as conn:
            adoption.raise_epoch(conn, task_id, lock.epoch, rest)
        self._in_order_until = _LONG_AGO

    def renew(self, fences: Sequence[Fence], lease: timedelta | None, stamp: Stamp) -> list[Renewal]:
        self.kanboard.must_answer()
        renewals = super().renew(fences, lease, stamp)
        live = [f for f, r in zip(fences, renewals, strict=True) if r.until is not None]
        if live:
            with self._stock.connection() as conn:
                rows = conn.execute(
                    "SELECT l.task_id, l.epoch, l.tag_id, l.token, t.lease_until - fabric_now() FROM stock_leases l"
                    " JOIN tasks t ON t.id = l.task_id AND t.epoch = l.epoch"
                    " WHERE NOT l.ended AND l.tag_id > 0 AND l.task_id = ANY(%s) AND t.lease_until IS NOT NULL",
                    ([f.task_id for f in live],),
                ).fetchall()
            now = adoption.board_time(self.kanboard.skew)
            self.locks.renew([(task, epoch, tag, hexed(token), now + left) for task, epoch, tag, token, left in rows])
        return renewals

    def settle(self, fence: Fence, outcome: Outcome, stamp: Stamp, files: Sequence[NewFile] = ()) -> Task:
        return self._fenced(
            fence,
            type(outcome).__name__.lower(),
            stamp,
            outcome,
            lambda: super(KanboardBoard, self).settle(fence, outcome, stamp, files),
        )

    def settle_many(self, ends: Sequence[tuple[Fence, Done]], stamp: Stamp) -> list[Task | FabricError]:
        answers: list[Task | FabricError] = []
        for fence, outcome in ends:  # one after another: each end must win its own tag
            try:
                answers.append(self.settle(fence, outcome, stamp))
            except FabricError as refusal:
                if isinstance(refusal, Unavailable):
                    raise
                answers.append(refusal)
        return answers

    def _fenced(self, fence: Fence, verb: str, stamp: Stamp, outcome: Outcome, work: Callable[[], Task]) -> Task:
        try:
            return work()
        except Overtaken as over:
            log.warning("epoch was ended by somebody else lease=%s says=%r", fence, over.says)
            self.let_go(over.task_id, over.epoch)
            raise self._lost(fence, verb, stamp, outcome) from over

    def let_go(self, task_id: int, epoch: int) -> None:
        """An epoch that was ended on the board by somebody else ends here as well; its attempt is given back."""
        with self._stock.plain() as conn:
            conn.execute("UPDATE stock_leases SET ended = true WHERE task_id = %s AND epoch = %s", (task_id, epoch))
            row = conn.execute(
                "SELECT token, owner_id FROM tasks WHERE id = %s AND epoch = %s AND token IS NOT NULL", (task_id, epoch)
            ).fetchone()
        if row is None:
            return
        fence = Fence(task_id=task_id, epoch=epoch, token=int(hexed(row[0]), 16))
        holder = Stamp(principal_id=row[1], name="", kind=FABRIC.kind, trust=FABRIC.trust, via=FABRIC.via)
        super().settle(fence, Released(reason="its lease was ended on the Kanboard by somebody else"), holder)

    def settle_by_hand(self, task_id: int, outcome: Outcome, stamp: Stamp, files: Sequence[NewFile] = ()) -> Task:
        self._take_in(task_id)
        return self._by_hand(lambda: super(KanboardBoard, self).settle_by_hand(task_id, outcome, stamp, files))

    def _by_hand(self, work: Callable[[], T]) -> T:
        """A person's verb; an epoch that somebody else has ended meanwhile is no hindrance to him."""
        for _ in range(_CONTESTS):
            try:
                return work()
            except Overtaken as over:
                self.let_go(over.task_id, over.epoch)
        raise Unavailable("other fabrics on this Kanboard end the same leases", next="one Kanboard, one fabric")

    # -- people's verbs --------------------------------------------------------------------------------------

    def answer(self, task_id: int, text: str, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return super().answer(task_id, text, stamp)

    def pass_on(self, task_id: int, to_id: int, text: str, stamp: Stamp, until: datetime) -> Task:
        self._take_in(task_id)
        return super().pass_on(task_id, to_id, text, stamp, until)

    def verify(self, task_id: int, note: str, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return super().verify(task_id, note, stamp)

    def reject(self, task_id: int, note: str, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return super().reject(task_id, note, stamp)

    def cancel(self, task_id: int, note: str, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return self._by_hand(lambda: super(KanboardBoard, self).cancel(task_id, note, stamp))

    def redrive(self, task_id: int, note: str, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return super().redrive(task_id, note, stamp)

    def edit(self, task_id: int, change: Edit, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return super().edit(task_id, change, stamp)

    def move(self, task_id: int, place: Place, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return self._by_hand(lambda: super(KanboardBoard, self).move(task_id, place, stamp))

    def transfer(self, task_id: int, project_id: int, stamp: Stamp) -> Task:
        self._take_in(task_id)
        return super().transfer(task_id, project_id, stamp)

    # -- housekeeping ----------------------------------------------------------------------------------------

    def sweep(self, limit: int, stamp: Stamp, queues: Sequence[int] | None = None) -> Swept:
        return self._by_hand(lambda: super(KanboardBoard, self).sweep(limit, stamp, queues))

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, task_id: int, viewer: Viewer | None) -> Task:
        task = super().get(task_id, viewer)
        self._take_in(task_id)
        return super().get(task_id, viewer) if task.is_open else task

    def find(self, filter: Filter, viewer: Viewer) -> list[Task]:
        self._look_for(filter.queues)
        return super().find(filter, viewer)

    def thread(self, task_id: int, viewer: Viewer) -> Thread:
        super().get(task_id, viewer)
        self._take_in(task_id)
        self.incoming.comments(task_id)
        return super().thread(task_id, viewer)

    def _look_for(self, queues: Sequence[int] | None) -> None:
        if queues is None:
            with self._stock.connection() as conn:
                queues = [row[0] for row in conn.execute("SELECT project_id FROM queues").fetchall()]
        self.incoming.look(queues)

    def _take_in(self, task_id: int) -> None:
        """What people changed on this card is in the row, and what the card lacks is on it."""
        self.alignment.settle([task_id])

    # -- transactions ----------------------------------------------------------------------------------------

    def _single(self, work: Callable[[Connection], T]) -> T:
        """One statement, but in a transaction: the tags are asked at its end."""
        return self._db.retrying(work)

    def _settled(self, touched: list[int]) -> None:
        self.alignment.settle(touched)
