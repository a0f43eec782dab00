"""What the keeper needs of a board on a Kanboard: as of our own, and the reconciliation of cards and tasks.

Every verb does its part of it. This is the net: what an interrupted verb left, what changes there without a trace
(tags), what nobody has looked at, and what may be removed.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from taskfabric.boards.kanboard.adoption import MARK
from taskfabric.boards.kanboard.board import KanboardBoard
from taskfabric.boards.kanboard.client import Doubtful, say
from taskfabric.boards.kanboard.projects import KanboardProjects
from taskfabric.boards.native.keeping import NativeKeeping
from taskfabric.db.pool import Database
from taskfabric.domain.errors import NotFound
from taskfabric.ports.signal import Signal

log = logging.getLogger(__name__)

_ABANDONED: Final = 600  # seconds after which a card without a task counts as a submission that was broken off
_PRUNE: Final = 100  # tags removed in one round
_BEHIND: Final = """
SELECT t.id FROM tasks t LEFT JOIN stock_cards c ON c.task_id = t.id
 WHERE c.task_id IS NULL OR c.seq <> t.seq AND NOT c.gone ORDER BY t.id LIMIT %s
"""


class KanboardKeeping(NativeKeeping):
    """Implements ``ports.keeping.Keeping``."""

    def __init__(self, database: Database, signal: Signal, board: KanboardBoard, projects: KanboardProjects) -> None:
        super().__init__(database, signal)
        self._board = board
        self._projects = projects

    def reconcile(self, limit: int) -> dict[str, int]:
        """How many cards were put in line, adopted or changed by hand, closed as broken off; tags removed."""
        queues = [queue.project_id for queue in self._projects.queues()]
        for project_id in queues:
            try:
                self._projects.refresh(project_id)
            except NotFound:
                log.warning("the project of a queue is gone project=%d", project_id)
        taken_in = self._board.incoming.look(queues, closely=True)
        with self._db.connection() as conn:
            behind = [row[0] for row in conn.execute(_BEHIND, (limit,)).fetchall()]
            closed = conn.execute("SELECT id FROM tasks WHERE NOT is_active ORDER BY id DESC LIMIT 1000").fetchall()
        aligned = self._board.alignment.settle([*self._board.alignment.left_behind(limit), *behind], wait=True)
        return {
            "taken_in": taken_in,
            "aligned": aligned,
            "abandoned": self._close_abandoned(queues),
            "tags_removed": self._board.locks.prune([row[0] for row in closed], _PRUNE),
        }

    def _close_abandoned(self, queues: list[int]) -> int:
        """Cards whose submission never came to its end are closed, and say why."""
        old = time.time() + self._board.kanboard.skew.total_seconds() - _ABANDONED
        lists = self._board.kanboard.many([say("getAllTasks", project_id=p, status_id=1) for p in queues])
        marked = [
            int(card["id"])
            for found in lists
            if not isinstance(found, Doubtful)
            for card in found or []
            if str(card.get("reference") or "").startswith(MARK) and int(card["date_creation"]) < old
        ]
        with self._db.connection() as conn:
            rows = conn.execute("SELECT id FROM tasks WHERE id = ANY(%s)", (marked,)).fetchall()
        lost = set(marked) - {row[0] for row in rows}
        for task_id in sorted(lost):
            text = "This submission was broken off before it became a task; whoever made it was told so, or asks again."
            self._board.kanboard.call("createComment", task_id=task_id, user_id=0, content=text)
            self._board.kanboard.call("closeTask", task_id=task_id)
        return len(lost)
