"""What a run says while it goes, for ``fabric log --follow``: asked for every second, beside the events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.remote.line import Line
from taskfabric.surfaces.cli.command import Shape

log = logging.getLogger(__name__)

_EVERY: Final = 1.0  # seconds


class Output:
    """The pieces of the task's latest run that were not read yet; of a later run from its first."""

    def __init__(self, line: Line, task: int) -> None:
        self._line = line
        self._task = task
        self._epoch: int | None = None
        self._after = -1

    def fresh(self) -> Iterator[Shape]:
        """Each with ``epoch``, ``n``, ``at``, ``stream`` and ``text``. Raises Refused for who may not see the task
        whole."""
        while True:
            page: Shape = self._line.ask("fabric.chunks.read", {"task": self._task, "after": self._after})
            if page["epoch"] != self._epoch:
                self._epoch, before, self._after = page["epoch"], self._after, -1
                if before >= 0:
                    continue  # what was asked for was of the run before
            if not page["chunks"]:
                return
            for chunk in page["chunks"]:
                self._after = chunk["n"]
                yield {"epoch": self._epoch, **chunk}

    def skip(self) -> None:
        """What there is now counts as read."""
        for _ in self.fresh():
            pass


def listen(output: Output, show: Callable[[Shape], None], stop: threading.Event) -> None:
    """Shows each piece as it comes, until ``stop`` is set or the task is not to be seen any more."""
    while not stop.is_set():
        try:
            for chunk in output.fresh():
                show(chunk)
        except FabricError as error:
            log.debug("no output reason=%s", error.message)
            if not isinstance(error, Unavailable):  # a server that is away comes back
                return
        stop.wait(_EVERY)
