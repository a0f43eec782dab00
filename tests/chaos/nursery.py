"""Makes worker processes quickly: one process imports everything and forks a worker for each line of orders.

    python -m tests.chaos.nursery        # orders on stdin, an answer with the process id on stdout

Ten workers a second can be killed and replaced so; starting an interpreter for each would take the whole machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Final

from tests.chaos.worker import Orders, work

ROOT: Final = Path(__file__).resolve().parents[2]
SURROUNDINGS: Final = {**os.environ, "PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}"}


class Hand:
    """One worker process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def alive(self) -> bool:
        """Whether the process is there. The nursery has the dead ones taken away at once."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def gone_within(self, seconds: float) -> bool:
        """Wait for its end; False if it did not come."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True


class Nursery:
    """The parent of all workers of one arena."""

    def __init__(self, complaints: Path) -> None:
        self._file = complaints.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.nursery"],
            cwd=ROOT,
            env=SURROUNDINGS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._file,
        )
        self.hands: list[Hand] = []

    def hire(self, orders: str) -> Hand:
        """A worker with these orders is on its way."""
        speak, hear = self._pipes()
        speak.write(orders.encode() + b"\n")
        speak.flush()
        hand = Hand(int(hear.readline()))
        self.hands.append(hand)
        return hand

    def close(self) -> None:
        """Kill what is left."""
        for hand in self.hands:
            hand.send(signal.SIGKILL)
        for pipe in self._pipes():
            pipe.close()
        self._process.wait(10)
        self._file.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


def main() -> None:
    """Fork a worker for each line, until there are no more lines."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system takes the dead away
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            sys.stdout.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                work(Orders.read(line))
            finally:
                sys.stderr.flush()
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
