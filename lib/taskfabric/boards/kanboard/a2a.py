"""A2A on a Kanboard: what is called for is a card, before the runtime starts and with a lease that has won its tag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.ground import Contested, Overtaken, StockDatabase
from taskfabric.boards.native.a2a import NativeA2A
from taskfabric.boards.native.names import Connection
from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import Unavailable
from taskfabric.domain.lease import Fence
from taskfabric.domain.principal import Stamp
from taskfabric.domain.task import Claimed, NewTask
from taskfabric.ports.a2a import Answer, Opening, Places, Seen, Started
from taskfabric.ports.board import Want
from taskfabric.ports.signal import Signal

_CARDS: Final = 3  # made one after another, before a number is found that no lease had


class KanboardA2A(NativeA2A):
    """``ports.a2a.A2ABoard`` beside a board on a Kanboard."""

    def __init__(self, database: StockDatabase, board: KanboardBoard, signal: Signal) -> None:
        super().__init__(database, board, signal)
        self._stock = board

    def _begun(self, starting: Callable[[Connection], Started], *, one_statement: bool) -> Started:
        for _ in range(_CARDS):
            try:
                return self._db.retrying(starting)
            except Contested:
                continue  # SQLite gives numbers twice: this card had leases in another life, the next one has not
        raise Unavailable("other fabrics on this Kanboard take the same tasks", next="one Kanboard, one fabric")

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
        make = super()._start
        return self._carded(conn, new, stamp, lambda: make(conn, new, stamp, limits, opening, holder, want, token))

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
        make = super()._queue
        return self._carded(conn, new, stamp, lambda: make(conn, new, stamp, limits, opening, places, notify))

    def _carded(self, conn: Connection, new: NewTask, stamp: Stamp, make: Callable[[], Started]) -> Started:
        """What is made, with a card if it is new. What refuses it does so before there is one."""
        with conn.transaction(force_rollback=True):
            rehearsed = make()
        if rehearsed.created:
            self._stock.submission.card_for(conn, new, stamp)
        return make()

    def proceed(
        self, seen: Seen, answer: Answer, stamp: Stamp, holder: Stamp | None, want: Want | None
    ) -> Claimed | None:
        go_on = super().proceed
        return self._stock.contest(lambda: go_on(seen, answer, stamp, holder, want))

    def reply(self, fence: Fence, stamp: Stamp, a2a_id: str, message: Mapping[str, Any], note: str) -> bool:
        try:
            return super().reply(fence, stamp, a2a_id, message, note)
        except Overtaken as over:
            self._stock.let_go(over.task_id, over.epoch)
            return False
