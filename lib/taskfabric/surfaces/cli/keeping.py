"""The embedded database as a supervisor keeps it: started again when it died, not when it was stopped on purpose."""

from __future__ import annotations

import logging
import time
from typing import Final

from taskfabric.domain.errors import FabricError
from taskfabric.wiring import Cluster

log = logging.getLogger(__name__)

_LOOK: Final = 1.0  # seconds between two looks
_FIRST_REST: Final = 0.5  # seconds after a start that failed; doubled each time
_LONGEST_REST: Final = 30.0
_STEADY: Final = 60.0  # seconds after which it counts as well again


class KeptDatabase:
    """One embedded server that is to run. It belongs to its data folder, so whoever starts it is right."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.restarts = 0
        self._pid = cluster.status().pid
        self._rest = _FIRST_REST
        self._next = 0.0  # when it may be started, monotonic
        self._begun = time.monotonic()

    @property
    def due(self) -> float:
        """In how many seconds to look again."""
        rest = self._next - time.monotonic()
        return min(_LOOK, rest) if self._pid is None and rest > 0 else _LOOK

    def look(self) -> bool:
        """Start it if it died and has rested; whether anything changed."""
        status = self.cluster.status()
        if status.running:
            changed, self._pid = status.pid != self._pid, status.pid
            return changed
        changed, self._pid = self._pid is not None, None
        if changed:
            log.warning("database ended on_purpose=%s", status.stopped)
            if time.monotonic() - self._begun >= _STEADY:
                self._rest = _FIRST_REST
        if status.stopped or time.monotonic() < self._next:
            return changed
        return self._start() or changed

    def show(self) -> dict[str, object]:
        """What runtime.json says about it."""
        return {"kind": "embedded", "pid": self._pid, "place": str(self.cluster.place), "restarts": self.restarts}

    def _start(self) -> bool:
        try:
            self.cluster.start()
        except (FabricError, OSError) as error:
            log.warning("database not started rest=%.1fs reason=%s", self._rest, " ".join(str(error).split()))
            self._later()
            return False
        self.restarts += 1
        self._pid = self.cluster.status().pid
        self._begun = time.monotonic()
        log.info("database started again pid=%s restarts=%d", self._pid, self.restarts)
        self._later()  # one that dies at once is not started without a pause
        return True

    def _later(self) -> None:
        self._next = time.monotonic() + self._rest
        self._rest = min(self._rest * 2, _LONGEST_REST)
