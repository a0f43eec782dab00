"""The heartbeat: a thread that renews the leases of all runs, whatever the runs do.

Time is the worker's own clock. A renewal counts from the moment it was sent (G8), and trust ends before the lease
does, by a margin (G7). Between two machines' clocks nothing is compared.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from taskfabric.domain.errors import FabricError
from taskfabric.domain.lease import Fence, Renewal, renew_every
from workers import clock

log = logging.getLogger(__name__)

_MARGIN: Final = 0.1  # of the lease
_LONGEST_MARGIN: Final = 30.0  # seconds
_RETRY: Final = 12  # after a failed renewal the next one comes within this part of the lease
_LONGEST_RETRY: Final = 10.0  # seconds


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A lease that a run of this worker holds."""

    fence: Fence
    length: float  # seconds
    trusted_until: float
    due: float  # when it is to be renewed
    lost: str = ""  # why it is not ours any more
    taken: bool = False  # the board said so itself

    @property
    def margin(self) -> float:
        """How long before its end the lease is not trusted any more, in seconds."""
        return min(self.length * _MARGIN, _LONGEST_MARGIN)

    def renewed(self, sent: float) -> None:
        """The board granted a renewal that was sent at this moment."""
        self.trusted_until = max(self.trusted_until, sent + self.length - self.margin)
        self.due = sent + renew_every(timedelta(seconds=self.length)).total_seconds()

    def put_off(self, now: float) -> None:
        """The renewal failed; it is tried again soon."""
        self.due = now + min(self.length / _RETRY, _LONGEST_RETRY) * random.uniform(0.5, 1.0)


class Heartbeat:
    """``renew`` asks the board, and raises a FabricError when it cannot be asked."""

    def __init__(
        self, renew: Callable[[Sequence[Fence]], Sequence[Renewal]], *, now: Callable[[], float] = clock.now
    ) -> None:
        self._renew = renew
        self._now = now
        self._held: list[Held] = []
        self._changed = threading.Condition()
        self._urgent = False
        self._ended = False
        self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Beat until ``end``."""
        self._thread.start()

    def end(self) -> None:
        """No renewal begins any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def hold(self, fence: Fence, length: timedelta, *, sent: float) -> Held:
        """From now on this lease is renewed. ``sent`` is when its claim was sent."""
        held = Held(fence=fence, length=length.total_seconds(), trusted_until=0.0, due=0.0)
        held.renewed(sent)
        with self._changed:
            self._held.append(held)
            self._changed.notify_all()
        return held

    def let_go(self, held: Held) -> None:
        """This lease is not renewed any more."""
        with self._changed:
            self._held.remove(held)

    def is_held(self, held: Held) -> bool:
        """Whether the lease may still be trusted.

        When its time is over, as after a stop of the whole machine, the board is asked once more, for a margin at most:
        what nobody took meanwhile is still ours.
        """
        with self._changed:
            if not held.lost and self._now() >= held.trusted_until:
                self._urgent = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_judged(held), timeout=held.margin)
                if not self._is_judged(held):
                    held.lost = _LATE
            return not held.lost

    def beat(self) -> None:
        """Renew all that is held, in one call, and give up what is beyond trust."""
        with self._changed:
            self._urgent = False
            asked = list(self._held)
        if not asked:
            return
        sent = self._now()
        try:
            answers = {(a.task_id, a.epoch): a for a in self._renew([held.fence for held in asked])}
        except FabricError as error:
            log.warning("renewal failed leases=%d reason=%s", len(asked), error.message)
            answers = {}
        with self._changed:
            for held in asked:
                self._apply(held, answers.get((held.fence.task_id, held.fence.epoch)), sent)
            self._changed.notify_all()

    # ---------------------------------------------------------------- inside

    def _apply(self, held: Held, answer: Renewal | None, sent: float) -> None:
        now = self._now()
        if answer is None:
            held.put_off(now)
        elif answer.until is None:
            held.taken = True
            held.lost = f"{answer.holder} has it now" if answer.holder else "it was taken back"
        else:
            held.renewed(sent)
        if not held.lost and now >= held.trusted_until:
            held.lost = _LATE
        if held.lost:
            log.warning("lease lost task=%s reason=%s", held.fence, held.lost)

    def _is_judged(self, held: Held) -> bool:
        return bool(held.lost) or self._now() < held.trusted_until

    def _keep_beating(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_time, timeout=self._next())
                if self._ended:
                    return
                if not self._is_time():
                    continue
            self.beat()

    def _is_time(self) -> bool:
        return self._ended or self._urgent or any(self._now() >= h.due for h in self._held if not h.lost)

    def _next(self) -> float | None:
        """Seconds until something is due; None = when something changes."""
        due = min((held.due for held in self._held if not held.lost), default=None)
        return None if due is None else max(0.0, due - self._now())


_LATE: Final = "it could not be renewed in time"
