"""The Python runtime with real child processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.card import AgentCard, CardKind
from taskfabric.domain.errors import BadInput
from taskfabric.domain.lease import Fence
from taskfabric.domain.outcome import Done, Failed
from taskfabric.ports.runtime import Job
from taskfabric.runtimes import make
from taskfabric.runtimes.python import PythonRuntime
from tests.unit.making import make_task

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Heard:
    """A progress that remembers."""

    said: list[tuple[str, str]] = field(default_factory=list)
    touched: int = 0

    def chunk(self, text: str, *, stream: str = "out") -> None:
        self.said.append((stream, text))

    def artifact(self, update: Mapping[str, Any]) -> None:
        pass

    def touch(self) -> None:
        self.touched += 1

    def of(self, stream: str) -> str:
        return "".join(text for name, text in self.said if name == stream)


def job(workspace: Path, title: str = "a task", description: str = "") -> Job:
    return Job(
        task=make_task(title=title, description=description),
        fence=Fence(task_id=12, epoch=1, token=1),
        card=AgentCard(name="ada", kind=CardKind.PYTHON, max_runtime=timedelta(minutes=1)),
        workspace=workspace,
    )


@pytest.fixture
def entry() -> Iterator[list[PythonRuntime]]:
    made: list[PythonRuntime] = []
    yield made
    for runtime in made:
        runtime.close()


def runtime(made: list[PythonRuntime], name: str) -> PythonRuntime:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}", "FABRIC_TOKEN": "secret"}
    made.append(PythonRuntime(name if ":" in name else f"tests.integration.jobs:{name}", env=env))
    return made[-1]


def goes_on() -> str | None:
    return None


def test_one_process_takes_job_after_job(entry: list[PythonRuntime], tmp_path: Path) -> None:
    runs = runtime(entry, "echo")
    for title in ("one", "two"):
        assert runs.run(job(tmp_path, title), Heard(), goes_on).outcome == Done(note=title)


def test_what_it_prints_is_told_before_its_end(entry: list[PythonRuntime], tmp_path: Path) -> None:
    heard = Heard()
    runtime(entry, "chatty").run(job(tmp_path, description="300"), heard, goes_on)
    assert len(heard.of("out")) == 300 * 1024


def test_an_exception_is_a_failure_with_a_number_and_its_words_are_in_the_log(
    entry: list[PythonRuntime], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    outcome = runtime(entry, "fail").run(job(tmp_path), heard, goes_on).outcome
    assert isinstance(outcome, Failed)
    what, _, number = outcome.error.partition("; it is incident ")
    assert (what, heard.said) == ("the agent failed", [])
    (line,) = (line for line in caplog.messages if number in line)
    assert "ValueError: there is no such branch" in line


def test_a_dead_process_is_a_failure_and_the_next_job_gets_a_new_one(
    entry: list[PythonRuntime], tmp_path: Path
) -> None:
    """Situation 11: what kills its process does not kill the worker."""
    runs = runtime(entry, "die")
    for _ in range(2):
        assert runs.run(job(tmp_path), Heard(), goes_on).outcome == Failed(error="its process died of signal 9")


def test_a_run_that_holds_its_interpreter_is_ended_all_the_same(entry: list[PythonRuntime], tmp_path: Path) -> None:
    asked = iter([None, None])
    result = runtime(entry, "hog").run(job(tmp_path, description="60"), Heard(), lambda: next(asked, "out of time"))
    assert result.outcome == Failed(error="stopped: out of time")


def test_a_run_that_ends_leaves_no_process(entry: list[PythonRuntime], tmp_path: Path) -> None:
    runs = runtime(entry, "silent")
    runs.run(job(tmp_path), Heard(), lambda: "drained")
    assert not [t for t in threading.enumerate() if t.name == "leash"]
    assert _children() == []


@pytest.mark.parametrize("name", ["no.such.module:work", "tests.integration.jobs:missing", "os:sep"])
def test_an_entry_point_that_is_not_there_is_told_by_name(
    name: str, entry: list[PythonRuntime], tmp_path: Path
) -> None:
    outcome = runtime(entry, name).run(job(tmp_path), Heard(), goes_on).outcome
    assert isinstance(outcome, Failed)
    assert name in outcome.error


def test_it_does_not_see_the_workers_credentials(entry: list[PythonRuntime], tmp_path: Path) -> None:
    outcome = runtime(entry, "environment").run(job(tmp_path), Heard(), goes_on).outcome
    assert isinstance(outcome, Done)
    assert "FABRIC" not in outcome.note


@pytest.mark.parametrize("kind", [CardKind.REMOTE, CardKind.HUMAN])
def test_a_kind_that_no_worker_serves_is_refused_clearly(kind: CardKind) -> None:
    with pytest.raises(BadInput, match="ada"):
        make(AgentCard(name="ada", kind=kind))


def _children() -> list[str]:
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    names = []
    for pid in found.read_text().split() if found.exists() else ():
        line = Path(f"/proc/{pid}/cmdline")
        text = line.read_bytes().decode() if line.exists() else ""
        if "python_child" in text:
            names.append(text)
    return names
