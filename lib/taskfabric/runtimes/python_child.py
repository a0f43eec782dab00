"""The process in which Python entry points run: jobs come on standard input, what they say and bring goes out.

    python -m taskfabric.runtimes.python_child MODULE:FUNCTION MESSAGES LEASH

An entry point is a function of one argument, the ``Context``. It returns a text (the result's note), an ``Outcome`` or
a ``Result``. What it raises makes the attempt a failure, whose words are in the worker's log only: who wants to say why
returns ``Failed`` or raises a ``FabricError``. It may use the interpreter as it likes: the worker that renews its lease
is another process.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from taskfabric.domain.errors import BadInput, FabricError, from_json
from taskfabric.domain.outcome import Done, Outcome
from taskfabric.domain.outcome_shape import shape_of
from taskfabric.domain.task import Entry, Task
from taskfabric.ports.runtime import Job, Material, Result


class Context:
    """What an entry point has: its task, what the task points to, a folder, and a few things it may do."""

    def __init__(self, job: Job, tell: Callable[[dict[str, Any]], None], hear: Callable[[], dict[str, Any]]) -> None:
        self._job = job
        self._tell = tell
        self._hear = hear

    @property
    def task(self) -> Task:
        """The task as it was claimed."""
        return self._job.task

    @property
    def thread(self) -> tuple[Entry, ...]:
        """What was said on it."""
        return self._job.thread

    @property
    def materials(self) -> tuple[Material, ...]:
        """What its refs brought."""
        return self._job.materials

    @property
    def workspace(self) -> Path:
        """The present folder: this run's own, gone when the run has ended."""
        return self._job.workspace

    def say(self, text: str) -> None:
        """Into the journal; a sign that the run moves."""
        self._tell({"say": text})

    def touch(self) -> None:
        """A sign that the run moves."""
        self._tell({"touch": True})

    def submit(self, title: str, **fields: Any) -> dict[str, Any]:
        """Make a child of this task; the child as it stands. To wait for all of them, return WaitingOnChildren().

        The worker submits, as this run. Raises Refused unless the card grants the tool ``submit``, and the errors of a
        submission."""
        self._tell({"submit": {"title": title, **fields}})
        answer = self._hear()
        if "error" in answer:
            raise from_json(answer["error"])
        child: dict[str, Any] = answer["child"]
        return child


def load(entry: str) -> Callable[[Context], object]:
    """The function that ``module:function`` names. Raises BadInput, and what the module itself raises."""
    module, _, name = entry.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as cause:
        raise BadInput(f"the entry point {entry} cannot be loaded: there is no module {cause.name}") from cause
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise BadInput(f"the entry point {entry} is no function")
    function: Callable[[Context], object] = found
    return function


def as_result(value: object) -> Result:
    """What an entry point returned, as a result. Raises BadInput."""
    if isinstance(value, Result):
        return value
    if isinstance(value, Outcome):
        return Result(outcome=value)
    if isinstance(value, str):
        return Result(outcome=Done(note=value))
    raise BadInput(f"an entry point returns a text, an Outcome or a Result, not {type(value).__name__}")


def _carry_out(
    entry: str, job: Job, tell: Callable[[dict[str, Any]], None], hear: Callable[[], dict[str, Any]]
) -> None:
    try:
        os.chdir(job.workspace)
        result = as_result(load(entry)(Context(job, tell, hear)))
    except FabricError as error:
        tell({"failed": error.message})
    except BaseException as error:
        tell({"raised": "".join(traceback.format_exception(error))})
    else:
        shape = {
            "outcome": shape_of(result.outcome),
            "attachments": [str(path.absolute()) for path in result.attachments],
            "usage": result.usage,
        }
        tell({"result": shape})


def _hold(leash: int) -> None:
    """The worker is gone when this pipe ends: then so are we."""
    while os.read(leash, 1):
        pass
    os._exit(1)


def _serve(entry: str, jobs: IO[bytes], messages: int) -> None:
    def tell(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with lock:
            while data:
                data = data[os.write(messages, data) :]

    lock = threading.Lock()
    while True:
        try:
            job = pickle.load(jobs)
        except EOFError:
            return
        _carry_out(entry, job, tell, lambda: pickle.load(jobs))
        sys.stdout.flush()
        sys.stderr.flush()
        tell({"ended": True})


def main() -> None:
    """Serve jobs until there are no more."""
    entry, messages, leash = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for number in (messages, leash):
        os.set_inheritable(number, False)
    threading.Thread(target=_hold, args=(leash,), name="leash", daemon=True).start()
    # What an entry point reads from its standard input is nothing, and never the next job.
    jobs = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _serve(entry, jobs, messages)


if __name__ == "__main__":
    main()
