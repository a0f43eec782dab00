"""The whole way of a task: our server, and worker daemons whose runtime does nothing, or asks a model's endpoint."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from taskfabric import runtimes
from taskfabric.domain.card import AgentCard
from taskfabric.domain.outcome import Done
from taskfabric.ports.fabric import Fabric
from taskfabric.ports.runtime import Job, Progress, Result, Runtime
from taskfabric.remote.fabric import RemoteFabric
from taskfabric.runtimes.model import ModelRuntime
from taskfabric.services import verbs
from tests.bench.ruler import Slot
from tests.bench.sys_fabric import NOTE
from tests.bench.sys_house import ROOT, Http
from workers.loop import Options, Worker

_CARD: Final = 'kind = "python"\nentry = "bench:nothing"\ncost = "local"\ntrust = "sandboxed"\nconcurrency = 64\n'


class Workers(Http):
    """Claim, heartbeat, thread, settle and journal, as the product does it; the run itself is empty."""

    card: ClassVar[str] = _CARD

    def __init__(self) -> None:
        super().__init__()
        self.name = "workers"

    def serve(self) -> None:
        folder = Path(self.home.name, "cards")
        folder.mkdir()
        (folder / "kimi.toml").write_text(self.card)
        super().serve()

    def make(self, slot: Slot) -> Callable[[AgentCard], Runtime]:
        """Makes the runtime of each run."""
        return lambda card: _Nothing(slot)

    def work(self, slot: Slot) -> None:
        make = self.make(slot)

        def instead(
            card: AgentCard, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC), keep: Path | None = None
        ) -> Runtime:
            return make(card)

        runtimes.make = instead
        folder = Path(tempfile.mkdtemp(prefix="bench-worker-", dir=self.home.name))
        instance = f"bench-{os.getpid()}"

        def connect(patience: float) -> Fabric:
            return RemoteFabric(self.url, self.agent_token, timeout=patience, instance=instance)

        options = Options(url=self.url, instance=instance, folder=folder, roots=(folder,), poll=1.0, grace=1.0)
        worker = Worker(connect(10.0), connect, "kimi", options)

        def stop() -> None:
            slot.wait_stop()
            worker.release()

        threading.Thread(target=stop, daemon=True).start()
        slot.ready()
        worker.work()

    @contextlib.contextmanager
    def daemon(self) -> Iterator[int]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("FABRIC_")}
        env |= {
            "FABRIC_URL": self.url,
            "FABRIC_TOKEN": self.agent_token,
            "FABRIC_WORKERS": str(Path(self.home.name, "daemons")),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "lib"), str(ROOT))),
        }
        with Path(self.home.name, "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.main", "kimi"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            end = time.monotonic() + self.first_wait
            while not self.ask("SELECT count(*) FROM worker_reports WHERE state = 'idle'"):
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError(Path(self.home.name, "worker.log").read_text()[-2000:])
                time.sleep(0.1)
            yield process.pid
        finally:
            process.kill()
            process.wait()


class _Nothing:
    """Ends at once."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        self._slot.done()
        return Result(outcome=Done(note=NOTE))

    def close(self) -> None:
        """Nothing is kept."""


class ModelWorkers(Workers):
    """A warm worker of a model's card; the endpoint is the one that BENCH_ENDPOINT names."""

    first_wait = 90.0  # the first task loads LiteLLM

    def __init__(self) -> None:
        super().__init__()
        self.name = "workers_model"

    @property
    def card(self) -> str:  # type: ignore[override]  # known only when the endpoint is
        return (
            'kind = "model"\ncost = "local"\ntrust = "sandboxed"\nconcurrency = 4\n'
            f'[model]\nmodel = "openai/bench"\nendpoint = "{os.environ["BENCH_ENDPOINT"]}"\n'
        )

    def submit(self, submitted: float) -> None:
        self.remote.call(verbs.Submit(title="Say something", reference=repr(submitted)))

    def make(self, slot: Slot) -> Callable[[AgentCard], Runtime]:
        return lambda card: _Timed(ModelRuntime(card), slot)


class _Timed:
    """The model runtime; the first words of a run are a task taken."""

    def __init__(self, runtime: ModelRuntime, slot: Slot) -> None:
        self._runtime = runtime
        self._slot = slot

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        result = self._runtime.run(job, _First(progress, lambda: self._slot.taken(job.task.reference)), stopped)
        self._slot.done()
        return result

    def close(self) -> None:
        self._runtime.close()


class _First:
    """Passes on what a run tells, and says when it told something first."""

    def __init__(self, progress: Progress, first: Callable[[], None]) -> None:
        self._progress = progress
        self._first: Callable[[], None] | None = first

    def chunk(self, text: str, *, stream: str = "out") -> None:
        if self._first is not None:
            self._first()
            self._first = None
        self._progress.chunk(text, stream=stream)

    def artifact(self, update: Mapping[str, Any]) -> None:
        self._progress.artifact(update)

    def touch(self) -> None:
        self._progress.touch()
