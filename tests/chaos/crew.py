"""The fabric's own processes for a test: workers and the keeper, killed and stopped as the test likes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from taskfabric.services.upkeep import KEEPER
from taskfabric.wiring import service_token
from tests.integration.hiring import ROOT, surroundings
from tests.integration.serving import Served

Process = subprocess.Popen[bytes]


class Crew:
    """Processes that work for one server. ``log`` is what all of them wrote."""

    def __init__(self, served: Served, folder: Path) -> None:
        self._served = served
        self._folder = folder
        self.log = folder / "crew.log"
        self.processes: list[Process] = []

    def worker(self, name: str, **env: str) -> Process:
        """A worker daemon for the card of this name."""
        command = [sys.executable, "-m", "workers.main", name, "--poll", "0.5", "--grace", "10"]
        return self._start(command, surroundings(self._served, name, self._folder) | env)

    def keeper(self) -> Process:
        """The keeper, with a round every second."""
        if KEEPER not in self._served.tokens:
            self._served.tokens[KEEPER] = service_token(self._served.house, KEEPER)
        env = surroundings(self._served, KEEPER, self._folder) | {"FABRIC_KEEPER_EVERY": "1s"}
        return self._start([sys.executable, "-m", "fabric_keeper"], env)

    def _start(self, command: list[str], env: dict[str, str]) -> Process:
        with self.log.open("ab") as log:
            self.processes.append(
                subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )
        return self.processes[-1]

    def kill(self, process: Process) -> None:
        """It is gone, at once."""
        process.kill()
        process.wait()

    def close(self) -> None:
        """All of them are gone."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            self.kill(process)


@contextlib.contextmanager
def crew_of(served: Served, folder: Path) -> Iterator[Crew]:
    """A crew that is gone afterwards."""
    made = Crew(served, folder)
    try:
        yield made
    finally:
        made.close()
