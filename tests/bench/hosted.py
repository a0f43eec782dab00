"""The bench's side of a system that runs in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.host import PEERS
from tests.bench.ruler import Window

_ROOT = Path(__file__).parents[2]


class MissingPeer(Exception):
    """The peer's library is not installed."""


class Hosted:
    """One system at work elsewhere; its methods are the commands of ``host``."""

    def __init__(self, name: str, admin: str, *, peers: Path, relaxed: bool = False) -> None:
        self.name = name
        python = str(peers / "bin" / "python") if name in PEERS else sys.executable
        if not Path(python).exists():
            raise MissingPeer(f"no interpreter {python}")
        env = {**os.environ, "BENCH_ADMIN": admin, "BENCH_RELAXED": "1" if relaxed else "0", "PYTHONUNBUFFERED": "1"}
        env["PYTHONPATH"] = os.pathsep.join((str(_ROOT / "lib"), str(_ROOT)))
        self._process = subprocess.Popen(
            [python, "-m", "tests.bench.host", name],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )
        first = self._read()
        if "missing" in first:
            self._process.wait()
            raise MissingPeer(first["missing"])

    def setup(self) -> None:
        self._do("setup")

    def fill(self, n: int) -> None:
        """Only ``n`` ready tasks are there."""
        self._do("fill", n=n)

    def window(self, workers: int, secs: float) -> Window:
        return Window(**self._do("window", workers=workers, secs=secs))

    def pickup(self, n: int, gap: float) -> list[float]:
        got: list[float] = self._do("pickup", n=n, gap=gap)
        return got

    def bulk(self, batch: int, secs: float) -> dict[str, float]:
        got: dict[str, float] = self._do("bulk", batch=batch, secs=secs)
        return got

    def idle(self, secs: float) -> dict[str, float]:
        got: dict[str, float] = self._do("idle", secs=secs)
        return got

    def close(self) -> None:
        """The process and its workers are gone."""
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def _do(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps({"do": command, **arguments}), file=self._process.stdin, flush=True)
        answer = self._read()
        if "ok" not in answer:
            raise RuntimeError(f"{self.name}: {answer.get('failed')}")
        return answer["ok"]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with code {self._process.wait()}")
        got: dict[str, Any] = json.loads(line)
        return got
