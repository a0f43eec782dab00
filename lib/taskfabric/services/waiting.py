"""Waiting: one cheap look, and the blocking wait of a caller in the same process that repeats it."""

from __future__ import annotations

import random
import threading
import time

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Caller, Viewer
from taskfabric.domain.status import FINISHED, Flag, Status
from taskfabric.ports.signal import Change
from taskfabric.services import verbs
from taskfabric.services.desk import Desk
from taskfabric.services.drain import Draining

_ASKS = Flag.NEEDS_INPUT | Flag.NEEDS_AUTH


class Waiting:
    """``check`` is what a waiter repeats when it is woken and at the poll floor; ``wait`` does so in this thread."""

    def __init__(self, desk: Desk, draining: Draining) -> None:
        self._desk = desk
        self._draining = draining

    def check(self, caller: Caller, verb: verbs.Wait) -> verbs.Awaited | None:
        """What was waited for if it has happened, else None.

        For a task: it has finished, or asks somebody. For a queue (or the caller's queues): a claim might get
        something. Raises NotFound for a task or queue that the caller may not see."""
        if verb.task is not None:
            if verb.queue is not None:
                raise BadInput("a wait is for a task or for a queue", field="queue")
            task = self._desk.board.get(verb.task, Viewer.of(caller))
            asks = task.status is Status.WAITING and bool(task.flags & _ASKS)
            return verbs.Awaited(happened=True, task=task) if task.status in FINISHED or asks else None
        want = self._draining.want(caller, verb.queue, None)
        return verbs.Awaited(happened=True) if self._desk.board.has_work(want, caller.stamp()) else None

    def wait(self, caller: Caller, verb: verbs.Wait) -> verbs.Awaited:
        """Blocks this thread until it has happened or the time is up (``happened`` is False then); at most the cap."""
        woken = threading.Event()
        deadline = time.monotonic() + min(verb.timeout, self._desk.rules.wait_cap.total_seconds())
        projects = None if verb.task is not None else frozenset(self._draining.want(caller, verb.queue, None).queues)

        def hear(change: Change) -> None:
            if concerns(change, verb.task, projects):
                woken.set()

        unsubscribe = self._desk.signal.subscribe(hear)
        try:
            while True:
                woken.clear()
                found = self.check(caller, verb)
                left = deadline - time.monotonic()
                if found is not None:
                    return found
                if left <= 0:
                    return verbs.Awaited(happened=False)
                # The floor under hints that got lost; the jitter keeps many waiters from looking in step.
                woken.wait(min(left, self._desk.rules.poll_interval.total_seconds() * random.uniform(0.8, 1.2)))
        finally:
            unsubscribe()


def concerns(change: Change, task_id: int | None, projects: frozenset[int] | None) -> bool:
    """True if the hint may be about this task, or about one of these queues; an empty hint may be about anything."""
    if change.project_id is None and change.task_id is None:
        return True
    if task_id is not None:
        return change.task_id == task_id
    return change.project_id is not None and (projects is None or change.project_id in projects)
