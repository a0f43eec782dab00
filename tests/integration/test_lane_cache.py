"""What a process remembers of the lanes never hides one that is there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from taskfabric.boards.native.board import NativeBoard
from taskfabric.boards.native.names import Names
from taskfabric.db.pool import Database
from tests.integration.conftest import Rig


class Queues(tuple[int, ...]):
    """A claimer's queues; while somebody looks through them, something happens."""

    meanwhile: Callable[[], None]

    def __contains__(self, project_id: object) -> bool:
        self.meanwhile()
        return super().__contains__(project_id)


def test_a_lane_learned_while_another_claimer_looks_is_seen_by_its_next_look(rig: Rig) -> None:
    """G6: an answer from before would stay until there is yet another lane."""
    names = Names()
    with rig.database.connection() as conn:
        rig.submit(priority=1)
        names.learn_lanes(conn)
        rig.submit(priority=2)
        queues = Queues((rig.pool.project_id,))
        queues.meanwhile = lambda: names.learn_lanes(conn)
        want = replace(rig.want(), queues=queues)
        names.served(want)
        queues.meanwhile = lambda: None
        assert names.served(want).only is None
        assert names.served(want).lanes.count(",") == 1


def test_a_pool_that_grows_while_somebody_claims_hides_no_lane_from_him(rig: Rig) -> None:
    """G6: a new connection means another database only after a restore."""
    with contextlib.closing(Database(rig.test_database.dsn, size=6, name="test")) as pool:
        pool.check()  # some are open before the board is there
        board = NativeBoard(pool, rig.bus)
        rig.submit()
        assert board.claim(rig.want(), 1, rig.people["kimi"])
        known = board.names.last_lane
        with contextlib.ExitStack() as stack:
            for _ in range(6):
                stack.enter_context(pool.connection())
            assert board.names.last_lane == known > 0
